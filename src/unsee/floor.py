"""The utility floor: how good the model must still be, measured without D_r where there is none to see.

On `Validation` where it is given: accuracy on D_r^val. Else by a proxy, which is named: accuracy on samples
drawn from the sketch, or the share of stand-ins that are answered as before.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import torch
from torch import nn

from unsee.answers import accuracy, answers, guesses
from unsee.datasets import Dataset
from unsee.descent import Descent
from unsee.formulation import Validation
from unsee.randomness import stream
from unsee.recipe import Recipe
from unsee.replay import Replay

SAMPLES = 2000
# Stand-ins lie where the old model was never taught anything: their answers move first and matter least.
STAND_INS_MAY_LOSE = 0.3


@dataclass(frozen=True, eq=False)
class Floor:
    """What is measured, in words, how, and the least it may come to; or nothing."""

    name: str = ""
    utility: Callable[[nn.Module], float] | None = None
    least: float = 0.0

    @classmethod
    def of(
        cls, old: nn.Module, recipe: Recipe, replay: Replay | None, validation: Validation | None, seed: int
    ) -> Self:
        """Return the floor that a recipe sets, measured on what there is to measure it on."""
        if recipe.floor is None or not (validation or replay):
            return cls()
        may_lose = recipe.floor
        if validation:
            name, data = "accuracy on D_r^val", validation.D_r
        else:
            assert replay is not None
            x, labels = replay.draw(SAMPLES, stream(seed, "floor"))
            name = "accuracy on samples of the sketch"
            data = Dataset(x, torch.zeros(len(x), dtype=torch.long) if labels is None else labels)
            if labels is None:
                name, may_lose = "the share of stand-ins answered as before", STAND_INS_MAY_LOSE
                data = data.with_(y=guesses(answers(old, data)))
        return cls(name, lambda model: accuracy(model, data), accuracy(old, data) - may_lose)

    def watch(self) -> tuple[Callable[[nn.Module], float] | None, float]:
        """Return what the descent has to look at."""
        return self.utility, self.least

    def said(self, done: Descent) -> str:
        """Say that the floor was not held, and what was done about it."""
        found = done.rows[-1]["utility"]
        kept = f"the state after epoch {done.back_to} is kept" if done.back_to else "the old model is kept"
        return f"{self.name} came to {found:.3f}, below the floor of {self.least:.3f}: {kept}."
