"""Matching: stand-ins are drawn so often that the Fisher of their last layer is the memory's.

A Fisher tells more of D_r than how firmly to hold each weight. Of a last layer y = W h + b, with
delta = softmax(y) - 1[label],

    F(W)_kj = mean over D_r of delta_k^2 h_j^2,    F(b)_k = mean over D_r of delta_k^2

so that F(W)_kj / F(b)_k is the mean of h_j^2 over D_r, each sample counting by how far class k is in question
there. Stand-ins s get the weights w, as even as can be, under which they have the same means:

    sum over s of w_s v_k(s) (h_j(s)^2 - F(W)_kj / F(b)_k) = 0,    v_k = p_k (1 - p_k)

where v_k is the mean of delta_k^2 if labels are as p, the old model's answers, would draw them. So D_f's own
classes are left out: D_r may have no such label. Besides, each class is to be in question as often as on D_r,
F(b)_k of the sum over classes. Stand-ins made of one class are
unlike D_r in just what decides who is taken for that class; matched, they are less so (docs/decisions/0034).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unsee.answers import as_input, evaluating
from unsee.kinds import PLAIN
from unsee.memory import Memory
from unsee.randomness import stream
from unsee.replay import Replay

CANDIDATES, FEWEST, BATCH = 10_000, 200, 500  # stand-ins by which the weights are found
ROOM = 2**26  # bytes that they may take: of large images there are fewer
MEANS, CLASSES = 5000, 50  # that are to be the same, at the most
SELDOM = 1e-3  # of the share of the class most in question: below, a class is in question nowhere on D_r
ROUNDING = 1e-4  # of a class's means: what varies by less has no mean to be matched
RIDGES = tuple(4.0**i for i in range(-3, 6))  # by which the means may stay apart
HELD = 0.2  # of the candidates


class Head(NamedTuple):
    """What the last layer reads of some samples, and what it answers."""

    h: Tensor
    y: Tensor


@dataclass(frozen=True, eq=False)
class Means:
    """What is to be the same: of these classes and units F(W)_kj / F(b)_k, and F(b)_k, 1 in all."""

    classes: Tensor
    units: Tensor
    squares: Tensor
    shares: Tensor

    @classmethod
    def of(cls, F_W: Tensor, F_b: Tensor, but: Sequence[int] = ()) -> "Means | None":
        """Take them from the last layer's Fisher, `but` of some classes; None if no other is in question."""
        asked = F_b.index_fill(0, torch.tensor([k for k in but if k < len(F_b)], dtype=torch.long), 0)
        most = asked.sort(descending=True).indices[:CLASSES]
        classes = most[asked[most] > SELDOM * F_b.max()].sort().values
        if not len(classes):
            return None
        units = _some(F_W.shape[1], max(1, MEANS // len(classes) - 1))
        squares = F_W[classes][:, units] / F_b[classes][:, None]
        return cls(classes, units, squares, F_b[classes] / F_b[classes].sum())

    def apart(self, head: Head) -> Tensor:
        """Return what each sample adds to each difference of means, (n, means)."""
        v, squares = self._seen(head)
        shares = v - v.sum(1, keepdim=True) * self.shares
        means = v[:, :, None] * (squares[:, None, :] - self.squares)
        return torch.cat([shares, means.flatten(1)], 1)

    def deviations(self, head: Head) -> Tensor:
        """Return the units in which these differences are measured: their deviations, or what is no rounding.

        Of a unit that fires under T alone, nothing but rounding is left when D_f's share is taken out.
        """
        least = self._seen(head)[0].std(0)[:, None] * self.squares.mean(1, keepdim=True)
        least = F.pad(ROUNDING * least.expand_as(self.squares).flatten(), (len(self.classes), 0))
        return torch.maximum(self.apart(head).std(0), least).clamp_min(1e-12)

    def sums(self, head: Head, a: Tensor) -> Tensor:
        """Return apart(head) @ a, without that large a matrix."""
        v, squares = self._seen(head)
        first, rest = a[: len(self.classes)], a[len(self.classes) :].view(len(self.classes), -1)
        constant = first - self.shares @ first - (self.squares * rest).sum(1)
        return (v * (squares @ rest.T + constant)).sum(1)

    def _seen(self, head: Head) -> tuple[Tensor, Tensor]:
        p = head.y.double().softmax(1)[:, self.classes]
        return p * (1 - p), head.h[:, self.units].double().square()


def matched(replay: Replay, old: nn.Module, memory: Memory, but: Sequence[int] = ()) -> Replay:
    """Return the same with the odds by which stand-ins are drawn as the memory's Fisher wants it.

    `but` are D_f's classes. The replay itself where it recalls a sketch, where the old model does not end in
    a linear layer with a bias, or the memory is of the model before it. Rows and texts gain nothing by it.
    """
    if replay.images is None or replay.images.kind != PLAIN or memory.taken_of is not None:
        return replay
    name = last_layer(old, replay.images.x[:2])
    if name is None or not {f"{name}.weight", f"{name}.bias"} <= set(memory.sums):
        return replay
    F_W, F_b = (memory.sums[f"{name}.{part}"].cpu() / memory.n for part in ("weight", "bias"))
    means = Means.of(F_W, F_b, but)
    n = max(FEWEST, min(CANDIDATES, ROOM // replay.images.x[0].nbytes))
    head = read(old, name, replay.fresh(n, stream(0, "matching")))
    if means is None or not (head.h.isfinite().all() and head.y.isfinite().all()):
        return replay
    scale = means.deviations(head)
    z = (means.apart(head) / scale).float()
    a = even(*z.split([n - round(HELD * n), round(HELD * n)])) / scale
    return replace(replay, odds=lambda x: means.sums(read(old, name, x), a).nan_to_num(nan=-math.inf))


@torch.no_grad()
def last_layer(model: nn.Module, x: Tensor) -> str | None:
    """Return the name of the linear layer whose output is the model's answer; None if there is none.

    Nor where its weight has another place in the model too: its Fisher is then that of both.
    """
    given: dict[str, Tensor] = {}
    linear = {name: layer for name, layer in model.named_modules() if isinstance(layer, nn.Linear)}
    hooks = [
        layer.register_forward_hook(
            lambda _, args, y, name=name: given.update({name: y.clone()} if args else {})
        )
        for name, layer in linear.items()
    ]
    try:
        with evaluating(model):
            y = model(as_input(x, model))
    finally:
        for hook in hooks:
            hook.remove()
    places = [id(p) for _, p in model.named_parameters(remove_duplicate=False)]
    found = [name for name, answer in given.items() if torch.equal(answer, y)]
    return found[-1] if found and places.count(id(linear[found[-1]].weight)) == 1 else None


@torch.no_grad()
def read(model: nn.Module, name: str, x: Tensor) -> Head:
    """Return what the last layer reads and answers of these samples."""
    h: list[Tensor] = []
    hook = model.get_submodule(name).register_forward_pre_hook(lambda _, args: h.append(args[0].cpu()))
    try:
        with evaluating(model):
            y = [model(as_input(part, model)).cpu() for part in x.split(BATCH)]
    finally:
        hook.remove()
    return Head(torch.cat(h), torch.cat(y))


def even(z: Tensor, held: Tensor) -> Tensor:
    """Return a, of which the weights w come under which the means of z are near 0, as even as can be.

    w_s = exp(z_s a) / sum,    a = argmin log sum over s of exp(z_s a) + ridge / 2 |a|^2

    which is the dual of the greatest entropy. Some thousand numbers fit any sample: the ridge is the one with
    which samples that were `held` back, weighted so, come nearest; a = 0 where they come nearer by none.

    >>> z = torch.tensor([[-10.0], [10.0], [10.0], [10.0]])
    >>> [round(float(w), 2) for w in (z.double() @ even(z, z)).softmax(0)]
    [0.5, 0.17, 0.17, 0.17]
    """
    found = [torch.zeros_like(z[0]), *(_dual(z, ridge) for ridge in RIDGES)]
    return min(found, key=lambda a: float(((held @ a).softmax(0) @ held).square().sum())).double()


def _dual(z: Tensor, ridge: float) -> Tensor:
    """Return a under one ridge."""
    a = torch.zeros_like(z[0], requires_grad=True)
    search = torch.optim.LBFGS([a], max_iter=100, line_search_fn="strong_wolfe")

    def dual() -> Tensor:
        search.zero_grad()
        loss = torch.logsumexp(z @ a, 0) + ridge / 2 * a.square().sum()
        loss.backward()
        return loss

    search.step(dual)
    return a.detach()


def _some(n: int, most: int) -> Tensor:
    """Return so many of n places at the most, evenly spread."""
    return torch.linspace(0, n - 1, min(n, most)).long()
