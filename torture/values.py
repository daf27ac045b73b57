"""Values that are none: in images, labels, names and memories."""

import random
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from torture.ordeal import Attempt, refusal
from torture.small import small
from unsee import networks
from unsee.data.pictures import class_name
from unsee.datasets import Dataset
from unsee.errors import InputError
from unsee.memory import Memory

X = torch.zeros(6, 1, 2, 2)
LABELS: list[Any] = [
    [0, 1, 2, 3, 4, 10], [0, -1, 2, 3, 4, 5], [-100] * 6, [0, -100, 1, 1, 1, 1], [0.0] * 6, [0.5] * 6,
    [True] * 6, [0j] * 6, [[0]] * 6, [0] * 5, [0] * 7, [2**40] * 6, [-(2**40)] * 6, [float("nan")] * 6,
]  # fmt: skip
NAMES = [
    "", " ", "\t", "\u3000", "x" * 201, "x" * 100_000, "a\nb",
    "a\rb", "a\tb", "a\0b", "\x1b[31m", "a\x7fb", "a\x85b",
    *(f"a{chr(mark)}b" for mark in (0xAD, 0x61C, 0x200B, 0x200E, 0x200F, 0x2028, 0x2029, 0xFEFF, 0xE0041)),
    *(f"a{chr(mark)}b" for mark in (0x202A, 0x202B, 0x202C, 0x202D, 0x202E, 0x2066, 0x2067, 0x2068, 0x2069)),
    "a\udc80b",
]  # fmt: skip


def labels(_: Path) -> Attempt:
    """Make data sets with labels that are none, and classes with names that hide something."""

    def attempt(number: int) -> None:
        if number < len(LABELS):
            refusal(InputError, lambda: Dataset(X, LABELS[number], tuple("abcdefghij")))
        else:
            refusal(InputError, lambda: class_name(NAMES[number - len(LABELS)]))

    return attempt


def not_a_number(_: Path) -> Attempt:
    """Hide one NaN or Inf among 60,000 images."""
    x, y = torch.zeros(60_000, 1, 28, 28), torch.zeros(60_000, dtype=torch.long)

    def attempt(number: int) -> dict[str, float]:
        chance = random.Random(number)
        row, pixel = chance.randrange(60_000), chance.randrange(784)
        flat = x.view(60_000, -1)
        flat[row, pixel] = (torch.nan, torch.inf, -torch.inf)[number % 3]
        start = time.process_time()
        try:
            said = refusal(InputError, lambda: Dataset(x, y))
        finally:
            flat[row, pixel] = 0
        seconds = time.process_time() - start
        assert f"in 1 samples (index {row})" in said, said
        assert seconds <= 0.3, f"{seconds} seconds"
        return {"seconds": seconds}

    return attempt


def _with(memory: Memory, name: str, values: Tensor | None) -> Memory:
    sums = (
        {**memory.sums, name: values}
        if values is not None
        else {k: v for k, v in memory.sums.items() if k != name}
    )
    return replace(memory, sums=sums)


MEMORIES: dict[str, Callable[[Memory], Memory]] = {
    **{
        f"without {name}": lambda m, name=name: _with(m, name, None)
        for name in ("2.weight", "4.weight", "6.bias")
    },
    **{
        f"{name} of another shape": lambda m, name=name: _with(m, name, m.sums[name][:-1])
        for name in ("2.weight", "4.weight", "6.bias")
    },
    "with one more": lambda m: _with(m, "8.weight", torch.ones(3)),
    "NaN": lambda m: _with(m, "2.weight", torch.full_like(m.sums["2.weight"], torch.nan)),
    "Inf": lambda m: _with(m, "2.weight", torch.full_like(m.sums["2.weight"], torch.inf)),
    "negative": lambda m: _with(m, "2.weight", -m.sums["2.weight"]),
    "all zero": lambda m: replace(m, sums={name: values * 0 for name, values in m.sums.items()}),
    "of nothing": lambda m: replace(m, samples=m.samples[:0]),
    "of another model": lambda m: replace(m, model="0" * 64),
}


def memories(_: Path) -> Attempt:
    """Forget with a memory that is of another model, or broken."""
    here = small()

    def attempt(number: int) -> None:
        name = list(MEMORIES)[number]
        refusal(InputError, lambda: MEMORIES[name](here.plain).check(here.model))

    return attempt


def swapped(_: Path) -> Attempt:
    """Check a memory against a model of the same shape with other weights."""
    here = small()

    def attempt(number: int) -> None:
        other = networks.fresh(here.model, number)
        said = refusal(InputError, lambda: here.plain.check(other))
        assert "one of a model with other weights" in said, said

    return attempt
