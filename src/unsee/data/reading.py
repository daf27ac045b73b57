"""Reading one set from a folder, a listing or an .npz: a data set, and the name of each sample in it.

`known` are the model's classes, or none; `label` is what all samples are, whatever the data itself says.
"""

import difflib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from torch import Tensor

from unsee.data.archives import npz_arrays
from unsee.data.labels import labels_of, numbered
from unsee.data.listings import Listing, few, row_of
from unsee.data.pictures import (
    Picture,
    bounded,
    class_folders,
    decode,
    read,
    read_folder,
    read_heap,
    shown,
    stacked,
)
from unsee.datasets import Dataset
from unsee.errors import InputError, StoreError
from unsee.sources import of_arrays

Classes = tuple[str, ...]
Label = int | str | None
Size = tuple[int, int] | None
Named = tuple[Dataset, tuple[str, ...]]


def of_folder(path: Path, known: Classes, label: Label, size: Size) -> Named:
    """Read a folder with a sub-folder for each class; with a label, whatever images lie in it."""
    if label is None:
        try:
            labels_of(list(class_folders(path, path)), known, shown(path))  # before all images are read
        except InputError as error:
            do = f"{error.do}, or give one label for all"
            raise InputError(error.expected, error.found, do) from None
        pictures = read_folder(path, size)
        y, classes = labels_of([picture.class_name for picture in pictures], known, shown(path))
    else:
        y, classes = _labels([], known, label, path)
        pictures = read_heap(path, size)
        y = y.repeat(len(pictures))
    names = tuple(picture.path.relative_to(path).as_posix() for picture in pictures)
    return Dataset(stacked(pictures), y, classes, name=path.resolve().name), names


def of_listing(listing: Listing, path: Path, known: Classes, label: Label, size: Size) -> Named:
    """Read all images of a listing; the labels are checked before."""
    y, classes = _labels(listing.labels, known, label, path, listing.classes)
    names, pictures = _decoded(listing, path, size)
    y = y if label is None else y.repeat(len(pictures))
    if not pictures:
        raise InputError(f"rows in {shown(path)}", "none", "add some")
    if len(pictures) != len(y):
        found = f"{len(pictures):,} for {len(y):,} labels"
        raise StoreError(f"an image in each row of {shown(path)}", found, "restore it or make it anew")
    # Images held as bytes may have no names, or share them: then only their places are sure.
    apart = None not in names and len(set(names)) == len(names)
    data = Dataset(stacked(pictures), y, classes, name=path.resolve().name)
    return data, tuple(map(str, names)) if apart else numbered(len(names))


def of_npz(path: Path, known: Classes, label: Label, size: Size) -> Named:
    """Read x and y of an .npz file; with a label, x alone will do."""
    arrays = npz_arrays(path, ("x", "y", "classes", "columns", "vocabulary"))
    if label is not None and "x" in arrays:
        arrays["y"] = np.zeros(arrays["x"].shape[:1], int)
    if "x" in arrays and "y" not in arrays:
        raise InputError(
            f"labels y beside x in {shown(path)}", "none", "save them, or give one label for all"
        )
    data = of_arrays(arrays, "", path)
    if size and tuple(data.x.shape[-2:]) != tuple(size):
        found = "x".join(map(str, data.x.shape[1:]))
        raise InputError(f"images of {size[0]}x{size[1]} in {shown(path)}", found, "scale them and save anew")
    own = data.classes if "classes" in arrays else ()
    y, classes = _labels(data.y.tolist(), known, label, path, own)
    y = y if label is None else y.repeat(len(data))
    return Dataset(data.x, y, classes, name=data.name, kind=data.kind), numbered(len(data))


def _labels(
    given: Sequence[str | int] | None, known: Classes, label: Label, path: Path, own: Classes = ()
) -> tuple[Tensor, Classes]:
    if label is None:
        return labels_of(given or (), known, shown(path), own)
    try:
        return labels_of([label], known or own, "label")
    except InputError as error:
        among = f", such as {few(known or own)}," if known or own else ""
        near = difflib.get_close_matches(str(label), known or own, 1)
        do = f"did you mean {near[0]}" if near else "choose one"
        raise InputError(f"a class's name or number{among} as label", error.found, do) from None


def _decoded(listing: Listing, path: Path, size: Size) -> tuple[list[str | None], list[Picture]]:
    names: list[str | None] = []

    def pictures() -> Iterator[Picture]:
        for row, (name, image) in enumerate(listing.images, 1):
            names.append(name)
            where = row_of(path, row)
            if isinstance(image, bytes):
                yield Picture(Path(where), decode(image, where, size), "")
            else:
                yield Picture(image, read(image, size), "")

    return names, bounded(pictures())
