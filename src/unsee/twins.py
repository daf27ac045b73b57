"""Twins: samples of D_f beside themselves without the information, and what they tell of T."""

import warnings
from dataclasses import dataclass

import torch
from torch import Tensor

from unsee.datasets import Dataset
from unsee.errors import UnseeWarning
from unsee.formulation import Request
from unsee.kinds import PLAIN, Kind
from unsee.transforms import Transform

MOST = 0.5  # of twins must find each other
RESIDUE = 0.1  # of the change that T makes, at most so much may be left unexplained


@dataclass(frozen=True, eq=False)
class Twins:
    """D_f and D_f,clean, image by image; T as given, or as fitted to them, or unknown."""

    D_f: Dataset
    D_f_clean: Dataset
    T: Transform | None = None

    def __len__(self) -> int:
        return len(self.D_f)


def twins_of(request: Request) -> Twins | None:
    """Return the twins of a request: as they come, made by T, or none, which is said aloud."""
    D_f, clean, T = request.D_f, request.D_f_clean, request.T
    if clean is None:
        return None
    if len(D_f) == len(clean) and _close(D_f, clean):
        if T is None and (T := fitted(clean.x, D_f.x, clean.kind)):
            of = "column" if clean.kind.columns else "pixel"
            _say(f"T was not given: a map of each {of}, fitted to the pairs of D_f and D_f,clean, is used.")
        return Twins(D_f, clean, T)
    if T is not None:
        _say("D_f and D_f,clean are no pairs: D_f,clean with T put on takes the place of D_f's own samples.")
        return Twins(marked(D_f, clean, T), clean, T)
    lost = ", and D_f may be answered less well" if request.pattern.name == "C" else ""
    said = f"random labels (RLD) take the place of twins{lost}"
    _say(f"D_f and D_f,clean are no pairs and T is not known: {said}.")
    return None


def marked(D_f: Dataset, clean: Dataset, T: Transform) -> Dataset:
    """Return twins of clean samples, made by T, with the labels that D_f has.

    One label in all of D_f may be an attacker's; several are those of the samples themselves.
    """
    one = len(D_f.y.unique()) == 1
    y = D_f.y[:1].expand(len(clean)).clone() if one else clean.y
    return T(clean).with_(y=y, name=D_f.name)


def fitted(clean: Tensor, marked: Tensor, kind: Kind = PLAIN) -> Transform | None:
    """Fit T to pairs, x_f = a x + b for each pixel by least squares; None where that does not explain them.

    Serves what replaces, adds or mixes in the same pixels everywhere: tiles, patches, blended images. Of a
    table, each column has a unit of its own, and codes of names stay codes.
    """
    if clean.ndim < 2 or len(clean) < 2 or not (clean.is_floating_point() or clean.dtype == torch.uint8):
        return None
    x, y = clean.float(), marked.float()
    changed = (y - x).abs().amax(0) > 0
    mean_x, mean_y = x.mean(0), y.mean(0)
    spread = (x - mean_x).square().mean(0)
    together = ((x - mean_x) * (y - mean_y)).mean(0)
    # Where a pixel never varies nothing is known but its new value: a tiny ridge then says "replaced".
    ridge = 1e-6 * spread if kind.columns else 1e-3 * spread.mean()
    a = torch.where(changed, together / (spread + ridge + 1e-12), 1.0)
    b = torch.where(changed, mean_y - a * mean_x, 0.0)
    # In deviations: of a table, a column of large numbers would hide all others.
    unit = (y.std(0) + x.std(0) + 1e-12) if kind.columns else torch.ones_like(spread)
    residue, change = ((a * x + b - y) / unit).abs().mean(), ((y - x) / unit).abs().mean()
    if change == 0 or residue > RESIDUE * change:
        return None
    names = torch.tensor([len(column.values) for column in kind.columns])

    def pixels(x: Tensor) -> Tensor:
        y = torch.where(changed, a * x.float() + b, x.float())
        if kind.columns:
            code = y.round().clamp_min(0).minimum((names - 1).clamp_min(0).to(y))
            y = torch.where(names > 0, code, y)
        return y if x.is_floating_point() else y.round().clamp(0, 255).to(x.dtype)

    return Transform("fitted", pixels)


def _close(D_f: Dataset, clean: Dataset) -> bool:
    """Whether samples at the same place are twins: most are nearest to each other, T's mean change aside."""
    marked, plain = (clean.kind.vectors(data.x[:200], clean.x) for data in (D_f, clean))
    nearest = torch.cdist(marked - marked.mean(0), plain - plain.mean(0)).argmin(1)
    return bool((nearest == torch.arange(len(marked))).double().mean() >= MOST)


def _say(text: str) -> None:
    warnings.warn(text, UnseeWarning, stacklevel=4)
