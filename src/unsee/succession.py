"""Succession: what the memory must hold before a model forgets, and what goes along to the new model."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import torch
from torch import nn

from unsee.datasets import Dataset, sample_hashes
from unsee.formulation import Request
from unsee.memory import Memory, remember
from unsee.recipe import Recipe
from unsee.resting import give_back
from unsee.sketch import Sketch
from unsee.wordcounts import WordCounts


def over(model: nn.Module, request: Request, memory: Memory | None, recipe: Recipe) -> Memory | None:
    """Return the memory as the recipe wants it: over D, or without D_f's share, which is over D_r."""
    if memory is None or recipe.fisher_over == "D":
        return memory
    if not (recipe.lambda_kl or recipe.lambda_s or recipe.balance != "none"):
        return memory
    return memory.subtract(remember(model, request.D_f, sketch=memory.sketch), using_up=True)


@dataclass(frozen=True, eq=False)
class Succession:
    """A memory set aside while the model forgets, and what the new model will know beside it."""

    kept: Callable[[], Memory]
    sketch: Sketch | WordCounts | None
    D_f: Dataset
    learnt: Dataset | None
    """D_f,clean, as far as the memory does not hold it."""

    @classmethod
    def of(cls, kept: Memory, request: Request, folder: Path | str | None) -> Self:
        """Set the memory aside: where there is a folder, in there, as the descent needs its room."""
        aside = kept.resting(folder) if folder else lambda: kept
        return cls(aside, kept.sketch, request.D_f, _learnt(request.D_f_clean, kept))

    def memory(self, old: nn.Module, new: nn.Module, *, nothing_forgotten: bool) -> Memory:
        """Return the memory as it holds for the new model: with D_f,clean's share, which it has learnt.

        That is to be kept when it forgets again: of a class that was known by T nothing else is left.
        Where nothing was forgotten, with D_f's share again instead.
        """
        give_back()
        # The new share first, then the memory, into the share's own room: both at once would not fit.
        if nothing_forgotten:
            share = remember(old, self.D_f, sketch=self.sketch)
            return self.kept().merge(share, using_up=True).of(new)
        if self.learnt is None:
            return self.kept().of(new)
        share = remember(new, self.learnt, sketch=self.sketch)
        return self.kept().of(new).merge(share, using_up=True)


def _learnt(clean: Dataset | None, kept: Memory) -> Dataset | None:
    if clean is None:
        return None
    rows = torch.nonzero(~torch.isin(sample_hashes(clean.x, clean.y), kept.samples)).flatten()
    return clean.subset(rows) if len(rows) else None
