"""The diagonal Fisher information of a classifier, exact and about as fast as training (paper, eq. 7).

    F_ii = |D|^-1 sum over (x, l) in D of (d L_cls(f_theta(x), l) / d theta_i)^2

The square is of each sample's own gradient. Squaring the mean gradient of a batch, as is often done,
gives another quantity, smaller by about the batch size. Parameters are served in three tiers:

    rule    in closed form, from one backward pass a batch (rules.py)
    vmap    by per-sample gradients, many samples at a time
    loop    by one backward pass a sample: slow, and right for whatever can be trained

The first samples decide: a parameter gets the first tier that agrees with the loop on them. Nothing
is timed, so that two runs give the same bits. Not covered: samples that act on each other, or answers
that vary, only later in the data.
"""

import copy
import sys
import warnings
from collections.abc import Callable, Collection, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from unsee.answers import as_input
from unsee.datasets import Fingerprint, batches, check_labels, sample_hashes
from unsee.errors import InputError
from unsee.rules import Squares, by_rule, trainable

PROBE = 3  # samples that the model and the tiers are checked on
BUDGET = 64 * 2**20  # bytes that per-sample gradients may take at a time
TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4}  # of equality up to rounding


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
        tiers = _tiers(model, x, y)
        start = begun or FisherSum(_zeros(model, tiers), 0, "", torch.empty(0).long(), tiers)
        sums, loss = {name: squares.clone() for name, squares in start.sums.items()}, start.loss
        content, n = Fingerprint(), 0
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
            _check_finite(sums, f"samples {n - len(y)} to {n - 1}")
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
        summed = _losses(model, x, y).sum()
        total = float(summed.detach())
        return summed

    if set(tiers.values()) == {"loop"}:
        loss()
        return _by_loop(model, x, y, tiers), total
    ruled = [name for name, tier in tiers.items() if tier == "rule"]
    squares, left = by_rule(model, ruled, len(y), loss)
    squares |= _by_vmap(model, x, y, {name for name in left if tiers[name] == "vmap"})
    return squares | _by_loop(model, x, y, left - squares.keys()), total


def _tiers(model: nn.Module, x: Tensor, y: Tensor) -> dict[str, str]:
    """Return the tier of each parameter: the first one that gives what a loop gives.

    Rules must do so on two batch sizes: in a model that puts time first, one may be the length. The
    loop here is over the losses of a batch: alone, a sample may round to the other side of a kink.
    """
    tiers = dict.fromkeys(trainable(model), "loop")
    if len(y) < PROBE:
        return tiers
    try:
        truth = _sum_of_squares(model, _losses(model, x, y), tiers)
        fewer = _sum_of_squares(model, _losses(model, x[:-1], y[:-1]), tiers)
        ruled, left = by_rule(model, tiers, len(y), lambda: _losses(model, x, y).sum())
        ruled_fewer, _ = by_rule(model, tiers, len(y) - 1, lambda: _losses(model, x[:-1], y[:-1]).sum())
    except Exception:  # whatever a model does to its graph, the loop copes with
        return tiers
    _check_finite(truth, "the first samples")
    if any(truth[name].any() for name in tiers.keys() - ruled.keys() - left):
        return tiers  # gradients that bypass the graph, which then says nothing about this model
    alike = _comparison(model, top=max(float(squares.max()) for squares in truth.values()))
    for name in ruled.keys() & ruled_fewer.keys():
        if alike(ruled[name], truth[name]) and alike(ruled_fewer[name], fewer[name]):
            tiers[name] = "rule"
    for name, squares in _by_vmap(model, x, y, {n for n in tiers if tiers[n] == "loop"}).items():
        if alike(squares, truth[name]):
            tiers[name] = "vmap"
    return tiers


