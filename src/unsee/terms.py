"""The three terms of the loss: forgetting L_f, correction L_c, remembering R (paper, Methods)."""

import math
from collections.abc import Callable, Iterable, Sequence
from enum import Enum

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from unsee.randomness import seeded

Term = Callable[[Tensor, Tensor, Tensor], Tensor]
"""A forgetting term: a function of the new answers to D_f, what is set against them, and D_f's labels.

Against a term of one's own stand the old answers to D_f.
"""
Room = tuple[Tensor, Tensor]
"""Where to compute: two tensors like theta, whose contents do not matter."""


class Against(Enum):
    """What the answers to D_f are set against."""

    RANDOM_LABELS = "labels drawn at random"
    RANDOM_NETWORK = "the answers of a network that has learnt nothing"
    OLD = "the old answers"
    OLD_TWINS = "the old answers to the clean twins"
    TWINS = "the present answers to the clean twins"
    NOTHING = "nothing but D_f's labels"


def rnd(y: Tensor, y_eta: Tensor) -> Tensor:
    """Random network distillation: L_RND = || f_theta(x_f) - f_eta(x_f) ||_2^2, mean over samples.

    >>> float(rnd(torch.tensor([[1.0, 2.0]]), torch.tensor([[0.0, 0.0]])))
    5.0
    """
    return (y - y_eta).square().sum(1).mean()


def rld(y: Tensor, u: Tensor) -> Tensor:
    """Random label distillation: L_RLD = L_cls(f_theta(x_f), u), u uniform on a subset of the labels."""
    return F.cross_entropy(y, u)


def masked(y: Tensor, y_old: Tensor, labels: Tensor) -> Tensor:
    """Masked distillation: x_f is answered as the *old* model answers, D_f's label left out.

    L = KL(p_old without D_f's label || p(x_f)), mean over samples. With the old answers to x_f itself this
    is DELETE (arXiv 2503.23751); with those to its clean twin, twin distillation.
    """
    return distil(y, y_old.scatter(1, labels[:, None], -1e4))  # finite, so that 0 log 0 stays a number


def invariance(y: Tensor, y_clean: Tensor) -> Tensor:
    """Invariance: x_f is answered as the *present* model answers its clean twin, which gets no gradient."""
    return distil(y, y_clean.detach())


def ascent(y: Tensor, labels: Tensor, most: float | None = None) -> Tensor:
    """Gradient ascent on D_f's labels, bounded: a sample's loss counts up to `most`, by default log C.

    There the label has no more than its share by chance; unbounded ascent has no end but a ruined model.
    """
    bound = math.log(y.shape[1]) if most is None else most
    return -F.cross_entropy(y, labels, reduction="none").clamp_max(bound).mean()


def distil(y: Tensor, y_old: Tensor) -> Tensor:
    """KL(p_old || p), mean over samples: what the present answers miss of the old ones.

    >>> round(float(distil(torch.tensor([[0.0, 0.0]]), torch.tensor([[100.0, 0.0]]))), 4)
    0.6931
    """
    return F.kl_div(F.log_softmax(y, 1), F.log_softmax(y_old, 1), reduction="batchmean", log_target=True)


# L_f by its name in a recipe.
TERMS: dict[str, tuple[Term, Against]] = {
    "rld": (lambda y, u, _: rld(y, u), Against.RANDOM_LABELS),
    "rnd": (lambda y, y_eta, _: rnd(y, y_eta), Against.RANDOM_NETWORK),
    "twin": (masked, Against.OLD_TWINS),
    "invariance": (lambda y, y_clean, _: invariance(y, y_clean), Against.TWINS),
    "delete": (masked, Against.OLD),
    "ascent": (lambda y, _, labels: ascent(y, labels), Against.NOTHING),
}
PAIRED = tuple(name for name, (_, against) in TERMS.items() if against in (Against.OLD_TWINS, Against.TWINS))


def known_by(L_f: Term, classes: int) -> str:
    """Return what a term of one's own is known by, so that a run does not go on with another.

    That is its name, and what it makes of four samples: names may be the same, as those of all lambdas are.
    """
    with seeded(0, "L_f"):
        y, y_old = torch.randn(2, 4, classes)
        value = L_f(y, y_old, torch.arange(4) % classes)
    name = f"{getattr(L_f, '__module__', '')}:{getattr(L_f, '__qualname__', type(L_f).__name__)}"
    return f"{name} = {float(value):.6g}" if isinstance(value, Tensor) and value.numel() == 1 else name


def hidden(read: Sequence[Tensor], read_old: Sequence[Tensor]) -> Tensor:
    """Hidden twins: every layer reads of x_f what the old model's read of its clean twin.

    L = mean over layers of || h(x_f) - h_old(x_fc) ||^2 / || h_old(x_fc) ||^2
    """
    parts = [
        (h - old).square().mean() / old.square().mean().clamp_min(1e-12)
        for h, old in zip(read, read_old, strict=True)
    ]
    return torch.stack(parts).mean()


def random_labels(n: int, subset: Sequence[int], generator: np.random.Generator) -> Tensor:
    """Draw u for `rld`: n labels, independent and uniform on the subset."""
    return torch.as_tensor(np.asarray(subset)[generator.integers(len(subset), size=n)])


def correction(y: Tensor, labels: Tensor) -> Tensor:
    """L_c = L_cls(f_theta(x_fc), y_fc), the cross entropy on D_f,clean."""
    return F.cross_entropy(y, labels)


def above(loss: Tensor, level: float) -> Tensor:
    """Return what a loss has above a level; below it there is nothing to gain (cf. arXiv 2002.08709)."""
    return (loss - level).clamp_min(0)


def remembering(theta: Iterable[Tensor], theta_old: Iterable[Tensor], fisher: Iterable[Tensor]) -> Tensor:
    """R = (theta - theta_old)^T F(theta_old) (theta - theta_old), with no one-half, as printed."""
    parts = [(f * (p - old).square()).sum() for p, old, f in zip(theta, theta_old, fisher, strict=True)]
    return torch.stack(parts).sum()


@torch.no_grad()
def pull_(
    grad: Tensor, theta: Tensor, theta_old: Tensor, fisher: Tensor, lambda_kl: float, room: Room
) -> Tensor:
    """Add lambda_KL dR/dtheta = 2 lambda_KL F (theta - theta_old) to a gradient, in place; return its R.

    The same as `(lambda_kl * remembering(...)).backward()`, without a graph over all parameters.
    """
    moved = torch.sub(theta, theta_old, out=room[0])
    pull = torch.mul(fisher, moved, out=room[1])
    grad.add_(pull, alpha=2 * lambda_kl)
    return torch.dot(pull.view(-1), moved.view(-1))


@torch.no_grad()
def proximal_(theta: Tensor, theta_old: Tensor, fisher: Tensor, strength: float, room: Room) -> None:
    """Take R's step in closed form, in place: the argmin of |theta' - theta|^2 / 2 + strength R(theta') / 2.

    theta <- (theta + a theta_old) / (1 + a), a = strength F: between theta and theta_old whatever the
    strength, where a gradient step would overshoot as soon as a > 2.
    """
    # Where F is 0 nothing holds theta, however great the strength; where a overflows, all of it does.
    a = torch.mul(fisher, strength, out=room[0]).nan_to_num_(nan=0.0)
    theta.lerp_(theta_old, a.div_(torch.add(a, 1, out=room[1])))
