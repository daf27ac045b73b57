"""Closed-form rules: squared per-sample gradients from what entered a layer and what came back to it.

Let a be the input of a layer and delta the gradient of the summed losses at its output, each with
one row a sample. A Linear weight's gradient of sample n is then

    g_n = sum_t delta[n, t] a[n, t]^T,

and other layers have their likes. A rule returns sum_n g_n^2 for each of its layer's parameters, from
the one backward pass that serves the whole batch. Rules hold for these very types: a subclass may
compute something else. That rows are samples, and no other axis of the same length, is the caller's
to check.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from math import prod
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.graph import get_gradient_edge

CHUNK = 4 * 2**20  # bytes of per-sample gradients made at a time, so that they are squared in cache

Squares = dict[str, Tensor]
Rule = Callable[[Any, Tensor, Tensor], Squares]


def linear(_: nn.Linear, a: Tensor, delta: Tensor) -> Squares:
    """g_n = sum_t delta_nt a_nt^T; with one position a sample, the square goes inside the product.

    >>> linear(nn.Linear(2, 1), torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.ones(2, 1))
    {'weight': tensor([[10., 20.]]), 'bias': tensor([2.])}
    """
    if a.ndim == 2:
        return {"weight": delta.square().T @ a.square(), "bias": _sum_of_squares(delta)}
    delta, a = delta.flatten(1, -2), a.flatten(1, -2)
    return {"weight": _squared_products(delta.mT, a.mT), "bias": _sum_of_squares(delta.sum(1))}


def convolution(layer: nn.Conv1d | nn.Conv2d | nn.Conv3d, a: Tensor, delta: Tensor) -> Squares:
    """g_n = sum_t delta_nt w_nt^T, where w_nt is the window of the input that position t sees."""
    windows, delta = _windows(layer, a, delta.shape[2:]), delta.flatten(2)
    weight = _squared_products(delta.unflatten(1, (layer.groups, -1)), windows)
    return {"weight": weight.reshape(layer.weight.shape), "bias": _sum_of_squares(delta.sum(2))}


def layer_norm(layer: nn.LayerNorm, a: Tensor, delta: Tensor) -> Squares:
    """g_n = sum_t delta_nt * a^_nt for the weight, sum_t delta_nt for the bias; a^ is a, normalised."""
    shape = layer.normalized_shape
    normalised = F.layer_norm(a, shape, eps=layer.eps)
    return _scale_and_shift(normalised, delta, (len(a), -1, *shape), over=1)


def rms_norm(layer: nn.RMSNorm, a: Tensor, delta: Tensor) -> Squares:
    """g_n = sum_t delta_nt * a^_nt, where a^ is a over its root mean square."""
    shape = layer.normalized_shape
    normalised = F.rms_norm(a, shape, eps=layer.eps)
    return _scale_and_shift(normalised, delta, (len(a), -1, *shape), over=1)


def group_norm(layer: nn.GroupNorm, a: Tensor, delta: Tensor) -> Squares:
    """g_n = sum_t delta_nct * a^_nct, for each channel c."""
    normalised = F.group_norm(a, layer.num_groups, eps=layer.eps)
    return _scale_and_shift(normalised, delta, (len(a), layer.num_channels, -1), over=2)


def batch_norm(layer: nn.BatchNorm2d, a: Tensor, delta: Tensor) -> Squares:
    """g_n = sum_t delta_nct * a^_nct, for each channel c, with the statistics of training."""
    normalised = F.batch_norm(a, layer.running_mean, layer.running_var, eps=layer.eps)
    return _scale_and_shift(normalised, delta, (len(a), layer.num_features, -1), over=2)


def prelu(layer: nn.PReLU, a: Tensor, delta: Tensor) -> Squares:
    """g_n = sum_t delta_nct * min(a_nct, 0), for each channel c or for all of them."""
    gradient = delta * a.clamp(max=0)
    return {"weight": _sum_of_squares(gradient.reshape(len(a), layer.num_parameters, -1).sum(2))}


def embedding(layer: nn.Embedding, a: Tensor, delta: Tensor) -> Squares:
    """g_n[v] = the sum of delta_nt over the positions t that hold token v."""
    tokens = layer.num_embeddings
    row = torch.arange(len(a), device=a.device).reshape(-1, *[1] * (a.ndim - 1))
    pairs, pair_of, count = (row * tokens + a).unique(return_inverse=True, return_counts=True)
    gradient = delta.new_zeros(len(pairs), layer.embedding_dim)
    gradient.index_add_(0, pair_of.flatten(), delta.reshape(-1, layer.embedding_dim))
    if layer.scale_grad_by_freq:
        gradient /= count[:, None]
    weight = delta.new_zeros(layer.weight.shape).index_add_(0, pairs % tokens, gradient.square())
    if layer.padding_idx is not None:
        weight[layer.padding_idx] = 0
    return {"weight": weight}


RULES: dict[type[nn.Module], Rule] = {
    nn.Linear: linear,
    nn.Conv1d: convolution,
    nn.Conv2d: convolution,
    nn.Conv3d: convolution,
    nn.LayerNorm: layer_norm,
    nn.RMSNorm: rms_norm,
    nn.GroupNorm: group_norm,
    nn.BatchNorm1d: batch_norm,
    nn.BatchNorm2d: batch_norm,
    nn.BatchNorm3d: batch_norm,
    nn.PReLU: prelu,
    nn.Embedding: embedding,
}


def by_rule(
    model: nn.Module,
    names: Collection[str],
    n: int,
    loss_of: Callable[[], Tensor],
    copied: Collection[str] = (),
) -> tuple[Squares, set[str]]:
    """Return the squares of the parameters in `names` that rules serve, and who else has a gradient.

    `loss_of` runs the model on n samples and returns the sum of their losses. A parameter is served
    if the graph of that sum uses it once, in a layer with a rule whose rows are as many as samples.
    One that is not in the graph has no gradient, and is in neither answer. The parameters in `copied`,
    of a first axis of length 1, are handed to the model as n copies, one a sample, whose gradients are
    the samples' own if it spreads them over the samples.
    """
    parameters = trainable(model)
    name_of = {id(p): name for name, p in parameters.items()}
    calls, arrived, ends = Counter(), defaultdict(list), []

    def watch(layer: nn.Module, args: tuple[Any, ...], output: Tensor) -> None:
        own = {
            key: name_of[id(p)]
            for key, p in layer.named_parameters(recurse=False)
            if p.requires_grad and id(p) in name_of
        }
        calls.update(own.values())
        if not output.requires_grad:
            return
        if not (args and args[0].requires_grad):
            ends.append(get_gradient_edge(output))
        if len(args) == 1 and output.ndim > 1 and len(args[0]) == len(output) == n:
            a = args[0].detach()
            output.register_hook(lambda delta: arrive(layer, own, a, delta))

    def arrive(layer: nn.Module, own: dict[str, str], a: Tensor, delta: Tensor) -> None:
        for key, squares in RULES[type(layer)](layer, a, delta).items():
            if key in own:
                arrived[own[key]].append(squares)

    with _copied(model, copied, n) as copies:
        loss = _watched(model, [parameters[name] for name in names], watch, loss_of)
    uses = Counter(name_of.get(id(p)) for p in _uses(loss))
    # The backward pass need only get to the first layers that have a rule and to parameters used
    # elsewhere. It then computes no other parameter's gradient, which is what makes this fast.
    ends += [p for name, p in parameters.items() if uses[name] > calls[name]]
    gradients = (
        torch.autograd.grad(loss, [*copies.values(), *ends], allow_unused=True) if ends or copies else ()
    )
    served = {name: arrived[name][0] for name in names if uses[name] == len(arrived[name]) == 1}
    for name, gradient in zip(copies, gradients, strict=False):
        if gradient is not None and not uses[name]:
            served[name] = gradient.square().sum(0, keepdim=True)
    return served, {name for name in parameters if uses[name]} - served.keys()


@contextmanager
def _copied(model: nn.Module, names: Collection[str], n: int) -> Iterator[dict[str, Tensor]]:
    """Put n copies in the place of each parameter, inside the block."""
    copies: dict[str, Tensor] = {}
    before: list[tuple[dict[str, Any], str, Any]] = []
    try:
        for name in names:
            where, _, key = name.rpartition(".")
            home: dict[str, Any] = model.get_submodule(where)._parameters
            p = home[key]
            before.append((home, key, p))
            copies[name] = p.detach().repeat(n, *[1] * (p.ndim - 1)).requires_grad_()
            home[key] = copies[name]  # a plain tensor, which only this way in accepts
        yield copies
    finally:
        for home, key, p in before:
            home[key] = p


def trainable(model: nn.Module) -> dict[str, nn.Parameter]:
    """Return the parameters that have gradients, by name; tied ones once."""
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


def _watched(
    model: nn.Module,
    parameters: Collection[Tensor],
    watch: Callable[..., None],
    loss_of: Callable[[], Tensor],
) -> Tensor:
    """Return the loss, having shown every layer with a rule for one of the parameters to `watch`."""
    wanted = {id(p) for p in parameters}
    layers = [layer for layer in model.modules() if type(layer) in RULES]
    handles = [
        layer.register_forward_hook(watch)
        for layer in layers
        if any(id(p) in wanted for p in layer.parameters(recurse=False))
    ]
    try:
        return loss_of()
    finally:
        for handle in handles:
            handle.remove()


def _uses(loss: Tensor) -> Iterator[Tensor]:
    """Yield the leaves of the loss's graph, each as often as it is used."""
    seen, ahead = set(), [loss.grad_fn]
    while ahead:
        node = ahead.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        for parent, _ in node.next_functions:
            if hasattr(parent, "variable"):
                yield parent.variable
            ahead.append(parent)


