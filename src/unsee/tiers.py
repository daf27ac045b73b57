"""Tiers: the ways to squared per-sample gradients, and which of them serves which parameter.

    rule    in closed form, from one backward pass a batch (rules.py)
    copy    from the same pass, by a copy of the parameter for each sample: class tokens, learnt positions
    vmap    by per-sample gradients, many samples at a time
    loop    by one backward pass a sample: slow, and right for whatever can be trained

The first samples decide: a parameter gets the first tier that agrees with the loop on them. Nothing is
timed, so that two runs give the same bits.
"""

import warnings
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from unsee.errors import InputError
from unsee.rules import Squares, by_rule, trainable

PROBE = 3  # samples that the model and the tiers are checked on
BUDGET = 64 * 2**20  # bytes that per-sample gradients may take at a time
TOGETHER = 32 * 2**20  # parameters whose tiers are checked at a time: each takes some 20 bytes meanwhile
TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4}  # of equality up to rounding


def tiers_of(model: nn.Module, x: Tensor, y: Tensor) -> dict[str, str]:
    """Return the tier of each parameter: the first one that gives what a loop gives."""
    tiers = dict.fromkeys(trainable(model), "loop")
    if len(y) < PROBE:
        return tiers
    try:
        found = _agreeing(model, x, y)
    except Exception:  # whatever a model does to its graph, the loop copes with
        return tiers
    if isinstance(found, InputError):
        raise found
    return tiers | found


def _agreeing(model: nn.Module, x: Tensor, y: Tensor) -> dict[str, str] | InputError:
    """Return the tiers of those that need no loop, or what speaks against the data.

    Rules and copies must agree with the loop on two batch sizes: in a model that puts time first, one may be
    the length. The loop here is over the losses of a batch: alone, a sample may round to the other side of
    a kink.
    """
    gaps: dict[str, list[tuple[float, float]]] = defaultdict(list)
    top = 0.0
    for names in _groups(trainable(model)):
        for n in (len(y), len(y) - 1):
            truth = sum_of_squares(model, losses(model, x[:n], y[:n]), names)
            squares, left = _in_one_pass(model, x[:n], y[:n], names)
            if n == len(y):
                if (error := unfinished(truth, "the first samples")) is not None:
                    return error
                if any(truth[name].any() for name in truth.keys() - squares.keys() - left):
                    return {}  # gradients that bypass the graph, which then says nothing about this model
                top = max(top, *(float(values.max()) for values in truth.values()))
            for name in squares:
                gaps[name].append(_gap(squares[name], truth[name]))
            del truth, squares  # before there are others: both are large
    near = _nearness(model, top)
    tiers = {name: "rule" for name, both in gaps.items() if len(both) == 2 and all(map(near, both))}
    rest = trainable(model).keys() - tiers.keys()
    tiers |= dict.fromkeys(_agreeing_copies(model, x, y, rest, near), "copy")
    rest -= tiers.keys()
    truth = sum_of_squares(model, losses(model, x, y), rest) if rest else {}
    served = by_vmap(model, x, y, rest)
    return tiers | {name: "vmap" for name in served if near(_gap(served[name], truth[name]))}


def _agreeing_copies(
    model: nn.Module, x: Tensor, y: Tensor, names: Collection[str], near: Callable[..., bool]
) -> set[str]:
    """Return who is served by a copy for each sample, of those that are spread over the samples."""
    able = {name for name, p in trainable(model).items() if name in names and p.ndim > 1 and len(p) == 1}
    if not able:
        return set()
    agreed = set(able)
    for n in (len(y), len(y) - 1):
        truth = sum_of_squares(model, losses(model, x[:n], y[:n]), able)
        for name in able:
            try:
                squares, _ = _in_one_pass(model, x[:n], y[:n], (), [name])
                if not near(_gap(squares[name], truth[name])):
                    agreed.discard(name)
            except Exception:  # a parameter that is not spread over the samples by its shape
                agreed.discard(name)
    return agreed


def _in_one_pass(
    model: nn.Module, x: Tensor, y: Tensor, ruled: Collection[str], copied: Collection[str] = ()
) -> tuple[Squares, set[str]]:
    return by_rule(model, ruled, len(y), lambda: losses(model, x, y).sum(), copied)


def _groups(parameters: dict[str, nn.Parameter]) -> Iterator[list[str]]:
    """Yield the names, as many at a time as are checked together."""
    group: list[str] = []
    for name, p in parameters.items():
        if group and sum(parameters[other].numel() for other in group) + p.numel() > TOGETHER:
            yield group
            group = []
        group.append(name)
    yield group


