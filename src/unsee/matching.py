"""Matching: stand-ins are drawn so often that the Fisher of their last layer is the memory's.

A Fisher tells more of D_r than how firmly to hold each weight. Of a last layer y = W h + b, with
delta = softmax(y) - 1[label],

    F(W)_kj = mean over D_r of delta_k^2 h_j^2,    F(b)_k = mean over D_r of delta_k^2

so that F(W)_kj / F(b)_k is the mean of h_j^2 over D_r, each sample counting by how far class k is in question
there. Stand-ins s get the weights w, as even as can be, under which they have the same means:

    sum over s of w_s v_k(s) (h_j(s)^2 - F(W)_kj / F(b)_k) = 0,    v_k = p_k (1 - p_k)

where v_k is the mean of delta_k^2 over labels as the old model p would draw them. Stand-ins of one class are
told from D_r by much that decides who is taken for that class; matched, by little (docs/decisions/0034).
"""

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from unsee.answers import as_input, evaluating
from unsee.kinds import PLAIN
from unsee.memory import Memory
from unsee.randomness import stream
from unsee.replay import Pool, Replay

CANDIDATES, FEWEST, BATCH = 8000, 500, 500  # stand-ins that are made to choose from
ROOM = (
    2**26
)  # bytes that they may take, and several times as much for a while: of large images there are fewer
MEANS = 5000  # that are to be the same, at the most
SELDOM = 1e-3  # of the share of the class most in question: below, a class is in question nowhere on D_r
RIDGE, FIRMER = 1.0, 4.0  # how far the means may stay apart: they are known of some thousand samples only
EFFECTIVE = 0.05  # of the candidates, at the least, must count: else fewer means are matched less


class Head(NamedTuple):
    """The last layer: what its parameters are called, what it reads of some samples, what it answers."""

    name: str
    h: Tensor
    y: Tensor


def matched(replay: Replay, old: nn.Module, memory: Memory) -> Replay:
    """Return the same with a pool of stand-ins, which are drawn as often as the memory's Fisher wants it.

    The replay itself where it recalls a sketch, or where the old model does not end in a linear layer. Rows
    and texts gain nothing by it (docs/decisions/0034).
    """
    if replay.images is None or replay.images.kind != PLAIN:
        return replay
    x = _candidates(replay, replay.images.x[0].nbytes)
    head = last_layer(old, x)
    if head is None or f"{head.name}.bias" not in memory.sums:
        return replay
    F_W, F_b = (memory.sums[f"{head.name}.{part}"].cpu() / memory.n for part in ("weight", "bias"))
    return replace(replay, pool=Pool(x, even(apart(head, F_W, F_b))))


def _candidates(replay: Replay, size: int) -> Tensor:
    """Make stand-ins of so many bytes each, half of them close to themselves where that may be asked."""
    n = max(FEWEST, min(CANDIDATES, ROOM // size))
    few = 0 if replay.near is None else n // 2
    return replay.made(n - few, few, stream(0, "matching"))


@torch.no_grad()
def last_layer(model: nn.Module, x: Tensor) -> Head | None:
    """Return the linear layer whose output is the model's answer; None if there is none."""
    linear = [(name, layer) for name, layer in model.named_modules() if isinstance(layer, nn.Linear)]
    if not linear:
        return None
    name, layer = linear[-1]
    read: list[Tensor] = []
    given: list[Tensor] = []

    def look(_: nn.Module, args: tuple[Tensor, ...], y: Tensor) -> None:
        read.extend(args[:1])
        given.append(y)

    hook = layer.register_forward_hook(look)
    try:
        with evaluating(model):
            answered = [model(as_input(part, model)) for part in x.split(BATCH)]
    finally:
        hook.remove()
    if not len(read) == len(given) == len(answered) or not all(map(torch.equal, given, answered)):
        return None
    return Head(name, torch.cat(read).cpu(), torch.cat(answered).cpu())


def apart(head: Head, F_W: Tensor, F_b: Tensor) -> Tensor:
    """Return what each sample adds to each difference of means, all of deviation 1: (n, means).

    Besides v_k (h_j^2 - F(W)_kj / F(b)_k): each class is to be in question as often as it is on D_r.
    """
    p = head.y.double().softmax(1)
    v = p * (1 - p)
    k = torch.nonzero(F_b > SELDOM * F_b.max()).flatten()
    units = _some(head.h.shape[1], max(1, MEANS // len(k)))
    means = (F_W[k][:, units] / F_b[k][:, None]).float()
    shares = v[:, k] - v[:, k].sum(1, keepdim=True) * F_b[k] / F_b[k].sum()
    squares = head.h[:, units].float().square()[:, None, :] - means
    z = torch.cat([shares.float(), (v[:, k].float()[:, :, None] * squares).flatten(1)], 1)
    return z / z.std(0).clamp_min(1e-12)


def even(z: Tensor) -> Tensor:
    """Return weights, 1 in all, under which the means of z are near 0, and which are as even as can be.

    w_s = exp(z_s a) / sum,    a = argmin log sum over s of exp(z_s a) + RIDGE / 2 |a|^2

    which is the dual of the greatest entropy. A firmer ridge follows where too few samples would count.

    >>> [round(float(w), 2) for w in even(torch.tensor([[-10.0], [10.0], [10.0], [10.0]]))]
    [0.5, 0.17, 0.17, 0.17]
    """
    ridge = RIDGE
    while True:
        a = torch.zeros(z.shape[1], requires_grad=True)
        search = torch.optim.LBFGS([a], max_iter=100, line_search_fn="strong_wolfe")

        def dual(a: Tensor = a, search: torch.optim.LBFGS = search, ridge: float = ridge) -> Tensor:
            search.zero_grad()
            loss = torch.logsumexp(z @ a, 0) + ridge / 2 * a.square().sum()
            loss.backward()
            return loss

        search.step(dual)
        w = (z @ a).detach().double().softmax(0)
        if 1 / float(w.square().sum()) >= EFFECTIVE * len(w):
            return w
        ridge *= FIRMER


def _some(n: int, most: int) -> Tensor:
    """Return so many of n places at the most, evenly spread."""
    return torch.linspace(0, n - 1, min(n, most)).long()
