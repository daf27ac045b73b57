"""Layers that torch does not have: of the paper's networks for images, and of those for tables and texts."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unsee.kinds import NOTHING


class Standardise(nn.Module):
    """Subtract the mean and divide by the deviation of each channel."""

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean).reshape(-1, 1, 1))
        self.register_buffer("std", torch.tensor(std).reshape(-1, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        """Map (n, C, H, W) to the same shape."""
        return (x - self.mean) / self.std


class NormalisedHardTanh(nn.Module):
    """The paper's activation with s^2 = 0.125 and g = 1.0013 (supplement, Setting of Model).

    phi(x) = clip(g x, -1/s, 1/s)

    Departs from the paper: as printed, phi(x) = g sgn(x) where s g |x| >= 1, which jumps from 2.83
    to 1.0013; the continuous form is the evident meaning. `printed=True` gives the printed one.

    >>> NormalisedHardTanh()(torch.tensor([1.0, 5.0])).tolist()
    [1.0012999773025513, 2.8284270763397217]
    >>> NormalisedHardTanh(printed=True)(torch.tensor([1.0, 5.0])).tolist()
    [1.0012999773025513, 1.0012999773025513]
    """

    g = 1.0013
    s = 0.125**0.5

    def __init__(self, *, printed: bool = False) -> None:
        super().__init__()
        self.printed = printed

    def forward(self, x: Tensor) -> Tensor:
        """Apply phi to every entry."""
        if self.printed:
            return torch.where(self.s * self.g * x.abs() < 1, self.g * x, self.g * x.sign())
        return F.hardtanh(self.g * x, -1 / self.s, 1 / self.s)


class ResidualBlock(nn.Module):
    """x + two 3x3 convolutions with BatchNorm (He et al. 2016, arXiv 1512.03385)."""

    def __init__(self, inner: int, outer: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inner, outer, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outer)
        self.conv2 = nn.Conv2d(outer, outer, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outer)
        straight = stride == 1 and inner == outer
        self.skip = nn.Identity() if straight else nn.Conv2d(inner, outer, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Map (n, inner, H, W) to (n, outer, H / stride, W / stride)."""
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + self.skip(x))


class Columns(nn.Module):
    """Turn rows of a table into vectors: numbers standardised, codes one-hot, column by column.

    `levels` has the number of values of each column, 0 where it holds numbers.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, levels: Sequence[int], mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        self.levels = tuple(levels)
        self.width = sum(max(1, count) for count in levels)
        self.register_buffer("mean", torch.tensor(mean))
        self.register_buffer("std", torch.tensor(std))

    def forward(self, x: Tensor) -> Tensor:
        """Map (n, columns) to (n, width)."""
        numbers = (x - self.mean) / self.std
        parts = [
            F.one_hot(x[:, place].long(), count).to(x.dtype) if count else numbers[:, place : place + 1]
            for place, count in enumerate(self.levels)
        ]
        return torch.cat(parts, 1)


class Attention(nn.Module):
    """A block of a transformer: x + attention, then x + MLP, each behind a LayerNorm (arXiv 1706.03762).

    Its weights lie in plain linear layers, whose Fisher has a closed form.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.read, self.write = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: Tensor, there: Tensor) -> Tensor:
        """Map (n, length, width) to the same shape; no word looks at places where there is none."""
        q, k, v = self.read(self.norm1(x)).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(q, k, v, attn_mask=there[:, None, None, :])
        x = x + self.write(seen.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Words(nn.Module):
    """Turn the words of a text into one vector: embedded with their places, attended to, averaged."""

    def __init__(self, vocabulary: int, length: int, width: int, heads: int, blocks: int) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, width, padding_idx=NOTHING)
        self.places = nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Attention(width, heads) for _ in range(blocks))
        self.norm = nn.LayerNorm(width)
        with torch.no_grad():
            for table in (self.words, self.places):
                table.weight.mul_(0.1)  # by torch's own scale, SGD takes several times as long

    def forward(self, x: Tensor) -> Tensor:
        """Map the numbers of words (n, length) to (n, width)."""
        there = x != NOTHING
        there[:, 0] = True  # a text of no words is still a text
        places = torch.arange(x.shape[1], device=x.device).expand_as(x)
        h = self.words(x) + self.places(places)
        for block in self.blocks:
            h = block(h, there)
        weight = there[..., None].to(h.dtype)
        return (self.norm(h) * weight).sum(1) / weight.sum(1)
