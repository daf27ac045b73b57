"""What a model answers: how samples reach it, and how often it is right."""

import torch
from torch import Tensor, nn

from unsee.datasets import Dataset, batches
from unsee.errors import InputError


def as_input(x: Tensor, model: nn.Module) -> Tensor:
    """Return samples as this model takes them: on its device, numbers in its type, token ids as they are."""
    first = next((p for p in model.parameters() if p.is_floating_point()), torch.empty(0))
    numbers = x.is_floating_point() or x.dtype == torch.uint8
    return x.to(first.device, first.dtype) if numbers else x.to(first.device)


@torch.no_grad()
def check_fit(model: nn.Module, data: Dataset) -> None:
    """Refuse a model that does not answer each sample, alike each time, with a logit for every class."""
    was_training = model.training
    try:
        y, again = (model.eval()(as_input(data.x[:1], model)) for _ in range(2))
    except (RuntimeError, ValueError, IndexError) as error:
        found = f"samples of shape {tuple(data.x.shape[1:])} ({str(error).splitlines()[0]})"
        raise InputError("data that the model takes", found, "bring data and model together") from None
    finally:
        model.train(was_training)
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


@torch.no_grad()
def answers(model: nn.Module, data: Dataset) -> Tensor:
    """Return softmax(f_theta(x)) for every sample, the model being as it is in use: eval mode."""
    check_fit(model, data)
    was_training = model.training
    model.eval()
    try:
        parts = [
            model(as_input(x, model)).softmax(1).cpu() for x, _ in batches(data, 1000, len(data.classes))
        ]
    finally:
        model.train(was_training)
    return torch.cat(parts)


def accuracy(model: nn.Module, data: Dataset) -> float:
    """Return the share of correct answers."""
    return float((answers(model, data).argmax(1) == data.y).double().mean())
