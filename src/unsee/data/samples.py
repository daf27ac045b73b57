"""Samples: one set of a case as people have it on their disks, each sample with a name.

By their names the twins of D_f and D_f,clean find each other; by their bytes one finds the samples that
stand in two sets at once.
"""

import hashlib
import os
import unicodedata
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import torch
from torch import Tensor

from unsee.data import reading
from unsee.data.columnar import read_parquet
from unsee.data.hugging_face import is_saved, read_saved, split_of
from unsee.data.labels import numbered
from unsee.data.listings import Listing, few, read_csv
from unsee.data.pictures import check_size, class_name, shown, with_channels
from unsee.datasets import Dataset, batches, concatenate
from unsee.errors import InputError, UnseeWarning

PAIRED = 0.9  # of D_f, at least, must have twins: fewer are a mistake in the names
_READERS: dict[str, Callable[..., Listing]] = {".csv": read_csv, ".tsv": read_csv, ".parquet": read_parquet}
_KINDS = "a folder, or an .npz, .csv, .tsv or .parquet file"


@dataclass(frozen=True, eq=False)
class Samples:
    """One set of a case with the name of each sample, by which twins find each other.

    A name is the file's path below the folder or the listing, or else the row's number.
    """

    data: Dataset
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.names) != len(self.data):
            found = f"{len(self.names):,} names for {len(self.data):,} samples"
            raise InputError("a name for each sample", found, "pair them up")

    def __len__(self) -> int:
        return len(self.names)


def read_samples(
    path: Path | str,
    classes: Sequence[str] | None = None,
    *,
    label: int | str | None = None,
    size: tuple[int, int] | None = None,
    channels: int | None = None,
) -> Samples:
    """Read one set, such as D_f: a folder with a sub-folder for each class, an .npz, a listing, a data set.

    A listing is a .csv, .tsv or .parquet; a data set is one of Hugging Face's on the disk, whose split
    the path may name at its end (`photos:train`). Labels are those of `classes` (the model's), by name or
    number. `label` says what all samples are, whatever the data says: an attacker's label, say, or that
    of a heap of images in no order at all. Images are scaled to `size` and made grey (1) or RGB (3).
    """
    check_size(size)
    path, split = _with_split(Path(os.path.expanduser(path)))
    known = tuple(class_name(name) for name in classes or ())
    if path.is_dir() and is_saved(path):
        path = split_of(path, split)
        data, names = reading.of_listing(read_saved(path, labelled=label is None), path, known, label, size)
    elif path.is_dir():
        data, names = reading.of_folder(path, known, label, size)
    elif path.suffix.lower() in _READERS and path.is_file():
        listing = _READERS[path.suffix.lower()](path, labelled=label is None)
        data, names = reading.of_listing(listing, path, known, label, size)
    elif path.suffix.lower() == ".npz":
        data, names = reading.of_npz(path, known, label, size)
    else:
        raise InputError(_KINDS, shown(path), "convert it to one of these")
    if channels is not None:
        data = data.with_(x=with_channels(data.x, channels, data.name))
    return Samples(data, names)


def samples_of(data: Any, classes: Sequence[str] | int) -> Samples:
    """Return any map-style torch data set as samples, held whole, with their places as names."""
    names = numbered(classes) if isinstance(classes, int) else tuple(map(class_name, classes))
    parts = list(batches(data, 256, len(names)))
    shapes = {tuple(x.shape[1:]) for x, _ in parts}
    if len(shapes) != 1:
        found = f"{len(shapes)} shapes" if shapes else "none"
        raise InputError("one or more samples, all of one shape", found, "add a transform to them")
    x, y = (torch.cat(each) for each in zip(*parts, strict=True))
    return Samples(Dataset(x, y, names), numbered(len(y)))


