"""Filling: what takes a logo or a mark out of an image where no clean image exists."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from unsee.data import pictures
from unsee.datasets import Dataset
from unsee.errors import InputError, UsageError
from unsee.randomness import chances
from unsee.store import digest
from unsee.transforms import Transform


def fill(mask: Any) -> Transform:
    """Return the map that fills a region of each image from its surroundings.

    `mask` (h, w) is above 0 where to fill. There, each pixel becomes the mean of its four neighbours, all of
    them at once (Laplace's equation), so that the rim runs on smoothly.
    """
    region = torch.as_tensor(np.asarray(mask) if not isinstance(mask, Tensor) else mask)
    region = (region.amax(0) if region.ndim == 3 else region) > 0
    if region.ndim != 2 or not bool(region.any()) or bool(region.all()):
        share = f"{float(region.double().mean()):.0%} of shape {tuple(region.shape)}"
        raise InputError("a mask (h, w) of a part of the image", share, "mark what is to be filled")

    def pixels(x: Tensor) -> Tensor:
        if tuple(x.shape[-2:]) != tuple(region.shape):
            found = f"one of {tuple(region.shape)} for samples of {tuple(x.shape[1:])}"
            raise InputError("a mask of the samples' size", found, "resize it")
        known = x.masked_fill(region, 0).double()
        around = F.pad(known, (1, 1, 1, 1))
        moved = [around.roll(shift, dim)[..., 1:-1, 1:-1] for shift in (1, -1) for dim in (-2, -1)]
        sums = torch.stack(moved).sum(0)
        rims = sums[..., region].reshape(-1, int(region.sum()))
        filled = torch.as_tensor(_laplacian(region).solve(rims.numpy().T).T).reshape(*x.shape[:-2], -1)
        x[..., region] = (filled if x.is_floating_point() else filled.round()).to(x.dtype)
        return x

    return Transform(f"fill({digest({'': region})[:12]})", pixels)


def filled(data: Dataset, masks: Any) -> Dataset:
    """Return images with a region of its own filled in each: masks (n, h, w) are above 0 where to fill."""
    regions = _regions(data, masks)
    maps = {mask.numpy().tobytes(): fill(mask) for mask in regions.unique(dim=0)}
    parts = [
        maps[mask.numpy().tobytes()].pixels(x[None].clone()) for x, mask in zip(data.x, regions, strict=True)
    ]
    return data.with_(x=torch.cat(parts), name=f"filled({data.name})")


def pasted(D_f: Dataset, masks: Any, seed: int = 0) -> Transform:
    """Return T where nobody has a formula for it: what the masks mark on one of D_f's images goes onto x.

    Which of them it is depends on x and the seed alone. `masks` (n, h, w) are above 0 where the mark is.
    """
    regions, marked = _regions(D_f, masks)[:, None], D_f.x

    def pixels(x: Tensor) -> Tensor:
        if x.shape[1:] != marked.shape[1:]:
            found = f"{tuple(x.shape[1:])} for {tuple(marked.shape[1:])}"
            raise InputError("images like those of D_f", found, "resize them")
        which = (chances(x, seed, "pasted") * len(marked)).long()
        return torch.where(regions[which].to(x.device), marked[which].to(x), x)

    said = f"pasted({digest({'marked': marked, 'masks': regions})[:12]}, seed {seed})"
    return Transform(said, pixels, D_f.value_range, by_chance=True)


def _regions(data: Dataset, masks: Any) -> Tensor:
    regions = torch.as_tensor(np.asarray(masks) if not isinstance(masks, Tensor) else masks) > 0
    if data.x.ndim != 4 or regions.shape != (len(data), *data.x.shape[-2:]):
        found = f"{tuple(regions.shape)} for {data}"
        raise InputError("a mask (h, w) for each image", found, "give as many, of their size")
    if not bool(regions.flatten(1).any(1).all()):
        raise InputError("a mark in each mask", "none in some", "leave those images out")
    return regions


def _laplacian(region: Tensor) -> Any:
    """Return the factorised system: a masked pixel times its neighbours, less those that are masked too."""
    from scipy.sparse import coo_array
    from scipy.sparse.linalg import splu

    rows, columns = torch.nonzero(region).T
    number = torch.full(tuple(region.shape), -1)
    number[rows, columns] = torch.arange(len(rows))
    framed = F.pad(number, (1, 1, 1, 1), value=-2)  # -1: known, -2: beyond the image
    near = torch.stack(
        [framed[rows + 1 + dy, columns + 1 + dx] for dy, dx in ((0, 1), (0, -1), (1, 0), (-1, 0))]
    )
    inner = near >= 0
    diagonal = (near > -2).sum(0).double()
    here = torch.arange(len(rows)).expand(4, -1)[inner]
    entries = torch.cat([diagonal, torch.full((int(inner.sum()),), -1.0, dtype=torch.float64)])
    i, j = torch.cat([torch.arange(len(rows)), here]), torch.cat([torch.arange(len(rows)), near[inner]])
    return splu(coo_array((entries.numpy(), (i.numpy(), j.numpy())), shape=(len(rows),) * 2).tocsc())


def parse(text: str, height: int, width: int, folder: Path | str = ".") -> Transform:
    """Read `mask:ROW:COLUMN:HEIGHT:WIDTH` or `mask:FILE`, an image that is not black where to fill.

    >>> parse("mask:0:0:2:2", 8, 8).name.startswith("fill(")
    True
    """
    name, *words = text.split(":")
    if name == "mask" and len(words) == 1 and words[0]:
        return fill(pictures.read(Path(folder) / words[0], (height, width)))
    if name == "mask" and len(words) == 4 and all(word.isdecimal() for word in words):
        row, column, h, w = map(int, words)
        region = torch.zeros(height, width)
        region[row : row + h, column : column + w] = 1
        if row + h > height or column + w > width or not h * w:
            found = f"rows {row}..{row + h} and columns {column}..{column + w}"
            raise InputError(f"a mask within {height} x {width} pixels", found, "move or shrink it")
        return fill(region)
    forms = "mask:ROW:COLUMN:HEIGHT:WIDTH or mask:FILE"
    raise UsageError(f"a mask as {forms}", f"{text!r}", "write it like one of those")
