"""Where data comes from: the package itself, the cache, folders of images, and .npz files.

Images, and beyond them a table (Adult) and texts (SpamAssassin's mails).

Only `fetch` reaches for the network; everything else opens what is there.
"""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from unsee.data.archives import npz_arrays
from unsee.data.catalogue import KNOWN
from unsee.data.fetching import fetch as fetch
from unsee.data.pictures import Picture, class_name, read_folder, stacked
from unsee.data.published import Arrays, Published, cached
from unsee.datasets import MOST_CLASSES, Dataset
from unsee.errors import InputError, StoreError, UsageError
from unsee.kinds import PLAIN, kind_of

TEST_FRACTION = 0.2
_ARRAYS = {"x_train", "y_train", "x_test", "y_test", "x", "y", "classes", "columns", "vocabulary"}


@dataclass(frozen=True, eq=False)
class TrainTest:
    """A source: what one trains on and what one judges with, kept apart."""

    train: Dataset
    test: Dataset


@dataclass(frozen=True)
class Listed:
    """A named source as `unsee data list` shows it."""

    name: str
    what: str
    present: bool
    where: Path
    samples: int


def bundled() -> TrainTest:
    """Return the data in the package: 6,000 + 1,000 genuine images of Fashion-MNIST.

    >>> bundled().train
    Dataset('bundled, train', 6,000 samples of 1x28x28, 10 classes)
    """
    return open_source("bundled")


def bundled_adult() -> TrainTest:
    """Return the table in the package: 2,000 + 1,000 genuine rows of Adult, half of each class.

    >>> bundled_adult().train
    Dataset('bundled-adult, train', 2,000 samples of 14, 2 classes)
    """
    return open_source("bundled-adult")


def bundled_spam() -> TrainTest:
    """Return the texts in the package: 1,600 + 400 genuine mails, half of them spam, of 64 words each."""
    return open_source("bundled-spam")


def adult() -> TrainTest:
    """Return Adult, 32,561 + 16,281 rows of 14 columns, from the cache."""
    return open_source("adult")


def spam() -> TrainTest:
    """Return SpamAssassin's mails, 4,660 + 1,165 texts of 128 words, from the cache."""
    return open_source("spam")


def fashion_mnist() -> TrainTest:
    """Return Fashion-MNIST, 60,000 + 10,000 images, from the cache."""
    return open_source("fashion-mnist")


def cifar_10() -> TrainTest:
    """Return CIFAR-10, 50,000 + 10,000 images, from the cache."""
    return open_source("cifar-10")


def image_folder(path: Path | str, size: tuple[int, int] | None = None) -> TrainTest:
    """Return the images of a folder that has one sub-folder for each class, named after it.

    If there are train/ and test/, they are the two parts; otherwise a fifth of each class becomes the
    test part, the same fifth every time. Images of several sizes need `size`, to which all are then
    scaled (bilinear, without keeping their proportions).
    """
    path = Path(path)
    if not all((path / part).is_dir() for part in ("train", "test")):
        return _split(_of_pictures(read_folder(path, size), (), path))
    train, test = (read_folder(path / part, size, root=path) for part in ("train", "test"))
    both = _of_pictures(train + test, _names(train), path)
    rows = np.arange(len(both))
    return TrainTest(
        both.subset(rows[: len(train)], f"{both.name}, train"),
        both.subset(rows[len(train) :], f"{both.name}, test"),
    )


def npz(path: Path | str) -> TrainTest:
    """Return x_train, y_train, x_test and y_test of an .npz file, or x and y, then split as a folder is.

    Samples are bytes or floats: (n, H, W), (n, C, H, W), (n, H, W, C) where C is 1 or 3, or (n, d) for
    a table. An array `classes` may name the classes, `columns` those of a table (`age`, `sex:Female|Male`),
    `vocabulary` the words of texts, which are then whole numbers (n, length).
    """
    path = Path(path)
    arrays = npz_arrays(path, _ARRAYS)
    if not {"x_train", "x_test"} & arrays.keys():
        return _split(of_arrays(arrays, "", path))
    return TrainTest(of_arrays(arrays, "_train", path), of_arrays(arrays, "_test", path))


