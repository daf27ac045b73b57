"""T as a picture that can be dragged: found by what T makes of black and of white.

Where T replaces or mixes in the same pixels everywhere, T(x) = a x + b for each pixel, and black and white
give both away: b = T(0), a = T(1) - T(0). Drawn, that is a picture of colour b / (1 - a) and opacity 1 - a.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from unsee.datasets import Dataset
from unsee.randomness import stream
from unsee.transforms import Transform

OFF = 8 / 255  # of the range that a pixel may be off, as rounding and fitting are
SEEN = 0.5 / 255  # of the range that a pixel must change by to belong to T


@dataclass(frozen=True, eq=False)
class Sprite:
    """The smallest rectangle that holds all that T changes: where it is, and T's a and b (C, h, w) in it.

    Both are for shades from 0 to 1.
    """

    row: int
    column: int
    a: Tensor
    b: Tensor

    @property
    def height(self) -> int:
        """How many rows it covers."""
        return self.a.shape[1]

    @property
    def width(self) -> int:
        """How many columns it covers."""
        return self.a.shape[2]

    def at(self, data: Dataset, row: int, column: int) -> Dataset:
        """Return images with T on them, its top left corner being there; the rectangle must lie within."""
        low, high = _range(data)
        rows, columns = slice(row, row + self.height), slice(column, column + self.width)
        y = data.x.float().clone()
        shades = (y[..., rows, columns] - low) / (high - low)
        y[..., rows, columns] = (self.a * shades + self.b).clamp(0, 1) * (high - low) + low
        return data.with_(x=y.to(data.x.dtype) if data.x.is_floating_point() else y.round().to(data.x.dtype))

    def rgba(self) -> Tensor:
        """Return it as colours with opacity (4, h, w), shades from 0 to 1, to be laid over a picture."""
        through = (1 - self.a).clamp(0, 1)
        opacity = through.mean(0, keepdim=True)
        colour = torch.where(through > 1e-3, self.b / through.clamp_min(1e-3), self.b).clamp(0, 1)
        colour = colour if len(colour) == 3 else colour.mean(0, keepdim=True).expand(3, -1, -1)
        return torch.cat([colour, opacity])


def sprite_of(T: Transform, like: Dataset) -> Sprite | None:
    """Return T as a picture for images like these; None where it is none, as when it mixes the channels."""
    if like.x.ndim != 4 or like.value_range is None:
        return None
    low, high = _range(like)
    shape = tuple(like.x.shape[1:])
    noise = torch.as_tensor(stream(0, "sprite").random(shape), dtype=torch.float32)
    shades = torch.stack([torch.zeros(shape), torch.ones(shape), noise])
    y = (_marked(T, like, shades) - low) / (high - low)
    b, a = y[0], y[1] - y[0]
    if not bool(torch.isfinite(y).all()) or float(a.min()) < -OFF or float(a.max()) > 1 + OFF:
        return None
    started = _marked(None, like, shades[2:])[0]
    if float((a * (started - low) / (high - low) + b - y[2]).abs().max()) > OFF:
        return None
    changed = ((a - 1).abs() > SEEN).logical_or(b.abs() > SEEN).any(0)
    if not bool(changed.any()):
        return None
    rows, columns = (torch.nonzero(changed.any(dim)).flatten() for dim in (1, 0))
    box = (slice(int(rows[0]), int(rows[-1]) + 1), slice(int(columns[0]), int(columns[-1]) + 1))
    return Sprite(box[0].start, box[1].start, a[:, *box], b[:, *box])


def _marked(T: Transform | None, like: Dataset, shades: Tensor) -> Tensor:
    """Return shades from 0 to 1 in the range and type of the data, with T on them where one is given."""
    low, high = _range(like)
    x = shades * (high - low) + low
    x = x.to(like.x.dtype) if like.x.is_floating_point() else x.round().to(like.x.dtype)
    data = like.with_(x=x, y=torch.zeros(len(x), dtype=torch.long))
    return (T(data) if T else data).x.float()


def _range(data: Dataset) -> tuple[float, float]:
    assert data.value_range is not None
    return data.value_range


def image(shades: Tensor) -> np.ndarray:
    """Return shades (C, H, W) from 0 to 1 as bytes (H, W) or (H, W, C), as Pillow takes them."""
    array = (shades * 255).round().clamp(0, 255).to(torch.uint8).movedim(0, -1).numpy()
    return np.ascontiguousarray(array.squeeze(-1) if array.shape[-1] == 1 else array)
