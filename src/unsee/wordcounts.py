"""WordCounts: the sketch of texts. How often each word stands in the texts of each class, and nothing more.

Counts are sums: those of two parts merge and a part subtracts, exactly, as those of a sketch of images do.
What is drawn from them is no sentence: words by chance, each as often as in its class, which is what a small
classifier of texts mostly goes by.

What it reveals: which words the training texts of each class have, and how often; a name or a number that
stands in them and in the vocabulary can be read off. Order, and who wrote what, cannot.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from unsee.errors import InputError
from unsee.kinds import NOTHING


@dataclass(frozen=True, eq=False)
class WordCounts:
    """The number of texts of each class, and of each word in them; texts have places for `length` words."""

    counts: Tensor
    sums: Tensor
    length: int

    @classmethod
    def empty(cls, classes: int, words: int, length: int, megabytes: float = math.inf) -> Self:
        """Return counts of nothing, for a vocabulary of so many words, if they fit into the budget."""
        if classes * (words + 1) * 8 > megabytes * 2**20:
            found = f"{classes} classes of {words:,} words"
            raise InputError(f"a sketch within {megabytes:g} MB", found, "allow more, or leave it out")
        counts, sums = torch.zeros(classes), torch.zeros(classes, words)
        return cls(counts.double(), sums.double(), length)

    def add(self, x: Tensor, y: Tensor) -> None:
        """Add texts, in place: only for the pass that takes the counts."""
        for label in y.unique().tolist():
            mine = x[y == label].cpu().long()
            self.counts[label] += len(mine)
            self.sums[label] += torch.bincount(mine.flatten(), minlength=self.sums.shape[1]).double()

    def merge(self, other: Self) -> Self:
        """Return the counts over both data."""
        return self._with(other, 1)

    def subtract(self, part: Self) -> Self:
        """Return the counts without a part of the data."""
        rest = self._with(part, -1)
        if bool((rest.counts < 0).any() | (rest.sums < 0).any()):
            raise InputError("a part of the sketch's data", "more words than it has", "check which it is")
        return rest

    @property
    def classes(self) -> list[int]:
        """The classes that can be drawn: those with at least two texts."""
        return torch.nonzero(self.counts > 1).flatten().tolist()

    def draw(self, n: int, generator: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Draw texts and their labels: classes uniformly, of each its words by their frequency."""
        if not self.classes:
            raise InputError("a class of two texts in the sketch", "none", "take it of more data")
        labels = np.asarray(self.classes)[generator.integers(len(self.classes), size=n)]
        u = torch.as_tensor(generator.random((n, self.length)))
        x = torch.zeros(n, self.length, dtype=torch.int64)
        for label in np.unique(labels).tolist():
            mine = torch.as_tensor(labels == label)
            shares = (self.sums[label] / self.sums[label].sum()).cumsum(0)
            x[mine] = torch.searchsorted(shares, u[mine]).clamp_max(self.sums.shape[1] - 1)
        return x.gather(1, (x == NOTHING).long().argsort(dim=1, stable=True)), torch.as_tensor(labels)

    def tensors(self) -> dict[str, Tensor]:
        """Return the counts as they are written."""
        return {"counts": self.counts, "sums": self.sums}

    def words(self) -> dict[str, Any]:
        """Return what is not a tensor, for the file's heading."""
        return {"of": "words", "length": self.length}

    @classmethod
    def from_file(cls, tensors: Mapping[str, Tensor], words: Mapping[str, Any]) -> Self:
        """Build the counts that `tensors` and `words` describe."""
        counts, sums, length = tensors["counts"], tensors["sums"], int(words["length"])
        fits = counts.ndim == 1 and sums.ndim == 2 and len(counts) == len(sums) and 0 < length < 10**6
        if not fits or not all(bool((torch.isfinite(t) & (t >= 0)).all()) for t in (counts, sums)):
            raise ValueError
        return cls(counts, sums, length)

    def _with(self, other: Self, sign: int) -> Self:
        if self.sums.shape != other.sums.shape or self.length != other.length:
            found = f"{tuple(self.sums.shape)} and {tuple(other.sums.shape)}"
            raise InputError("two sketches of the same kind", found, "take both alike")
        counts, sums = self.counts + sign * other.counts, self.sums + sign * other.sums
        return replace(self, counts=counts, sums=sums)
