"""Plain values with tensors among them, taken apart into JSON and tensors, and put together again.

Plain are None, bool, int, float, str, lists, tuples, torch.Size, dict, OrderedDict and Counter with keys that
are str or int, and dense tensors of float and int types: what checkpoints hold. Anything else is refused,
with the place where it stands. A tensor that stands in two places (tied weights) is one tensor on the way
back too; that it was a Parameter, or a view of a larger one, is not kept.
"""

import math
from collections import Counter, OrderedDict
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from unsee.errors import HostileError, InputError
from unsee.weights.scanning import shown

DEEPEST = 32
MOST_VALUES = 300_000
TYPES = (
    *(torch.float32, torch.float16, torch.bfloat16, torch.float64),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
)

_SEQUENCES = {"tuple": tuple, "size": torch.Size}
_MAPPINGS = {"dict": dict, "ordered": OrderedDict, "counter": Counter}
_TAGS: dict[type, str] = {kind: tag for tag, kind in [*_SEQUENCES.items(), *_MAPPINGS.items()]}
_DO = "save the state dict alone"


class _Parts:
    """The tensors found so far, each once, and how much may still come."""

    def __init__(self, most: int, name: str) -> None:
        self.name = name
        self.tensors: dict[str, Tensor] = {}
        self._numbers: dict[Any, str] = {}
        self._most = self._left = most
        self._values = 0

    def count(self) -> None:
        self._values += 1
        if self._values > MOST_VALUES:
            raise HostileError(f"at most {MOST_VALUES:,} values in {self.name}", "more", _DO)

    def number(self, tensor: Tensor) -> str:
        tensor = tensor.detach()
        memory = tensor.untyped_storage().data_ptr(), tensor.storage_offset()
        same = (*memory, tensor.dtype, tensor.shape, tensor.stride())
        if same not in self._numbers:
            # In Python's integers, which do not overflow; with a stride of 0 a tensor can claim any size.
            self._left -= math.prod(tensor.shape) * tensor.element_size()
            if self._left < 0:
                found = f"tensors that claim more, such as one of {tuple(tensor.shape)}"
                raise HostileError(f"the {self._most:,} bytes of {self.name}", found, "do not use it")
            self._numbers[same] = str(len(self.tensors))
            self.tensors[self._numbers[same]] = tensor
        return self._numbers[same]


def apart(value: Any, most: int, name: str = "the file") -> tuple[Any, dict[str, Tensor]]:
    """Return a value as json can write it, and its tensors by the numbers that stand there in their place.

    Nothing is copied; that the tensors claim more than `most` bytes is seen before anyone could. `name` is
    what messages call the file that the value comes from.

    >>> apart({"epoch": 3, "w": torch.zeros(2)}, 8)
    ({'dict': [['epoch', 3], ['w', {'tensor': '0'}]]}, {'0': tensor([0., 0.])})
    """
    parts = _Parts(most, name)
    return _form(value, (), DEEPEST, parts), parts.tensors


def together(form: Any, tensors: Mapping[str, Tensor]) -> Any:
    """Return the value that `apart` took apart.

    >>> together(*apart({"betas": (0.9, 0.999), 1: None}, 0))
    {'betas': (0.9, 0.999), 1: None}
    """
    if isinstance(form, list):
        return [together(item, tensors) for item in form]
    if not isinstance(form, dict):
        return form
    tag = next(iter(form), "")
    inner: Any = form.get(tag)
    if tag == "tensor":
        return tensors[inner]
    if tag == "float":
        return float(inner)
    if tag in _SEQUENCES:
        return _SEQUENCES[tag]([together(item, tensors) for item in inner])
    value = _MAPPINGS[tag]()
    for key, item in inner:
        value[key] = together(item, tensors)
    if "metadata" in form:
        vars(value)["_metadata"] = together(form["metadata"], tensors)
    return value


def like(mapping: Any, items: Any) -> Any:
    """Return a mapping of the same kind with other items, and with the notes state_dict() made on it."""
    new = type(mapping)(items)
    if hasattr(mapping, "_metadata"):
        vars(new)["_metadata"] = mapping._metadata
    return new


def _form(value: Any, place: tuple[Any, ...], deeper: int, parts: _Parts) -> Any:
    parts.count()
    kind = type(value)
    if value is None or kind in (bool, int, str) or (kind is float and math.isfinite(value)):
        return value
    if kind is float:
        return {"float": repr(value)}
    if kind in (Tensor, nn.Parameter):
        _check(value, place, parts.name)
        return {"tensor": parts.number(value)}
    if not deeper:
        raise HostileError(f"values at most {DEEPEST} deep in {parts.name}", "deeper ones", _DO)
    if kind is list or kind in _SEQUENCES.values():
        items = [_form(item, (place, i), deeper - 1, parts) for i, item in enumerate(value)]
        return items if kind is list else {_TAGS[kind]: items}
    if kind not in _MAPPINGS.values():
        found = f"{shown(kind.__qualname__)} at {_words(place)}"
        raise InputError(f"tensors and plain values in {parts.name}", found, _DO)
    # By the type, because a pickle can put other things in the place of an OrderedDict's own methods.
    pairs = [
        [_key(key, place, parts.name), _form(inner, (place, key), deeper - 1, parts)]
        for key, inner in kind.items(value)
    ]
    notes = dict(getattr(value, "__dict__", {}))
    metadata = notes.pop("_metadata", None) if kind is OrderedDict else None
    if notes:
        found = f"attributes of its own at {_words(place)}"
        raise InputError(f"tensors and plain values in {parts.name}", found, _DO)
    form = {_TAGS[kind]: pairs}
    if metadata is not None:
        form["metadata"] = _form(metadata, (place, "_metadata"), deeper - 1, parts)
    return form


def _check(tensor: Tensor, place: tuple[Any, ...], name: str) -> None:
    dense = tensor.layout is torch.strided and tensor.device.type == "cpu" and not tensor.is_neg()
    if not dense or tensor.dtype not in TYPES:
        found = f"{tensor.dtype} ({tensor.layout}, {tensor.device.type}) at {_words(place)}"
        raise InputError(f"dense tensors of float and int types in {name}", found, "convert it first")


def _key(key: Any, place: tuple[Any, ...], name: str) -> str | int:
    # Longer integers can be chosen so that all of them have one hash, and a dict of them takes hours.
    if type(key) is str or (type(key) is int and abs(key) < 1 << 63):
        return key
    found = f"{shown(type(key).__qualname__)} at {_words(place)}"
    raise InputError(f"text or numbers of 64 bits as keys in {name}", found, _DO)


def _words(place: tuple[Any, ...]) -> str:
    words = []
    while place:
        place, key = place
        words.append(shown(key, 40))
    return ".".join(reversed(words)) or "the top"