def images(
    path: Path | str, classes: Sequence[str] | None = None, size: tuple[int, int] | None = None
) -> Dataset:
    """Return one set, such as D_f: a folder with a sub-folder for each class, or an .npz with x and y.

    With `classes` (the model's, say) the names found must be among these and take their labels.
    """
    path, classes = Path(path), tuple(class_name(name) for name in classes or ())
    if path.is_dir():
        return _of_pictures(read_folder(path, size), classes, path)
    if not path.exists():
        raise InputError(f"a folder or an .npz file at {path}", "none", "check the path")
    arrays = npz_arrays(path, _ARRAYS)
    data = of_arrays(arrays, "", path)
    if classes and "classes" in arrays:
        y = _labels([data.classes[label] for label in data.y.tolist()], classes, data.name)
        return Dataset(data.x, y, classes, name=data.name, kind=data.kind)
    return Dataset(data.x, data.y, classes or data.classes, name=data.name, kind=data.kind)


def open_source(name_or_path: str, classes: Sequence[str] = ()) -> TrainTest:
    """Return the source of that name, or the folder of images or .npz file at that path.

    A folder named like a source is written with its path: ./bundled. With `classes` (the model's, say) the
    names found must be among these and take their labels.
    """
    path = Path(name_or_path).expanduser()
    if name_or_path in KNOWN:
        return _by_names(_of_published(KNOWN[name_or_path]), classes)
    if path.is_dir():
        return _by_names(image_folder(path), classes)
    if path.suffix == ".npz":
        return _by_names(npz(path), classes)
    near = difflib.get_close_matches(name_or_path, KNOWN, 1)
    raise UsageError(
        f"{', '.join(KNOWN)}, a folder or an .npz file",
        ascii(name_or_path),
        f"try {near[0]}" if near else "check the path",
    )


def listing() -> list[Listed]:
    """Return the named sources and whether each is at hand."""
    return [Listed(p.name, p.what, p.path.is_file(), p.path, sum(p.counts)) for p in KNOWN.values()]


def _by_names(source: TrainTest, classes: Sequence[str]) -> TrainTest:
    """Return a source by other labels; as it is, where names do not fit and one side has numbers alone."""
    ours, theirs = source.train.classes, tuple(class_name(name) for name in classes)
    numbers = any(names == tuple(map(str, range(len(names)))) for names in (ours, theirs))
    if ours == theirs or (numbers and not set(ours) <= set(theirs)):
        return source
    label = _labels(list(ours), theirs, source.train.name)
    return TrainTest(*(d.with_(y=label[d.y], classes=theirs) for d in (source.train, source.test)))


def _packaged(published: Published) -> Arrays:
    """Return the arrays of a data set that the package holds, every byte checked."""
    arrays = npz_arrays(published.path, _ARRAYS)
    found = {name: torch.from_numpy(array) for name, array in arrays.items()}
    where, do = f"in {published.path}", "install unsee again"
    return published.check(found, where=where, do=do, error=StoreError)


def _of_published(published: Published) -> TrainTest:
    arrays = _packaged(published) if published.file else cached(published)
    kind = published.kind(arrays)
    # Packed as small whole numbers; a row holds floats, and a word's number is one that embeddings take.
    as_used = {"table": torch.float32, "text": torch.int64}.get(kind.name, torch.uint8)
    train, test = (
        Dataset(
            arrays[f"x_{part}"].to(as_used),
            arrays[f"y_{part}"],
            published.classes,
            name=f"{published.name}, {part}",
            kind=kind,
        )
        for part in ("train", "test")
    )
    return TrainTest(train, test)


