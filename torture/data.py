"""Hostile or broken data: rows 17 to 19, 28 to 34, and 56 to 59."""

import gzip
import io
import os
import random
import shutil
import struct
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import odd_images
from torture import values
from torture.archives import COUNT, archives
from torture.children import Answer, measured
from torture.ordeal import Attempt, Ordeal, refusal
from unsee import sources, store
from unsee.data.archives import npz_arrays
from unsee.data.catalogue import KNOWN
from unsee.data.known import fashion_mnist
from unsee.data.pictures import read
from unsee.data.published import Arrays, Published, cached
from unsee.errors import InputError

SECONDS = 2.0


def _bounded(answer: Answer, seconds: float, megabytes: float) -> dict[str, float]:
    assert answer.seconds <= seconds, f"{answer.seconds} seconds"
    assert answer.megabytes <= megabytes, f"{answer.megabytes} MB"
    return {"seconds": answer.seconds, "megabytes": answer.megabytes}


def images(folder: Path) -> Attempt:
    """Read images that are odd, which is fine, or broken, which is not."""
    cases: list[tuple[str, Any]] = [*odd_images.ODD.items(), *odd_images.BAD.items()]

    def attempt(number: int) -> dict[str, float]:
        name, case = cases[number]
        path = folder / "image.png"
        if name in odd_images.ODD:
            shape, make = case
            path.write_bytes(make())
            assert read(path).shape == shape
            return {"+read": 1}
        data, why = case(folder)
        path.write_bytes(data)
        said = refusal(InputError, lambda: read(path))
        assert why in said, said
        assert str(path) in said, said
        return {"+refused": 1}

    return attempt


def bombs(folder: Path) -> Attempt:
    """Read images that are larger than they look."""

    def attempt(number: int) -> dict[str, float]:
        data, why = list(odd_images.BOMBS.values())[number](folder)
        path = folder / "bomb.png"
        path.write_bytes(data)
        answer = measured(lambda: list(read(path).shape))
        assert answer.error == "InputError", f"{answer}"
        assert why in answer.text, answer.text
        return _bounded(answer, 0.1, 64)

    return attempt


def _idx(**lies: Any) -> bytes:
    told = {"zeros": 0, "kind": 8, "shape": (10_000,), "data": bytes(10_000), **lies}
    header = bytes([0, told["zeros"], told["kind"], len(told["shape"])])
    return header + b"".join(side.to_bytes(4, "big") for side in told["shape"]) + told["data"]


IDX = {
    "one fewer": _idx(data=bytes(9_999)),
    "one more": _idx(data=bytes(10_001)),
    "four billion": _idx(shape=(2**32 - 1,)),
    "none": _idx(shape=(0,)),
    "of two dimensions": _idx(shape=(100, 100)),
    "of 255 dimensions": _idx(shape=(1,) * 255),
    "of no dimension": _idx(shape=()),
    "of floats": _idx(kind=13),
    "of no kind": _idx(kind=0),
    "of another beginning": _idx(zeros=1),
    "a header alone": _idx(data=b""),
    "half a header": _idx()[:5],
    "nothing": b"",
    "a bomb": _idx(data=bytes(100 << 20)),
}


def idx(_: Path) -> Attempt:
    """Read IDX files whose headers lie."""

    def attempt(number: int) -> dict[str, float]:
        data = list(IDX.values())[number]
        packed = gzip.compress(data, 1)
        answer = measured(lambda: fashion_mnist.idx(io.BytesIO(packed), "labels.gz", (10_000,)).tolist())
        assert answer.error == "HostileError", f"{answer}"
        return _bounded(answer, SECONDS, 64)

    return attempt


SETS, PINNED = tuple(KNOWN.values()), 84


