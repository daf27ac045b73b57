"""Hostile or broken data: rows 17 to 19, 28 to 34, and 56 to 59."""

import gzip
import io
import os
import random
from pathlib import Path
from typing import Any

import torch

import odd_archives
import odd_images
from torture import values
from torture.children import Answer, measured
from torture.ordeal import Attempt, Ordeal, refusal
from unsee import sources
from unsee.data import fetching
from unsee.data.archives import npz_arrays, tar_members
from unsee.data.pictures import read
from unsee.data.published import (
    ADULT,
    BUNDLED,
    BUNDLED_ADULT,
    BUNDLED_SPAM,
    CIFAR_10,
    FASHION_MNIST,
    SPAM,
    Arrays,
    Published,
    cache_path,
    cached,
)
from unsee.errors import InputError, StoreError

SECONDS, MEGABYTES = 2.0, 256.0


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


def archives(folder: Path) -> Attempt:
    """Fetch archives that want to be elsewhere, or to be larger than they are; and open such .npz files."""
    pinned = dict.fromkeys(("x_train", "y_train", "x_test", "y_test"), "0" * 64)
    published = Published("odd", "made up", (1,), (1, 1), ("a", "b"), pinned)
    cases = [*odd_archives.PACKED.items(), *odd_archives.ZIPS.items()]

    def fetched(data: bytes) -> str:
        def way(_: bool) -> Arrays:
            members = tar_members(gzip.GzipFile(fileobj=io.BytesIO(data)), ["a"])
            return {
                name: torch.frombuffer(bytearray(b"x" + each), dtype=torch.uint8)
                for name, each in members.items()
            }

        fetching._WAYS["odd"] = (published, {"here": way})
        os.environ["UNSEE_CACHE"] = str(folder / "cache")
        os.chdir(folder)
        return str(fetching.fetch("odd"))

    def attempt(number: int) -> dict[str, float]:
        name, case = cases[number]
        if name in odd_archives.PACKED:
            data, kinds = case(), ("StoreError", "HostileError")
            answer = measured(lambda: fetched(data))
        else:
            kinds, path = (case[0].__name__,), folder / f"{number}.npz"
            case[1](path)
            answer = measured(lambda: sorted(npz_arrays(path, {"x", "y"})))
            path.rmdir() if path.is_dir() else path.unlink(missing_ok=True)
        assert answer.error in kinds, f"{answer}"
        left = [str(path) for path in folder.rglob("*") if path.name != "cache"]
        assert not left, f"{left}"
        return _bounded(answer, SECONDS, MEGABYTES)

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
        answer = measured(lambda: fetching._idx(io.BytesIO(packed), "labels.gz", (10_000,)).tolist())
        assert answer.error == "HostileError", f"{answer}"
        return _bounded(answer, SECONDS, 64)

    return attempt


SETS, PINNED = (BUNDLED, BUNDLED_ADULT, BUNDLED_SPAM, ADULT, SPAM, FASHION_MNIST, CIFAR_10), 84


def changed_bytes(_: Path) -> Attempt:
    """Change one byte of a pinned data set: of the bundled one, and of those that were fetched."""
    known: dict[str, Arrays] = {}

    def arrays(published: Published) -> Arrays:
        if published.name not in known:
            known.clear()
            packaged = published.name in sources._FILES
            known[published.name] = _packaged(published) if packaged else cached(published)
        return known[published.name]

    def attempt(number: int) -> dict[str, float]:
        published = SETS[number * len(SETS) // PINNED]
        if published.name not in sources._FILES and not cache_path(published).exists():
            published = SETS[number % 3]  # of which the package has its own
        whole = arrays(published)
        name = sorted(published.sha256)[number % len(published.sha256)]
        flat = whole[name].reshape(-1).view(torch.uint8)
        place = random.Random(number).randrange(len(flat))
        flat[place] ^= 1
        try:
            said = refusal(
                StoreError, lambda: published.check(whole, where="here", do="fetch it", error=StoreError)
            )
        finally:
            flat[place] ^= 1
        assert f"({name})" in said, said
        return {f"+{published.name}": 1}

    return attempt


def _packaged(published: Published) -> Arrays:
    arrays = npz_arrays(sources._FILES[published.name], set(published.sha256))
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
        "archives", "51, 56, 59", "tars that lead elsewhere or lie, gzip bombs, .npz files that lie",
        "refused within 2 s and 256 MB, and nothing is left on the disk",
        len(odd_archives.PACKED) + len(odd_archives.ZIPS), 10, archives,
    ),
    Ordeal(
        "IDX", "59", "IDX files whose headers lie", "refused within 2 s and 64 MB", len(IDX), 4, idx,
    ),
    Ordeal(
        "changed bytes", "58", "one changed byte in a pinned data set, bundled or fetched",
        "refused, naming the array", PINNED, 6, changed_bytes,
    ),
)  # fmt: skip