def by_vmap(model: nn.Module, x: Tensor, y: Tensor, names: Collection[str]) -> Squares:
    """Return the squares by a vectorised map over samples, or nothing where torch has no such map."""
    theta = {name: p.detach() for name, p in trainable(model).items() if name in names}
    if not theta:
        return {}

    def loss(theta: Squares, x: Tensor, y: Tensor) -> Tensor:
        return losses(lambda x: functional_call(model, theta, (x,)), x[None], y[None]).sum()

    per_sample, sums = vmap(grad(loss), in_dims=(None, 0, 0)), zeros(model, theta)
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


def by_loop(model: nn.Module, x: Tensor, y: Tensor, names: Collection[str]) -> Squares:
    """Return the squares by their definition: one sample, one forward and one backward pass."""
    if not names:
        return {}
    others = nn.ParameterList(p for name, p in trainable(model).items() if name not in names)
    others.requires_grad_(False)
    alone = (losses(model, x[i : i + 1], y[i : i + 1]) for i in range(len(y)))
    sums = sum_of_squares(model, alone, names)
    others.requires_grad_(True)
    return sums


def sum_of_squares(model: nn.Module, losses: Iterable[Tensor], names: Collection[str]) -> Squares:
    """Return the sum of the squared gradients of the losses, by a backward pass for each."""
    sums, parameters = zeros(model, names), dict(model.named_parameters())
    for loss in losses:
        model.zero_grad()
        if loss.requires_grad:
            loss.backward(retain_graph=True)
        for name, total in sums.items():
            if (gradient := parameters[name].grad) is not None:
                total += gradient.to_dense().cpu().double().square_()
    model.zero_grad()
    return sums


def losses(model: Callable[[Tensor], Any], x: Tensor, y: Tensor) -> Tensor:
    """Return each sample's loss, in float64: in float32, p - 1 has few digits left where p is nearly 1."""
    return F.cross_entropy(logits(model, x).cpu().double(), y, reduction="none")


def logits(model: Callable[[Tensor], Any], x: Tensor) -> Tensor:
    """Return what the model answers, if it is one row of logits a sample."""
    answer = model(x.clone())  # a model may work in place, and x may be a view of someone's data
    if isinstance(answer, Tensor) and answer.ndim == 2 and len(answer) == len(x):
        return answer
    found = f"shape {tuple(answer.shape)}" if isinstance(answer, Tensor) else type(answer).__name__
    raise InputError(f"logits of shape ({len(x)}, C) from the model", found, "wrap it to return them")


def zeros(model: nn.Module, names: Collection[str]) -> Squares:
    """Return sums that nothing was added to yet."""
    shapes = {name: p.shape for name, p in model.named_parameters() if name in names}
    return {name: torch.zeros(shape, dtype=torch.float64) for name, shape in shapes.items()}


def alike(model: nn.Module, found: Tensor, truth: Tensor) -> bool:
    """Whether two tensors are equal up to rounding, relative to the largest entry."""
    return _nearness(model)(_gap(found, truth))


def _gap(found: Tensor, truth: Tensor) -> tuple[float, float]:
    """Return the largest difference and the largest entry."""
    return float((found.cpu() - truth.cpu()).abs_().max()), float(truth.abs().max())


def _nearness(model: nn.Module, top: float = 0.0) -> Callable[[tuple[float, float]], bool]:
    """Return the test whether a gap is one of rounding.

    Where the largest entry of all is `top`, less than eps^2 top is nothing: some gradients, such as
    that of the bias of attention's keys, are zero but for rounding.
    """
    dtype = next(iter(trainable(model).values())).dtype
    tolerance, nothing = TOLERANCE.get(dtype, 0.05), torch.finfo(dtype).eps ** 2 * top
    return lambda gap: gap[0] <= tolerance * max(gap[1], nothing)


def unfinished(squares: Squares, where: str) -> InputError | None:
    """Return what to say of squares that are not finite, or nothing."""
    for name, values in squares.items():
        # In float32 a sum may overflow although all that was added is finite.
        if not bool(torch.isfinite(values.sum()) or torch.isfinite(values.double().sum())):
            found = f"NaN or Inf in that of {name} on {where}"
            return InputError("finite gradients", found, "check those samples and the weights")
    return None
