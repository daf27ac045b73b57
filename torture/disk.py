"""A disk that is full, over quota, read-only or broken, at any of a run's writes."""

import contextlib
import errno
import os
import random
import re
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from torture.children import measured
from torture.ordeal import Attempt
from torture.small import Small, small
from unsee import networks, store
from unsee.checkpoint import Checkpoints
from unsee.memory import Memory
from unsee.runs import report_run, write_run

FAULTS = {
    "mkstemp": (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES),
    "write": (errno.ENOSPC, errno.EDQUOT, errno.EIO),
    "fsync": (errno.ENOSPC, errno.EIO),
    "replace": (errno.ENOSPC, errno.EROFS),
}
OURS = ("checkpoint", "model", "memory-after", "run", "facts", "report")  # files of a run, in order


def full(folder: Path) -> Attempt:
    """Fail one of a run's writes and all that follow: by an error, a limit, /dev/full, a small disk."""
    here = small()
    whole = folder / "whole"
    writes = measured(lambda: _writes(here, whole)).value
    expected = networks.identity(networks.load(whole / "model.safetensors"))

    def attempt(number: int) -> dict[str, float]:
        way = ("error", "limit", "/dev/full", "tmpfs")[number % 4]
        chance, place = random.Random(number), folder / str(number)
        place.mkdir()
        with _small_disk(place, chance) if way == "tmpfs" else contextlib.nullcontext(way) as way:
            for name in OURS[3:]:
                (place / f"{name}.json").write_bytes(b'"before"')
            answer = measured(lambda: _run(here, place, way, chance, chance.randint(1, writes)))
            assert answer.error == "StoreError", f"{way}: {answer.error} {answer.text}"
            assert re.search(
                r"(room for [\d,]+ bytes (at|in)|a file that may be written at) ", answer.text
            ), answer.text
            _check_all_whole(place)
            # With room again, the same command goes on; a small disk has none, so that its files are moved.
            away = folder / f"{number}-away"
            shutil.copytree(place, away)
        again = here.forget(0, folder=away)
        assert networks.identity(again.model) == expected, "other bits"
        shutil.rmtree(place)
        shutil.rmtree(away)
        return {f"+by {way}": 1}

    return attempt


def _work(here: Small, place: Path) -> None:
    result = here.forget(0, folder=place, checkpoint_seconds=0)
    write_run(place, result, None)
    report_run(place, here.model, result.model, here.four, None)


def _writes(here: Small, place: Path) -> int:
    count, real = 0, store._write

    def write(path: Path, parts: Any) -> None:
        nonlocal count
        count += 1
        real(path, parts)

    store._write = write
    _work(here, place)
    return count


def _run(here: Small, place: Path, way: str, chance: random.Random, which: int) -> None:
    if way != "tmpfs":
        _from(which, lambda: _break(way, chance))
    _work(here, place)


def _from(which: int, then: Callable[[], None]) -> None:
    """Break things before the `which`-th write."""
    real, count = store._write, 0

    def write(path: Path, parts: Any) -> None:
        nonlocal count
        count += 1
        if count == which:
            then()
        real(path, parts)

    store._write = write


def _break(way: str, chance: random.Random) -> None:
    if way == "limit":
        resource.setrlimit(resource.RLIMIT_FSIZE, (chance.randrange(300), resource.RLIM_INFINITY))
    elif way == "/dev/full":
        real = store.tempfile.mkstemp

        def made(**how: Any) -> tuple[int, str]:
            handle, name = real(**how)
            device = os.open("/dev/full", os.O_WRONLY)
            os.dup2(device, handle)
            os.close(device)
            return handle, name

        store.tempfile.mkstemp = made
    else:
        operation = chance.choice(list(FAULTS))
        number = chance.choice(FAULTS[operation])

        def fail(*_: Any, **__: Any) -> Any:
            raise OSError(number, os.strerror(number))

        if operation == "write":
            os.fdopen = lambda handle, *_: _Unwritable(handle, fail)
        else:
            setattr(store.tempfile if operation == "mkstemp" else os, operation, fail)


class _Unwritable:
    def __init__(self, handle: int, fail: Callable[..., Any]) -> None:
        self.handle, self.write = handle, fail

    def __enter__(self) -> "_Unwritable":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.handle)


@contextlib.contextmanager
def _small_disk(place: Path, chance: random.Random) -> Iterator[str]:
    """Put a file system of some kilobytes there, where that is allowed."""
    size = f"size={chance.randrange(8, 200)}k"
    command = ["mount", "-t", "tmpfs", "-o", size, "none", str(place)]
    if subprocess.run(command, check=False, capture_output=True).returncode:
        yield "limit"
        return
    try:
        yield "tmpfs"
    finally:
        subprocess.run(["umount", str(place)], check=True)


def _check_all_whole(place: Path) -> None:
    """Whatever lies there is whole, and nothing half-written is left beside it."""
    for path in place.iterdir():
        assert not path.name.endswith(".part"), f"{path.name} is left"
        if path.name.startswith("checkpoint"):
            Checkpoints(place, store.read_tensors(path)[1]["identity"]).read()
        elif path.name.startswith("memory"):
            Memory.load(path)
        elif path.suffix == ".safetensors":
            networks.load(path)
        elif path.suffix == ".json":
            store.read_json(path)
