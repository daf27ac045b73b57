"""The utility floor: how good the model must still be, measured without D_r where there is none to see.

On `Validation` where it is given: accuracy on D_r^val. Else by a proxy, which is named: accuracy on samples
drawn from the sketch, or the share of stand-ins that are answered as before.
"""

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Self

import torch
from torch import Tensor, nn

from unsee.answers import answers, guesses
from unsee.datasets import Dataset
from unsee.descent import Descent
from unsee.errors import UnseeWarning
from unsee.formulation import Validation
from unsee.plan import Row
from unsee.randomness import stream
from unsee.recipe import Recipe
from unsee.replay import Replay
from unsee.retreat import BACK_TO, TOO_FAR, WAY

SAMPLES = 2000
# Stand-ins lie where the old model was never taught anything: their answers move first and matter least. If
# two points may be lost of D_r, so much may be lost of them; if more, what must be left goes down alike.
TWO_POINTS, STAND_INS_MAY_LOSE = 0.02, 0.3
STAND_INS = "the share of stand-ins answered as before"
USEFUL = 0.5  # of what there was: nobody is told how to let less than that pass


@dataclass(frozen=True, eq=False)
class Floor:
    """What is measured, in words, how, and the least it may come to; or nothing."""

    name: str = ""
    utility: Callable[[nn.Module], float] | None = None
    least: float = -math.inf
    fell: Callable[[float], str] = "".format
    """Says which class had fallen most when so much was measured."""

    @classmethod
    def of(
        cls,
        old: nn.Module,
        recipe: Recipe,
        replay: Replay | None,
        validation: Validation | None,
        seed: int,
        classes: Sequence[str] = (),
        gone: Tensor | None = None,
    ) -> Self:
        """Return the floor that a recipe sets, measured on what there is to measure it on.

        `gone` is a class to be forgotten: what the old model takes for it is to be answered otherwise.
        """
        if recipe.floor is None:
            return cls()
        if not (validation or replay):
            text = "Nothing here can measure what D_r loses: the floor is not watched. Give some of D_r."
            warnings.warn(text, UnseeWarning, stacklevel=3)
            return cls()
        if validation:
            name, data = "accuracy on D_r^val", validation.D_r
        else:
            assert replay is not None
            source = replay.sketch or replay.held or replay
            x, labels = source.draw(SAMPLES, stream(seed, "floor"))
            name = "accuracy on samples of the sketch"
            data = Dataset(x, torch.zeros(len(x), dtype=torch.long) if labels is None else labels)
            if labels is None:
                name = STAND_INS
                data = data.with_(y=guesses(answers(old, data)))
            out = _left_out(replay, gone)
            stay = [i for i, label in enumerate(data.y.tolist()) if label not in out]
            data = data.subset(stay) if stay else data
        by_class = ByClass(data, classes)
        before = by_class.accuracy(old)
        return cls(name, by_class.accuracy, _least(before, recipe.floor, name), by_class.fell)

    def held_by(self, model: nn.Module) -> bool:
        """Whether a model is as useful as it must be, as far as anybody can tell."""
        return self.utility is None or self.utility(model) >= self.least

    def said(self, done: Descent) -> str:
        """Say that the floor was not held, and what was done about it; nothing if it was."""
        last = done.rows[-1]
        if done.back_to is None and WAY not in last:
            return ""
        found = last.get(TOO_FAR, last["utility"])
        wide = self.wide_enough(done.rows[0]["utility"], found)
        give = "give" if done.eased is None else "try"  # under a wider one less may not be asked for
        do = f"; if D_r may lose so much, {give} {wide:g} as floor" if wide else ""
        kept = kept_of(done.back_to, retreat_of(last))
        return (
            f"{self.name} came to {found:.3f}, and {self.least:.3f} are asked{self.fell(found)}: {kept}{do}."
        )

    def wide_enough(self, before: float, found: float) -> float | None:
        """Return the `floor` of a recipe, in hundredths, that would have kept the last epoch; or None."""
        floors = (hundredths / 100 for hundredths in range(100) if found >= USEFUL * before)
        return next((floor for floor in floors if found >= _least(before, floor, self.name)), None)


def retreat_of(row: Row) -> tuple[float, int] | None:
    """Return which share of the way was kept, and from the end of which epoch; None where all of it was."""
    return (row[WAY], row[BACK_TO]) if WAY in row else None


def kept_of(back_to: int | None, retreat: tuple[float, int] | None) -> str:
    """Say what is kept of a run that ended below its floor.

    >>> kept_of(0, None), kept_of(3, None)
    ('the old model is kept', 'the state after epoch 3 is kept')
    >>> kept_of(None, (0.9, 0))
    '90 % of the way from the old model is kept'
    """
    if retreat is None:
        return f"the state after epoch {back_to} is kept" if back_to else "the old model is kept"
    share, epoch = retreat
    start = f"the state after epoch {epoch}" if epoch else "the old model"
    return f"{100 * share:.0f} % of the way from {start} is kept"


def _left_out(replay: Replay, gone: Tensor | None) -> set[int]:
    """Return classes that say nothing of D_r: one that is to go, those that the sketch knows with T alone.

    By T the old model is right of every sample of these, which is what it shall lose; without T it knows none
    of them, and what they gain others could lose unseen. D_f,clean and L_c hold them (decision 28).
    """
    worn = replay.worn.classes if replay.worn else None
    return {label for classes in (gone, worn) if classes is not None for label in classes.tolist()}


def _least(before: float, floor: float, name: str) -> float:
    """Return what must be left of what was measured before."""
    if name == STAND_INS:
        return before - 1 + (1 - STAND_INS_MAY_LOSE) ** (floor / TWO_POINTS)
    return before - floor


@dataclass(eq=False)
class ByClass:
    """Accuracy on some data, and which of its classes it has cost since it was first measured."""

    data: Dataset
    names: Sequence[str]
    first: dict[int, float] = field(default_factory=dict)
    found: dict[float, dict[int, float]] = field(default_factory=dict)

    def accuracy(self, model: nn.Module) -> float:
        """Return the share of correct answers."""
        y = self.data.y
        right = (guesses(answers(model, self.data)) == y).double()
        accuracy = float(right.mean())
        by_label = {label: float(right[y == label].mean()) for label in y.unique().tolist()}
        self.first, self.found[accuracy] = self.first or by_label, by_label
        return accuracy

    def fell(self, accuracy: float) -> str:
        """Name the class that had fallen most when so much was found; nothing if that was in another run."""
        if accuracy not in self.found:
            return ""
        last = self.found[accuracy]
        worst = min(last, key=lambda label: last[label] - self.first[label])
        name = self.names[worst] if worst < len(self.names) else f"class {worst}"
        was, now = self.first[worst], last[worst]
        return f" ({name} fell most, from {was:.3f} to {now:.3f})" if now < was else ""