def changed_bytes(folder: Path) -> Attempt:
    """Change one byte in the file of a pinned data set: as it is, or so that the file is whole again."""
    known: dict[str, Arrays] = {}
    (folder / "whole").mkdir()

    def prepared(published: Published) -> Path:
        """Return a copy of a set's file, which is read as it is; its arrays are known from then on."""
        copy = folder / published.path.name
        if published.name not in known:
            known.clear()
            known[published.name] = _packaged(published) if published.file else cached(published)
            shutil.copy(published.path, copy)
            answer = measured(lambda: _open(published, copy))
            assert not answer.error, answer.text
        return copy

    def attempt(number: int) -> dict[str, float]:
        published = SETS[number * len(SETS) // PINNED]
        if not published.path.exists():
            published = SETS[number % 3]  # of which the package has its own
        copy, chance = prepared(published), random.Random(number)
        name = sorted(published.sha256)[number // 2 % len(published.sha256)]
        if number % 2:
            path, told = copy, str(copy)
            place = _place(copy, name, chance)
            _flip(copy, place)
            answer = measured(lambda: _open(published, path))
            _flip(copy, place)
        else:
            path, told = folder / "whole" / copy.name, f"({name})"
            _write(path, known[published.name], name, chance)
            answer = measured(lambda: _open(published, path))
            path.unlink()
        assert answer.error in ("StoreError", "HostileError"), f"{answer}"
        assert told in answer.text, answer.text
        return {f"+{published.name}": 1}

    return attempt


def _open(published: Published, path: Path) -> None:
    """Open a set as users do, with its file there; only ever in a child."""
    os.environ["UNSEE_CACHE"] = str(path.parent)
    if published.file:
        KNOWN[published.name] = replace(published, file=str(path))
    sources.open_source(published.name)


def _place(path: Path, name: str, chance: random.Random) -> int:
    """Return any byte of a safetensors file, or one of an array in an .npz, where dates are not looked at."""
    if path.suffix != ".npz":
        return chance.randrange(path.stat().st_size)
    with zipfile.ZipFile(path) as archive, open(path, "rb") as file:
        member = archive.getinfo(f"{name}.npy")
        file.seek(member.header_offset + 26)
        header = 30 + sum(struct.unpack("<HH", file.read(4)))
    return member.header_offset + header + chance.randrange(member.compress_size - 1)


def _flip(path: Path, place: int) -> None:
    """Change one bit of a file, or change it back."""
    with open(path, "r+b") as file:
        file.seek(place)
        byte = file.read(1)[0] ^ 1
        file.seek(place)
        file.write(bytes([byte]))


def _write(path: Path, arrays: Arrays, name: str, chance: random.Random) -> None:
    """Write a whole file, sums and seal right, in which one byte of an array is another."""
    other = arrays[name].clone()
    flat = other.reshape(-1).view(torch.uint8)
    flat[chance.randrange(len(flat))] ^= 1
    changed = {**arrays, name: other}
    if path.suffix == ".npz":
        np.savez(path, **{key: array.numpy() for key, array in changed.items()})
    else:
        store.write_tensors(path, changed, {"kind": "data"})


def _packaged(published: Published) -> Arrays:
    arrays = npz_arrays(published.path, set(published.sha256))
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


ORDEALS = (
    Ordeal(
        "not a number", "17", "one NaN or Inf among 60,000 images", "found, named by its index, within 0.3 s",
        12, 3, values.not_a_number,
    ),
    Ordeal(
        "labels and names", "18, 19, 30", "labels that are none, such as -100; names that hide something",
        "refused in one sentence", len(values.LABELS) + len(values.NAMES), 1000, values.labels,
    ),
    Ordeal(
        "images", "28", "odd images: modes, depths, EXIF, metadata, formats; broken ones",
        "read with the right shape, or refused by name in one sentence",
        len(odd_images.ODD) + len(odd_images.BAD), 1000, images,
    ),
    Ordeal(
        "bombs", "29", "images that are larger than they look", "refused within 0.1 s and 64 MB",
        len(odd_images.BOMBS), 4, bombs,
    ),
    Ordeal(
        "memories", "31, 34", "memories of other shapes, missing, additional, not finite, negative, all zero",
        "refused in one sentence", len(values.MEMORIES), 1000, values.memories,
    ),
    Ordeal(
        "swapped memories", "32", "a memory beside a model of the same shape with other weights", "refused",
        50, 5, values.swapped,
    ),
    Ordeal(
        "archives", "51, 56, 59",
        "tars that lead elsewhere or lie, gzip bombs, .npz files that lie; good ones",
        "within 2 s and 256 MB each refused for its own reason, nothing left on the disk; the good ones read",
        COUNT, 10, archives,
    ),
    Ordeal(
        "IDX", "59", "IDX files whose headers lie", "refused within 2 s and 64 MB", len(IDX), 4, idx,
    ),
    Ordeal(
        "changed bytes", "58",
        "one changed byte in the file of a pinned data set, bundled or fetched; half of them sealed again",
        "refused, naming the file, or the array where the file is whole", PINNED, 6, changed_bytes,
    ),
)  # fmt: skip
