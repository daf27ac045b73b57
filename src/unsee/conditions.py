"""What must hold of D_f, D_f,clean and T, so that one can be the other without the information."""

import warnings

import torch
from torch import Tensor

from unsee.datasets import Dataset
from unsee.errors import InputError, UnseeWarning
from unsee.transforms import Transform


def check_alike(D_f: Dataset, D_f_clean: Dataset) -> None:
    """Refuse sets of which one cannot be the other without the information: other classes, range or shape."""
    for what in ("classes", "value_range"):
        if getattr(D_f, what) != getattr(D_f_clean, what):
            found = f"{getattr(D_f, what)} and {getattr(D_f_clean, what)}"
            raise InputError(
                f"the same {what.replace('_', ' ')} in D_f and D_f,clean", found, "bring them in line"
            )
    if D_f.kind != D_f_clean.kind:
        found = f"{D_f.kind.name} and {D_f_clean.kind.name}, or others of the kind"
        raise InputError("the same columns or vocabulary in D_f and D_f,clean", found, "bring them in line")
    if D_f.x.shape[1:] != D_f_clean.x.shape[1:]:
        found = f"{tuple(D_f.x.shape[1:])} and {tuple(D_f_clean.x.shape[1:])}"
        raise InputError("samples of one shape in D_f and D_f,clean", found, "resize them")


def check_T(T: Transform, D_f: Dataset, D_f_clean: Dataset) -> None:
    """Warn where the paper's second condition fails: the distance of T(D_f,clean) to D_f is small."""
    kind, few = D_f.kind, D_f_clean.subset(range(min(100, len(D_f_clean))))
    sample = kind.vectors(T(few).x, D_f.x)
    parts = [kind.vectors(part, D_f.x) for part in D_f.x.split(4096)]
    nearest = torch.stack([torch.cdist(sample, part).amin(1) for part in parts]).amin(0).mean()
    typical = _typical_distance(kind.vectors(D_f.x[:500], D_f.x))
    if len(D_f) > 1 and nearest > 0.1 * typical:
        share = float(nearest / typical)
        warnings.warn(
            f"T = {T.name} does not lead from D_f,clean to D_f: the distance is {share:.0%} of that between "
            "samples of D_f, at most 10% expected. Check T, or leave it out.",
            UnseeWarning,
            stacklevel=4,
        )


def _typical_distance(x: Tensor) -> Tensor:
    return (x - x.roll(1, 0)).norm(dim=1).mean()
