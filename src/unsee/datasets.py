"""Dataset: images, rows of a table, texts (or any tensors) with labels, checked once when it is made."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from unsee.errors import InputError
from unsee.kinds import PLAIN, Kind
from unsee.randomness import stream
from unsee.store import raw

PIXELS = (0.0, 255.0)
MOST_CLASSES = 10_000  # a label beyond is a mistake, and must not become 10^15 names


@dataclass(frozen=True, eq=False)
class Dataset:
    """Samples `x` (n, ...) with labels `y` (n), the classes (names, or how many), the range of the values.

    The range is (0, 255) for bytes; for floats it is read off the data where it is plain, and None
    where it is not (standardised inputs, say), which a T for pixels then refuses. Where samples are rows of
    a table or texts, `kind` says what their numbers mean.

    >>> data = Dataset(torch.zeros(4, 1, 2, 2, dtype=torch.uint8), [0, 1, 1, 0], ("cat", "dog"))
    >>> len(data), data.value_range, data.of_class(1).y.tolist()
    (4, (0.0, 255.0), [1, 1])
    """

    x: Tensor
    y: Tensor
    classes: tuple[str, ...] = ()
    value_range: tuple[float, float] | None = None
    name: str = "data"
    kind: Kind = PLAIN

    def __post_init__(self) -> None:
        if isinstance(self.classes, int):
            object.__setattr__(self, "classes", tuple(map(str, range(self.classes))))
        x, y = torch.as_tensor(self.x).detach(), _checked_labels(self.y, self.name)
        if len(x) != len(y):
            raise InputError(
                f"as many labels as samples in {self.name}", f"{len(x)} and {len(y)}", "pair them up"
            )
        count = len(self.classes) or min(int(y.max()) + 1, MOST_CLASSES) if len(y) else len(self.classes)
        check_labels(y, count, self.name)
        check_finite(x, self.name)
        self.kind.check(x, self.name)
        object.__setattr__(self, "x", x)
        object.__setattr__(self, "y", y)
        object.__setattr__(self, "classes", tuple(self.classes) or tuple(str(c) for c in range(count)))
        span = None if self.kind.columns else checked_range(x, self.value_range, self.name)
        object.__setattr__(self, "value_range", span)

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.x[index], self.y[index]

    def __repr__(self) -> str:
        shape = "x".join(map(str, self.x.shape[1:]))
        return f"Dataset({self.name!r}, {len(self):,} samples of {shape}, {len(self.classes)} classes)"

    @cached_property
    def fingerprint(self) -> str:
        """The SHA-256 of the samples and labels, in order: the same whatever the data is called."""
        content = Fingerprint()
        content.update(self.x, self.y)
        return content.hexdigest()

    def with_(self, **changes: Any) -> Self:
        """Return this data set with some fields changed, without checking again what was checked."""
        new = object.__new__(type(self))
        fields = ("x", "y", "classes", "value_range", "name", "kind")
        new.__dict__.update({field: changes.get(field, getattr(self, field)) for field in fields})
        return new

    def subset(self, index: Sequence[int] | np.ndarray | Tensor, name: str | None = None) -> Self:
        """Return the samples at `index`, in that order."""
        rows = torch.as_tensor(np.asarray(index), dtype=torch.long)
        return self.with_(x=self.x[rows], y=self.y[rows], name=name or self.name)

    def of_class(self, label: int, *, others: bool = False) -> Self:
        """Return the samples of one class, or of all the others."""
        return self.subset(torch.nonzero((self.y == label) ^ others).flatten())

    def rescaled(self, low: float, high: float) -> Self:
        """Return the same samples as floats in another range, such as 0..1 from 0..255."""
        if self.value_range is None:
            raise InputError(
                f"a known value range of {self.name}",
                "none",
                "name it: Dataset(..., value_range=(low, high))",
            )
        start, end = self.value_range
        x = (self.x.float() - start) / (end - start) * (high - low) + low
        return self.with_(x=x, value_range=(low, high))

    def split(self, fraction: float, seed: int = 0) -> tuple[Self, Self]:
        """Return (the rest, a random part): `fraction` of every class goes into the part."""
        part = np.concatenate(
            [rows[: round(fraction * len(rows))] for rows in _shuffled_classes(self.y, seed, "split")] or [[]]
        ).astype(int)
        kept = np.setdiff1d(np.arange(len(self)), part)
        return self.subset(kept), self.subset(np.sort(part))

    def folds(self, k: int, seed: int = 0) -> list[np.ndarray]:
        """Return k lists of indices that share each class evenly between them.

        They are indices and not data sets so that D_f and its clean twins can be cut alike.
        """
        if not 2 <= k <= len(self):
            raise InputError(f"between 2 and {len(self)} folds", str(k), "choose another number")
        dealt = np.concatenate(_shuffled_classes(self.y, seed, "folds"))
        return [np.sort(dealt[start::k]) for start in range(k)]


def concatenate(parts: Sequence[Dataset], name: str) -> Dataset:
    """Return the parts, one after the other, as one data set."""
    first = parts[0]
    for part in parts[1:]:
        alike = part.classes == first.classes and part.kind == first.kind
        if not alike or part.x.shape[1:] != first.x.shape[1:]:
            raise InputError(
                f"data sets like {first}", f"{part}", "give all of them one shape and the same classes"
            )
    return first.with_(x=torch.cat([p.x for p in parts]), y=torch.cat([p.y for p in parts]), name=name)


class Fingerprint:
    """The content hash of a stream of samples, whatever the size of the pieces it comes in."""

    def __init__(self) -> None:
        self._x, self._y, self._head = hashlib.sha256(), hashlib.sha256(), ""

    def update(self, x: Tensor, y: Tensor) -> None:
        """Take in the next samples and their labels."""
        self._head = f"{tuple(x.shape[1:])} {x.dtype}"
        self._x.update(raw(x))
        self._y.update(raw(y.long()))

    def hexdigest(self) -> str:
        """Return the hash of all that came in so far."""
        return hashlib.sha256(
            f"{self._head} {self._x.hexdigest()} {self._y.hexdigest()}".encode()
        ).hexdigest()


def sample_hashes(x: Tensor, y: Tensor) -> Tensor:
    """Return 8 bytes of hash for each sample and its label: enough to say later whether it was there."""
    whole = raw(x)  # once for all: a tensor's way to bytes takes longer than the hash of a small one
    size = len(whole) // max(1, len(x))
    rows = (whole[i * size : (i + 1) * size] for i in range(len(x)))
    hashes = [
        hashlib.blake2b(row, digest_size=8, key=str(label).encode()).digest()
        for row, label in zip(rows, y.tolist(), strict=True)
    ]
    return (
        torch.frombuffer(bytearray(b"".join(hashes)), dtype=torch.int64) if hashes else torch.empty(0).long()
    )


def batches(data: Any, batch_size: int, classes: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield (x, y) in order, from a Dataset or any map-style torch data set, checking what is new.

    A data set that is not ours is read a batch at a time and never held whole.
    """
    if batch_size < 1:
        raise InputError("at least one sample a batch", f"{batch_size}", "give more")
    if isinstance(data, Dataset):
        for start in range(0, len(data), batch_size):
            yield data.x[start : start + batch_size], data.y[start : start + batch_size]
        return
    if not (hasattr(data, "__getitem__") and hasattr(data, "__len__")):
        raise InputError(
            "a Dataset or a map-style torch data set", type(data).__name__, "wrap it in unsee.Dataset"
        )
    for start in range(0, len(data), batch_size):
        samples = [data[i] for i in range(start, min(start + batch_size, len(data)))]
        x = _stacked([sample[0] for sample in samples])
        y = _checked_labels([sample[1] for sample in samples], "data")
        check_labels(y, classes, "data", first=start)
        check_finite(x, "data", first=start)
        yield x, y