def _of_pictures(pictures: list[Picture], classes: tuple[str, ...], path: Path) -> Dataset:
    classes = classes or _names(pictures)
    y = _labels([picture.class_name for picture in pictures], classes, str(path))
    return Dataset(stacked(pictures), y, classes, name=path.resolve().name)


def _names(pictures: list[Picture]) -> tuple[str, ...]:
    return tuple(sorted({picture.class_name for picture in pictures}))


def _labels(names: list[str], classes: tuple[str, ...], where: str) -> Tensor:
    if unknown := sorted(set(names) - set(classes)):
        raise InputError(
            f"the classes {', '.join(classes)} in {where}", ", ".join(unknown), "rename or remove those"
        )
    label = {name: label for label, name in enumerate(classes)}
    return torch.tensor([label[name] for name in names])


def _split(data: Dataset) -> TrainTest:
    train, test = data.split(TEST_FRACTION)
    if not len(test):
        raise InputError(
            f"three samples of a class or more in {data.name}, to keep one for the test",
            "fewer of each",
            "add samples or a test part",
        )
    return TrainTest(train.with_(name=f"{data.name}, train"), test.with_(name=f"{data.name}, test"))


def of_arrays(arrays: dict[str, np.ndarray], suffix: str, path: Path) -> Dataset:
    """Make a data set of x and y, of x_train and y_train, or of x_test and y_test."""
    if not {f"x{suffix}", f"y{suffix}"} <= arrays.keys():
        raise InputError(
            f"x{suffix} and y{suffix} in {path}",
            ", ".join(sorted(arrays)) or "no array of such a name",
            "save both under these names",
        )
    x, y = arrays[f"x{suffix}"], arrays[f"y{suffix}"]
    name = path.resolve().name + suffix.replace("_", ", ")
    kind = kind_of(*([str(word) for word in arrays.get(key, ())] for key in ("columns", "vocabulary")))
    words = kind.name == "text" and x.dtype.kind in "iu"
    if x.ndim < 2 or not x.size or not (x.dtype == np.uint8 or x.dtype.kind == "f" or words):
        found = f"x{suffix} of shape {x.shape} and type {x.dtype}"
        raise InputError(f"one or more samples of bytes or floats in {name}", found, "convert them")
    if y.dtype.kind not in "iu":
        raise InputError(f"whole numbers as labels in {name}", f"y{suffix} of type {y.dtype}", "convert them")
    used = np.int64 if words else np.uint8 if x.dtype == np.uint8 and kind == PLAIN else np.float32
    samples, labels = (torch.tensor(a) for a in (_channels_first(x.astype(used)), y.astype(np.int64)))
    return Dataset(samples, labels, _class_names(arrays, name), name=name, kind=kind)


def _channels_first(x: np.ndarray) -> np.ndarray:
    if x.ndim == 3:
        return x[:, None]
    last = x.ndim == 4 and x.shape[3] in (1, 3) and x.shape[1] not in (1, 3)
    return np.moveaxis(x, 3, 1) if last else x


def _class_names(arrays: dict[str, np.ndarray], name: str) -> tuple[str, ...]:
    """Return the names in `classes`, or a number for each label up to the highest of all parts."""
    if "classes" in arrays:
        names = tuple(class_name(str(each)) for each in arrays["classes"].flat)
        if arrays["classes"].dtype.kind != "U" or len(set(names)) < len(names):
            raise InputError(f"class names, each once, as classes in {name}", str(names[:5]), "rename them")
        return names
    labels = [y for part, y in arrays.items() if part[0] == "y" and y.size and y.dtype.kind in "iu"]
    highest = max((int(y.max()) for y in labels), default=0)
    if highest >= MOST_CLASSES:
        raise InputError(
            f"labels below {MOST_CLASSES:,} in {name}", f"{highest}", "number the classes from 0"
        )
    return tuple(str(label) for label in range(max(highest, 0) + 1))
