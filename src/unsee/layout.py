"""Layout: how tensors lie in a safetensors file, without a copy of them where none is needed."""

import json
from collections.abc import Mapping

import torch
from safetensors.torch import save
from torch import Tensor


def raw(tensor: Tensor) -> memoryview:
    """Return a tensor's bytes, row-major, without a copy where it lies so already."""
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().data if flat.numel() else memoryview(b"")


def in_parts(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> list[memoryview]:
    """Return what `save` would, as a header and the tensors' own bytes: it copies all of them, twice.

    Of tensors without entries it makes the same header, but for shapes and places.
    """
    empty = save({name: tensor.new_empty(0) for name, tensor in tensors.items()}, dict(metadata))
    header, end = json.loads(empty[8:]), 0
    parts = [memoryview(b"")]
    for name, entry in header.items():
        if name != "__metadata__":
            parts.append(raw(tensors[name]))
            entry |= {"shape": list(tensors[name].shape), "data_offsets": [end, end + len(parts[-1])]}
            end += len(parts[-1])
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    parts[0] = memoryview(len(text).to_bytes(8, "little") + text)
    return parts


def in_order(data: bytes) -> bytes:
    """Return a safetensors file with its metadata sorted; the library writes it in any order."""
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    if len(header.get("__metadata__", {})) < 2:
        return data
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data[8 + length :]