def pair(
    D_f: Samples, clean: Samples, marked: Callable[[Dataset], Dataset] | None = None
) -> tuple[Dataset, Dataset]:
    """Return D_f and D_f,clean as twins, sample by sample in D_f's order; `marked` makes twins of the rest.

    Twins have the same path below their folders; or the same file name, since D_f may lie under an
    attacker's label and D_f,clean under the true ones; or the same stem (1.png and 1.jpg). What has no
    twin, or several, is left out with a warning, a tenth of D_f at most. Rows of arrays pair by place.
    """
    if all(samples.names == numbered(len(samples)) for samples in (D_f, clean)):
        if len(D_f) == len(clean):
            return D_f.data, clean.data
        found = f"{len(D_f):,} and {len(clean):,}"
        raise InputError("as many samples in D_f as in D_f,clean, which have no names", found, "pair them up")
    keys: list[Callable[[str], str]] = [str, lambda name: _file(name).name, lambda name: _file(name).stem]
    twins: dict[int, int] = {}
    for key in keys:
        if len(twins) < PAIRED * len(D_f):
            twins = max(_twins(D_f.names, clean.names, key), twins, key=len)
    lone = [name for row, name in enumerate(D_f.names) if row not in twins]
    if len(twins) < PAIRED * len(D_f):
        expected = "one twin in D_f,clean, of the same path, file name or stem, for each sample of D_f"
        raise InputError(expected, f"none or several for {few(lone)}", "give twins the same file name")
    bad, good = D_f.data.subset(list(twins)), clean.data.subset(list(twins.values()))
    rest = clean.data.subset(sorted(set(range(len(clean))) - set(twins.values())))
    if marked and len(rest):
        bad, good = concatenate([bad, marked(rest)], bad.name), concatenate([good, rest], good.name)
        rest = rest.subset([])
    if lone or len(rest):
        text = f"{len(lone):,} samples of D_f and {len(rest):,} of D_f,clean have no twin and are left out."
        warnings.warn(text, UnseeWarning, stacklevel=2)
    return bad, good


def overlap(a: Dataset, b: Dataset) -> int:
    """Return how many samples of `a` are in `b` too, byte for byte, whatever their labels.

    >>> x = torch.tensor([[1.0], [2.0], [2.0]])
    >>> overlap(Dataset(x, [0, 0, 1]), Dataset(x[1:2], [1]))
    2
    """
    first, second = a.x, b.x
    if first.dtype != second.dtype:
        first, second = (_comparable(data) for data in (a, b))
    if first.shape[1:] != second.shape[1:] or not len(first) or not len(second):
        return 0
    there = set(_hashes(second))
    return sum(each in there for each in _hashes(first))


def distinct(data: Dataset) -> Dataset:
    """Return the data with each sample once, the first that is there.

    >>> len(distinct(Dataset(torch.tensor([[1.0], [2.0], [1.0]]), [0, 0, 0])))
    2
    """
    rows = first_rows(data.x)
    return data if len(rows) == len(data) else data.subset(rows)


def first_rows(x: Tensor) -> list[int]:
    """Return where each sample stands for the first time."""
    rows: dict[bytes, int] = {}
    for row, each in enumerate(_hashes(x)):
        rows.setdefault(each, row)
    return list(rows.values())


def _with_split(path: Path) -> tuple[Path, str | None]:
    """Return a path that is there, and the split that stands behind it."""
    if os.path.exists(path):
        return path, None
    for mark in "#:":
        name, _, split = path.name.rpartition(mark)
        if name and is_saved(path.parent / name):
            return path.parent / name, split
    raise InputError(f"{_KINDS} at {shown(path)}", "none", "check the path")


def _twins(names: Sequence[str], others: Sequence[str], key: Callable[[str], str]) -> dict[int, int]:
    """Return the rows of `names` with the row of their only twin among `others`."""
    ours, theirs = ([key(unicodedata.normalize("NFC", name)) for name in each] for each in (names, others))
    count, count_there = Counter(ours), Counter(theirs)
    place = {name: row for row, name in enumerate(theirs)}
    return {row: place[name] for row, name in enumerate(ours) if count[name] == count_there[name] == 1}


def _file(name: str) -> PurePosixPath:
    return PurePosixPath(name.replace("\\", "/"))


def _comparable(data: Dataset) -> Tensor:
    """Return samples as bytes where their range is known, else as float32, so that types may differ."""
    known = data.value_range is not None
    return data.rescaled(0, 255).x.round().to(torch.uint8) if known else data.x.float()


def _hashes(x: Tensor) -> Iterator[bytes]:
    rows = x.detach().cpu().contiguous().reshape(len(x), -1).view(torch.uint8).numpy()
    return (hashlib.blake2b(row, digest_size=16).digest() for row in rows)
