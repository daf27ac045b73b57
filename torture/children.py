"""Children that are made by forking: torch is there already, so that each costs a few milliseconds."""

import contextlib
import json
import mmap
import os
import resource
import select
import signal
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unsee import store

KILLED = -signal.SIGKILL

# Where a write may be cut off, from before its first byte to after its last.
POINTS = ("before it", "half written", "not synced", "not renamed", "folder not synced")


def forked(work: Callable[[], object]) -> int:
    """Start a child that does this work and nothing else; return its number."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return child


def ended(child: int) -> int:
    """Wait for a child and return its exit code, below zero if a signal ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def killed(child: int) -> int:
    """Kill a child and return how it ended: it may have been faster."""
    os.kill(child, signal.SIGKILL)
    return ended(child)


class Counter:
    """A number that a child writes and that outlives it."""

    def __init__(self) -> None:
        self._shared = mmap.mmap(-1, 8)

    @property
    def value(self) -> int:
        """The number."""
        return int.from_bytes(self._shared[:8], "little")

    @value.setter
    def value(self, number: int) -> None:
        self._shared[:8] = number.to_bytes(8, "little")


def die_in_a_write(which: int, point: str, name: str) -> None:
    """Let this process kill itself in the `which`-th write of a file of that name, at that point."""
    real, seen, data = store._write, 0, b""

    def die(*_: Any, **__: Any) -> None:
        os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(60)  # nothing more happens

    def half(handle: int, *_: Any) -> None:
        written = data[: len(data) // 2]
        while written:
            written = written[os.write(handle, written) :]
        die()

    def write(path: Path, parts: Any) -> None:
        nonlocal seen, data
        seen += path.name == name
        if seen == which and path.name == name:
            data = b"".join(parts)
            if point == "before it":
                die()
            elif point == "half written":
                store.os.fdopen = half
            elif point == "folder not synced":
                store._sync_folder = die
            else:
                setattr(store.os, {"not synced": "fsync", "not renamed": "replace"}[point], die)
        real(path, parts)

    store._write = write


@dataclass(frozen=True)
class Answer:
    """What came of some work in a child: its value, or the error and its sentence; and what it took."""

    value: Any
    error: str
    text: str
    seconds: float
    """Of the processor, by the child and its own children: on a busy machine the clock says little."""
    megabytes: float
    """By how much the child grew at its peak, or how large a child of its own was."""


@dataclass(frozen=True)
class Started:
    """A child at work, whose answer comes through a pipe."""

    pid: int
    pipe: int

    def answer(self, most: float = 60.0) -> Answer:
        """Wait for the answer; after `most` seconds the child is killed."""
        start, data = time.monotonic(), b""
        with open(self.pipe, "rb", buffering=0) as pipe:
            while (left := start + most - time.monotonic()) > 0 and select.select([pipe], [], [], left)[0]:
                if not (part := pipe.read(1 << 16)):
                    break
                data += part
        if data:
            ended(self.pid)
            return Answer(**json.loads(data))
        return Answer(None, "none", f"no answer: {killed(self.pid)}", time.monotonic() - start, 0.0)


def started(work: Callable[[], Any]) -> Started:
    """Start work in a child; its value must be fit for JSON."""
    reading, writing = os.pipe()
    child = forked(lambda: _tell(work, writing))
    os.close(writing)
    return Started(child, reading)


def measured(work: Callable[[], Any], most: float = 60.0) -> Answer:
    """Do work in a child and wait for its answer."""
    return started(work).answer(most)


def _tell(work: Callable[[], Any], pipe: int) -> None:
    words: dict[str, Any] = {"value": None, "error": "", "text": ""}
    before, start = _fresh_peak(), _processor()
    try:
        words["value"] = work()
    except Exception as error:
        words |= {"error": type(error).__name__, "text": str(error)}
    words["seconds"] = _processor() - start
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10
    words["megabytes"] = max(_status("VmHWM") - before, children) / 2**20
    with open(pipe, "wb") as file:
        file.write(json.dumps(words).encode())


def _processor() -> float:
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def _fresh_peak() -> int:
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    return _status("VmRSS")


def _status(word: str) -> int:
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith(word))
