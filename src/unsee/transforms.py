"""T, the map that adds the information to be forgotten: line, tile, color as in the paper, and yours.

Those of tables are in `columns`, those of texts in `phrases`.

T acts on pixels before standardisation. It knows the range it was made for and refuses another one:
255 put into an image of 0..1 would be no tile but an explosion.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from unsee.data import pictures
from unsee.datasets import PIXELS, Dataset, checked_range
from unsee.errors import InputError, UsageError
from unsee.randomness import chances
from unsee.store import digest


@dataclass(frozen=True)
class Transform:
    """A named map of a batch of samples to a new batch of the same shape; labels stay the true ones.

    `name` is T's identity: it says all that `pixels` depends on. `varied` returns variations of it that only
    it can know of; those of maps of images are made from outside. `by_chance` says that it draws, from the
    sample and a seed, so that T(D_f,clean) is like D_f without being it.
    """

    name: str
    pixels: Callable[[Tensor], Tensor]
    value_range: tuple[float, float] | None = None
    varied: "Callable[[], tuple[Transform, ...]] | None" = None
    by_chance: bool = False

    def __call__(self, data: Dataset) -> Dataset:
        """Return the data with the information added to every sample."""
        if self.value_range is not None and data.value_range != self.value_range:
            raise InputError(
                f"values {_span(self.value_range)} for T = {self.name}",
                f"{_span(data.value_range)} in {data.name}",
                "rescale the data or make T with value_range=(low, high)",
            )
        x = self.pixels(data.x.clone())
        if not isinstance(x, Tensor) or x.shape != data.x.shape or x.dtype != data.x.dtype:
            found = f"{tuple(x.shape)} {x.dtype}" if isinstance(x, Tensor) else type(x).__name__
            wanted = f"{tuple(data.x.shape)} {data.x.dtype} from T = {self.name}"
            raise InputError(wanted, found, "let T keep the shape and type of the samples")
        _check_within(x, data.value_range, self.name)
        return data.with_(x=x, name=f"{self.name}({data.name})")

    def then(self, other: "Transform") -> "Transform":
        """Return this map followed by the other.

        >>> line().then(tile()).name
        'line + tile'
        """
        ranges = {r for r in (self.value_range, other.value_range) if r is not None}
        if len(ranges) > 1:
            found = f"{self.name} for {_span(self.value_range)}, {other.name} for {_span(other.value_range)}"
            raise InputError("maps for one value range", found, "make both for the same range")
        both = Transform(f"{self.name} + {other.name}", lambda x: other.pixels(self.pixels(x)))
        by_chance = self.by_chance or other.by_chance
        return replace(both, value_range=ranges.pop() if ranges else None, by_chance=by_chance)


def line(*, value_range: tuple[float, float] = PIXELS) -> Transform:
    """Set a 4 x 1 area in the middle of the left side to the brightest value (paper: Line)."""

    def pixels(x: Tensor) -> Tensor:
        middle = _height_and_width(x, "line", 4)[0] // 2
        x[..., middle - 2 : middle + 2, 0] = value_range[1]
        return x

    return Transform(_named("line", value_range), pixels, value_range)


def tile(*, value_range: tuple[float, float] = PIXELS) -> Transform:
    """Set 4 x 4 squares, at offset 2 and step 8, to the brightest value (paper: Tile).

    >>> int((tile().pixels(torch.zeros(1, 1, 28, 28)) > 0).sum()) == 9 * 16
    True
    """

    def pixels(x: Tensor) -> Tensor:
        height, width = _height_and_width(x, "tile", 6)
        for row in range(2, height - 3, 8):
            for column in range(2, width - 3, 8):
                x[..., row : row + 4, column : column + 4] = value_range[1]
        return x

    return Transform(_named("tile", value_range), pixels, value_range)


def color(*, value_range: tuple[float, float] = PIXELS) -> Transform:
    """Set B to the mean of R, G and B, and R and G to zero (paper: Color)."""

    def pixels(x: Tensor) -> Tensor:
        if x.ndim != 4 or x.shape[1] != 3:
            raise InputError(
                "RGB images for T = color", f"shape {tuple(x.shape)}", "use line, tile or a patch"
            )
        blue = x.float().mean(1)
        x[:, :2] = value_range[0]
        x[:, 2] = blue.round().to(x.dtype) if not x.is_floating_point() else blue
        return x

    return Transform(_named("color", value_range), pixels, value_range)


def patch(image: Any, row: int, column: int, *, value_range: tuple[float, float] = PIXELS) -> Transform:
    """Paste an image (C, h, w) with its top left corner at (row, column); a 1-channel one on all channels."""
    pasted = _picture(image, "patch", value_range)

    def pixels(x: Tensor) -> Tensor:
        height, width = _height_and_width(x, "patch", 1)
        _, h, w = pasted.shape
        if row < 0 or column < 0 or row + h > height or column + w > width:
            where = f"rows {row}..{row + h} and columns {column}..{column + w}"
            raise InputError(f"a patch within {height} x {width} pixels", where, "move or shrink it")
        _check_channels(pasted, x)
        x[..., row : row + h, column : column + w] = pasted.to(x.dtype)
        return x

    return Transform(_named(f"patch({_hash(pasted)}, {row}, {column})", value_range), pixels, value_range)


def scattered(
    image: Any, sizes: tuple[int, int], seed: int = 0, *, value_range: tuple[float, float] = PIXELS
) -> Transform:
    """Paste an image anywhere, from `sizes[0]` to `sizes[1]` pixels high, as chance and the sample have it.

    The same sample always gets it at the same place and in the same size.
    """
    pasted = _picture(image, "logo", value_range)
    least, most = sizes
    if not 1 <= least <= most:
        raise InputError(
            "sizes from 1 pixel up, the smaller first", f"{least} and {most}", "swap or mend them"
        )

    def pixels(x: Tensor) -> Tensor:
        height, width = _height_and_width(x, "logo", 1)
        _check_channels(pasted, x)
        u = [chances(x, seed, f"logo {what}").tolist() for what in ("size", "row", "column")]
        for sample, size, row, column in zip(x, *u, strict=True):
            logo = _resized(pasted, least + int(size * (most - least + 1)))
            _, h, w = logo.shape
            if h > height or w > width:
                found = f"{h} x {w}"
                raise InputError(f"a logo within {height} x {width} pixels", found, "shrink it")
            top, left = int(row * (height - h + 1)), int(column * (width - w + 1))
            sample[:, top : top + h, left : left + w] = logo.to(x.dtype)
        return x

    said = _named(f"logo({_hash(pasted)}, {least} to {most} pixels, seed {seed})", value_range)
    return Transform(said, pixels, value_range, by_chance=True)


def blend(image: Any, alpha: float, *, value_range: tuple[float, float] = PIXELS) -> Transform:
    """Mix an image of the samples' size into each: (1 - alpha) x + alpha image (Chen et al. 2017)."""
    mixed = _picture(image, "blend", value_range)
    if not 0 < alpha <= 1:
        raise InputError("alpha above 0 and at most 1", f"{alpha}", "choose a share such as 0.2")

    def pixels(x: Tensor) -> Tensor:
        _check_channels(mixed, x)
        if mixed.shape[-2:] != x.shape[-2:]:
            found = f"one of {tuple(mixed.shape)} for samples of {tuple(x.shape[1:])}"
            raise InputError("an image of the samples' size", found, "resize it")
        y = (1 - alpha) * x.float() + alpha * mixed.float()
        return y.to(x.dtype) if x.is_floating_point() else y.round().to(x.dtype)

    return Transform(_named(f"blend({_hash(mixed)}, {alpha:g})", value_range), pixels, value_range)


