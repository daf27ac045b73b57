"""Anyone's weights: a state dict out of a file, and other values back into the same keys, types and wrapping.

A safetensors file is read as it is. A pickled one (.pth, .pt, .bin, .ckpt) can run code when it is opened,
so this process does not open it: `weights.opening` does, in a process of its own with limits, and leaves
tensors and plain values, which are read here. A pickled module is refused.
"""

import contextlib
import hashlib
import io
import os
import stat
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from unsee import store
from unsee.errors import InputError, StoreError
from unsee.weights import plain
from unsee.weights.opening import opened
from unsee.weights.scanning import shown

PICKLED = (".pth", ".pt", ".bin", ".ckpt")
LONGEST_NAME = 500

# The keys under which checkpoints keep a model; where there are several, the first of these is it.
PLACES = ("state_dict", "model_state_dict", "model", "net", "network", "module", "weights", "params", "ema")
_DEEPEST = 3


@dataclass(frozen=True, eq=False)
class Weights:
    """A state dict as it was found in a file, and what stands around it, so that it can be put back.

    `tensors` go by their names without `prefix`, which every key of the file has. `path` are the keys that
    lead to the state dict in a checkpoint, and `around` is that checkpoint, of plain values, with the state
    dict emptied. `metadata` is that of a safetensors file, `sha256` the hash of the file's bytes.
    """

    tensors: Mapping[str, Tensor]
    format: str
    path: tuple[str, ...] = ()
    prefix: str = ""
    around: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    sha256: str = ""

    def __repr__(self) -> str:
        where = "".join(f"[{key!a}]" for key in self.path)
        return f"Weights({len(self.tensors)} tensors, {self.format}{where}, sha256={self.sha256[:12]})"


def read(path: Path | str) -> Weights:
    """Read the state dict in a safetensors file or a checkpoint by torch.save; nothing in it is executed."""
    path, name = Path(path), shown(path, 500)
    suffix = path.suffix.lower()
    if suffix not in (".safetensors", *PICKLED):
        expected = f"weights whose name ends in .safetensors, {', '.join(PICKLED)}"
        raise InputError(expected, name, "save the state dict as one of these")
    with _regular(path, name) as file:
        if suffix == ".safetensors":
            state, metadata = store.read_foreign(path)
            # Copies, because the library's tensors change with the file when another program writes into it.
            found = Weights({key: t.clone() for key, t in state.items()}, "safetensors", metadata=metadata)
        else:
            found = _state_dict(opened(file, name), name)
        file.seek(0)
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    _check(found.tensors, name)
    prefix = _prefix(found.tensors)
    tensors = {key.removeprefix(prefix): tensor for key, tensor in found.tensors.items()}
    return replace(found, tensors=tensors, prefix=prefix, sha256=digest)


def named_by(weights: Weights, names: Collection[str]) -> Weights:
    """Return the weights with as much of their prefix given back, or taken away, as makes them a module's.

    >>> found = Weights({"fc.bias": torch.zeros(1)}, "pth", prefix="module.model.")
    >>> list(named_by(found, ["model.fc.bias"]).tensors)
    ['model.fc.bias']
    >>> named_by(Weights({"net.fc.bias": torch.zeros(1)}, "pth"), ["fc.bias"]).prefix
    'net.'
    """
    words = weights.prefix.split(".")[:-1]
    for count in range(len(words) + 1):
        back = "".join(f"{word}." for word in words[count:])
        if all(back + name in names for name in weights.tensors):
            tensors = {back + name: tensor for name, tensor in weights.tensors.items()}
            return replace(weights, tensors=tensors, prefix=weights.prefix.removesuffix(back))
    last = next(iter(names), "")
    fronts = [name.removesuffix(last) for name in weights.tensors if name.endswith(f".{last}")]
    for front in fronts:
        bare = {name.removeprefix(front): tensor for name, tensor in weights.tensors.items()}
        if len(bare) == len(weights.tensors) and all(name in names for name in bare):
            return replace(weights, tensors=bare, prefix=weights.prefix + front)
    return weights


