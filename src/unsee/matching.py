"""Matching: stand-ins are drawn so often that the Fisher of their last layer is the memory's.

A Fisher tells more of D_r than how firmly to hold each weight. Of a last layer y = W h + b, with
delta = softmax(y) - 1[label],

    F(W)_kj = mean over D_r of delta_k^2 h_j^2,    F(b)_k = mean over D_r of delta_k^2

so that F(W)_kj / F(b)_k is the mean of h_j^2 over D_r, each sample counting by how far class k is in question
there. Stand-ins s get the weights w, as even as can be, under which they have the same means:

    sum over s of w_s v_k(s) (h_j(s)^2 - F(W)_kj / F(b)_k) = 0,    v_k = p_k (1 - p_k)

where v_k is the mean of delta_k^2 if labels are as p, the old model's answers, would draw them. So D_f's own
classes are left out: D_r may have no such label. Besides, each class is to be in question as often as on D_r,
F(b)_k of the sum over classes. What is made of one class is unlike D_r in just what decides who is taken for
that class; matched, it is less so (docs/decisions/0034).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from unsee.answers import as_input, evaluating
from unsee.memory import Memory
from unsee.randomness import stream
from unsee.replay import Pool, Replay

SAMPLES, FEWEST, PART, BATCH = 25_000, 5000, 1000, 500  # in all; made, and looked at, together
HELD = 0.2  # of them, by which balance is judged
ROOM = 2**27  # bytes that the pool may take: of large images there are fewer
MEANS, CLASSES, UNITS = 5000, 50, 600  # that are to be the same, at the most
SELDOM = 1e-3  # of the share of the class most in question: below, a class is in question nowhere on D_r
ROUNDING = 1e-4  # of a class's means: what varies by less has no mean to be matched
RIDGES = tuple(4.0**i for i in range(-1, 6))  # by which the means may stay apart
COUNT = 0.1  # of the pool, at the least: where fewer count, they are learnt by heart


class Head(NamedTuple):
    """What some units of the last layer read of some samples, squared, and v_k = p_k (1 - p_k) of classes."""

    squares: Tensor
    v: Tensor


class Means(NamedTuple):
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
        most_units = min(F_W.shape[1], UNITS, max(1, MEANS // len(classes)))
        units = torch.linspace(0, F_W.shape[1] - 1, most_units).long()
        squares = F_W[classes][:, units] / F_b[classes][:, None]
        return cls(classes, units, squares, F_b[classes] / F_b[classes].sum())


@dataclass(frozen=True, eq=False)
class Apart:
    """What each sample adds to each difference of means, in deviations, (n, means): kept in factors.

    The first differences are of shares, v_k - share_k sum v; then, class by class, of squares.
    """

    head: Head
    means: Means
    units: Tensor
    """In which they are measured."""

    @classmethod
    def of(cls, head: Head, means: Means) -> "Apart":
        """Measure samples, which are the pool that is to be weighted."""
        v, m, n = head.v.double(), means.squares, len(head.v)
        shares = (v - v.sum(1, keepdim=True) * means.shares).std(0)
        first, second = torch.zeros_like(m), torch.zeros_like(m)
        for part, squares in zip(v.split(PART), head.squares.split(PART), strict=True):
            squares = squares.double()
            first += (part.T @ squares - m * part.sum(0)[:, None]) / n
            part = part.square()
            second += (part.T @ squares.square() - 2 * m * (part.T @ squares)) / n
            second += m.square() * part.sum(0)[:, None] / n
        # Of a unit that fires under T alone, nothing but rounding is left when D_f's share is taken out.
        least = ROUNDING * v.std(0)[:, None] * m.mean(1, keepdim=True)
        deviations = torch.maximum((second - first.square()).clamp_min(0).sqrt(), least)
        return cls(head, means, torch.cat([shares, deviations.flatten()]).clamp_min(1e-12).float())

    def sums(self, a: Tensor) -> Tensor:
        """Return the matrix times a, by its factors."""
        means, k = self.means, len(self.means.classes)
        first, rest = (a / self.units).split([k, len(a) - k])
        rest = rest.view(k, -1)
        constant = first - means.shares.float() @ first - (means.squares.float() * rest).sum(1)
        return (self.head.v * (self.head.squares @ rest.T + constant)).sum(1)


def matched(replay: Replay, old: nn.Module, memory: Memory, but: Sequence[int] = ()) -> Replay:
    """Return the same with a pool of its samples, made once, to be drawn as the memory's Fisher wants it.

    `but` are D_f's classes. The replay itself where it recalls a sketch, where the old model does not end in
    a linear layer with a bias, or the memory is of the model before it. Rows and texts gain nothing by it.
    """
    if replay.sketch:
        return replay
    some = replay.anew(2, stream(0, "matching"))[0]
    n = min(SAMPLES, ROOM // max(1, some[0].nbytes))
    if some.ndim != 4 or n < FEWEST or memory.taken_of is not None:
        return replay
    name = last_layer(old, some)
    if name is None or not {f"{name}.weight", f"{name}.bias"} <= set(memory.sums):
        return replay
    F_W, F_b = (memory.sums[f"{name}.{part}"].cpu() / memory.n for part in ("weight", "bias"))
    means = Means.of(F_W, F_b, but)
    if means is None:
        return replay
    held = round(HELD * n)
    x = torch.cat([_made(_apart(replay, held=False), n - held), _made(_apart(replay, held=True), held)])
    head = read(old, name, x, means)
    w = even(Apart.of(head, means)) if all(bool(part.isfinite().all()) for part in head) else None
    if w is None:
        return replay
    pool = Pool(x, None, w)
    return replace(replay, pool=pool.part(slice(n - held)), held=pool.part(slice(n - held, n)))


def _made(replay: Replay, n: int) -> Tensor:
    """Make n stand-ins, a part at a time."""
    generator = stream(0, "matching", n)
    return torch.cat([replay.anew(min(PART, n - begin), generator)[0] for begin in range(0, n, PART)])


def _apart(replay: Replay, *, held: bool) -> Replay:
    """Return the replay with some of its `rare` samples, which are drawn as they are: a share or the rest."""
    if replay.rare is None:
        return replay
    mine = (torch.arange(len(replay.rare)) % round(1 / HELD) == 0) == held
    return replace(replay, rare=replay.rare[mine])


@torch.no_grad()
def last_layer(model: nn.Module, x: Tensor) -> str | None:
    """Return the name of the linear layer whose output is the model's answer; None if there is none.

    Nor where it has another place in the model too, or is called twice: its Fisher is then that of both.
    """
    given: dict[str, list[Tensor]] = {}
    linear = {name: layer for name, layer in model.named_modules() if isinstance(layer, nn.Linear)}
    hooks = [
        layer.register_forward_hook(
            lambda _, args, y, name=name: given.setdefault(name, []).append(y.clone() if args else y[:0])
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
    found = [name for name, answers in given.items() if len(answers) == 1 and torch.equal(answers[0], y)]
    return found[-1] if found and places.count(id(linear[found[-1]].weight)) == 1 else None


@torch.no_grad()
def read(model: nn.Module, name: str, x: Tensor, means: Means) -> Head:
    """Return what the last layer reads and answers of these samples, as far as the means are of it."""
    h: list[Tensor] = []
    v: list[Tensor] = []
    hook = model.get_submodule(name).register_forward_pre_hook(
        lambda _, args: h.append(args[0].cpu()[:, means.units].float().square())
    )
    try:
        with evaluating(model):
            for part in x.split(BATCH):
                p = model(as_input(part, model)).cpu().double().softmax(1)[:, means.classes]
                v.append((p * (1 - p)).float())
    finally:
        hook.remove()
    return Head(torch.cat(h), torch.cat(v))


def even(z: Apart) -> Tensor | None:
    """Return the weights w under which the means are near to what they are to be, as even as can be.

    w_s = exp(z_s a) / sum,    a = argmin log sum over s of exp(z_s a) + ridge / 2 |a|^2

    which is the dual of the greatest entropy. Some thousand means fit few samples best: the ridge is the
    smallest under which 1 / sum of w^2, by which samples that count are counted, is a tenth of all; None
    where under none it is.
    """
    for ridge in RIDGES:
        w = _dual(z, ridge)
        if 1 / float(w.square().sum()) >= COUNT * len(w):
            return w
    return None


def _dual(z: Apart, ridge: float) -> Tensor:
    """Return the weights under one ridge."""
    a = torch.zeros_like(z.units, requires_grad=True)
    search = torch.optim.LBFGS([a], max_iter=100, line_search_fn="strong_wolfe")

    def dual() -> Tensor:
        search.zero_grad()
        loss = torch.logsumexp(z.sums(a), 0) + ridge / 2 * a.square().sum()
        loss.backward()
        return loss

    search.step(dual)
    with torch.no_grad():
        return z.sums(a).double().softmax(0)
