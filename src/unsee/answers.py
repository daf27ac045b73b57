"""What a model answers: how samples reach it, and how often it is right."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from unsee.datasets import Dataset, batches
from unsee.errors import InputError


def as_input(x: Tensor, model: nn.Module) -> Tensor:
    """Return a copy of samples as this model takes them: on its device, and numbers in its type.

    A copy, because a model may work in place on what it is given.
    """
    first = next((p for p in model.parameters() if p.is_floating_point()), torch.empty(0))
    numbers = x.is_floating_point() or x.dtype == torch.uint8
    return x.to(first.device, first.dtype if numbers else x.dtype, copy=True)


def borrowed(model: nn.Module) -> nn.Module:
    """Return a copy of the model in eval mode that has its weights in common: to be asked, never changed.

    Modes, buffers and gradients are the copy's own.
    """
    weights = (p for p in model.parameters() if type(p) is nn.Parameter and not p.is_inference())
    return copy.deepcopy(model, {id(p): nn.Parameter(p.detach(), p.requires_grad) for p in weights}).eval()


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Put the model into eval mode inside the block, and every part of it back into its own mode after."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


@torch.no_grad()
def check_fit(model: nn.Module, data: Dataset) -> int:
    """Return the number of classes the model answers with; refuse one that does not fit the data.

    It must answer each sample, alike each time, with a logit for every class of the data.
    """
    try:
        with evaluating(model):
            y, again = (model(as_input(data.x[:1], model)) for _ in range(2))
    except Exception as error:  # a model may be anyone's
        first = next(iter(str(error).splitlines()), type(error).__name__)
        found = f"samples of shape {tuple(data.x.shape[1:])} ({first})"
        raise InputError("data that the model takes", found, "bring data and model together") from None
    if not isinstance(y, Tensor) or y.ndim != 2:
        found = f"shape {tuple(y.shape)}" if isinstance(y, Tensor) else type(y).__name__
        raise InputError(
            "logits of shape (n, C) from the model", found, "wrap the model so that it returns them"
        )
    if not torch.equal(y.nan_to_num(), again.nan_to_num()):
        do = "switch its randomness off in eval mode"
        raise InputError("a model that answers the same sample alike", "two different answers", do)
    if y.shape[1] < len(data.classes):
        found = f"{y.shape[1]} for {len(data.classes)} classes in {data.name}"
        raise InputError(
            "an output of the model for every class", found, "use the data the model was made for"
        )
    return y.shape[1]


def reading(model: nn.Module, x: Tensor) -> tuple[Tensor, list[Tensor]]:
    """Return the model's answers and what each of its linear and convolutional layers read, in order."""
    read: list[Tensor] = []
    layers = [m for m in model.modules() if isinstance(m, nn.Linear | nn.modules.conv._ConvNd)]

    def look(_: nn.Module, args: tuple[Tensor, ...]) -> None:
        read.extend(args[:1])  # none, where a module calls its layers by their arguments' names

    hooks = [layer.register_forward_pre_hook(look) for layer in layers]
    try:
        return model(x), read
    finally:
        for hook in hooks:
            hook.remove()


@torch.no_grad()
def logits(model: nn.Module, data: Dataset) -> Tensor:
    """Return f_theta(x) for every sample, the model being as it is in use: eval mode."""
    check_fit(model, data)
    with evaluating(model):
        parts = [model(as_input(x, model)).cpu() for x, _ in batches(data, 1000, len(data.classes))]
    return torch.cat(parts)


def answers(model: nn.Module, data: Dataset) -> Tensor:
    """Return softmax(f_theta(x)) for every sample."""
    return logits(model, data).softmax(1)


def guesses(softmax: Tensor) -> Tensor:
    """Return the label of each answer, -1 where it is NaN: argmax would call that class 0."""
    return torch.where(softmax.isnan().any(1), -1, softmax.argmax(1))


def accuracy(model: nn.Module, data: Dataset) -> float:
    """Return the share of correct answers."""
    return float((guesses(answers(model, data)) == data.y).double().mean())
