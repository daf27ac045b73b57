"""Timing: things that are compared take turns within one run, and a ratio is the median of each turn's.

With one thread the clock is the process's CPU time, which other people's work on the machine disturbs
less; with several it is the wall's.
"""

import os
import platform
import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

import torch

Seconds = dict[str, list[float]]


def clock() -> float:
    """Return the seconds on the clock that suits the number of threads."""
    return time.process_time() if torch.get_num_threads() == 1 else time.perf_counter()


def in_turns(things: Mapping[str, Callable[[], object]], rounds: int) -> Seconds:
    """Return how long each of the things took in each round; a first round, to warm up, is not counted."""
    seconds: Seconds = {name: [] for name in things}
    for number in range(rounds + 1):
        for name, thing in things.items():
            start = clock()
            thing()
            if number:
                seconds[name].append(clock() - start)
    return seconds


def ratio(seconds: Seconds, name: str, to: str) -> float:
    """Return the median over the rounds of one thing's time to another's, as neighbours were disturbed alike.

    >>> ratio({"ours": [2.0, 8.0, 3.0], "plain": [1.0, 2.0, 1.0]}, "ours", "plain")
    3.0
    """
    return median(a / b for a, b in zip(seconds[name], seconds[to], strict=True))


def peak(size: int = 2048, rounds: int = 5) -> float:
    """Return the most multiplications and additions a second that a large matrix product reaches here."""
    a, b = torch.ones(size, size), torch.ones(size, size)
    out = torch.empty(size, size)
    found = in_turns({"product": lambda: torch.mm(a, b, out=out)}, rounds)
    return 2 * size**3 / min(found["product"])


def machine() -> dict[str, Any]:
    """Return what the figures depend on; the machine's load says how far to trust them."""
    return {
        "processor": _processor(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "load before": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            return next(line.split(":")[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration, IndexError):
        return platform.processor() or platform.machine()
