"""Death and resumption: rows 1 to 9, and 60."""

from torture import going_on, killing
from torture.ordeal import Ordeal

BITS = "the same command ends in the same bits"

ORDEALS = (
    Ordeal(
        "kill forgetting", "1", "kill -9 while forgetting, two times in five forced into a write",
        f"{BITS}, at most one checkpoint interval is lost", 500, 5, killing.forgetting,
    ),
    Ordeal(
        "kill remembering", "2", "kill -9 while remembering, two times in five forced into a write",
        f"{BITS}, at most one batch is computed again", 100, 5, killing.remembering,
    ),
    Ordeal(
        "kill tuning", "3", "kill -9 while tuning, five times a search of 15 trials",
        "the same trials come to an end, none lost, none double", 40, 0, killing.tuning, killing.KILLS,
    ),
    Ordeal(
        "kill report", "4", "kill -9 while a report or a model is written over the one before",
        "the old one or the new one is there, whole", 50, 6, killing.report,
    ),
    Ordeal(
        "stop", "5", "SIGTERM or SIGINT while forgetting",
        f"exit code 130 within 5 s, {BITS}", 50, 2, going_on.signalled,
    ),
    Ordeal(
        "elsewhere", "7", "going on with other threads, another torch, machine or device",
        "it goes on with a warning and the mark 'not bit-exact'",
        len(going_on.PLACES), 2, going_on.elsewhere,
    ),
    Ordeal(
        "something else", "8", "going on with another model, data, recipe or seed, field by field",
        "refused, naming the field", len(going_on.OTHERS), len(going_on.OTHERS), going_on.something_else,
    ),
    Ordeal(
        "two at once", "9", "two processes begin one run at the same time",
        "one runs; the other says who holds it: process, host, since when", 50, 2, going_on.two_at_once,
    ),
    Ordeal(
        "kill fetching", "60", "kill -9 while fetching data; then four fetch at once",
        "one download, and the data whole", 30, 2, killing.fetching_data,
    ),
)  # fmt: skip
