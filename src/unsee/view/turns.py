"""Turns: models answer in one thread, one question after the other, and nobody waits without end."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from unsee.errors import InputError

MOST_WAITING = 8

_Answer = TypeVar("_Answer")


class Late(InputError):
    """An answer that took too long, or would have."""


class Turns:
    """One thread for all that takes long. A question that is late is given up; its thread ends by itself."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "models")
        self._room = threading.BoundedSemaphore(MOST_WAITING)

    async def take(self, seconds: float, ask: Callable[..., _Answer], *about: Any) -> _Answer:
        """Return what `ask` returns, if it does so in time."""
        if not self._room.acquire(blocking=False):
            raise Late(f"at most {MOST_WAITING} questions at once", "more", "wait a moment and ask again")
        asked = self._thread.submit(ask, *about)
        asked.add_done_callback(lambda _: self._room.release())
        try:
            return await asyncio.wait_for(asyncio.wrap_future(asked), seconds)
        except TimeoutError:
            do = "wait a moment and ask again"
            raise Late(f"an answer within {seconds:g} seconds", "none yet", do) from None

    def close(self) -> None:
        """Let go of the thread; who still waits is not answered."""
        self._thread.shutdown(wait=False, cancel_futures=True)
