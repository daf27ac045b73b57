"""Growth: how the cost of forgetting and of remembering grows with the data and with the network.

Each curve has an exponent, the slope of log time over log size: 1 is linear, 0 is flat. Time that does not
depend on the size at all, such as the checks before a Fisher pass, makes a curve look flatter.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import median
from typing import Any

import torch

from unsee.bench import subjects
from unsee.bench.result import Limit, Result, Row
from unsee.bench.timing import in_turns, machine
from unsee.datasets import concatenate
from unsee.fisher import fisher_sum
from unsee.forgetting import forget
from unsee.formulation import TABLE_1, Request
from unsee.memory import Memory, remember
from unsee.recipe import RECIPES
from unsee.transforms import tile

# All three terms; so little of each that a network that was never trained holds still.
RECIPE = replace(RECIPES["fashion-mnist/tile/B"], epochs=2, lr=1e-6, lambda_kl=1.0)
LINEAR, FLAT = 1.15, 0.15


def run(command: str, *, quick: bool = False) -> Result:
    """Measure four curves, on MLPs small enough for many points."""
    here, rounds = machine(), 1 if quick else 3
    scale = 32 if quick else 1
    tables = {
        "Forgetting over |D_f|": _over_D_f([n // scale for n in (512, 1024, 2048, 4096)], rounds),
        "Forgetting over |D_r|": _over_D_r([n // scale for n in (2048, 4096, 8192, 16384)], rounds),
        "Fisher over n": _fisher_over_n([n // scale for n in (2048, 4096, 8192, 16384)], rounds),
        "Fisher over the parameters": _fisher_over_parameters(
            (6, 8) if quick else (14, 20, 28, 40), 64 // scale if quick else 1024, rounds
        ),
    }
    most = (LINEAR, FLAT, LINEAR, LINEAR)
    limits = [
        Limit(f"exponent of {title}", exponent(rows), least)
        for (title, rows), least in zip(tables.items(), most, strict=True)
    ]
    return Result("growth", command, here, limits, tables, quick)


def exponent(rows: Sequence[Row]) -> float:
    """Return the slope of log seconds over log size, by least squares.

    >>> exponent([{"n": 10, "seconds": 1.0}, {"n": 20, "seconds": 2.0}, {"n": 40, "seconds": 4.0}])
    1.0
    """
    points = [(math.log(size), math.log(seconds)) for size, seconds in (row.values() for row in rows)]
    mean_x, mean_y = (sum(values) / len(points) for values in zip(*points, strict=True))
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)
    return round(slope, 3)


def _over_D_f(sizes: Sequence[int], rounds: int) -> list[Row]:
    subject = subjects.mlp(max(sizes), side=14)
    whole = _request(max(sizes))
    memory = remember(subject.model, concatenate([subject.data, whole.D_f], "D"))

    def forgetting(n: int) -> None:
        assert whole.D_f_clean is not None
        few = replace(whole, D_f=whole.D_f.subset(range(n)), D_f_clean=whole.D_f_clean.subset(range(n)))
        forget(subject.model, few, memory, RECIPE)

    return _curve("|D_f|", sizes, forgetting, rounds)


def _over_D_r(sizes: Sequence[int], rounds: int) -> list[Row]:
    subject = subjects.mlp(max(sizes), side=14)
    request = _request(min(sizes) // 2)

    def remembered(n: int) -> Memory:
        return remember(subject.model, concatenate([subject.data.subset(range(n)), request.D_f], "D"))

    memories = {n: remembered(n) for n in sizes}
    return _curve("|D_r|", sizes, lambda n: forget(subject.model, request, memories[n], RECIPE), rounds)


def _fisher_over_n(sizes: Sequence[int], rounds: int) -> list[Row]:
    subject = subjects.mlp(max(sizes), side=14)
    return _curve("n", sizes, lambda n: fisher_sum(subject.model, subject.data.subset(range(n))), rounds)


def _fisher_over_parameters(sides: Sequence[int], n: int, rounds: int) -> list[Row]:
    by_size = {subject.parameters: subject for subject in (subjects.mlp(n, side) for side in sides)}
    return _curve(
        "parameters", list(by_size), lambda p: fisher_sum(by_size[p].model, by_size[p].data), rounds
    )


def _curve(name: str, sizes: Sequence[int], thing: Callable[[int], object], rounds: int) -> list[Row]:
    seconds = in_turns({str(size): lambda size=size: thing(size) for size in sizes}, rounds)
    return [_point(name, size, seconds[str(size)]) for size in sizes]


def _point(name: str, size: int, seconds: Sequence[float]) -> dict[str, Any]:
    return {name: size, "seconds": round(median(seconds), 4)}


def _request(n: int) -> Request:
    clean, T = subjects.images(n, (1, 14, 14), seed=1), tile()
    return Request(TABLE_1["B"], T(clean).with_(y=torch.zeros_like(clean.y)), clean, T)