def _stacked(samples: list[Any]) -> Tensor:
    try:
        return torch.stack(
            [torch.as_tensor(np.asarray(s) if not isinstance(s, Tensor) else s) for s in samples]
        )
    except (TypeError, ValueError, RuntimeError) as error:
        found = f"{type(samples[0]).__name__} ({str(error).splitlines()[0]})"
        raise InputError(
            "samples as tensors or arrays of one shape", found, "add a transform to them"
        ) from None


def check_labels(y: Tensor, classes: int, name: str, first: int = 0) -> None:
    """Refuse labels outside 0..classes-1; torch's cross entropy would skip -100 in silence."""
    wrong = torch.nonzero((y < 0) | (y >= classes)).flatten()
    if len(wrong):
        found = ", ".join(f"{int(y[i])} at index {first + int(i)}" for i in wrong[:5])
        more = f" and {len(wrong) - 5:,} more" if len(wrong) > 5 else ""
        raise InputError(
            f"labels from 0 to {classes - 1} in {name}", found + more, "drop or relabel those samples"
        )


def check_finite(x: Tensor, name: str, first: int = 0) -> None:
    """Refuse NaN and Inf, naming the first samples that hold them."""
    if not x.is_floating_point() or not x.numel():
        return
    rows = x.reshape(len(x), -1)
    # In one pass over all values; a sum of finite values may still overflow.
    wrong = torch.nonzero(~torch.isfinite(rows.sum(1))).flatten()
    wrong = wrong[~torch.isfinite(rows[wrong]).all(1)]
    if len(wrong):
        where = ", ".join(str(first + int(i)) for i in wrong[:5])
        raise InputError(
            f"finite values in {name}",
            f"NaN or Inf in {len(wrong):,} samples (index {where})",
            "drop those samples",
        )


def _checked_labels(y: Any, name: str) -> Tensor:
    labels = torch.as_tensor(np.asarray(y) if not isinstance(y, Tensor) else y).detach().cpu()
    if labels.ndim != 1:
        raise InputError(
            f"one label a sample in {name}", f"labels of shape {tuple(labels.shape)}", "flatten them"
        )
    if labels.numel() and (labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool):
        raise InputError(f"whole numbers as labels in {name}", f"{labels.dtype}", "convert them to integers")
    return labels.long()


def checked_range(x: Tensor, given: tuple[float, float] | None, name: str) -> tuple[float, float] | None:
    """Return the range the values lie in, read off the data where it is not given."""
    if x.numel() == 0 or not (x.is_floating_point() or x.dtype == torch.uint8):
        return given
    low, high = float(x.min()), float(x.max())
    if given is None:
        if x.dtype == torch.uint8:
            return PIXELS
        return None if low < 0 or high > 255 else (0.0, 1.0) if high <= 1 else PIXELS
    if low < given[0] or high > given[1] or (given == PIXELS and 0 < high <= 1):
        found = f"values from {low:g} to {high:g}"
        raise InputError(
            f"values from {given[0]:g} to {given[1]:g} in {name}", found, "name their true range"
        )
    return (float(given[0]), float(given[1]))


def _shuffled_classes(y: Tensor, seed: int, name: str) -> list[np.ndarray]:
    labels = y.numpy()
    return [stream(seed, name, int(c)).permutation(np.flatnonzero(labels == c)) for c in np.unique(labels)]
