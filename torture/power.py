"""Power that fails between any two operations, and a file system that keeps only what it was made to keep."""

import contextlib
import os
import random
from collections.abc import Iterator
from pathlib import Path

import torch

from torture.ordeal import Attempt
from unsee import store
from unsee.checkpoint import Checkpoints, State

STEPS = 5

Event = tuple[str, ...]


class Recorder:
    """What is done to the files of a folder, in order, while something is written there."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.data: dict[str, bytes] = {}

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Write down every operation inside the block."""
        real = {name: getattr(os, name) for name in ("fsync", "replace", "unlink")}
        sync_folder, mkstemp = store._sync_folder, store.tempfile.mkstemp
        names: dict[int, str] = {}

        def made(**how: str) -> tuple[int, str]:
            handle, name = mkstemp(**how)
            names[handle] = name
            self.events.append(("create", name))
            return handle, name

        def fsync(handle: int) -> None:
            if handle in names:
                self.data[names[handle]] = Path(names[handle]).read_bytes()
                self.events += [("written", names[handle]), ("synced", names.pop(handle))]
            real["fsync"](handle)

        def replace(old: str, new: str) -> None:
            self.events.append(("rename", str(old), str(new)))
            real["replace"](old, new)

        def unlink(path: str) -> None:
            real["unlink"](path)
            self.events.append(("unlink", str(path)))

        def settle(folder: Path) -> None:
            self.events.append(("settled",))
            sync_folder(folder)

        os.fsync, os.replace, os.unlink = fsync, replace, unlink
        store._sync_folder, store.tempfile.mkstemp = settle, made
        try:
            yield
        finally:
            os.fsync, os.replace, os.unlink = real["fsync"], real["replace"], real["unlink"]
            store._sync_folder, store.tempfile.mkstemp = sync_folder, mkstemp


def survivors(events: list[Event], data: dict[str, bytes], chance: random.Random) -> dict[str, bytes]:
    """Return the files after a crash behind these events, by name.

    What was synced is whole; of what was only written, any part may be there. Of the names given since the
    folder was last synced, any may be lost.
    """
    names: dict[str, str] = {}  # of which file each is
    pending: list[Event] = []
    written: dict[str, bool] = {}
    for event in events:
        if event[0] in ("written", "synced"):
            written[event[1]] = event[0] == "synced"
        elif event[0] == "settled":
            _named(names, pending)
            pending = []
        else:
            pending.append(event)
    _named(names, [event for event in pending if chance.random() < 0.5])
    return {name: _left(file, written, data, chance) for name, file in names.items()}


def _named(names: dict[str, str], events: list[Event]) -> None:
    for kind, first, *second in events:
        if kind == "create":
            names[first] = first
        elif kind == "unlink":
            names.pop(first, None)
        elif first in names:
            names[second[0]] = names.pop(first)


def _left(file: str, written: dict[str, bool], data: dict[str, bytes], chance: random.Random) -> bytes:
    if file not in written:
        return b""
    whole = data[file]
    if written[file]:
        return whole
    cut = chance.randrange(len(whole) + 1)
    return chance.choice((whole[:cut], whole[:cut] + bytes(len(whole) - cut), b""))


def failing(folder: Path) -> Attempt:
    """Let the power fail behind any operation of a run that writes five states and ends."""
    recorder, steps = Recorder(), []
    written = Checkpoints(folder / "run", {"seed": 0}, seconds=0)
    with recorder.watching():
        for step in range(1, STEPS + 1):
            tensors = {"theta/w": torch.full((50,), float(step))}
            written.write(State(step, tensors, {}), last=step == STEPS)
            steps.append(len(recorder.events))  # behind which this step is settled

    def attempt(number: int) -> None:
        chance = random.Random(number)
        behind = number % (len(recorder.events) + 1)
        place = folder / str(number)
        place.mkdir()
        for name, data in survivors(recorder.events[:behind], recorder.data, chance).items():
            (place / Path(name).name).write_bytes(data)
        settled = sum(at <= behind for at in steps)
        state = Checkpoints(place, {"seed": 0}).read()
        found = state.step if state else 0
        assert found >= settled, f"step {found} where {settled} was settled, behind {behind} operations"
        if state:
            assert bool((state.tensors["theta/w"] == state.step).all())

    return attempt