def _squared_products(delta: Tensor, a: Tensor) -> Tensor:
    """Return sum_n (delta_n a_n^T)^2 for delta (n, ..., o, t) and a (n, ..., i, t), a chunk at a time.

    The axes of a need not be flat: windows overlap, and take up room only when they are flattened.
    """
    _, *groups, out, positions = delta.shape
    inner = a[0].numel() // (prod(groups) * positions)
    each = (a[0].numel() + prod(groups) * out * inner) * a.element_size()
    rows = max(1, CHUNK // each)
    total = delta.new_zeros(*groups, out, inner)
    for some, others in zip(delta.split(rows), a.split(rows), strict=True):
        total += (some @ others.reshape(len(some), *groups, inner, positions).mT).square_().sum(0)
    return total


def _windows(layer: Any, a: Tensor, positions: torch.Size) -> Tensor:
    """Return the view (n, groups, channels, *kernel, *positions) of the padded input: no copy."""
    mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
    a = F.pad(a, layer._reversed_padding_repeated_twice, mode=mode)
    channels = layer.in_channels // layer.groups
    row, channel, *steps = a.stride()
    inside = [step * by for step, by in zip(steps, layer.dilation, strict=True)]
    between = [step * by for step, by in zip(steps, layer.stride, strict=True)]
    return a.as_strided(
        (len(a), layer.groups, channels, *layer.kernel_size, *positions),
        (row, channels * channel, channel, *inside, *between),
    )


def _scale_and_shift(normalised: Tensor, delta: Tensor, shape: tuple[int, ...], over: int) -> Squares:
    return {
        "weight": _sum_of_squares((delta * normalised).reshape(shape).sum(over)),
        "bias": _sum_of_squares(delta.reshape(shape).sum(over)),
    }


def _sum_of_squares(gradients: Tensor) -> Tensor:
    return gradients.square().sum(0)
