"""Balance: in the end the classes of D_f,clean have the probability that is theirs, and no less.

D_f,clean is of few classes, often of one. Where the descent ends, their logits lie some tenths too low, for
each seed by another amount, and a tenth is worth a point of accuracy there. So a number b is added to the
logit of each of these own classes that is answered less well than the others (logit adjustment). It is the
one at which the cross entropy is least, over samples of D_f,clean, and of the sketch for all other classes,
every class counting alike:

    b = argmin over b >= 0 of the mean over classes of the mean over a class's samples of -log p(class | x; b)

So a class has the probability that is its own, and a hard one fewer right answers than others. As it is to be
answered as well as the rest is, one that is behind is lifted on until it no longer is, if it is the only one.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unsee.answers import logits
from unsee.datasets import Dataset
from unsee.loss import Loss
from unsee.randomness import stream

DRAWS, SAMPLES = 5, 1000  # from the sketch: with fewer, b is uncertain by a tenth
MOST, FEWEST = 5000, 20  # samples of D_f,clean that are looked at, and that a class of it must have
FARTHEST = 1.0  # a logit that is farther off is no matter of balance
EASIER = 0.05  # by so much the sketch's samples are answered better than new ones (docs/decisions/0022)
CHANCE, PAST = 1.0, 1e-5  # standard errors; what takes a logit past another
PROBED = 16
NAME = "shift of class "


class Seen(NamedTuple):
    """Logits of samples, and their labels."""

    y: Tensor
    labels: Tensor

    @property
    def right(self) -> Tensor:
        """1 for each sample that is answered rightly, else 0."""
        return (self.y.argmax(1) == self.labels).double()

    def with_(self, b: Mapping[int, float]) -> "Seen":
        """Return the same with so much more of these logits."""
        more = self.y.new_zeros(self.y.shape[1])
        more[list(b)] = more.new_tensor(list(b.values()))
        return Seen(self.y + more, self.labels)


def last_touch(loss: Loss) -> Callable[[], dict[str, float]] | None:
    """Return what balances the loss's model once it is trained; None where there is nothing to do it by.

    Stand-ins will not do: nobody knows of which classes they are.
    """
    clean, twins, replay, T = loss.request.D_f_clean, loss.twins, loss.replay, loss.T
    if loss.recipe.balance != "adjusted" or clean is None or replay is None or replay.sketch is None:
        return None
    labels, counts = clean.y.unique(return_counts=True)
    own = labels[counts >= FEWEST].tolist()
    if not own or len(labels) == loss.classes:
        return None
    corrected = [clean] if twins is None else [twins.D_f_clean, twins.D_f.with_(y=twins.D_f_clean.y)]

    def drawn() -> Iterator[Dataset]:
        for i in range(DRAWS):
            x, y = replay.draw(SAMPLES, stream(loss.seed, "balance", i))
            yield clean.with_(x=x, y=y)
            if T:
                yield clean.with_(x=T.pixels(x.clone()), y=y)

    return lambda: {f"{NAME}{c}": b for c, b in balance(loss.model, own, corrected, drawn()).items()}


def shifts(row: Mapping[str, float], classes: Sequence[str]) -> dict[str, float] | None:
    """Return what the last touch has put into a row, by the names of the classes; None where it has not."""
    found = {int(name.removeprefix(NAME)): b for name, b in row.items() if name.startswith(NAME)}
    return {classes[c]: b for c, b in found.items()} or None


def balance(
    model: nn.Module, own: Sequence[int], corrected: Sequence[Dataset], rest: Iterable[Dataset]
) -> dict[int, float]:
    """Lift the logits of the own classes in place; return by how much, and nothing where there is no need.

    `corrected` are samples of these classes, with T and without: the set that is answered less well counts,
    as both are to be answered well. Of the `rest`, all other classes count. A class gains only if it is
    answered less well than they are, and never loses: samples that were trained on look better than others,
    so a logit that seems too low is too low, and one that seems too high may not be.
    """
    bias = bias_of(model, own, _some(corrected[0], PROBED))
    if bias is None:
        return {}
    mine = [_seen(model, _of(_some(data, MOST), own)) for data in corrected]
    others = [_seen(model, part) for data in rest if len(part := _of(data, own, others=True))]
    if not others:
        return {}
    theirs = Seen(*map(torch.cat, zip(*others, strict=True)))
    b = _to_its_share(own, mine, theirs)
    if len(own) == 1:  # several would have to be weighed against each other too
        c = own[0]
        far = b.get(c, 0.0) + max(behind(part.with_(b), theirs.with_(b), c) for part in mine)
        if 0 < far <= FARTHEST:
            b[c] = far
    with torch.no_grad():
        bias[list(b)] += torch.tensor(list(b.values())).to(bias)
    return b


def _to_its_share(own: Sequence[int], mine: Sequence[Seen], theirs: Seen) -> dict[int, float]:
    """Return what lifts those of the own classes that are answered less well than others to their share."""
    worst = max(
        mine, key=lambda part: float(F.cross_entropy(_against_others(part.y, own), _sides(part.labels, own)))
    )
    needy = [
        i for i, c in enumerate(own) if bool(worst.right[worst.labels == c].mean() < theirs.right.mean())
    ]
    y, labels = torch.cat([worst.y, theirs.y]), torch.cat([worst.labels, theirs.labels])
    found = lift(_against_others(y, own), _sides(labels, own), _alike(labels), needy)
    return {own[i]: far for i, far in found.items()}


def behind(mine: Seen, theirs: Seen, c: int) -> float:
    """Return the least b >= 0 at which class c is answered as well as the others are, but for chance.

    own(b) + CHANCE sqrt(own(b) (1 - own(b)) / n) >= others(b) - EASIER, the shares of right answers

    >>> zeros, ones = torch.zeros(10, dtype=torch.long), torch.ones(10, dtype=torch.long)
    >>> mine = Seen(torch.tensor([[0.0, 0.3]] * 4 + [[0.0, 0.6]] * 1 + [[1.0, 0.0]] * 5), zeros)
    >>> others = Seen(torch.tensor([[0.0, 0.4]] * 2 + [[0.0, 1.0]] * 8), ones)
    >>> round(behind(mine, others, 0), 3)  # nine of mine are right then, five before
    0.3
    """
    y = mine.y[mine.labels == c]
    lacks = (y.amax(1) - y[:, c]).sort().values  # 0 of a sample that is answered rightly
    ahead = theirs.y.gather(1, theirs.labels[:, None])[:, 0] - theirs.y[:, c]
    ahead = torch.where(theirs.right > 0, ahead, -math.inf).sort().values
    b = torch.cat([lacks.new_zeros(1), lacks, ahead[ahead > 0]]).sort().values  # where either share changes
    right = torch.searchsorted(lacks, b, right=True) / len(lacks)
    others = 1 - torch.searchsorted(ahead, b, right=True) / len(ahead)
    chance = CHANCE * (right * (1 - right) / len(lacks)).sqrt()
    first = int(torch.nonzero(right + chance >= others - EASIER)[0])
    return float(b[first]) + (PAST if b[first] > 0 else 0.0)


def lift(z: Tensor, y: Tensor, weight: Tensor, columns: Sequence[int]) -> dict[int, float]:
    """Return b > 0 of those of the columns that gain by it, the others being left at 0.

    None of them where that takes more than a matter of balance.
    """
    columns = list(columns)
    while columns:
        b = dict(zip(columns, shift(z, y, weight, columns), strict=True))
        if not all(math.isfinite(far) for far in b.values()):
            return {}
        lowest = min(columns, key=b.__getitem__)
        if b[lowest] > 0:
            return b if max(b.values()) <= FARTHEST else {}
        columns.remove(lowest)
    return {}


def shift(z: Tensor, y: Tensor, weight: Tensor, columns: Sequence[int]) -> list[float]:
    """Return b of these columns, at which sum weight cross_entropy(z + b, y) is least.

    >>> z = torch.tensor([-1.0, 0.0, 2.0], dtype=torch.float64)
    >>> z = torch.stack([torch.cat([z, -z]) - 0.5, torch.zeros(6)], 1)
    >>> [round(b, 6) for b in shift(z, torch.tensor([0, 0, 0, 1, 1, 1]), torch.ones(6) / 6, [0])]
    [0.5]
    """
    b = torch.zeros(len(columns), dtype=z.dtype, requires_grad=True)
    place = torch.eye(z.shape[1], dtype=z.dtype)[list(columns)]
    search = torch.optim.LBFGS([b], max_iter=100, tolerance_change=0, line_search_fn="strong_wolfe")

    def L() -> Tensor:
        search.zero_grad()
        loss = (weight * F.cross_entropy(z + b @ place, y, reduction="none")).sum()
        loss.backward()
        return loss

    search.step(L)
    return b.tolist()


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


def _of(data: Dataset, own: Sequence[int], *, others: bool = False) -> Dataset:
    """Return the samples of the own classes, or of all others."""
    return data.subset(torch.nonzero(torch.isin(data.y, torch.tensor(own)) ^ others).flatten())


def _seen(model: nn.Module, data: Dataset) -> Seen:
    return Seen(logits(model, data).double(), data.y)


def _against_others(y: Tensor, own: Sequence[int]) -> Tensor:
    """Return the logits of the own classes, and in a last column that of all other classes together."""
    y, others = y.double(), torch.ones(y.shape[1], dtype=torch.bool)
    others[list(own)] = False
    return torch.cat([y[:, list(own)], y[:, others].logsumexp(1, keepdim=True)], 1)


def _sides(y: Tensor, own: Sequence[int]) -> Tensor:
    """Return the column that is a label's: that of an own class, or the last."""
    places = {label: place for place, label in enumerate(own)}
    return torch.tensor([places.get(label, len(own)) for label in y.tolist()])


def _alike(y: Tensor) -> Tensor:
    """Return weights of the samples by which every class counts alike, 1 in all."""
    _, place, counts = y.unique(return_inverse=True, return_counts=True)
    return (1 / (len(counts) * counts.double()))[place]


def _some(data: Dataset, most: int) -> Dataset:
    """Return so many samples at the most, from all over the data."""
    if len(data) <= most:
        return data
    return data.subset(torch.linspace(0, len(data) - 1, most).long())