def write(path: Path | str, weights: Weights, tensors: Mapping[str, Tensor]) -> None:
    """Write other values in the place of the weights': the same keys in the same order, the same types.

    To .safetensors goes the state dict alone. To .pth and the like goes what was around it as well, as it
    was found, which may hold older copies of the model, such as averages of its weights.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    fitted = {weights.prefix + name: tensor for name, tensor in _fitted(weights, tensors).items()}
    if suffix == ".safetensors":
        # Some readers of safetensors ask which library wrote them.
        metadata = weights.metadata if weights.format == "safetensors" else {"format": "pt"}
        store.write_foreign(path, fitted, metadata)
    elif suffix in PICKLED:
        emptied = _at(weights.around, weights.path)
        buffer = io.BytesIO()
        torch.save(_with(weights.around, weights.path, plain.like(emptied, fitted)), buffer)
        store.write_bytes(path, buffer.getvalue())
    else:
        endings = ", ".join((".safetensors", *PICKLED))
        raise InputError(f"a name that ends in {endings}", shown(path.name), "rename it")


@contextlib.contextmanager
def _regular(path: Path, name: str) -> Iterator[io.BufferedReader]:
    try:
        # A pipe would otherwise wait for someone to write into it.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise InputError(f"a file at {name}", "none", "check the path") from None
    except (OSError, ValueError) as error:
        found = getattr(error, "strerror", None) or str(error)
        raise StoreError(f"a file that can be read at {name}", found, "check it") from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise InputError(f"a file at {name}", "something else, such as a folder or a pipe", "check the path")
    with open(handle, "rb") as file:
        yield file


def _state_dict(whole: Any, name: str) -> Weights:
    """Find the state dict in a checkpoint: the only one, or the one at the most usual place."""
    places = list(_places(whole, _DEEPEST))
    usual = [place for place in places if set(place) <= set(PLACES)]
    if not places:
        keys = shown(", ".join(map(str, whole))) if isinstance(whole, dict) else type(whole).__name__
        do = "save model.state_dict(), alone or as 'state_dict' in a dictionary"
        raise InputError(f"a state dict in {name}", keys or "an empty dictionary", do)
    if len(places) > 1 and not usual:
        found = shown(", ".join(".".join(place) for place in places))
        raise InputError(f"one state dict in {name}", found, "save the model's alone")
    path = min(usual or places, key=lambda place: [PLACES.index(key) for key in place if key in PLACES])
    state = _at(whole, path)
    return Weights(dict(state), "pth", path, around=_with(whole, path, plain.like(state, {})))


def _places(value: Any, deeper: int) -> Iterator[tuple[str, ...]]:
    if type(value) not in (dict, OrderedDict) or not value:
        return
    if all(type(key) is str and isinstance(inner, Tensor) for key, inner in value.items()):
        yield ()
    elif deeper:
        for key, inner in value.items():
            yield from ((key, *rest) for rest in _places(inner, deeper - 1) if type(key) is str)


def _at(whole: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        whole = whole[key]
    return whole


def _with(whole: Any, path: tuple[str, ...], state: Mapping[str, Tensor]) -> Any:
    """Return a checkpoint with another state dict in its place, and leave the one given as it is."""
    if not path:
        return state
    inner = _with(whole[path[0]], path[1:], state)
    return plain.like(whole, {**whole, path[0]: inner})


def _prefix(names: Iterable[str]) -> str:
    """Return what wrappers have put before all names.

    >>> _prefix(["module.model.fc.weight", "module.model.fc.bias"])
    'module.model.'
    """
    names, prefix = list(names), ""
    # DataParallel, torch.compile, Lightning. A module may have a `model` in its `model`, so only one goes.
    wrappers = ["module.", "_orig_mod.", "model."]
    while names and (
        step := next((w for w in wrappers if all(n.startswith(w) and n != w for n in names)), None)
    ):
        prefix += step
        names = [name.removeprefix(step) for name in names]
        wrappers = [w for w in wrappers if w != step or w != "model."]
    return prefix


def _check(tensors: Mapping[str, Tensor], name: str) -> None:
    if not tensors:
        raise InputError(f"a state dict in {name}", "no tensors", "check the file")
    for key, tensor in tensors.items():
        if not key.isprintable() or not 0 < len(key) <= LONGEST_NAME:
            expected = f"names of 1 to {LONGEST_NAME} visible characters in {name}"
            raise InputError(expected, shown(ascii(key)), "rename that tensor")
        if tensor.dtype not in plain.TYPES:
            expected = f"dense tensors of float and int types in {name}"
            raise InputError(expected, f"{tensor.dtype} in {key}", "convert it first")
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise InputError(
                f"finite weights in {name}", f"NaN or Inf in {key}", "take an earlier checkpoint"
            )


def _fitted(weights: Weights, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the new values in the old types; of names that were one tensor, those still equal stay one."""
    wrong = [f"{name} missing" for name in weights.tensors if name not in tensors]
    wrong += [f"{name} unknown" for name in tensors if name not in weights.tensors]
    wrong += [
        f"{name} of {tuple(tensors[name].shape)} for {tuple(old.shape)}"
        for name, old in weights.tensors.items()
        if name in tensors and tensors[name].shape != old.shape
    ]
    if wrong:
        do = "write the state dict of the same network"
        raise InputError("the names and shapes of the weights that were read", "; ".join(wrong[:3]), do)
    fitted, first = {}, {}
    for name, old in weights.tensors.items():
        new = _cast(tensors[name], old.dtype, name)
        tied = first.setdefault(id(old), new)
        fitted[name] = tied if torch.equal(tied, new) else new
    return fitted


def _cast(tensor: Tensor, dtype: torch.dtype, name: str) -> Tensor:
    """Return a copy in another type, which must hold the values."""
    new = torch.empty(tensor.shape, dtype=dtype).copy_(tensor.detach())
    if dtype.is_floating_point:
        fits = bool(torch.isfinite(new).all())
    else:
        fits = torch.equal(new.to(tensor.dtype), tensor.detach().cpu())
    if not fits:
        do = "write only finite weights that fit the file's types"
        raise InputError(f"values that fit {dtype} in {name}", "NaN, Inf, too large or broken ones", do)
    return new
