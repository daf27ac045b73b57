"""What was asked of the default recipe, and what came out: every limit, by the mean of its runs.

From the repository's root, whenever there are new rows:

    python results/beyond/asked.py

Reads the rows of run.py, poison.py, classes.py and cost.py beside it, and runs nothing. Rows by the recipe of
before count for nothing. Settings were chosen on these test sets (each page says which), so that a limit that
holds is a fit as much as a forecast. Points are of accuracy, a hundredth each; fewer lost than none is no
fault.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from statistics import fmean

import classes
from page import AGED, CASES, HERE, SCRATCH, mark, rows_of
from run import SEEDS

from unsee import store

TRIGGERS, SHARES, TRAINED = ("patch", "blend"), (0.05, 0.01), 50_000
# Points of D_r that may be lost, and by which D_r,extra may lie below it.
WITH_MEMORY, OF_50, WITHOUT = (0.5, 1.5), (1.0, 3.0), (1.5, 3.0)
IN_A_HUNDRED, RETRAINING = 546, 273_000  # samples of D_f; samples that retraining passes (cost.py)
Value = Callable[[dict], float]


@dataclass(frozen=True)
class Limit:
    """One limit: what must be ≥, > or ≤ a bound, in the mean of so many runs."""

    case: str
    given: str
    what: str
    sign: str
    bound: float | None
    """None: it hangs on a network that is not there yet."""
    found: tuple[float, ...]
    runs: int = 1
    aged: tuple[float, ...] = ()
    """What runs by the recipe of before came to."""

    def kept_by(self, value: float) -> bool:
        """Whether this would do."""
        assert self.bound is not None
        off = round(value - self.bound, 9)
        return off <= 0 if self.sign == "≤" else off > 0 or (off == 0 and self.sign == "≥")

    @property
    def holds(self) -> str:
        """Say whether it holds; runs that are still to be made hold nothing."""
        if self.bound is None or not self.found:
            return "not run yet"
        lack = len(self.found) < self.runs
        said = f"so far, {len(self.found)} of {self.runs} runs" if lack else "yes"
        if not self.kept_by(fmean(self.found)):
            return "**no**" + (f", {said}" if lack else "")
        return said if all(map(self.kept_by, self.found)) else f"{said}, in the mean"

    def line(self, digits: int) -> str:
        """Return it as a line of the table."""
        bound = "…" if self.bound is None else f"{self.bound:z.{digits}f}"
        values = self.found or self.aged
        worst = (max if self.sign == "≤" else min)(values, default=0.0)
        cells = [f"{v:z.{digits}f}" if values else "" for v in (fmean(values or [0.0]), worst)]
        cells[0] += "" if self.found or not values else " †"
        asked = f"{self.what} {self.sign} {bound}"
        return f"| {self.case} | {self.given} | {asked} | {' | '.join(cells)} | {self.holds} |"


def held(
    case: str, given: str, asked: tuple[str, str, float | None], value: Value, rows: list[dict], runs: int
) -> Limit:
    """Return a limit by its rows, of which those by the recipe of before are set aside."""
    found, aged = (tuple(value(row) for row in rows if bool(mark([row])) == old) for old in (False, True))
    return Limit(case, given, *asked, found, runs, aged)


def mlp() -> Iterator[Limit]:
    """The MLP, class 0: the least of the accuracies that a pattern requires."""
    for data, T in ((data, T) for data, Ts in CASES.items() for T in Ts):
        before = [row["D_r"] for row in rows_of(data, T, "pretrained")]
        for name in ("least B", "least C"):
            again = [[row[name] for row in rows_of(data, T, way)] for way in SCRATCH]
            asked: list[tuple[str, str, float | None]]
            if data == "fashion-mnist":
                asked = [
                    ("sketch", "≥", before[0] - 0.02 if before else None),
                    ("sketch", ">", max(chain(*again)) if all(again) else None),
                    ("Fisher", "≥", 0.8),
                ]
            else:
                least = min(before[0] - 0.02, *again[1]) if before and again[1] else None
                asked = [("sketch", "≥", least), ("Fisher", "≥", before[0] - 0.06 if before else None)]
            for given, sign, bound in asked:
                rows = rows_of(data, T, f"ours, {given}")
                value = lambda row, name=name: row[name]  # noqa: E731
                yield held(f"{data}, {T}", given, (name, sign, bound), value, rows, SEEDS[data])


def poison() -> Iterator[Limit]:
    """A residual network under dirty-label poison: points lost of D_r, and of it under T.

    Of one in a hundred, a tenth is 50 samples: their limits are those of 50 samples. Misled: images with T
    that are taken for the attacker's class; where few are, what follows shows less. Where T costs no more
    before than it may afterwards, there was nothing to forget, and nothing counts.
    """
    for T, share in ((T, share) for share in SHARES for T in TRIGGERS):
        case, total = f"{T}-{share}", round(share * TRAINED)
        before = rows_at(HERE / "poison", f"{case}, pretrained.json")
        accuracies = tuple(row["D_r"] for row in before)
        yield Limit(case, "pretrained", "D_r", "≥", 0.85, accuracies)
        misled = Limit(case, "pretrained", "misled", "≥", 0.5, tuple(row["misled"] for row in before))
        yield misled
        harmless = any(round(100 * (row["D_r"] - row["D_r_extra"]), 9) <= WITHOUT[1] for row in before)
        for known in () if harmless else dict.fromkeys((total, total // 10, 50)):
            for given in ("sketch", "no memory"):
                lost, below = WITHOUT if given == "no memory" else OF_50 if known == 50 else WITH_MEMORY
                rows = rows_at(HERE / "poison", f"{case}, {given}, {known} known, *.json") if before else []
                parts = {
                    ("D_r lost, points", "≤", lost): lambda row, D_r=accuracies: 100 * (D_r[0] - row["D_r"]),
                    ("D_r,extra below, points", "≤", below): lambda row: (
                        100 * (row["D_r"] - row["D_r_extra"])
                    ),
                }
                for asked, value in parts.items():
                    yield held(f"{case}, {known:,} known", given, asked, value, rows, SEEDS["cifar-10"])


def a_class() -> Iterator[Limit]:
    """Pattern A: a class forgotten."""
    for data, seeds in SEEDS.items():
        before = [row["D_r"] for row in classes.rows_of(data, "pretrained")]
        for given in ("sketch", "Fisher"):
            rows = classes.rows_of(data, f"ours, {given}")
            kept = before[0] - 0.01 if before else None
            for name, sign, bound in (("D_f", "≤", 0.02), ("D_r", "≥", kept)):
                value = lambda row, name=name: row[name]  # noqa: E731
                yield held(data, given, (name, sign, bound), value, rows, seeds)


def cost() -> Iterator[Limit]:
    """D_f of one in a hundred of the data: samples passed, and what retraining reaches, to two points."""
    rows = rows_at(HERE / "cost", f"{IN_A_HUNDRED}, *.json")
    case = f"fashion-mnist, tile, {IN_A_HUNDRED} of D_f"
    passed = ("samples passed, of retraining", "≤", 1 / 50)
    yield held(case, "sketch", passed, lambda row: row["samples"] / RETRAINING, rows, 3)
    for name in ("least B", "least C"):
        again = [[row[name] for row in rows_of("fashion-mnist", "tile", way)] for way in SCRATCH]
        asked = (name, "≥", max(chain(*again)) - 0.02 if all(again) else None)
        yield held(case, "sketch", asked, lambda row, name=name: row[name], rows, 3)


def rows_at(folder: Path, names: str) -> list[dict]:
    """Return the rows of these names."""
    return [store.read_json(path) for path in sorted(folder.glob(names))]


PARTS = {
    "The MLP, class 0 ([rows](README.md))": (mlp, 3),
    "Dirty-label poison, a residual network ([rows](poison.md))": (poison, 2),
    "Pattern A, a class ([rows](classes.md))": (a_class, 3),
    "Cost ([rows](cost.md))": (cost, 3),
}


def write() -> None:
    """Write asked.md."""
    found = {title: ([*limits()], digits) for title, (limits, digits) in PARTS.items()}
    said = [limit.holds for limits, _ in found.values() for limit in limits]
    yes, no = (sum(word.startswith(begun) for word in said) for begun in ("yes", "**no**"))
    text = ["# What was asked, and what came out", "", __doc__.strip(), ""]
    text += [f"**Of {len(said)} limits {yes} hold, {no} do not, {len(said) - yes - no} lack runs.**", ""]
    for title, (limits, digits) in found.items():
        about = PARTS[title][0].__doc__.strip().splitlines()
        heads = ["| case | given | asked | mean | worst run | holds |", "|---|---|---|---|---|---|"]
        text += [f"## {title}", "", *(line.strip() for line in about), ""]
        text += [*heads, *(limit.line(digits) for limit in limits), ""]
    notes = {"†": AGED, "…": "hangs on a network, pretrained or retrained, that is not there yet."}
    for sign, note in notes.items():
        text += [f"{sign}: {note}", ""] if any(f"{sign} |" in line for line in text) else []
    store.write_bytes(HERE / "asked.md", "\n".join(text).encode())


if __name__ == "__main__":
    write()
