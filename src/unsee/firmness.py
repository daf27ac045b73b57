"""How firmly the old model is held: how often lambda_KL and lambda_h count.

That goes by how far samples hold D_r by themselves, which the classes of D_f,clean tell (s is 0 where it is
of one class and 1 where it is of all, `Request.breadth`); by how noisy the steps are, which the size of D_f
tells; and by how many weights share F.
"""

from collections.abc import Sequence

from torch import Tensor

from unsee.plan import Plan

FIRMER = 10.0  # of small batches: more of what they say is noise, and R keeps it from D_r (decision 30)
LOOSE = 0.03  # of stand-ins' F, where there is no memory (decision 33)
OF_ALL = 0.3  # where D_f,clean is of all classes: its samples hold D_r better than R can (decision 36)
ALIKE = 10.0  # times lambda_h, where D_f,clean is of all classes (decision 40)
MEAN_F = 2e-4  # R holds no more firmly than by an F of this mean (decision 41)


def of_R(plan: Plan, s: float, fisher: Sequence[Tensor]) -> float:
    """Return how often lambda_KL counts, where there is a memory.

    (firmer min(1, MEAN_F / mean F))^(1 - s) OF_ALL^s

    R's step in closed form moves a weight back by a share that grows with its entry of F. A network of few
    weights has large ones, and would be held fast: decision 41.
    """
    sizes = [f.numel() for f in fisher]
    mean = sum(float(f.mean()) * n for f, n in zip(fisher, sizes, strict=True) if n) / max(sum(sizes), 1)
    firmer = (FIRMER if plan.average else 1.0) * (MEAN_F / mean if mean > MEAN_F else 1.0)
    return firmer ** (1 - s) * OF_ALL**s


def of_layers(plan: Plan, s: float) -> float:
    """Return how often lambda_h counts: ALIKE^s, where theta is averaged."""
    return ALIKE**s if plan.average else 1.0