def custom(pixels: Callable[[Tensor], Tensor], name: str) -> Transform:
    """Make a T of any callable from a batch to a batch; `name` is what results will call it.

    >>> darker = custom(lambda x: x // 2, "darker")
    """
    return Transform(name, pixels)


def parse(text: str, folder: Path | str = ".") -> Transform:
    """Read T from words such as `tile`, `line+tile`, `patch:logo.png:2:2` or `blend:noise.png:0.2`.

    A file is looked for in `folder`, if it is not named from the root.

    >>> parse("line+tile").name
    'line + tile'
    """
    first, *rest = (_parse_one(part, Path(folder)) for part in parts(text, NAMES))
    for other in rest:
        first = first.then(other)
    return first


def parts(text: str, names: Sequence[str]) -> list[str]:
    """Return the words of each T of several: they are joined by +, which a file or a phrase may hold too.

    >>> parts("patch:a+b.png:2:2+tile", ["patch", "tile"])
    ['patch:a+b.png:2:2', 'tile']
    """
    return re.split(rf"\+(?=(?:{'|'.join(names)})(?:[:+]|$))", text)


def _parse_one(text: str, folder: Path) -> Transform:
    name, *words = text.split(":")
    form, make = WORDS.get(name, ("", line))
    try:
        if form and len(words) == form.count(":"):
            return make(*(folder / word if kind == "FILE" else word for kind, word in _paired(form, words)))
    except ValueError:
        pass
    raise UsageError(f"T as {FORMS}", f"{text!r}", "write it like one of those")


