"""One process at a time in a folder, or at a file; whoever comes second waits, or is told who is there.

The kernel frees the lock of a process that died, so that none is ever left behind.
"""

import contextlib
import os
import socket
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from unsee import store
from unsee.errors import StoreError, UnseeError

HOLDER = ".holder.json"
_MOMENT = 1.0  # seconds in which whoever has just taken a folder says so


@contextlib.contextmanager
def alone(folder: Path, *, wait: bool = False, do: str = "choose another folder") -> Iterator[None]:
    """Hold a folder while the block runs; where another process holds it, refuse and say who, or wait."""
    import fcntl  # not on Windows, where opening what is there should still work

    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise StoreError(f"a folder at {folder}", f"{error.strerror}", do) from None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            expected = f"a folder that nobody else is working in at {folder}"
            raise StoreError(expected, _holder(folder), f"wait for it, or {do}") from None
        except OSError:
            pass  # a file system without locks, on which nobody can be held off
        if not wait:
            since = datetime.now().astimezone().isoformat(timespec="seconds")
            words = {"pid": os.getpid(), "host": socket.gethostname(), "since": since}
            store.write_json(folder / HOLDER, words)
        try:
            yield
        finally:
            (folder / HOLDER).unlink(missing_ok=True)
    finally:
        os.close(handle)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a file while the block runs, after all who came before."""
    lock = grabbed(path)
    try:
        yield
    finally:
        os.close(lock)


def grabbed(path: Path, *, wait: bool = True) -> int:
    """Return a handle that holds a file until it is closed; without waiting: or BlockingIOError.

    Whoever held it before may have removed it, and another made it anew: that one is then taken.
    """
    import fcntl

    while True:
        lock = os.open(path, os.O_CREAT | os.O_RDWR, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            os.close(lock)
            raise
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.stat(path), os.fstat(lock)):
                return lock
        os.close(lock)


def _holder(folder: Path) -> str:
    """Say who holds a folder, which is written there a moment after it was taken."""
    end = time.monotonic() + _MOMENT
    while time.monotonic() < end:
        with contextlib.suppress(UnseeError, KeyError, TypeError, ValueError, OverflowError, OSError):
            words = store.read_json(folder / HOLDER)
            if words["host"] == socket.gethostname():
                os.kill(int(words["pid"]), 0)  # asks whether it lives: one that died has left its name there
            return f"process {words['pid']} on {words['host']} since {words['since']}"
        time.sleep(0.02)
    return "another process"