def _by_vmap(model: nn.Module, x: Tensor, y: Tensor, names: Collection[str]) -> Squares:
    """Return the squares by a vectorised map over samples, or nothing where torch has no such map."""
    theta = {name: p.detach() for name, p in trainable(model).items() if name in names}
    if not theta:
        return {}

    def loss(theta: Squares, x: Tensor, y: Tensor) -> Tensor:
        return _losses(lambda x: functional_call(model, theta, (x,)), x[None], y[None]).sum()

    per_sample, sums = vmap(grad(loss), in_dims=(None, 0, 0)), _zeros(model, theta)
    rows = max(1, BUDGET // sum(p.nbytes for p in theta.values()))
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of operators that torch maps one by one: slow, yet right
            for some in zip(x.split(rows), y.split(rows), strict=True):
                for name, gradients in per_sample(theta, *some).items():
                    sums[name] += gradients.cpu().double().square_().sum(0)
    except Exception:  # control flow on values, operators that cannot be batched
        return {}
    return sums


def _by_loop(model: nn.Module, x: Tensor, y: Tensor, names: Collection[str]) -> Squares:
    """Return the squares by their definition: one sample, one forward and one backward pass."""
    if not names:
        return {}
    others = nn.ParameterList(p for name, p in trainable(model).items() if name not in names)
    others.requires_grad_(False)
    alone = (_losses(model, x[i : i + 1], y[i : i + 1]) for i in range(len(y)))
    sums = _sum_of_squares(model, alone, names)
    others.requires_grad_(True)
    return sums


def _sum_of_squares(model: nn.Module, losses: Iterable[Tensor], names: Collection[str]) -> Squares:
    """Return the sum of the squared gradients of the losses, by a backward pass for each."""
    sums, parameters = _zeros(model, names), dict(model.named_parameters())
    for loss in losses:
        model.zero_grad()
        if loss.requires_grad:
            loss.backward(retain_graph=True)
        for name, total in sums.items():
            if (gradient := parameters[name].grad) is not None:
                total += gradient.to_dense().cpu().double().square_()
    return sums


def _losses(model: Callable[[Tensor], Any], x: Tensor, y: Tensor) -> Tensor:
    """Return each sample's loss, in float64: in float32, p - 1 has few digits left where p is nearly 1."""
    return F.cross_entropy(_logits(model, x).cpu().double(), y, reduction="none")


def _logits(model: Callable[[Tensor], Any], x: Tensor) -> Tensor:
    logits = model(x.clone())  # a model may work in place, and x may be a view of someone's data
    if isinstance(logits, Tensor) and logits.ndim == 2 and len(logits) == len(x):
        return logits
    found = f"shape {tuple(logits.shape)}" if isinstance(logits, Tensor) else type(logits).__name__
    raise InputError(f"logits of shape ({len(x)}, C) from the model", found, "wrap it to return them")


def _probe(model: nn.Module, x: Tensor) -> int:
    """Return the number of classes; refuse answers that vary, or that depend on the batch's company."""
    try:
        together, again = _logits(model, x).detach(), _logits(model, x).detach()
    except (RuntimeError, ValueError, IndexError) as error:
        found = f"samples of shape {tuple(x.shape[1:])} ({str(error).splitlines()[0]})"
        raise InputError("data that the model takes", found, "bring data and model together") from None
    if not bool(torch.isfinite(together).all()):
        raise InputError("finite logits", "NaN or Inf for the first samples", "check weights and inputs")
    alike, found = _comparison(model), "another one"
    if not alike(again, together):
        do = "switch off what is random in the model, such as dropout that ignores eval()"
        raise InputError("the same answer to the same input", found, do)
    try:
        alone = torch.cat([_logits(model, row[None]).detach() for row in x])
    except (RuntimeError, ValueError) as error:
        alone, found = torch.full_like(together, torch.nan), str(error).splitlines()[0]
    if not alike(alone, together):
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
        yield copy.deepcopy(model).eval()


def _zeros(model: nn.Module, names: Collection[str]) -> Squares:
    shapes = {name: p.shape for name, p in model.named_parameters() if name in names}
    return {name: torch.zeros(shape, dtype=torch.float64) for name, shape in shapes.items()}


def _comparison(model: nn.Module, top: float = 0.0) -> Callable[[Tensor, Tensor], bool]:
    """Return the test of equality up to rounding, relative to the largest entry of a tensor.

    Where the largest entry of all is `top`, less than eps^2 top is nothing: some gradients, such as
    that of the bias of attention's keys, are zero but for rounding.
    """
    dtype = next(iter(trainable(model).values())).dtype
    tolerance, nothing = TOLERANCE.get(dtype, 0.05), torch.finfo(dtype).eps ** 2 * top

    def alike(found: Tensor, truth: Tensor) -> bool:
        difference = float((found.cpu() - truth.cpu()).abs().max())
        return difference <= tolerance * max(float(truth.abs().max()), nothing)

    return alike


def _check_finite(sums: Squares, where: str) -> None:
    for name, squares in sums.items():
        if not bool(torch.isfinite(squares.sum())):
            found = f"NaN or Inf in that of {name} on {where}"
            raise InputError("finite gradients", found, "check those samples and the weights")