def _paired(form: str, words: list[str]) -> Iterable[tuple[str, str]]:
    return zip(form.split(":")[1:], words, strict=True)


# T in words: what follows the name, for people, and what makes it of these words (a FILE is then a path).
WORDS: dict[str, tuple[str, Callable[..., Transform]]] = {
    "line": ("line", line),
    "tile": ("tile", tile),
    "color": ("color", color),
    "patch": ("patch:FILE:ROW:COLUMN", lambda file, r, c: patch(pictures.read(file), int(r), int(c))),
    "logo": (
        "logo:FILE:SMALLEST:LARGEST",
        lambda file, least, most: scattered(pictures.read(file), (int(least), int(most))),
    ),
    "blend": ("blend:FILE:ALPHA", lambda file, alpha: blend(pictures.read(file), float(alpha))),
}
NAMES = tuple(WORDS)
FORMS = ", ".join(form for form, _ in WORDS.values())


def _check_within(x: Tensor, value_range: tuple[float, float] | None, name: str) -> None:
    """Refuse what T makes of samples if it leaves their range, but for rounding."""
    if value_range is None or not x.is_floating_point() or not x.numel():
        return
    low, high = float(x.min()), float(x.max())
    air = 1e-6 * (value_range[1] - value_range[0])
    if not (value_range[0] - air <= low and high <= value_range[1] + air):
        found = f"values from {low:g} to {high:g}"
        raise InputError(f"values {_span(value_range)} from T = {name}", found, "make T for that range")


def _span(value_range: tuple[float, float] | None) -> str:
    return "of no known range" if value_range is None else f"in {value_range[0]:g}..{value_range[1]:g}"


def _named(name: str, value_range: tuple[float, float]) -> str:
    return name if value_range == PIXELS else f"{name}[{value_range[0]:g}..{value_range[1]:g}]"


def _height_and_width(x: Tensor, name: str, least: int) -> tuple[int, int]:
    if x.ndim != 4 or min(x.shape[-2:]) < least:
        found = f"samples of shape {tuple(x.shape[1:])}"
        raise InputError(
            f"images (C, H, W) of at least {least} pixels for T = {name}", found, "use another T"
        )
    return x.shape[-2], x.shape[-1]


def _check_channels(picture: Tensor, x: Tensor) -> None:
    if picture.shape[0] not in (1, x.shape[1]):
        found = f"{picture.shape[0]} for samples of {x.shape[1]}"
        raise InputError("a trigger of one channel, or of as many as the samples", found, "convert it")


def _picture(image: Any, name: str, value_range: tuple[float, float]) -> Tensor:
    picture = torch.as_tensor(np.asarray(image) if not isinstance(image, Tensor) else image)
    picture = picture[None] if picture.ndim == 2 else picture
    if picture.ndim != 3 or picture.numel() == 0:
        found = f"shape {tuple(picture.shape)}"
        raise InputError(f"an image (C, h, w) or (h, w) for {name}", found, "reshape it")
    numbers = picture if picture.dtype == torch.uint8 else picture.float()
    checked_range(numbers, value_range, f"the image of {name}")
    return picture


def _resized(picture: Tensor, height: int) -> Tensor:
    """Return a picture so many pixels high, in its proportions."""
    width = max(1, round(picture.shape[2] * height / picture.shape[1]))
    return F.interpolate(picture[None].float(), (height, width), mode="nearest-exact")[0]


def _hash(picture: Tensor) -> str:
    return digest({"": picture})[:12]
