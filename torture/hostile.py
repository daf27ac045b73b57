"""Hostile weights: rows 49 to 54."""

import os
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import hostile
from torture import ROOT
from torture.children import measured
from torture.ordeal import Attempt, Ordeal
from unsee.weights import files, opening, plain
from unsee.weights.scanning import scan

SECONDS, MEGABYTES = 1.0, 256.0
PICKLED = {**hostile.SCANNED, **hostile.LOADED}


def _refused(
    make: Callable[[str], bytes], kind: str, folder: Path, name: str, read: Callable
) -> dict[str, float]:
    """Read a hostile file in a child; nothing may have been run, made or left behind."""
    canary, place = folder / "canary", folder / name
    place.write_bytes(make(str(canary)))
    before = sorted(os.listdir(folder))
    answer = measured(lambda: read(place))
    assert answer.error == kind, f"{answer.error} instead of {kind}: {answer.text}"
    assert answer.text.isprintable()
    assert "\n" not in answer.text
    assert not canary.exists(), "something in the file was executed"
    assert sorted(os.listdir(folder)) == before, "files were made"
    return {"seconds": answer.seconds, "megabytes": answer.megabytes}


def whole_way(folder: Path) -> Attempt:
    """Read hostile checkpoints as a user does, each through a process of its own."""
    work, temporary = folder / "work", folder / "temporary"
    work.mkdir()
    temporary.mkdir()
    (work / "good.pth").write_bytes(hostile.GOOD)

    def read(path: Path) -> None:
        tempfile.tempdir = str(temporary)
        os.chdir(work)
        files.read(path)

    good = measured(lambda: read(work / "good.pth"))
    assert not good.error, good.text

    def attempt(number: int) -> dict[str, float]:
        name = list(PICKLED)[number]
        kind, make = PICKLED[name]
        took = _refused(make, kind.__name__, work, "x.pth", read)
        assert not os.listdir(temporary), "something is left of it"
        # A file that is refused unopened costs a process; another also torch, as a good file does.
        scanned = name in hostile.SCANNED
        base = 0.0 if scanned else good.seconds
        assert took["seconds"] - base < SECONDS + base, (
            f"{took['seconds']} seconds, a good file {good.seconds}"
        )
        kind = "refused unopened" if scanned else "refused by torch or after it"
        return {f"seconds, {kind}": took["seconds"], "seconds, a good file": good.seconds}

    return attempt


def at_once(folder: Path) -> Attempt:
    """The whole way without a process of its own for the opening: what a refusal itself takes."""

    def opened(file: BinaryIO, name: str) -> Any:
        return plain.together(*opening.contents(file, name, scan(file, name)))

    def read(path: Path) -> None:
        opening._limit(opening.resource.RLIMIT_AS, opening._taken() + opening.MEMORY)
        files.opened = opened  # in this child alone
        files.read(path)

    def attempt(number: int) -> dict[str, float]:
        kind, make = list(PICKLED.values())[number]
        took = _refused(make, kind.__name__, folder, "x.pth", read)
        assert took["seconds"] < SECONDS, f"{took['seconds']} seconds"
        assert took["megabytes"] < MEGABYTES, f"{took['megabytes']} MB"
        return took

    return attempt


def safetensors(folder: Path) -> Attempt:
    """Read safetensors files that lie."""

    def attempt(number: int) -> dict[str, float]:
        kind, data = list(hostile.SAFETENSORS.values())[number]
        took = _refused(lambda _: data, kind.__name__, folder, "x.safetensors", files.read)
        assert took["seconds"] < SECONDS, f"{took['seconds']} seconds"
        assert took["megabytes"] < 128, f"{took['megabytes']} MB"
        return took

    return attempt


def unsafe(_: Path) -> Attempt:
    """Look for a way to open a pickle without torch's restricted unpickler."""
    sources = sorted((ROOT / "src").rglob("*.py"))
    loaders = r"weights_only\s*=\s*False|(pickle|dill|cloudpickle|joblib|shelve)\.\w*load|torch\.jit\.load"

    def attempt(number: int) -> None:
        found = re.findall(loaders, sources[number].read_text()) if number < len(sources) else []
        assert not found, f"{found} in {sources[number]}"

    return attempt


ORDEALS = (
    Ordeal(
        "checkpoints", "49, 51, 52, 54", "hostile .pth files, each in its own process, as users read them",
        "refused; nothing run (canary), made or left; no crash; within 1 s, or where torch is needed to tell "
        "within 1 s and twice what a good file takes",
        len(PICKLED), 2, whole_way,
    ),
    Ordeal(
        "refusals", "49, 51, 52, 54", "the same files, in a process that has torch already",
        "refused within 1 s and 256 MB", len(PICKLED), 8, at_once,
    ),
    Ordeal(
        "safetensors", "53", "safetensors files that lie", "refused within 1 s and 128 MB",
        len(hostile.SAFETENSORS), 5, safetensors,
    ),
    Ordeal(
        "source", "50", "each source file searched for a loader of pickles that is not restricted", "none",
        len(list((ROOT / "src").rglob("*.py"))), 10_000, unsafe,
    ),
)  # fmt: skip

assert sys.platform == "linux", "by whose limits a pickled checkpoint is opened"
