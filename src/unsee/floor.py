"""The utility floor: how good the model must still be, measured without D_r where there is none to see.

On `Validation` where it is given: accuracy on D_r^val. Else by a proxy, which is named: accuracy on samples
drawn from the sketch, or the share of stand-ins that are answered as before.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor, nn

from unsee.answers import accuracy, as_input, evaluating
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
        if validation:
            D_r = validation.D_r
            before = accuracy(old, D_r)
            return cls("accuracy on D_r^val", lambda model: accuracy(model, D_r), before - recipe.floor)
        assert replay is not None
        x, labels = replay.draw(SAMPLES, stream(seed, "floor"))
        if labels is not None:
            before = _share(old, x, labels)
            name = "accuracy on samples of the sketch"
            return cls(name, lambda model: _share(model, x, labels), before - recipe.floor)
        then = _guesses(old, x)
        name = "the share of stand-ins answered as before"
        return cls(name, lambda model: _share(model, x, then), 1 - STAND_INS_MAY_LOSE)

    def watch(self) -> tuple[Callable[[nn.Module], float] | None, float]:
        """Return what the descent has to look at."""
        return self.utility, self.least

    def said(self, done: Descent) -> str:
        """Say that the floor was not held, and what was done about it."""
        found = done.rows[-1]["utility"]
        kept = f"the state after epoch {done.back_to} is kept" if done.back_to else "the old model is kept"
        return f"{self.name} came to {found:.3f}, below the floor of {self.least:.3f}: {kept}."


def _share(model: nn.Module, x: Tensor, labels: Tensor) -> float:
    return float((_guesses(model, x) == labels).double().mean())


@torch.no_grad()
def _guesses(model: nn.Module, x: Tensor) -> Tensor:
    with evaluating(model):
        return torch.cat([model(as_input(part, model)).argmax(1).cpu() for part in x.split(500)])
