"""T and variations of it that forgetting never saw: moved, dimmed, resized, mirrored, cut in half.

Columns and phrases know their own variations. On images T is only known as a map of pixels: it is moved by
moving the image the other way, applying T and moving back; dimmed by mixing with the image; resized by
resizing what it changed.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor, nn

from unsee.answers import answers, guesses
from unsee.datasets import Dataset
from unsee.kinds import PLAIN
from unsee.randomness import stream
from unsee.report.rates import Shift, shift_of, shift_read
from unsee.report.words import Words
from unsee.transforms import Transform

JUDGED_ON = 2000
LOOKED_AT = 256
AS_IT_IS = "as it is"

Pixels = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Variation:
    """T, or a variation of it that forgetting never saw, on test samples of D_r.

    `taken` counts those that the models take for D_f's class, before and after, where D_f has one label;
    `changed` those that they answer otherwise than without T: how far they depend on it.
    """

    name: str
    shift: Shift
    taken: tuple[int, int] | None = None
    changed: tuple[int, int] | None = None

    @classmethod
    def read(cls, words: Words) -> Self:
        """Read what a file holds of it."""
        counts = [words.at("shift").at(name).whole() for name in ("n", "kept", "gained", "lost")]
        pairs = (_two_counts(words, name, counts[0]) for name in ("taken", "changed"))
        return cls(words.at("name").text(), shift_read(words, *counts), *pairs)


def _two_counts(words: Words, name: str, most: int) -> tuple[int, int] | None:
    """Read counts before and after, where a file holds them."""
    found = words.perhaps(name)
    both = [count.whole(0, most) for count in found.each(2)] if found else []
    if len(both) == 1:
        raise words.refused(f"two counts of what was {name}")
    return (both[0], both[1]) if both else None


def judged(
    old: nn.Module, new: nn.Module, T: Transform, data: Dataset, D_f: Dataset | None, seed: int
) -> tuple[Variation, ...]:
    """Judge both models on T as it is, and on each variation, over the same random samples of D_r."""
    part = data.subset(stream(seed, "variations").permutation(len(data))[:JUDGED_ON])
    labels = D_f.y.unique().tolist() if D_f is not None else []
    varied = variations_of(T, part)
    found = []
    plain = [guesses(answers(model, part)) for model in (old, new)]
    for one in (T, *varied) if varied or data.kind != PLAIN else ():
        guessed = [guesses(answers(model, one(part))) for model in (old, new)]
        changed = [int((g != p).sum()) for g, p in zip(guessed, plain, strict=True)]
        # A sample that is of that class anyway was not misled into it.
        taken = [int(((g == labels[0]) & (part.y != labels[0])).sum()) for g in guessed if len(labels) == 1]
        name = AS_IT_IS if one is T else one.name
        both = (taken[0], taken[1]) if taken else None
        found.append(Variation(name, shift_of(part.y, *guessed), both, (changed[0], changed[1])))
    return tuple(found)


def variations_of(T: Transform, data: Dataset) -> tuple[Transform, ...]:
    """Return T in variations, named in words; those that do not differ from T on this data are left out.

    >>> from unsee.transforms import line
    >>> data = Dataset(torch.zeros(2, 1, 28, 28, dtype=torch.uint8), [0, 1])
    >>> [variation.name for variation in variations_of(line(), data)][:3]
    ['moved right by 2 pixels', 'moved down by 2 pixels', 'moved right and down by 4 pixels']
    """
    if T.varied:
        different = [(one, one.pixels(data.x[:LOOKED_AT].clone())) for one in T.varied()]
        x, marked = data.x[:LOOKED_AT], T.pixels(data.x[:LOOKED_AT].clone())
        return tuple(one for one, varied in different if _differs(varied, x, marked))
    if data.x.ndim != 4 or len(data) == 0 or not (data.x.is_floating_point() or data.x.dtype == torch.uint8):
        return ()
    x = data.x[:LOOKED_AT]
    marked = T.pixels(x.clone())
    changed = (marked != x).any(0).any(0)
    if not bool(changed.any()):
        return ()
    made = {
        **_moved(T.pixels, changed),
        **{f"dimmed to {part:.0%}": _dimmed(T.pixels, part) for part in (0.75, 0.5)},
        **_resized(T.pixels, changed),
        "mirrored": lambda x: T.pixels(x.flip(-1)).flip(-1),
        "half of it": _half(T.pixels, changed),
    }
    different = {name: pixels for name, pixels in made.items() if _differs(pixels(x.clone()), x, marked)}
    return tuple(replace(T, name=name, pixels=pixels) for name, pixels in different.items())


def _moved(T: Pixels, changed: Tensor) -> dict[str, Pixels]:
    """Move T away from the border that it is nearest to, by a fourteenth and a seventh of the image."""
    height, width = changed.shape
    rows, columns = _extent(changed)
    down, right = (1 if sum(ends) <= size else -1 for ends, size in ((rows, height), (columns, width)))
    sideways, upright = "right" if right > 0 else "left", "down" if down > 0 else "up"
    step = max(1, min(height, width) // 14)

    def by(row: int, column: int) -> Pixels:
        return lambda x: T(x.roll((-row, -column), (-2, -1))).roll((row, column), (-2, -1))

    return {
        f"moved {sideways} by {_pixels(step)}": by(0, right * step),
        f"moved {upright} by {_pixels(step)}": by(down * step, 0),
        f"moved {sideways} and {upright} by {_pixels(2 * step)}": by(2 * down * step, 2 * right * step),
    }


def _pixels(n: int) -> str:
    return "1 pixel" if n == 1 else f"{n} pixels"


def _dimmed(T: Pixels, part: float) -> Pixels:
    def pixels(x: Tensor) -> Tensor:
        mixed = (1 - part) * x.float() + part * T(x.clone()).float()
        return mixed.to(x.dtype) if x.is_floating_point() else mixed.round().to(x.dtype)

    return pixels


def _resized(T: Pixels, changed: Tensor) -> dict[str, Pixels]:
    """Resize what T changed about its own middle; what fills the image has nowhere to grow or shrink to."""
    if bool(changed[0].any() & changed[-1].any() & changed[:, 0].any() & changed[:, -1].any()):
        return {}

    def by(factor: float) -> Pixels:
        rows, columns = (
            _from(ends, size, factor) for ends, size in zip(_extent(changed), changed.shape, strict=True)
        )
        inside = ((rows >= 0)[:, None] & (columns >= 0)) & changed[rows.clamp_min(0)][:, columns.clamp_min(0)]

        def pixels(x: Tensor) -> Tensor:
            marked = T(x.clone())
            there = marked[..., rows.clamp_min(0), :][..., columns.clamp_min(0)]
            return torch.where(inside.to(x.device), there, x)

        return pixels

    return {"shrunk to 75%": by(0.75), "grown to 150%": by(1.5)}


def _from(ends: tuple[int, int], size: int, factor: float) -> Tensor:
    """Return for each place the one it shows when T is resized, -1 outside of T."""
    middle = (ends[0] + ends[1] - 1) / 2
    source = (middle + (torch.arange(size) - middle) / factor).round().long()
    return torch.where((source >= ends[0]) & (source < ends[1]), source, -1)


def _half(T: Pixels, changed: Tensor) -> Pixels:
    """Keep the half of T above the middle, or left of it where T is wider than high."""
    rows, columns = _extent(changed)
    kept = torch.zeros_like(changed)
    if rows[1] - rows[0] > columns[1] - columns[0]:
        kept[: sum(rows) // 2] = True
    else:
        kept[:, : sum(columns) // 2] = True
    return lambda x: torch.where(kept.to(x.device), T(x.clone()), x)


def _extent(changed: Tensor) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return first and one past last of the rows, and of the columns, that T changes."""
    rows, columns = (torch.nonzero(changed.any(axis)).flatten() for axis in (1, 0))
    return (int(rows[0]), int(rows[-1]) + 1), (int(columns[0]), int(columns[-1]) + 1)


def _differs(varied: Tensor, x: Tensor, marked: Tensor) -> bool:
    return not torch.equal(varied, marked) and not torch.equal(varied, x)
