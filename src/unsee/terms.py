"""The three terms of the loss: forgetting L_f, correction L_c, remembering R (paper, Methods)."""

from collections.abc import Iterable, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor


def rnd(y: Tensor, y_eta: Tensor) -> Tensor:
    """Random network distillation: L_RND = || f_theta(x_f) - f_eta(x_f) ||_2^2, mean over samples.

    >>> float(rnd(torch.tensor([[1.0, 2.0]]), torch.tensor([[0.0, 0.0]])))
    5.0
    """
    return (y - y_eta).square().sum(1).mean()


def rld(y: Tensor, u: Tensor) -> Tensor:
    """Random label distillation: L_RLD = L_cls(f_theta(x_f), u), u uniform on a subset of the labels."""
    return F.cross_entropy(y, u)


def random_labels(n: int, subset: Sequence[int], generator: np.random.Generator) -> Tensor:
    """Draw u for `rld`: n labels, independent and uniform on the subset."""
    return torch.as_tensor(np.asarray(subset)[generator.integers(len(subset), size=n)])


def correction(y: Tensor, labels: Tensor) -> Tensor:
    """L_c = L_cls(f_theta(x_fc), y_fc), the cross entropy on D_f,clean."""
    return F.cross_entropy(y, labels)


def remembering(theta: Iterable[Tensor], theta_old: Iterable[Tensor], fisher: Iterable[Tensor]) -> Tensor:
    """R = (theta - theta_old)^T F(theta_old) (theta - theta_old), with no one-half, as printed."""
    parts = [(f * (p - old).square()).sum() for p, old, f in zip(theta, theta_old, fisher, strict=True)]
    return torch.stack(parts).sum()


@torch.no_grad()
def add_remembering(
    theta: Iterable[Tensor], theta_old: Iterable[Tensor], fisher: Iterable[Tensor], lambda_kl: float
) -> Tensor:
    """Add lambda_KL dR/dtheta = 2 lambda_KL F (theta - theta_old) to each gradient; return R.

    The same as `(lambda_kl * remembering(...)).backward()`, without a graph over all parameters.
    """
    total = []
    for p, old, f in zip(theta, theta_old, fisher, strict=True):
        moved = p - old
        pull = f * moved
        total.append(torch.dot(pull.flatten(), moved.flatten()))
        p.grad = torch.zeros_like(p) if p.grad is None else p.grad.to_dense()
        p.grad.add_(pull, alpha=2 * lambda_kl)
    return torch.stack(total).sum()
