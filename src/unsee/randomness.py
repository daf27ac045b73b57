"""A step's randomness is a function of its number, so that there is no generator state to save.

Whoever needs random numbers asks for the stream of (seed, name, step). A run that died and goes on
at step 301 draws what it would have drawn, whatever happened before.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

import numpy as np
import torch


def stream(seed: int, name: str, step: int = 0) -> np.random.Generator:
    """Return the generator that belongs to this seed, name and step, the same on every device.

    >>> int(stream(0, "rld", 7).integers(1000)) == int(stream(0, "rld", 7).integers(1000))
    True
    >>> bool((stream(0, "rld", 7).random(4) == stream(0, "rld", 8).random(4)).any())
    False
    """
    return np.random.Generator(np.random.Philox(key=_key(seed, name, step)))


@contextmanager
def seeded(seed: int, name: str) -> Iterator[None]:
    """Seed torch's global generator inside the block, and leave it as it was outside.

    For initialisers that take no generator of their own, such as a module's `reset_parameters`.
    """
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        torch.manual_seed(_key(seed, name, 0) % 2**63)
        yield


def cycle(seed: int, name: str, n: int, start: int, count: int) -> np.ndarray:
    """Return the indices at positions start..start+count of an endless pass over n samples.

    Every n positions are one permutation, drawn anew, so that after p positions each sample was
    used floor(p / n) or ceil(p / n) times.
    """
    epochs = range(start // n, (start + count - 1) // n + 1)
    order = np.concatenate([_permutation(seed, name, epoch, n) for epoch in epochs])
    return order[start - epochs[0] * n :][:count]


@lru_cache(maxsize=8)
def _permutation(seed: int, name: str, epoch: int, n: int) -> np.ndarray:
    return stream(seed, name, epoch).permutation(n)


def chances(x: torch.Tensor, seed: int, name: str) -> torch.Tensor:
    """Return a number from 0 to 1 for each sample, by chance and yet the same whenever that sample comes.

    >>> x = torch.arange(6).reshape(2, 3)
    >>> bool((chances(x, 0, "place") == chances(x.flip(0), 0, "place").flip(0)).all())
    True
    """
    rows = x.flatten(1).contiguous()
    kinds = {2: torch.int16, 4: torch.int32, 8: torch.int64}
    whole = rows.view(kinds[rows.element_size()]) if rows.is_floating_point() else rows
    weights = torch.as_tensor(stream(seed, name).integers(1, 2**62, size=rows.shape[1]) | 1)
    mixed = (whole.cpu().long() * weights).sum(1)  # wraps around, as it should
    for _ in range(2):
        mixed = (mixed ^ (mixed >> 31)) * 0x2545F4914F6CDD1D
    return ((mixed >> 11) & (2**52 - 1)).double() / 2**52


def _key(seed: int, name: str, step: int) -> int:
    digest = hashlib.sha256(f"{seed}/{name}/{step}".encode()).digest()
    return int.from_bytes(digest[:16], "little")


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute on one thread in here: the same bits, whatever number of threads is used elsewhere."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
