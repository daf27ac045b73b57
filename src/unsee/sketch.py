"""Sketch: a small generative model of the data, class by class, for a memory that can recall.

The paper's outlook: "save data as a generative model". Kept are moments, which are sums: the number of
samples of each class, the sum of their values and of the products of any two of them. So sketches of two
parts merge and a part subtracts, exactly, although nobody knew D_f when the sketch was taken.

What it reveals: the mean image of every class and the directions in which it varies can be read off, and
a class of few samples nearly shows them. Treat it as you would treat averages of the training data.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from unsee.datasets import PIXELS
from unsee.errors import InputError

MEGABYTES = 32
DIRECTIONS = 100  # of each class


@dataclass(frozen=True, eq=False)
class Sketch:
    """Moments of each class, of samples of one shape, pooled `pool` x `pool` where they are images."""

    counts: Tensor
    sums: Tensor
    products: Tensor
    shape: tuple[int, ...]
    pool: int
    value_range: tuple[float, float] | None
    whole: bool
    """Whether values are whole numbers, as pixels from 0 to 255 are."""
    levels: tuple[int, ...] = ()
    """Of a table: the number of names of each column, 0 where it holds numbers."""

    @classmethod
    def empty(
        cls,
        x: Tensor,
        classes: int,
        value_range: tuple[float, float] | None = None,
        megabytes: float = MEGABYTES,
        levels: tuple[int, ...] = (),
    ) -> Self:
        """Return a sketch of nothing that fits samples like these into the budget."""
        if not (x.is_floating_point() or x.dtype == torch.uint8):
            raise InputError("numbers or pixels for a sketch", f"{x.dtype}", "leave it out")
        shape = tuple(x.shape[1:])
        for pool in _pools(shape):
            k = _length(shape, pool, levels)
            if classes * (k + 1) * (k + 2) / 2 * 8 <= megabytes * 2**20:
                break
        else:
            found = f"{classes} classes of {_length(shape, pool, levels):,} values"
            raise InputError(f"a sketch within {megabytes:g} MB", found, "allow more, or leave it out")
        counts, sums, products = (
            torch.zeros(classes, *tail, dtype=torch.float64) for tail in ((), (k,), (k, k))
        )
        whole = not x.is_floating_point()
        return cls(counts, sums, products, shape, pool, value_range, whole, levels)

    def add(self, x: Tensor, y: Tensor) -> None:
        """Add samples, in place: only for the pass that takes the sketch."""
        code = self._encode(x)
        for label in y.unique().tolist():
            mine = code[y == label]
            self.counts[label] += len(mine)
            self.sums[label] += mine.sum(0)
            self.products[label].addmm_(mine.T, mine)

    def merge(self, other: Self) -> Self:
        """Return the sketch over both data."""
        return self._with(other, 1)

    def subtract(self, part: Self) -> Self:
        """Return the sketch without a part of its data."""
        rest = self._with(part, -1)
        if bool((rest.counts < 0).any()):
            raise InputError("a part of the sketch's data", "more samples than it has", "check which it is")
        return rest

    @property
    def classes(self) -> list[int]:
        """The classes that can be drawn: those with at least two samples."""
        return torch.nonzero(self.counts > 1).flatten().tolist()

    def draw(self, n: int, generator: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Draw samples and their labels: classes uniformly, of each the Gaussian of its moments."""
        if not self.classes:
            raise InputError("a class of two samples in the sketch", "none", "take it of more data")
        labels = np.asarray(self.classes)[generator.integers(len(self.classes), size=n)]
        z = torch.as_tensor(generator.standard_normal((n, DIRECTIONS)), dtype=torch.float32)
        code = torch.empty(n, self.sums.shape[1], dtype=torch.float32)
        for label in np.unique(labels).tolist():
            mean, directions = self._gaussians[label]
            mine = torch.as_tensor(labels == label)
            code[mine] = mean + z[mine, : len(directions)] @ directions
        return self._decode(code), torch.as_tensor(labels)

    def seen(self, x: Tensor) -> Tensor:
        """Return samples as the sketch knows them: images as coarse as it pools them."""
        return self._decode(self._encode(x).float())

    @cached_property
    def _gaussians(self) -> dict[int, tuple[Tensor, Tensor]]:
        """Return the mean of each class and its principal directions, each as long as its deviation."""
        found = {}
        for label in self.classes:
            n = float(self.counts[label])
            mean = self.sums[label] / n
            covariance = self.products[label] / n - torch.outer(mean, mean)
            values, vectors = torch.linalg.eigh(covariance)
            lengths = values[-DIRECTIONS:].clamp_min(0).sqrt()
            found[label] = mean.float(), (vectors[:, -DIRECTIONS:] * lengths).T.float()
        return found

    def _encode(self, x: Tensor) -> Tensor:
        """Return samples as rows of float64: summed over pools, so that whole numbers stay exact."""
        x = x.cpu().double()
        if self.levels:
            return rows_encoded(x, self.levels)
        return (F.avg_pool2d(x, self.pool, divisor_override=1) if self.pool > 1 else x).flatten(1)

    def _decode(self, code: Tensor) -> Tensor:
        if self.levels:
            return rows_decoded(code, self.levels)
        if self.pool > 1:
            channels, height, width = self.shape
            x = code.view(-1, channels, height // self.pool, width // self.pool) / self.pool**2
            x = F.interpolate(x, scale_factor=self.pool, mode="bilinear")
        else:
            x = code.view(-1, *self.shape)
        if self.value_range or self.whole:
            x = x.clamp(*(self.value_range or PIXELS))
        return x.round().to(torch.uint8) if self.whole else x

    def _with(self, other: Self, sign: int) -> Self:
        mine, yours = ({**s.words(), "classes": len(s.counts)} for s in (self, other))
        if mine != yours:
            raise InputError("two sketches of the same kind", f"{mine} and {yours}", "take both alike")
        return replace(
            self,
            counts=self.counts + sign * other.counts,
            sums=self.sums + sign * other.sums,
            products=self.products + sign * other.products,
        )

    def tensors(self) -> dict[str, Tensor]:
        """Return the moments as they are written: of the symmetric products, one half."""
        rows, columns = torch.triu_indices(*self.products.shape[1:])
        return {"counts": self.counts, "sums": self.sums, "products": self.products[:, rows, columns]}

    def words(self) -> dict[str, Any]:
        """Return what is not a tensor, for the file's heading."""
        return {
            "shape": list(self.shape),
            "pool": self.pool,
            "value_range": self.value_range and list(self.value_range),
            "whole": self.whole,
            **({"levels": list(self.levels)} if self.levels else {}),
        }

    @classmethod
    def from_file(cls, tensors: Mapping[str, Tensor], words: Mapping[str, Any]) -> Self:
        """Build the sketch that `tensors` and `words` describe."""
        sums, half = tensors["sums"], tensors["products"]
        counts, shape = tensors["counts"], tuple(int(side) for side in words["shape"])
        k, pool = sums.shape[1], int(words["pool"])
        levels = tuple(int(count) for count in words.get("levels", ()))
        fits = (
            pool in _pools(shape)
            and k == _length(shape, pool, levels)
            and len(counts) == len(sums) == len(half)
        )
        if not (fits and all(bool(torch.isfinite(t).all()) for t in (counts, sums, half))):
            raise ValueError
        rows, columns = torch.triu_indices(k, k)
        products = torch.empty(len(sums), k, k, dtype=torch.float64)
        products[:, rows, columns] = half
        products[:, columns, rows] = half
        span = words["value_range"] and (float(words["value_range"][0]), float(words["value_range"][1]))
        return cls(counts, sums, products, shape, pool, span, bool(words["whole"]), levels)


def _pools(shape: tuple[int, ...]) -> list[int]:
    """Return by how much samples may be pooled: images, by what divides both sides."""
    if len(shape) != 3:
        return [1]
    return [pool for pool in (1, 2, 4, 8) if shape[1] % pool == 0 and shape[2] % pool == 0]


def _length(shape: tuple[int, ...], pool: int, levels: tuple[int, ...] = ()) -> int:
    if levels:
        return sum(max(2, count) for count in levels)
    return int(np.prod(shape)) // (pool**2 if len(shape) == 3 else 1)


def rows_encoded(x: Tensor, levels: tuple[int, ...]) -> Tensor:
    """Return rows of a table with each name as one of so many, each number beside whether it is 0.

    >>> rows_encoded(torch.tensor([[1.0, 40.0], [0.0, 0.0]]), (2, 0)).tolist()
    [[0.0, 1.0, 40.0, 0.0], [1.0, 0.0, 0.0, 1.0]]
    """
    parts = [
        F.one_hot(column.long(), max(2, count)).to(x)
        if count
        else torch.stack([column, (column == 0).to(x)], 1)
        for column, count in zip(x.T, levels, strict=True)
    ]
    return torch.cat(parts, 1)


def rows_decoded(code: Tensor, levels: tuple[int, ...]) -> Tensor:
    """Return rows again: of each column the likeliest name, or its number, or 0 where that is likelier."""
    parts = code.split([max(2, count) for count in levels], 1)
    columns = [
        part.argmax(1).to(code) if count else torch.where(part[:, 1] > 0.5, 0.0, part[:, 0])
        for part, count in zip(parts, levels, strict=True)
    ]
    return torch.stack(columns, 1)
