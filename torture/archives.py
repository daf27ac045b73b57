"""Archives that lead elsewhere or lie, each refused for its own reason; and good ones, which are read."""

import gzip
import hashlib
import io
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import odd_archives
from torture.children import Answer, measured
from torture.ordeal import Attempt
from unsee.data import fetching
from unsee.data.archives import npz_arrays, tar_members
from unsee.data.catalogue import KNOWN
from unsee.data.published import Arrays, Published

SECONDS, MEGABYTES = 2.0, 256.0

# What is pinned is what a good archive holds, so that nothing is refused for its pin alone.
_PINNED = {"a": hashlib.sha256(b"data").hexdigest()}
_PUBLISHED = Published("odd", "made up", (1,), (1, 1), ("a", "b"), _PINNED)
GOOD: dict[str, Callable[[], bytes]] = {
    "a good tar": lambda: gzip.compress(odd_archives.A + odd_archives.END),
    "a good tar with its file as ../a": lambda: gzip.compress(odd_archives.tar(("../a", b"data"))),
}
GOOD_ZIPS: dict[str, Callable[[Path], Any]] = {
    "a good .npz": lambda path: np.savez(path, x=odd_archives.X, y=odd_archives.X),
}
_OTHER = {"tar: other bytes as `a`": lambda: gzip.compress(odd_archives.tar(("a", b"dat4")))}
_FEWER = "at most 20,000 files of at most 67,108,864 bytes in an archive"
_LESS = "at most 201,326,592 bytes in an archive"
_NONE = "no a in the archive"  # which is what links, devices and the like are passed over for
WHY = {
    **{f"tar: {name}": _NONE for name in odd_archives.LINKS},
    "tar: a link to a link": _NONE,
    "tar: a way too long": _NONE,
    "tar: a hole of 8 GB": _FEWER,
    "tar: a petabyte by its extended header": _FEWER,
    "tar: a negative size": "other bytes from here (a)",
    "tar: a size that is no number": "invalid header",
    "tar: another name by its extended header": _NONE,
    "tar: a link by its extended header": _NONE,
    "tar: a name of a gigabyte": _LESS,
    "tar: an extended header of a gigabyte": _LESS,
    "tar: extended headers without end": "maximum recursion depth",
    "tar: extended headers of no number": _NONE,
    "tar: a million files": _FEWER,
    "tar: 200 MB as `a`": _FEWER,
    "tar: 300 MB before `a`": _LESS,
    "tar: cut in `a`": "unexpected end of data",
    "tar: a wrong checksum": "bad checksum",
    "tar: two ends": _NONE,
    "tar: nothing": "empty file",
    "tar: zeros": _NONE,
    "tar: random": "invalid header",
    "tar: other bytes as `a`": "other bytes from here (a)",
    "gzip in gzip in gzip": "truncated header",
    "gzip of zeros": _NONE,
    "gzip without end": "ended before the end-of-stream marker",
    "gzip of another sum": "CRC check failed",
    "no gzip": "Not a gzipped file",
    "objects": "objects, which could run code",
    "objects in fields": "objects, which could run code",
    "shape too large": "by its header, found 140",
    "shape too small": "by its header, found 140",
    "negative shape": "by its header, found 140",
    "twice negative": "only specify one unknown dimension",
    "other type": "by its header, found 140",
    "one name twice": "found one twice",
    "declared 4 GB": "found more",
    "declared 1 GB, by both": "found more",
    "declared less": "Bad CRC-32",
    "no type": "not a valid dtype",
    "no shape": "shape is not valid",
    "code as header": "malformed node",
    "long header": "is large",
    "version 9": "in version (9, 0)",
    "no npy": "magic string",
    "pickle": "magic string",
    "empty": "not a zip file",
    "no zip": "not a zip file",
    "cut": "not a zip file",
    "folder": "found none",
    "pipe": "found none",
    "nothing": "found none",
    "zeros that fold to a thousandth": "found more",
    "entries that share their bytes": "differ",
    "encrypted": "is encrypted",
    "an unknown compression": "compression method is not supported",
    "a disk that is not there": "Bad offset",
}  # fmt: skip
PACKED = {**odd_archives.PACKED, **_OTHER, **GOOD}
ZIPS = {**{name: make for name, (_, make) in odd_archives.ZIPS.items()}, **GOOD_ZIPS}
COUNT = len(PACKED) + len(ZIPS)


def archives(folder: Path) -> Attempt:
    """Fetch archives, and open .npz files."""
    cases = [*PACKED, *ZIPS]

    def attempt(number: int) -> dict[str, float]:
        name = cases[number]
        answer = _fetched(name, folder) if name in PACKED else _opened(name, folder)
        left = [str(path) for path in folder.rglob("*") if path.name != "cache"]
        shutil.rmtree(folder / "cache", ignore_errors=True)
        if name not in WHY:
            assert not answer.error, f"{answer}"
            assert left == ([answer.value] if name in PACKED else []), f"{left}"
        else:
            kinds = (odd_archives.ZIPS[name][0].__name__,) if name in ZIPS else ("StoreError", "HostileError")
            assert answer.error in kinds, f"{answer}"
            assert WHY[name] in answer.text, answer.text
            assert not left, f"{left}"
        assert answer.seconds <= SECONDS, f"{answer.seconds} seconds"
        assert answer.megabytes <= MEGABYTES, f"{answer.megabytes} MB"
        count = "+refused" if name in WHY else "+read"
        return {"seconds": answer.seconds, "megabytes": answer.megabytes, count: 1}

    return attempt


def _fetched(name: str, folder: Path) -> Answer:
    data = PACKED[name]()

    def way(_: bool) -> Arrays:
        members = tar_members(gzip.GzipFile(fileobj=io.BytesIO(data)), ["a"])
        return {key: torch.tensor(list(each), dtype=torch.uint8) for key, each in members.items()}

    def fetched() -> str:
        KNOWN["odd"] = replace(_PUBLISHED, ways={"here": way})
        os.environ["UNSEE_CACHE"] = str(folder / "cache")
        os.chdir(folder)
        return str(fetching.fetch("odd"))

    return measured(fetched)


def _opened(name: str, folder: Path) -> Answer:
    path = folder / "x.npz"
    ZIPS[name](path)
    answer = measured(lambda: sorted(npz_arrays(path, {"x", "y"})))
    path.rmdir() if path.is_dir() else path.unlink(missing_ok=True)
    return answer
