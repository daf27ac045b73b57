"""An MLP begun at half the size of its images: most of what it learns, for a sixteenth of the cost.

CIFAR-10's network has 85 million weights and reaches the paper's accuracy only after many epochs
(docs/decisions/0029).
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unsee import networks
from unsee.datasets import Dataset
from unsee.errors import InputError
from unsee.layers import Standardise
from unsee.networks import Network
from unsee.randomness import one_thread, seeded


def halved(data: Dataset) -> Dataset:
    """Return the images at half their size: the mean of each two by two pixels, whole if those are."""
    height, width = data.x.shape[-2:]
    if height % 2 or width % 2:
        raise InputError("images of even height and width", f"{height} x {width}", "cut or pad them")
    x = torch.cat([F.avg_pool2d(part.float(), 2) for part in data.x.split(4096)])
    x = x if data.x.is_floating_point() else x.round()
    return data.with_(x=x.to(data.x.dtype), name=f"{data.name}, halved")


@torch.no_grad()
def grown(small: nn.Module, data: Dataset, *, seed: int = 0) -> Network:
    """Return the MLP for this data that answers as `small`, an MLP for its half, does.

    W = diag(W_small, O), O orthogonal: the units that are new read what the halved image lacks, and begin
    unheard by those before them and by the last layer.
    """
    assert isinstance(small, Network)
    options = {name: small.spec[name] for name in ("depth", "printed")}
    large = networks.network("mlp", data, seed=None, **options)
    first, *rest = zip(_linear(small), _linear(large), strict=True)
    with one_thread(), seeded(seed, "grown"):
        for layer in _linear(large):
            layer.bias.zero_()
        _first(small, large, *first)
        for before, after in rest:
            n, new = before.in_features, after.out_features - before.out_features
            after.weight.zero_()
            after.weight[: before.out_features, :n] = before.weight
            if new:
                after.weight[before.out_features :, n:] = _orthogonal(new)
            after.bias[: before.out_features] = before.bias
    return large


def _first(small: Network, large: Network, before: nn.Linear, after: nn.Linear) -> None:
    """Let the first layer halve the image by itself, and undo what the two standardise differently."""
    shape = large.spec["shape"]
    pixels = torch.eye(before.in_features * 4).view(-1, *shape)
    mean, details = _haar(pixels)
    a, b = _standard(small), _standard(large)
    scale, shift = b.std / a.std, (b.mean - a.mean) / a.std
    each = before.in_features // shape[0]  # pixels of a channel
    weight = before.weight * scale.flatten().repeat_interleave(each)
    n = before.out_features
    after.weight[:n] = weight @ mean.T
    after.weight[n:] = _orthogonal(len(after.weight) - n) @ details.T
    after.bias[:n] = before.bias + before.weight @ shift.flatten().repeat_interleave(each)


def _haar(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the means of each two by two pixels, and the three orthonormal details beside them."""
    signs = torch.tensor([[1.0, 1, -1, -1], [1, -1, 1, -1], [1, -1, -1, 1]]).view(3, 1, 2, 2) / 2
    details = F.conv2d(x.flatten(0, 1)[:, None], signs, stride=2)
    return F.avg_pool2d(x, 2).flatten(1), details.reshape(len(x), -1)


def _orthogonal(n: int) -> Tensor:
    return nn.init.orthogonal_(torch.empty(n, n))


def _linear(model: Network) -> list[nn.Linear]:
    return [layer for layer in model if isinstance(layer, nn.Linear)]


def _standard(model: Network) -> Standardise:
    return next(layer for layer in model if isinstance(layer, Standardise))
