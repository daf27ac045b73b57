"""Balance: in the end the classes of D_f,clean are answered as well as the rest is, and no less.

D_f,clean is of few classes, often of one. Where the descent ends, their logits lie some tenths too low, for
each seed by another amount, and a tenth is worth a point of accuracy there. So a number b is added to the
logit of each of these own classes that is behind the others by more than chance (logit adjustment): the least
b >= 0 at which it is a little ahead, by shares of right answers:

    behind:  own(0) + its standard error < 1 - MORE (1 - others(0))
    ahead:   1 - own(b) <= AHEAD MORE (1 - others(b))

A point that the class gains costs the rest a sixth of one, and what is said of the rest is a point or two
off: to be a little ahead is the smaller mistake (docs/decisions/0039).

The others are replayed samples that were not trained on, right as far as what is wanted has the answer. They
may be easier than D_r: by how much, the memory tells, which knows the mean loss of D_r. It does not know how
much worse new samples are answered than those that the old model was trained on: MORE does. Classes that are
lifted take from the others: where the floor allows no more, it is a part of b, in tenths.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unsee.answers import logits
from unsee.datasets import Dataset
from unsee.loss import Loss
from unsee.randomness import stream
from unsee.replay import Pool

SAMPLES, PART = 5000, 1000  # from the sketch, where none are held back: with fewer, b is uncertain by a tenth
MOST, FEWEST = 5000, 20  # samples of D_f,clean that are looked at, and that a class of it must have
FARTHEST = 2.0  # a logit that is farther off is no matter of balance
MORE = 1.15  # errors on new samples, for each on those that were trained on (docs/decisions/0035)
CHANCE, AHEAD, PAST = 1.0, 0.98, 1e-5  # standard errors; of the errors; what takes a logit past another
ROUNDS = 3  # where there are several classes, each of which takes from the others
SHARES = tuple(tenths / 10 for tenths in range(10, 0, -1))
PROBED = 16
NAME = "shift of class "

Holds = Callable[[nn.Module], bool]


class Others(NamedTuple):
    """Logits of replayed samples, with T and without, and what each answer to them is worth: 1 in all."""

    y: Tensor
    worth: Tensor


def last_touch(loss: Loss, holds: Holds | None = None) -> Callable[[], dict[str, float]] | None:
    """Return what balances the loss's model once it is trained; None where there is nothing to do it by.

    `holds` tells whether a model is above the floor. Stand-ins that nothing tells how often to draw will not
    do: nobody knows of which classes they are.
    """
    clean, twins, replay = loss.request.D_f_clean, loss.twins, loss.replay
    if loss.recipe.balance != "adjusted" or clean is None or replay is None:
        return None
    if replay.held is None and replay.sketch is None:
        return None
    labels, counts = clean.y.unique(return_counts=True)
    own = labels[counts >= FEWEST].tolist()
    if not own or len(loss.request.corrected) == loss.classes:
        return None
    corrected = [clean] if twins is None else [twins.D_f_clean, twins.D_f.with_(y=twins.D_f_clean.y)]
    return lambda: {
        f"{NAME}{c}": b for c, b in balance(loss.model, own, corrected, others(loss, own), holds).items()
    }


def shifts(row: Mapping[str, float], classes: Sequence[str]) -> dict[str, float] | None:
    """Return what the last touch has put into a row, by the names of the classes; None where it has not."""
    found = {int(name.removeprefix(NAME)): b for name, b in row.items() if name.startswith(NAME)}
    return {classes[c]: b for c, b in found.items()} or None


def others(loss: Loss, own: Sequence[int]) -> Others | None:
    """Return what the loss's model answers to replayed samples of other classes; None if there are none.

    worth_sk = w_s q_sk exp(CE(q, p_old) - the memory's level) for the other classes k, at most 1 in all,
    q being what is wanted
    """
    y, q, losses = zip(*(_answered(loss, part, own) for part in _looked_at(loss)), strict=True)
    worth = torch.cat(q)
    total = float(worth.sum())
    if not total > 0:
        return None
    level = loss.remembered
    easier = 1.0 if level is None else math.exp(min(0.0, sum(losses) / total - level))
    sets = y[0].shape[1]
    return Others(torch.cat(y).flatten(0, 1), (easier / sets / total * worth).repeat_interleave(sets, 0))


def _looked_at(loss: Loss) -> Iterator[Pool]:
    """Return samples that were not trained on: those held back, or drawn from the sketch, some at a time."""
    assert loss.replay is not None
    if held := loss.replay.held:
        for begin in range(0, len(held.x), PART):
            rows = slice(begin, begin + PART)
            yield Pool(held.x[rows], None, held.odds[rows])
    else:
        for i in range(SAMPLES // PART):
            x, labels = loss.replay.anew(PART, stream(loss.seed, "balance", i))
            yield Pool(x, labels, torch.full((PART,), 1 / SAMPLES, dtype=torch.float64))


def _answered(loss: Loss, pool: Pool, own: Sequence[int]) -> tuple[Tensor, Tensor, float]:
    """Return the new answers without T and with it, (n, sets, classes); w q; and the old model's loss."""
    x, labels, odds = pool
    data = loss.request.D_f.with_(x=x, y=torch.zeros(len(x), dtype=torch.long))
    y_old = logits(loss.old, data).double()
    q = loss.wanted(y_old, labels).softmax(1)
    if labels is not None:
        odds = torch.where(torch.isin(labels, torch.tensor(own)), 0.0, odds)
    worth = odds[:, None] * q.index_fill(1, torch.tensor(own), 0.0)
    sets = [data, data.with_(x=loss.T.pixels(x.clone()))] if loss.T else [data]
    y = torch.stack([logits(loss.model, part).double() for part in sets], 1)
    old_loss = F.cross_entropy(y_old, q, reduction="none")
    return y, worth, float((worth.sum(1) * old_loss).sum())


def balance(
    model: nn.Module,
    own: Sequence[int],
    corrected: Sequence[Dataset],
    rest: Others | None,
    holds: Holds | None = None,
) -> dict[int, float]:
    """Lift the logits of the own classes in place; return by how much, and nothing where there is no need.

    `corrected` are samples of these classes, with T and without: the set that is answered less well counts,
    as both are to be answered well. A class gains only if it is answered less well than the `rest` is, and
    never loses: samples that were trained on look better than others, so a logit that seems too low is too
    low, and one that seems too high may not be.
    """
    bias = bias_of(model, own, _some(corrected[0], PROBED)) if rest else None
    if bias is None or rest is None:
        return {}
    mine = [(logits(model, data).double(), data.y) for data in (_some(data, MOST) for data in corrected)]
    b = torch.zeros(rest.y.shape[1], dtype=torch.float64)
    for _ in range(ROUNDS if len(own) > 1 else 1):
        for c in own:
            b[c] = 0.0
            lifted = Others(rest.y + b, rest.worth)
            parts = [part for y, labels in mine if len(part := (y + b)[labels == c])]
            b[c] = max((behind(part, lifted, c) for part in parts), default=0.0)
    if float(b.max()) > FARTHEST or not b.any():
        return {}
    share = _lifted(model, bias, list(own), b, holds)
    return {c: share * float(b[c]) for c in own if b[c] > 0} if share else {}


@torch.no_grad()
def _lifted(model: nn.Module, bias: nn.Parameter, own: list[int], b: Tensor, holds: Holds | None) -> float:
    """Add b to the bias of the own classes, as much of it as the model holds; return which share."""
    kept = bias.clone()
    for share in SHARES:
        bias[own] += (share * b[own]).to(bias)
        if holds is None or holds(model):
            return share
        bias.copy_(kept)
    return 0.0


def behind(mine: Tensor, rest: Others, c: int) -> float:
    """Return the least b >= 0 at which class c is a little ahead of the rest; 0 if it is not behind.

    >>> mine = torch.tensor([[0.0, 0.3]] * 4 + [[0.0, 0.6]] * 1 + [[1.0, 0.0]] * 5)
    >>> y = torch.tensor([[0.0, 0.4]] * 2 + [[0.0, 1.0]] * 7 + [[1.0, 0.0]])
    >>> round(behind(mine, Others(y, torch.tensor([[0.0, 0.1]] * 10)), 0), 3)  # nine of ten are right then
    0.3
    """
    lacks = (mine.amax(1) - mine[:, c]).double().sort().values  # 0 of a sample that is answered rightly
    y = rest.y.double()
    best, other = y.index_fill(1, torch.tensor(c), -math.inf).max(1)
    ahead, order = (best - y[:, c]).sort()
    # From the b on at which class c takes a sample, c is what its answer is worth.
    change = (rest.worth[:, c] - rest.worth.gather(1, other[:, None])[:, 0]).double()[order]
    base = rest.worth.gather(1, other[:, None]).double().sum()
    b = torch.cat([lacks.new_zeros(1), lacks, ahead[ahead > 0]]).sort().values  # where either share changes
    right = torch.searchsorted(lacks, b, right=True) / len(lacks)
    taken = F.pad(change.cumsum(0), (1, 0))[torch.searchsorted(ahead, b, right=True)]
    wrong = MORE * (1 - (base + taken)).clamp_min(0)  # rounding may make it more than all
    chance = CHANCE * math.sqrt(float(right[0] * (1 - right[0])) / len(lacks))
    if right[0] + chance >= 1 - wrong[0]:
        return 0.0
    first = int(torch.nonzero(1 - right <= AHEAD * wrong)[0])
    return float(b[first]) + (PAST if b[first] > 0 else 0.0)


@torch.no_grad()
def bias_of(model: nn.Module, own: Sequence[int], probe: Dataset) -> nn.Parameter | None:
    """Return the bias that moves these logits one by one, known by what it does; None if there is none."""
    before, far = _against_others(logits(model, probe), own), torch.linspace(1, 2, len(own))
    for bias in reversed(list(model.parameters())):
        if bias.requires_grad and bias.ndim == 1 and len(bias) > max(own):
            kept = bias.clone()
            bias[list(own)] += far.to(bias)
            moved = (_against_others(logits(model, probe), own) - before).diff(dim=1)
            bias.copy_(kept)
            wanted = F.pad(far, (0, 1)).diff().expand_as(moved)
            if torch.allclose(moved, wanted.to(moved), atol=1e-3):
                return bias
    return None


def _against_others(y: Tensor, own: Sequence[int]) -> Tensor:
    """Return the logits of the own classes, and in a last column that of all other classes together."""
    y, others = y.double(), torch.ones(y.shape[1], dtype=torch.bool)
    others[list(own)] = False
    return torch.cat([y[:, list(own)], y[:, others].logsumexp(1, keepdim=True)], 1)


def _some(data: Dataset, most: int) -> Dataset:
    """Return so many samples at the most, from all over the data."""
    if len(data) <= most:
        return data
    return data.subset(torch.linspace(0, len(data) - 1, most).long())
