"""Subjects: the networks that are measured, with data of their shape that is drawn, not read."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unsee import networks
from unsee.datasets import Dataset
from unsee.randomness import seeded, stream

CLASSES = 10


@dataclass(frozen=True, eq=False)
class Subject:
    """A network in eval mode and as much data as one pass goes over, in batches of a size that suits it."""

    name: str
    model: nn.Module
    data: Dataset
    batch_size: int

    @property
    def parameters(self) -> int:
        """How many numbers are learnt."""
        return sum(p.numel() for p in self.model.parameters())


def images(n: int, shape: Sequence[int], seed: int = 0) -> Dataset:
    """Draw n images and labels; a pass takes as long over them as over any others."""
    random = stream(seed, "images")
    x = torch.from_numpy(random.integers(0, 256, (n, *shape), dtype="uint8"))
    return Dataset(x, torch.from_numpy(random.integers(0, CLASSES, n)), tuple(map(str, range(CLASSES))))


def mlp(n: int, side: int = 28, depth: int = 10, batch_size: int = 512) -> Subject:
    """The paper's MLP for grey images: at 28 pixels, 784 wide."""
    shape = (1, side, side)
    model = networks.mlp(shape, CLASSES, depth=depth, mean=(127.5,), std=(73.9,)).eval()
    return Subject(f"MLP {depth} x {side * side}", model, images(n, shape), batch_size)


def resnet_18(n: int, width: int = 64, batch_size: int = 32) -> Subject:
    """ResNet-18 (arXiv 1512.03385) for colour images of 32 pixels, BatchNorm frozen."""
    shape = (3, 32, 32)
    with seeded(0, "resnet-18"):
        model = ResNet18(width).eval()
    return Subject(
        "ResNet-18" if width == 64 else f"ResNet-18, width {width}", model, images(n, shape), batch_size
    )


def vit(n: int, dim: int = 192, depth: int = 6, batch_size: int = 64) -> Subject:
    """A small vision transformer (arXiv 2010.11929) for colour images of 32 pixels, in patches of 4."""
    with seeded(0, "vit"):
        model = ViT(dim, depth).eval()
    return Subject(f"ViT {depth} x {dim}", model, images(n, (3, 32, 32)), batch_size)


class ResNet18(nn.Sequential):
    """Four stages of two blocks, each stage twice as wide as the one before."""

    def __init__(self, width: int) -> None:
        widths = [width * 2**stage for stage in range(4)]
        blocks = [
            Block(inner if not block else outer, outer, 2 if stage and not block else 1)
            for stage, (inner, outer) in enumerate(zip([width, *widths], widths, strict=False))
            for block in range(2)
        ]
        super().__init__(
            networks.Standardise([127.5] * 3, [73.9] * 3),
            nn.Conv2d(3, width, 3, 1, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            *blocks,
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(widths[-1], CLASSES),
        )


class Block(nn.Module):
    """Two convolutions beside a shortcut, which is one too where the shape changes."""

    def __init__(self, inner: int, outer: int, stride: int) -> None:
        super().__init__()
        self.way = nn.Sequential(
            nn.Conv2d(inner, outer, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outer),
            nn.ReLU(),
            nn.Conv2d(outer, outer, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outer),
        )
        straight = stride == 1 and inner == outer
        short = nn.Sequential(nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer))
        self.short = nn.Identity() if straight else short

    def forward(self, x: Tensor) -> Tensor:
        """Map (n, inner, H, W) to (n, outer, H / stride, W / stride)."""
        return F.relu(self.way(x) + self.short(x))


class ViT(nn.Module):
    """Patches, a class token, learnt positions, and blocks of attention."""

    def __init__(self, dim: int, depth: int, patch: int = 4, side: int = 32) -> None:
        super().__init__()
        self.standardise = networks.Standardise([127.5] * 3, [73.9] * 3)
        self.patches = nn.Conv2d(3, dim, patch, patch)
        self.token = nn.Parameter(torch.zeros(1, 1, dim))
        self.positions = nn.Parameter(0.02 * torch.randn(1, (side // patch) ** 2 + 1, dim))
        self.blocks = nn.Sequential(*[Attending(dim, max(1, dim // 64)) for _ in range(depth)])
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """Map (n, 3, H, W) to logits, read off the class token."""
        seen = self.patches(self.standardise(x)).flatten(2).mT
        seen = torch.cat([self.token.expand(len(x), -1, -1), seen], 1) + self.positions
        return self.head(self.norm(self.blocks(seen))[:, 0])


class Attending(nn.Module):
    """Attention, then an MLP, each after a LayerNorm and beside a shortcut."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.after = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.asked, self.answered = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x: Tensor) -> Tensor:
        """Map (n, t, dim) to the same shape."""
        parts = self.asked(self.before(x)).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.answered(F.scaled_dot_product_attention(*parts).transpose(1, 2).flatten(2))
        return x + self.mlp(self.after(x))
