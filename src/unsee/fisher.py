"""The diagonal Fisher information of a classifier, exact and about as fast as training (paper, eq. 7).

    F_ii = |D|^-1 sum over (x, l) in D of (d L_cls(f_theta(x), l) / d theta_i)^2

The square is of each sample's own gradient. Squaring the mean gradient of a batch, as is often done,
gives another quantity, smaller by about the batch size. Each parameter is served by the fastest way that
is right on the first samples (tiers.py). Not covered: samples that act on each other, or answers that vary,
only later in the data.
"""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from unsee.answers import as_input, borrowed
from unsee.datasets import Fingerprint, batches, check_labels, sample_hashes
from unsee.errors import InputError
from unsee.rules import Squares, by_rule, trainable
from unsee.tiers import PROBE, alike, by_loop, by_vmap, logits, losses, tiers_of, unfinished, zeros


@dataclass(frozen=True, eq=False)
class FisherSum:
    """The sum over n samples of squared per-sample gradients; divided by n, the Fisher diagonal.

    `sums` are float64, by parameter name; `data` is the fingerprint of all samples, `samples` the hash
    of each, `loss` the sum of their losses. Sums over disjoint data add up, so that F(D) - F(D_f) is
    F(D_r).
    """

    sums: Squares
    n: int
    data: str
    samples: Tensor
    tiers: dict[str, str]
    loss: float = 0.0


def fisher_sum(
    model: nn.Module,
    data: Any,
    *,
    batch_size: int = 512,
    progress: Callable[[int], object] | None = None,
    seen: Callable[[Tensor, Tensor], object] | None = None,
    begun: FisherSum | None = None,
    after: Callable[[FisherSum], object] | None = None,
) -> FisherSum:
    """Return sum over (x, l) in `data` of (d L_cls(f_theta(x), l) / d theta)^2, in eval mode.

    `model` maps a batch to logits and is left as it is; `data` is a Dataset or any map-style torch
    data set, streamed in order. `progress` is told the number of samples just done, `seen` is shown them.
    After each batch `after` is shown the sum so far, without the samples' hashes; given such a sum as
    `begun`, of the same batches, the pass goes on from there to the same bits.

    >>> from unsee.datasets import Dataset
    >>> model = nn.Linear(2, 2, bias=False)
    >>> _ = nn.init.zeros_(model.weight)  # half a chance for either class: gradients of x / 2
    >>> fisher_sum(model, Dataset([[0.0, 2.0], [0.0, 4.0]], [0, 1])).sums["weight"].tolist()
    [[0.0, 5.0], [0.0, 5.0]]
    """
    first = next(batches(data, PROBE, sys.maxsize), None)
    if first is None:
        raise InputError("at least one sample", "none", "give the data that the model was trained on")
    with _working_copy(model) as model:
        x, y = as_input(first[0], model), first[1]
        classes = _probe(model, x)
        check_labels(y, classes, "data")
        tiers = tiers_of(model, x, y)
        start = begun or FisherSum({}, 0, "", torch.empty(0).long(), tiers)
        sums = {name: squares.clone() for name, squares in start.sums.items()} or zeros(model, tiers)
        content, n, loss = Fingerprint(), 0, start.loss
        hashes: list[Tensor] = []
        for x, y in batches(data, batch_size, classes):
            check_labels(y, classes, "data", first=n)
            content.update(x, y)
            hashes.append(sample_hashes(x, y))
            n += len(y)
            if progress:
                progress(len(y))
            if n - len(y) < start.n:  # in it already
                _check_begun(start, n, content)
                continue
            found, part = _squares(model, as_input(x, model), y, tiers)
            for name, squares in found.items():
                sums[name] += squares.cpu()
            loss += part
            if seen:
                seen(x, y)
            if (error := unfinished(found, f"samples {n - len(y)} to {n - 1}")) is not None:
                raise error
            if after:
                after(replace(start, sums=sums, n=n, data=content.hexdigest(), loss=loss))
        if n < start.n:
            _check_begun(start, start.n, content)
    return FisherSum(sums, n, content.hexdigest(), torch.cat(hashes), tiers, loss)


def _check_begun(begun: FisherSum, n: int, content: Fingerprint) -> None:
    """Refuse to go on from a sum over other samples than the first of these."""
    if n > begun.n or (n == begun.n and content.hexdigest() != begun.data):
        found, do = "others", "give the same data again or choose another folder"
        raise InputError(f"the {begun.n:,} samples that this memory was begun with", found, do)


def _squares(model: nn.Module, x: Tensor, y: Tensor, tiers: dict[str, str]) -> tuple[Squares, float]:
    """Return the squares of one batch and its loss; what its tier cannot serve this time goes to the loop."""
    total = 0.0

    def loss() -> Tensor:
        nonlocal total
        summed = losses(model, x, y).sum()
        total = float(summed.detach())
        return summed

    if set(tiers.values()) == {"loop"}:
        loss()
        return by_loop(model, x, y, tiers), total
    ruled, copied = ([name for name in tiers if tiers[name] == tier] for tier in ("rule", "copy"))
    squares, left = by_rule(model, ruled, len(y), loss, copied)
    squares |= by_vmap(model, x, y, {name for name in left if tiers[name] == "vmap"})
    return squares | by_loop(model, x, y, left - squares.keys()), total


def _probe(model: nn.Module, x: Tensor) -> int:
    """Return the number of classes; refuse answers that vary, or that depend on the batch's company."""
    try:
        together, again = logits(model, x).detach(), logits(model, x).detach()
    except (RuntimeError, ValueError, IndexError) as error:
        found = f"samples of shape {tuple(x.shape[1:])} ({str(error).splitlines()[0]})"
        raise InputError("data that the model takes", found, "bring data and model together") from None
    if not bool(torch.isfinite(together).all()):
        raise InputError("finite logits", "NaN or Inf for the first samples", "check weights and inputs")
    found = "another one"
    if not alike(model, again, together):
        do = "switch off what is random in the model, such as dropout that ignores eval()"
        raise InputError("the same answer to the same input", found, do)
    try:
        alone = torch.cat([logits(model, row[None]).detach() for row in x])
    except (RuntimeError, ValueError) as error:
        alone, found = torch.full_like(together, torch.nan), str(error).splitlines()[0]
    if not alike(model, alone, together):
        do = "switch off what mixes samples, such as BatchNorm without running statistics"
        raise InputError("the same answer to a sample alone as in a batch", found, do)
    return together.shape[1]


@contextmanager
def _working_copy(model: nn.Module) -> Generator[nn.Module]:
    """Lend a copy of the model in eval mode, with gradients on; the global generator is left alone."""
    parameters = trainable(model)
    if not parameters:
        raise InputError("a trainable parameter", "none", "call model.requires_grad_()")
    for name, parameter in parameters.items():
        if not bool(torch.isfinite(parameter).all()):
            raise InputError("finite weights", f"NaN or Inf in {name}", "restore the model")
    devices = {p.device for p in parameters.values() if p.device.type == "cuda"}
    with torch.random.fork_rng(devices), torch.inference_mode(False), torch.enable_grad():
        yield borrowed(model)
