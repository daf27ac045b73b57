"""Fuzz: row 53, and every other kind of file that unsee reads."""

import contextlib
import random
import resource
import time
import warnings
from pathlib import Path
from typing import Any

from torture.children import Counter, measured
from torture.ordeal import Attempt, Ordeal
from torture.seeds import Kind, kinds
from unsee.errors import HostileError, UnseeError
from unsee.weights import files, opening

EACH = 500  # mutants of one child
SECONDS, MEGABYTES = 1.0, 256.0


def mutants(folder: Path) -> Attempt:
    """Read mutants of every kind, 500 in a child of its own, whose memory is limited."""
    known = kinds(folder)
    for make, read in known.values():  # what is imported and compiled at first is no mutant's doing
        with warnings.catch_warnings(), contextlib.suppress(UnseeError):
            warnings.simplefilter("ignore")
            read(make(random.Random(0)))

    def attempt(number: int) -> dict[str, float]:
        at, first, measures = Counter(), number * EACH, {}
        while at.value < EACH:
            begin = at.value
            answer = measured(lambda begin=begin: _read(known, first, begin, at), 300)
            if answer.error != "none":
                assert not answer.error, f"mutant {first + at.value}: {answer.error}: {answer.text}"
                break
            _check_death(known, first + at.value, answer.text)
            measures["+ends of a process that opened a checkpoint"] = 1
            at.value += 1
        took: dict[str, Any] = answer.value or {}
        assert answer.megabytes <= MEGABYTES, f"{answer.megabytes} MB"
        return {**measures, **took, "megabytes": answer.megabytes}

    return attempt


def _kind(known: dict[str, Kind], mutant: int) -> tuple[str, Kind]:
    name = list(known)[mutant % len(known)]
    return name, known[name]


def _read(known: dict[str, Kind], first: int, begin: int, at: Counter) -> dict[str, float]:
    warnings.simplefilter("ignore")
    limit = opening._taken() + (1 << 30)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    slowest, refused = 0.0, 0
    for mutant in range(begin, EACH):
        at.value = mutant
        name, (make, read) = _kind(known, first + mutant)
        path = make(random.Random(first + mutant))
        start = time.process_time()
        try:
            read(path)
        except UnseeError as error:
            refused += 1
            if not str(error).isprintable() or len(str(error)) > 3000:
                raise AssertionError(f"{name}: a sentence that is none: {str(error)[:300]!a}") from None
        except Exception as error:
            raise AssertionError(f"{name}: {type(error).__name__}: {error}") from error
        slowest = max(slowest, time.process_time() - start)
        if slowest > SECONDS:
            raise AssertionError(f"{name}: {slowest} seconds")
    at.value = EACH
    return {"seconds": slowest, "+refused": refused, "+read all the same": EACH - begin - refused}


def _check_death(known: dict[str, Kind], mutant: int, how: str) -> None:
    """A mutant may end the process that opens it, if that is one of its own."""
    name, (make, _) = _kind(known, mutant)
    if not name.endswith(("pth", "in a zip")):
        raise AssertionError(f"mutant {mutant}, {name}: {how}")
    try:
        files.read(make(random.Random(mutant)))
    except HostileError:
        return
    raise AssertionError(f"mutant {mutant}, {name}: {how}, and not refused")


ORDEALS = (
    Ordeal(
        "mutants", "10, 11, 28, 51-54, 56, 59, 62",
        "mutated files of 31 kinds: weights, memories, states, words, images, archives, data sets",
        "read, or refused with one kind of error in one sentence, within 1 s and 256 MB",
        200, 4, mutants, EACH,
    ),
)  # fmt: skip
