"""A run as a report reads it: run.json, and facts.json where there is one, neither of them trusted."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unsee import store
from unsee.datasets import MOST_CLASSES
from unsee.errors import InputError
from unsee.formulation import SETS, TABLE_1, Arrow, Pattern
from unsee.lineage import Generation
from unsee.report.facts import Facts
from unsee.report.rates import Rate, rate_of
from unsee.report.words import Words

LARGEST = 64_000_000
DEEPEST = 8
MOST_ENTRIES = 500
_ARROWS = {"up": Arrow.UP, "down": Arrow.DOWN}
_HASHES = {
    "model": "model before",
    "D_f": "D_f",
    "D_f_clean": "D_f,clean",
    "memory": "memory",
    "D_r_val": "D_r^val",
}

Row = Mapping[str, float]
Table = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Judged:
    """Accuracy on one set, before and after, and what Table 1 asks of it."""

    name: str
    after: Rate
    before: Rate | None
    arrow: Arrow | None
    threshold: float | None
    by_class: Mapping[str, float]

    @property
    def met(self) -> bool | None:
        """Whether the arrow is met; None where there is none, or nothing to hold it against."""
        if self.arrow is None or self.threshold is None:
            return None
        value = self.after.value
        return value >= self.threshold if self.arrow is Arrow.UP else value <= self.threshold

    @property
    def close(self) -> bool:
        """Whether the interval reaches across what is asked: other test samples might say otherwise."""
        low, high = self.after.interval
        return self.threshold is not None and low < self.threshold < high


@dataclass(frozen=True)
class Run:
    """One run of forgetting: what was asked, what it leaned on, what came out; None or empty if unknown."""

    name: str
    pattern: Pattern
    T: str | None
    classes: tuple[str, ...]
    recipe: Mapping[str, str]
    seed: int
    hashes: Table
    versions: Table
    exact: bool
    setting: Mapping[str, Any]
    back_to: int | None
    lineage: tuple[Generation, ...]
    trajectory: tuple[Row, ...]
    sets: Mapping[str, Judged]
    margin: float | None
    changes: Mapping[str, float]
    softmax: tuple[float, ...]
    warnings: tuple[str, ...] = ()
    case: Table = ()
    facts: Facts | None = None
    without_facts: str = ""

    @property
    def moved(self) -> float | None:
        """How far this request moved the model, as a share of its length."""
        return self.lineage[-1].moved if self.lineage else None

    @property
    def poisoned(self) -> bool:
        """Whether D_f was trained under other labels than D_f,clean has: an attacker's."""
        found = [set(self.sets[name].by_class) for name in ("D_f", "D_f_clean") if name in self.sets]
        return len(found) == 2 and found[0] != found[1]

    @property
    def truncated(self) -> bool:
        """Whether an output was taken away instead of anything being trained."""
        return self.recipe.get("forgetting") == "truncation"


def read_run(folder: Path | str) -> Run:
    """Read a run's folder: run.json, which must be there, and facts.json, which may."""
    folder = Path(folder)
    run = _read(folder / "run.json")
    facts, without = None, "there is no facts.json in the run's folder"
    if (folder / "facts.json").exists():
        facts = Facts.from_dict(_read(folder / "facts.json").value)
        model = run.perhaps("model")
        if model is None or facts.model_after != model.text():
            facts, without = None, "the facts.json in the run's folder is of another model"
    return _run(folder.resolve().name, run, facts, "" if facts else without)


def read_words(name: str, value: Any) -> Run:
    """Return the run that a run.json's words tell of, without facts."""
    return _run(name, Words(value, "run.json"), None, "there is no facts.json in the run's folder")


def _read(path: Path) -> Words:
    if path.is_file() and path.stat().st_size > LARGEST:
        found = f"{path.stat().st_size:,} bytes"
        raise InputError(f"at most {LARGEST:,} bytes at {path}", found, "check what wrote that file")
    return Words(store.read_json(path), path.name)


