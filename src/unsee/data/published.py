"""Data sets as published: pinned by their content, read from the user's cache or the package.

What is pinned is the SHA-256 of the pixels and of the labels, not of the archive around them: the
publisher's file and somebody's package of it differ in their wrapping and hold the same images.
"""

import hashlib
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import platformdirs
from torch import Tensor

from unsee.errors import InputError, StoreError, UnseeError
from unsee.kinds import Column, Kind
from unsee.store import raw, read_tensors

Arrays = dict[str, Tensor]
Way = Callable[[bool], Arrays]
"""A way to a data set's arrays: a function of whether to draw a bar."""


_PACKAGE = Path(__file__).parent.parent / "bundled"


@dataclass(frozen=True)
class Published:
    """What a published data set is: its classes, its measures, and the hash of each of its arrays."""

    name: str
    what: str
    shape: tuple[int, ...]
    counts: tuple[int, int]
    classes: tuple[str, ...]
    sha256: Mapping[str, str]
    columns: tuple[Column, ...] = ()
    """What the columns are, where it is a table; of texts, the array `vocabulary` holds the words."""
    ways: Mapping[str, Way] = field(default_factory=dict)
    """Where to get it, by names for people, in the order in which they are tried."""
    file: str = ""
    """The .npz file among the package's own that holds it, instead of the cache."""

    @property
    def path(self) -> Path:
        """Where it lies, in the package or in the user's cache, once it was fetched."""
        return _PACKAGE / self.file if self.file else cache_path(self)

    def check(self, arrays: Mapping[str, Tensor], *, where: str, do: str, error: type[UnseeError]) -> Arrays:
        """Return x_train, y_train, x_test, y_test (of texts, vocabulary) in shape, if every byte is right."""
        found = {name: hashlib.sha256(raw(array)).hexdigest() for name, array in arrays.items()}
        if wrong := sorted(name for name, _ in found.items() ^ self.sha256.items()):
            raise error(
                f"{self.name} as published", f"other bytes {where} ({', '.join(dict.fromkeys(wrong))})", do
            )
        shapes = {
            f"x_{part}": (n, *self.shape) for part, n in zip(("train", "test"), self.counts, strict=True)
        }
        shapes |= {f"y_{part}": (n,) for part, n in zip(("train", "test"), self.counts, strict=True)}
        for name, shape in shapes.items():
            if name in arrays and arrays[name].numel() != math.prod(shape):
                found = f"{arrays[name].numel():,} in {name}"
                raise error(f"{math.prod(shape):,} numbers, {'x'.join(map(str, shape))}", found, do)
        return {name: array.reshape(shapes.get(name, (-1,))) for name, array in arrays.items()}

    def kind(self, arrays: Mapping[str, Tensor]) -> Kind:
        """Return what the samples' numbers mean, where they are no pixels."""
        words = arrays.get("vocabulary")
        return Kind(
            self.columns, tuple(raw(words).tobytes().decode().split("\n")) if words is not None else ()
        )


def cache_path(published: Published) -> Path:
    """Return where a fetched data set is kept; the environment variable UNSEE_CACHE names another folder."""
    chosen = os.environ.get("UNSEE_CACHE")
    folder = Path(chosen).expanduser() if chosen else platformdirs.user_cache_path("unsee")
    return folder / f"{published.name}.safetensors"


def cached(published: Published) -> Arrays:
    """Return the arrays of a data set that was fetched before, every byte checked."""
    path, command = cache_path(published), f"with `unsee data fetch {published.name}`"
    if not path.is_file():
        raise InputError(f"{published.name} in {path.parent}", "no such file", f"fetch it {command}")
    try:
        arrays, _ = read_tensors(path)
    except UnseeError as error:
        raise StoreError(error.expected, error.found, f"fetch it again {command}") from None
    return published.check(arrays, where=f"in {path}", do=f"fetch it again {command}", error=StoreError)
