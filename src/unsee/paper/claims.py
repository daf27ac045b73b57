"""The paper's claims, one by one, each checked against our rows: holds, does not, or not run yet."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from unsee import store
from unsee.paper.cells import Cell, Unit
from unsee.paper.reported import D_R_EXTRA_REMAINS_AROUND
from unsee.paper.rows import Rows, summary

FASHION, CIFAR = "fashion-mnist", "cifar-10"


@dataclass(frozen=True)
class Verdict:
    """A claim in the paper's words, whether it holds here, and the figures it was judged by."""

    claim: str
    holds: bool | None
    figures: str


class _NotRun(Exception):
    """A row that a claim needs is not there yet."""


def check(rows: Rows) -> list[Verdict]:
    """Judge every claim by what has been run."""
    verdicts = []
    for claim, judge in CLAIMS:
        try:
            holds, figures = judge(rows)
        except _NotRun as missing:
            holds, figures = None, f"not run: {missing}"
        verdicts.append(Verdict(claim, holds, figures))
    return verdicts


def _final(rows: Rows, unit: Unit, pattern: str, line: str, name: str) -> tuple[float, float]:
    """Return mean and deviation of a final accuracy; in Pattern A, of the mean over classes."""
    cell = Cell(unit, pattern, line)
    runs = rows.read(cell)
    if not runs:
        raise _NotRun(cell.name)
    return summary(runs, name, "class_mean" if pattern == "A" else "accuracy")[:2]


def _before(rows: Rows, unit: Unit, name: str) -> float:
    path = rows.folder / f"{unit.name}-pretrained.json"
    if not path.exists():
        raise _NotRun(path.stem)
    return store.read_json(path)["scores"][name]["accuracy"]


def _truncation_wins(data: str) -> Callable[[Rows], tuple[bool, str]]:
    def judge(rows: Rows) -> tuple[bool, str]:
        found = {m: _final(rows, Unit(data, None), "A", m, "D_r")[0] for m in ("truncation", "RND", "RLD")}
        return found["truncation"] == max(found.values()), _said("D_r", found)

    return judge


def _rld_varies_less(data: str) -> Callable[[Rows], tuple[bool, str]]:
    def judge(rows: Rows) -> tuple[bool, str]:
        found = {m: _final(rows, Unit(data, None), "A", m, "D_r")[1] for m in ("RND", "RLD")}
        return found["RLD"] < found["RND"], _said("deviation of D_r", found)

    return judge


def _softmax_like_scratch(rows: Rows) -> tuple[bool, str]:
    unit = Unit(FASHION, None)
    path = rows.folder / f"{unit.name}-scratch.json"
    if not path.exists():
        raise _NotRun(path.stem)
    scratch = np.array(store.read_json(path)["scores"]["softmax_D_f"])
    distance = {}
    for method in ("truncation", "RND", "RLD"):
        runs = rows.read(Cell(unit, "A", method))
        if not runs:
            raise _NotRun(Cell(unit, "A", method).name)
        mean = np.mean([run["scores"]["softmax_D_f"] for run in runs.values()], axis=0)
        distance[method] = float(np.abs(mean - scratch).sum() / 2)
    return min(distance, key=distance.__getitem__) == "truncation", _said(
        "total variation to scratch", distance
    )


def _ce_forgets(data: str, T: str) -> Callable[[Rows], tuple[bool, str]]:
    def judge(rows: Rows) -> tuple[bool, str]:
        unit = Unit(data, T)
        found = {"before": _before(rows, unit, "D_r"), "CE": _final(rows, unit, "B", "CE", "D_r")[0]}
        return found["CE"] < found["before"] - 0.1, _said("D_r", found)

    return judge


def _fisher_prevents(data: str, T: str) -> Callable[[Rows], tuple[bool, str]]:
    def judge(rows: Rows) -> tuple[bool, str]:
        found = {m: _final(rows, Unit(data, T), "B", m, "D_r")[0] for m in ("CE", "CE + Fisher")}
        return found["CE + Fisher"] > found["CE"], _said("D_r", found)

    return judge


def _rld_lifts(data: str, T: str, least: float) -> Callable[[Rows], tuple[bool, str]]:
    def judge(rows: Rows) -> tuple[bool, str]:
        lines = ("CE + Fisher", "CE + Fisher + RLD")
        found = {m: _final(rows, Unit(data, T), "B", m, "D_r_extra")[0] for m in lines}
        return found[lines[1]] > found[lines[0]] + least, _said("D_r,extra", found)

    return judge


def _stays_near_half(pattern: str) -> Callable[[Rows], tuple[bool, str]]:
    def judge(rows: Rows) -> tuple[bool, str]:
        value = _final(rows, Unit(FASHION, "tile"), pattern, "CE + Fisher + RLD", "D_r_extra")[0]
        return abs(value - D_R_EXTRA_REMAINS_AROUND) < 0.15, f"D_r,extra {value:.3f}"

    return judge


def _rise(data: str, T: str, *, slight: bool) -> Callable[[Rows], tuple[bool, str]]:
    def judge(rows: Rows) -> tuple[bool, str]:
        unit = Unit(data, T)
        found = {
            "before": _before(rows, unit, "D_r_extra"),
            "after": _final(rows, unit, "B", "CE + Fisher + RLD", "D_r_extra")[0],
        }
        gain = found["after"] - found["before"]
        return (0 < gain < 0.2 if slight else gain > 0.05), _said("D_r,extra", found)

    return judge


def _said(what: str, values: dict[str, float]) -> str:
    return f"{what}: " + ", ".join(f"{name} {value:.3f}" for name, value in values.items())


CLAIMS: list[tuple[str, Callable[[Rows], tuple[bool, str]]]] = [
    ("Pattern A: truncation beats RND and RLD on D_r (Fashion-MNIST)", _truncation_wins(FASHION)),
    ("Pattern A: truncation beats RND and RLD on D_r (CIFAR-10)", _truncation_wins(CIFAR)),
    ("RLD varies less than RND (Fashion-MNIST)", _rld_varies_less(FASHION)),
    ("RLD varies less than RND (CIFAR-10)", _rld_varies_less(CIFAR)),
    (
        "Truncation's softmax on D_f approximates training from scratch, RND's and RLD's do not",
        _softmax_like_scratch,
    ),
    ("CE alone forgets D_r (Fashion-MNIST, tile)", _ce_forgets(FASHION, "tile")),
    ("CE alone forgets D_r (CIFAR-10, tile)", _ce_forgets(CIFAR, "tile")),
    ("Fisher prevents it (Fashion-MNIST, tile)", _fisher_prevents(FASHION, "tile")),
    ("Fisher prevents it (CIFAR-10, tile)", _fisher_prevents(CIFAR, "tile")),
    (
        "RLD lifts D_r,extra where CE + Fisher does not (Fashion-MNIST, tile)",
        _rld_lifts(FASHION, "tile", 0.1),
    ),
    ("RLD lifts D_r,extra where CE + Fisher does not (CIFAR-10, tile)", _rld_lifts(CIFAR, "tile", 0.05)),
    ("D_r,extra remains around 50 % (Fashion-MNIST, tile, B)", _stays_near_half("B")),
    ("D_r,extra remains around 50 % (Fashion-MNIST, tile, C)", _stays_near_half("C")),
    ("D_r,extra rises for line on Fashion-MNIST", _rise(FASHION, "line", slight=False)),
    ("On CIFAR-10, line, the rise is slight", _rise(CIFAR, "line", slight=True)),
    ("On CIFAR-10, color, the rise is slight", _rise(CIFAR, "color", slight=True)),
]
