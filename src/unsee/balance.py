"""Balance: in the end the classes of D_f,clean have the probability that is theirs, no more and no less.

D_f,clean is of few classes, often of one. Where the descent ends, their logits lie some tenths too high or
too low, for each seed elsewhere, and a tenth is worth a point of accuracy on D_f,clean. So one number b is
added to these logits (logit adjustment), at which the cross entropy, all classes counting alike, is least.
There its derivative is zero: what their own samples lack, the samples of others have in surplus,

    share mean over own samples of [1 - p_own(x; b)] = (1 - share) mean over others of p_own(x; b)
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from unsee.answers import as_input, evaluating
from unsee.datasets import Dataset, batches
from unsee.loss import Loss
from unsee.randomness import stream

SAMPLES = 5000  # of a set, at most: fewer leave b uncertain by a tenth
FARTHEST = 1.0  # a logit that is farther off is no matter of balance
HALVINGS = 40
PROBED = 16


def last_touch(loss: Loss) -> Callable[[], dict[str, float]] | None:
    """Return what balances the loss's model once it is trained; None where there is nothing to do it by.

    Stand-ins will not do: nobody knows of which classes they are.
    """
    clean, replay, T = loss.request.D_f_clean, loss.replay, loss.T
    if loss.recipe.balance != "adjusted" or clean is None or replay is None or replay.sketch is None:
        return None
    own = sorted(set(clean.y.tolist()))
    if len(own) == loss.classes:
        return None

    def touch() -> dict[str, float]:
        twins = loss.twins
        corrected = [clean] if twins is None else [twins.D_f_clean, twins.D_f.with_(y=twins.D_f_clean.y)]
        x, y = replay.draw(SAMPLES, stream(loss.seed, "balance"))
        drawn = [x, T.pixels(x.clone())] if T else [x]
        return {"shift": balance(loss.model, own, corrected, [clean.with_(x=part, y=y) for part in drawn])}

    return touch


def balance(
    model: nn.Module, own: Sequence[int], corrected: Sequence[Dataset], rest: Sequence[Dataset]
) -> float:
    """Shift the logits of the classes `own` in place and return by how much; 0 where no bias moves them.

    `corrected` are sets of samples of these classes, with T and without, of which the one that is answered
    less well counts, as all are to be answered well. Of `rest`, the samples of all other classes count.
    """
    bias = bias_of(model, own, corrected[0])
    others = [data.subset(torch.nonzero(~torch.isin(data.y, torch.tensor(own))).flatten()) for data in rest]
    if bias is None or not all(map(len, others)):
        return 0.0
    mine, theirs = (
        [_odds(model, own, _some(data, SAMPLES)) for data in sets] for sets in (corrected, others)
    )
    worst = min(mine, key=lambda z: float(z.sigmoid().mean()))
    b = shift(worst, torch.cat(theirs), len(own) / len(bias))
    with torch.no_grad():
        bias[list(own)] += b
    return b


def shift(mine: Tensor, others: Tensor, share: float) -> float:
    """Return b, from the log odds of an own class of samples that are of one, and of samples that are not.

    >>> z = torch.tensor([-1.0, 0.0, 2.0])
    >>> round(shift(z - 0.5, -z - 0.5, share=0.5), 6)
    0.5
    """
    low, high = -FARTHEST, FARTHEST
    for _ in range(HALVINGS):
        b = (low + high) / 2
        lacking, surplus = (1 - (mine + b).sigmoid()).mean(), (others + b).sigmoid().mean()
        low, high = (b, high) if (1 - share) * surplus < share * lacking else (low, b)
    return (low + high) / 2


@torch.no_grad()
def bias_of(model: nn.Module, own: Sequence[int], data: Dataset) -> nn.Parameter | None:
    """Return the bias that moves the logits themselves, known by what it does; None if there is none."""
    few = _some(data, PROBED)
    before = _odds(model, own, few)
    for bias in reversed(list(model.parameters())):
        if bias.requires_grad and bias.ndim == 1 and len(bias) > max(own):
            kept = bias.clone()
            bias[list(own)] += 1.0
            moved = _odds(model, own, few) - before
            bias.copy_(kept)
            if torch.allclose(moved, torch.ones_like(moved), atol=1e-3):
                return bias
    return None


@torch.no_grad()
def _odds(model: nn.Module, own: Sequence[int], data: Dataset) -> Tensor:
    """Return log p_own / (1 - p_own) of each sample."""
    with evaluating(model):
        y = torch.cat([model(as_input(x, model)) for x, _ in batches(data, 1000, len(data.classes))]).double()
    mine = torch.zeros(y.shape[1], dtype=torch.bool, device=y.device)
    mine[list(own)] = True
    return (y[:, mine].logsumexp(1) - y[:, ~mine].logsumexp(1)).cpu()


def _some(data: Dataset, most: int) -> Dataset:
    """Return so many samples at the most, from all over the data."""
    return data.subset(torch.linspace(0, len(data) - 1, min(most, len(data))).long())
