"""How far to go: learning rate, steps, and when it is enough."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from unsee.errors import InputError
from unsee.recipe import Recipe

Row = dict[str, Any]
WARM_UP, WIND_DOWN = 10, 2  # steps, epochs
STEPS, SMALLEST = 20, 16  # of an epoch and of a batch, at the least
SMALL = 36  # batches: a D_f of fewer is small, and theta is averaged
MEAN_STEPS, MEAN_SMALLEST, ENOUGH = 37, 8, 4  # then of an epoch, of a batch, and epochs, at the least
ROUGH = 0.25  # a fall of L by less is no more than chance, as told by an epoch of such batches


@dataclass(frozen=True)
class Plan:
    """How far to go: SGD with momentum for some epochs over n samples; the last batch may be smaller.

    >>> plan = Plan(lr=0.1, momentum=0.9, epochs=2, n=10, batch_size=4)
    >>> plan.steps, [plan.span(step) for step in range(plan.steps)]
    (6, [(0, 4), (4, 4), (8, 2), (10, 4), (14, 4), (18, 2)])
    """

    lr: float
    momentum: float
    epochs: int
    n: int
    batch_size: int
    settle: float | None = None
    """Where given, `epochs` is the most: as soon as an epoch lowers the loss L by less than this share,
    two more follow, in which lr falls to 0, as in the last two of all. The first ten steps warm up."""
    average: bool = False
    """Whether the mean of theta over the way is what counts (`updating.Mean`): the noise of small batches
    is gone from it, so that lr need not fall, and no epochs follow."""

    def __post_init__(self) -> None:
        for name in ("epochs", "n", "batch_size"):
            if getattr(self, name) < 1:
                raise InputError(f"at least 1 as {name}", f"{getattr(self, name)}", "give more")
        if not (math.isfinite(self.lr) and self.lr > 0 and 0 <= self.momentum < 1):
            found = f"{self.lr:g} and {self.momentum:g}"
            raise InputError("a learning rate above 0 and a momentum from 0 to below 1", found, "change them")

    @property
    def steps_per_epoch(self) -> int:
        """Batches in one epoch, over n samples."""
        return math.ceil(self.n / self.batch_size)

    @property
    def steps(self) -> int:
        """All steps together."""
        return self.epochs * self.steps_per_epoch

    def end(self, rows: Sequence[Row], begun: int = 0) -> int:
        """Return the last step, as far as it is known from the rows of the epochs since it was begun.

        >>> plan = Plan(lr=0.1, momentum=0.9, epochs=9, n=10, batch_size=5, settle=0.1)
        >>> plan.end([{"epoch": 0}, {"epoch": 1, "L": 4.0}, {"epoch": 2, "L": 2.0}]) // plan.steps_per_epoch
        9
        >>> plan.end([{"epoch": 1, "L": 2.0}, {"epoch": 2, "L": 1.9}]) // plan.steps_per_epoch
        4
        """
        epochs = self.epochs
        if self.settle is not None:
            losses = [(row["epoch"], row["L"]) for row in rows if "L" in row]
            for (_, before), (epoch, now) in itertools.pairwise(losses):
                if before - now < self.settle * abs(before):
                    end = max(epoch, begun + ENOUGH) if self.average else epoch + WIND_DOWN
                    epochs = min(epochs, end)
                    break
        return epochs * self.steps_per_epoch

    def lr_at(self, step: int, end: int) -> float:
        """Return the learning rate of a step: lr, or, where it is to settle, up to it and down to 0."""
        if self.settle is None:
            return self.lr
        left = 1.0 if self.average else (end - step) / self.steps_per_epoch / WIND_DOWN
        return self.lr * min(1.0, (step + 1) / WARM_UP, left)

    def span(self, step: int) -> tuple[int, int]:
        """Return how many samples were used before this step, and how many it uses."""
        epoch, batch = divmod(step, self.steps_per_epoch)
        before = batch * self.batch_size
        return epoch * self.n + before, min(self.batch_size, self.n - before)


def plan_of(recipe: Recipe, n: int) -> Plan:
    """Return how far to go with n samples of D_f: an epoch is a pass over them, of STEPS steps at least.

    Of a small D_f each step takes fewer samples: as many steps then cost a fraction of the samples. Their
    gradients are noisier, by the square root of that share, and lr goes down with it. Where theta is
    averaged, an epoch is MEAN_STEPS steps.

    >>> from unsee.recipe import RECIPES
    >>> plans = [plan_of(RECIPES["unsee"], n) for n in (600, 6000)]
    >>> [(plan.batch_size, plan.n, plan.average) for plan in plans]
    [(8, 296, True), (128, 6000, False)]
    """
    if recipe.settle is None:
        return Plan(recipe.lr, recipe.momentum, recipe.epochs, n, recipe.batch_size)
    if recipe.average and n < SMALL * recipe.batch_size:
        return _averaged(recipe, n)
    size = min(recipe.batch_size, n, max(SMALLEST, n // STEPS))
    lr = recipe.lr * (size / recipe.batch_size) ** (1 / 2)
    return Plan(lr, recipe.momentum, recipe.epochs, max(n, STEPS * size), size, recipe.settle)


def _averaged(recipe: Recipe, n: int) -> Plan:
    """Return how far to go where theta is averaged: smaller batches still, and epochs of a part of a pass.

    Less of the noise is left in the mean: lr goes down by the 0.4th power (docs/decisions/0030).
    """
    assert recipe.settle is not None
    size = min(recipe.batch_size, n, max(MEAN_SMALLEST, n // (2 * SMALL)))
    lr, settle = recipe.lr * (size / recipe.batch_size) ** 0.4, max(ROUGH, recipe.settle)
    return Plan(lr, recipe.momentum, recipe.epochs, MEAN_STEPS * size, size, settle, average=True)
