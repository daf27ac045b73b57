"""Labels as people write them, by a class's name or by its number, and what they are among known classes."""

import difflib
import re
from collections.abc import Sequence

import torch
from torch import Tensor

from unsee.data.listings import few
from unsee.data.pictures import class_name
from unsee.datasets import MOST_CLASSES, check_labels
from unsee.errors import InputError


def labels_of(
    given: Sequence[str | int], classes: tuple[str, ...], where: str, own: tuple[str, ...] = ()
) -> tuple[Tensor, tuple[str, ...]]:
    """Return labels as numbers, and the classes that they count: `classes` (the model's), if there are any.

    Text is a class's name; its number too, unless some class is called by a number. Numbers count the
    data's `own` classes where it names them, and these are found among the model's by name.

    >>> labels_of(["dog", "0"], ("cat", "dog"), "pets.csv")[0].tolist()
    [1, 0]
    >>> labels_of([1, 0], ("cat", "cow", "dog"), "pets", own=("dog", "cat"))[0].tolist()
    [0, 2]
    """
    if isinstance(given[0], str):
        return _of_text([str(label) for label in given], classes, where)
    numbers = [int(label) for label in given]
    highest = min(max(numbers) + 1, MOST_CLASSES)
    # A number that no tensor can hold is refused all the same.
    y = torch.tensor([min(max(number, -(1 << 62)), 1 << 62) for number in numbers])
    check_labels(y, len(own or classes) or highest, where)
    if not own or (len(own) == len(classes) and classes == numbered(len(own))):
        return y, classes or numbered(highest)
    return _of_text([own[number] for number in numbers], classes, where) if classes else (y, own)


def numbered(count: int) -> tuple[str, ...]:
    """Return what classes or samples are called that have no names.

    >>> numbered(3)
    ('0', '1', '2')
    """
    return tuple(map(str, range(count)))


def _of_text(given: list[str], classes: tuple[str, ...], where: str) -> tuple[Tensor, tuple[str, ...]]:
    try:
        names = {text: class_name(text) for text in set(given)}
    except InputError as error:
        raise InputError(f"{error.expected} in {where}", error.found, error.do) from None
    if not classes and all(re.fullmatch(r"-?[0-9]+", name) for name in names.values()):
        return labels_of([int(text) for text in given], (), where)
    classes = classes or tuple(sorted(set(names.values())))
    number = {name: place for place, name in enumerate(classes)}
    if not any(name.isdecimal() for name in classes):
        number |= {str(place): place for place in range(len(classes))}
    if unknown := sorted(set(names.values()) - number.keys()):
        near = difflib.get_close_matches(unknown[0], classes, 1)
        do = f"rename it to {near[0]}" if near and len(unknown) == 1 else "rename or remove those"
        raise InputError(f"the classes {few(classes, 10)} in {where}", few(unknown), do)
    return torch.tensor([number[names[text]] for text in given]), classes
