"""Succession: what the memory must hold before a model forgets, and what goes along to the new model."""

import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import torch
from torch import Tensor, nn

from unsee.datasets import Dataset, sample_hashes
from unsee.errors import UnseeWarning
from unsee.formulation import Request
from unsee.memory import Memory, remember
from unsee.recipe import Recipe
from unsee.resting import give_back
from unsee.sketch import Sketch
from unsee.wordcounts import WordCounts


def over(
    model: nn.Module, request: Request, memory: Memory | None, recipe: Recipe
) -> tuple[Memory | None, Dataset | None]:
    """Return the memory as the recipe wants it, over D or D_r, and what of D_f is taken out of it for that.

    What it does not hold of D_f is no part of that share, and said aloud: the model may have been trained on
    these samples under other labels, or in other pixels, and is then held to what it shall forget.
    """
    if memory is None or not _less_D_f(recipe):
        return memory, None
    share, n = held(request.D_f, memory), len(request.D_f)
    if unknown := not_held(request, memory, recipe):
        found = (
            f"{unknown:,} of {n:,} samples of D_f are not in the memory: it is taken to hold D_r without them"
        )
        do = "give them with the pixels and labels that they had in training, if they were in it"
        warnings.warn(f"{found}; {do}.", UnseeWarning, stacklevel=3)
    if share is None:
        return memory, None
    return memory.subtract(remember(model, share, sketch=memory.sketch), using_up=True), share


def not_held(request: Request, memory: Memory | None, recipe: Recipe) -> int:
    """Return how many samples of D_f a memory does not hold that should be without them."""
    if memory is None or not _less_D_f(recipe):
        return 0
    return len(request.D_f) - int(_found(request.D_f, memory).sum())


def held(data: Dataset, memory: Memory) -> Dataset | None:
    """Return what a memory holds of some data."""
    return _some(data, _found(data, memory))


def goes_as_a_whole(request: Request, memory: Memory | None) -> bool:
    """Whether D_f is taken for all of its class: so it is, unless a sketch knows more samples of it."""
    classes = request.D_f.y.unique()
    if request.pattern.name != "A" or len(classes) > 1:
        return False
    if memory is None or memory.sketch is None:
        return True
    return bool(memory.sketch.counts[classes] <= _found(request.D_f, memory).sum())


@dataclass(frozen=True, eq=False)
class Succession:
    """A memory without D_f, set aside while the model forgets, and what the new model's is to have beside."""

    kept: Callable[[], Memory]
    sketch: Sketch | WordCounts | None
    taken_out: Dataset | None
    """D_f, as far as the memory held it."""
    learnt: Dataset | None
    """D_f,clean, as far as what is kept does not hold it."""

    @classmethod
    def of(
        cls,
        kept: Memory,
        old: nn.Module,
        request: Request,
        folder: Path | str | None,
        taken_out: Dataset | None = None,
    ) -> Self | None:
        """Set the memory aside: where there is a folder, in there, as the descent needs its room.

        `taken_out` is what is out of it already (see `over`); else D_f's share is taken out now, before
        anything is computed that a refusal would cost. Nothing, where all that it held was D_f.
        """
        clean = request.D_f_clean
        if taken_out is None and (taken_out := held(request.D_f, kept)) is not None:
            if len(taken_out) == kept.n:
                return None
            kept = kept.subtract(remember(old, taken_out, sketch=kept.sketch), using_up=True)
        learnt = None if clean is None else _some(clean, ~_found(clean, kept))
        aside = kept.resting(folder) if folder else lambda: kept
        return cls(aside, kept.sketch, taken_out, learnt)

    def memory(self, old: nn.Module, new: nn.Module, *, forgotten: bool) -> Memory:
        """Return the memory as it holds for the new model: without D_f's share, with that of D_f,clean.

        What the new model has learnt of D_f,clean is to be kept when it forgets again: of a class that was
        known by T nothing else is left. Where nothing was `forgotten`, the memory is as it was.
        """
        give_back()
        model, data = (new, self.learnt) if forgotten else (old, self.taken_out)
        if data is None:
            return self.kept().of(new)
        # The share first, then the memory, into the share's own room: both beside each other would not fit.
        share = remember(model, data, sketch=self.sketch)
        return self.kept().of(model).merge(share, using_up=True).of(new)


def _less_D_f(recipe: Recipe) -> bool:
    """Whether the recipe leans on a memory without D_f's share."""
    return recipe.fisher_over == "D_r" and bool(
        recipe.lambda_kl or recipe.lambda_s or recipe.balance != "none"
    )


def _found(data: Dataset, memory: Memory) -> Tensor:
    """Return which samples the memory holds; of those that are there more often than in it, so many."""
    hashes = sample_hashes(data.x, data.y)
    left = Counter(memory.samples[torch.isin(memory.samples, hashes)].tolist())
    found = []
    for sample in hashes.tolist():
        found.append(left[sample] > 0)
        left[sample] -= 1
    return torch.tensor(found)


def _some(data: Dataset, rows: Tensor) -> Dataset | None:
    return data.subset(torch.nonzero(rows).flatten()) if rows.any() else None