def _run(name: str, words: Words, facts: Facts | None, without_facts: str) -> Run:
    inputs, setting = words.at("inputs"), words.perhaps("setting")
    pattern = inputs.perhaps("pattern")
    if pattern is None or pattern.value not in tuple(TABLE_1):
        raise (pattern or inputs).refused("the pattern (A, B or C) of a run of `unsee forget`")
    case, exact = words.perhaps("case"), words.perhaps("bit_exact")
    # A case calls T by the name of its file, which says more to people than its hash.
    trigger = case.perhaps("trigger") if case else None
    T = trigger if trigger and not trigger.text().startswith("mask:") else inputs.perhaps("T")
    scores, recipe = words.perhaps("scores"), inputs.at("recipe")
    sets, back_to = scores.perhaps("sets") if scores else None, words.perhaps("back_to")
    changes, softmax = (scores.perhaps(key) if scores else None for key in ("changes_on_D_r", "softmax_D_f"))
    margin = scores.perhaps("margin") if scores else None
    return Run(
        name,
        TABLE_1[pattern.value],
        T.text() if T else None,
        tuple(word.text() for word in _each(inputs, "classes", MOST_CLASSES)),
        dict(_flat(recipe)),
        inputs.at("seed").whole(-(10**15)),
        _hashes(words, inputs),
        tuple((key, found.text()) for key in ("unsee", "torch") if (found := words.perhaps(key)))
        + tuple(("threads", str(found.whole())) for found in [words.perhaps("threads")] if found),
        exact.truth() if exact else True,
        _setting(setting) if setting else {},
        back_to.whole() if back_to else None,
        tuple(map(_generation, _each(words, "lineage", 10_000))),
        tuple(map(_row, _each(words, "trajectory", 10_000))),
        {key: _judged(key, part) for key, part in sets.items()} if sets else {},
        margin.share() if margin else None,
        {key: part.number(-1, 1) for key, part in changes.items()} if changes else {},
        tuple(word.share() for word in softmax.each(MOST_CLASSES)) if softmax else (),
        tuple(word.text() for word in _each(words, "warnings", MOST_ENTRIES)),
        tuple(_flat(case)) if case else (),
        facts,
        without_facts,
    )


def _each(words: Words, key: str, most: int) -> list[Words]:
    found = words.perhaps(key)
    return found.each(most) if found else []


def _hashes(words: Words, inputs: Words) -> Table:
    found = [(said, part.text()) for key, said in _HASHES.items() if (part := inputs.perhaps(key))]
    after = words.perhaps("model")
    return (*found, *((("model after", after.text()),) if after else ()))


def _judged(name: str, words: Words) -> Judged:
    if name not in SETS:
        raise words.refused(f"one of {', '.join(SETS)}")
    n = words.at("n").whole(1)
    old, arrow, asked = (words.perhaps(key) for key in ("old", "arrow", "threshold"))
    if arrow and arrow.value not in tuple(_ARROWS):
        raise arrow.refused("up or down")
    by_class = words.perhaps("by_class")
    return Judged(
        name,
        rate_of(words.at("accuracy").share(), n),
        rate_of(old.share(), n) if old else None,
        _ARROWS[arrow.value] if arrow else None,
        asked.number(-1, 1) if asked else None,
        {key: part.share() for key, part in by_class.items(MOST_CLASSES)} if by_class else {},
    )


def _generation(words: Words) -> Generation:
    texts = [words.at(key).text() for key in ("model_before", "model_after", "pattern", "D_f")]
    measured, before, after = (words.perhaps(key) for key in ("measured", "before", "after"))
    return Generation(
        *texts,
        n=words.at("n").whole(),
        recipe=words.at("recipe").text(),
        seed=words.at("seed").whole(-(10**15)),
        moved=words.at("moved").number(0),
        measured=measured.text() if measured else None,
        before=before.number() if before else None,
        after=after.number() if after else None,
    )


def _row(words: Words) -> Row:
    words.at("epoch").whole()
    shares = (*SETS, "D_r_val", "D_r_extra_val")
    return {
        key: part.share() if key in shares else part.number()
        for key, part in words.items(100)
        if part.value is not None
    }


def _setting(words: Words) -> dict[str, Any]:
    floor, memory = words.perhaps("floor"), words.perhaps("memory")
    within, shift = words.perhaps("within the paper's setting"), words.perhaps("shift")
    retreat = words.perhaps("retreat")
    texts = {key: found.text() for key in ("T", "replayed", "weaker") if (found := words.perhaps(key))}
    return {
        **texts,
        "memory": memory.text() if memory else "none",
        "twins": found.truth() if (found := words.perhaps("twins")) else None,
        "within": within.truth() if within else None,
        "eased": eased.whole() if (eased := words.perhaps("eased")) else None,
        "passed": passed.whole() if (passed := words.perhaps("samples passed")) else None,
        "shift": {name: b.number() for name, b in shift.items(MOST_CLASSES)} if shift else {},
        "retreat": (retreat.at("of the way").share(), retreat.at("from").whole()) if retreat else None,
        "floor": (floor.at("of").text(), floor.at("least").number()) if floor else None,
    }


def _flat(words: Words, prefix: str = "", deep: int = 0) -> list[tuple[str, str]]:
    """Return nested words as rows, a key's path before its value."""
    if deep > DEEPEST:
        raise words.refused(f"at most {DEEPEST} levels")
    if isinstance(words.value, dict | list):
        parts = words.items() if isinstance(words.value, dict) else list(enumerate(words.each()))
        rows = [row for key, part in parts for row in _flat(part, f"{prefix}.{key}".lstrip("."), deep + 1)]
        if len(rows) > MOST_ENTRIES:
            raise words.refused(f"at most {MOST_ENTRIES} entries")
        return rows
    value = words.value
    if isinstance(value, bool) or value is None:
        return [(prefix, {True: "yes", False: "no", None: "none"}[value])]
    return [(prefix, f"{value:.10g}" if isinstance(value, float) else str(value))]
