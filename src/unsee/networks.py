"""The paper's ten-layer MLP, small networks for images, tables and texts, and what a model *is*: hash, file.

A model maps samples in the data's own range (0..255 for images) to logits; `Standardise` is its
first layer, so that T and the model see the same pixels.
"""

import copy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from unsee import store
from unsee.datasets import Dataset
from unsee.errors import InputError, UsageError
from unsee.layers import Columns, NormalisedHardTanh, ResidualBlock, Standardise, Words
from unsee.randomness import one_thread, seeded, stream


class Network(nn.Sequential):
    """A network of this module: `spec` are the words it was built from, `labels` the names of its classes."""

    spec: dict[str, Any]
    labels: tuple[str, ...] = ()


def mlp(
    shape: Sequence[int],
    classes: int,
    *,
    depth: int = 10,
    mean: Sequence[float] = (0.0,),
    std: Sequence[float] = (1.0,),
    printed: bool = False,
    seed: int | None = 0,
) -> Network:
    """Build the paper's MLP: depth - 1 layers of d x d and one of d x C, d = the number of inputs.

    Weights are orthogonal, uniformly drawn; biases 0; no normalisation layers. Without a seed nothing is
    drawn: the weights are anything, for the caller to fill.
    """
    d = int(torch.Size(shape).numel())
    layers: list[nn.Module] = [Standardise(mean, std), nn.Flatten()]
    for _ in range(depth - 1):
        layers += [_bare_linear(d, d), NormalisedHardTanh(printed=printed)]
    model = Network(*layers, _bare_linear(d, classes))
    if seed is not None:
        with seeded(seed, "mlp"):
            for layer in model:
                if isinstance(layer, nn.Linear):
                    nn.init.orthogonal_(layer.weight)
                    nn.init.zeros_(layer.bias)
    model.spec = _spec("mlp", shape, classes, mean, std, depth=depth, printed=printed)
    return model


def _bare_linear(inner: int, outer: int) -> nn.Module:
    return nn.utils.skip_init(nn.Linear, inner, outer, device=torch.get_default_device())


def resnet(
    shape: Sequence[int],
    classes: int,
    *,
    width: int = 32,
    blocks: int = 2,
    mean: Sequence[float] = (0.0,),
    std: Sequence[float] = (1.0,),
    seed: int = 0,
) -> Network:
    """Build a small residual network with BatchNorm: three stages of `blocks` blocks each."""
    with seeded(seed, "resnet"):
        layers: list[nn.Module] = [
            Standardise(mean, std),
            nn.Conv2d(shape[0], width, 3, 1, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
        ]
        inner = width
        for stage in range(3):
            for block in range(blocks):
                outer = width * 2**stage
                layers.append(ResidualBlock(inner, outer, 2 if stage and not block else 1))
                inner = outer
        model = Network(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inner, classes))
    model.spec = _spec("resnet", shape, classes, mean, std, width=width, blocks=blocks)
    return model


def table(
    levels: Sequence[int],
    classes: int,
    *,
    width: int = 64,
    depth: int = 3,
    mean: Sequence[float] = (),
    std: Sequence[float] = (),
    seed: int = 0,
) -> Network:
    """Build an MLP for rows of a table: numbers standardised, names one-hot, then depth linear layers.

    `levels` has the number of values of each column, 0 where it holds numbers.
    """
    mean, std = list(mean) or [0.0] * len(levels), list(std) or [1.0] * len(levels)
    with seeded(seed, "table"):
        layers: list[nn.Module] = [first := Columns(levels, mean, std)]
        for inner in (first.width, *[width] * (depth - 2)):
            layers += [nn.Linear(inner, width), nn.ReLU()]
        model = Network(*layers, nn.Linear(width, classes))
    model.spec = {"network": "table", "levels": list(levels), "classes": classes, "width": width}
    model.spec |= {"depth": depth, "mean": mean, "std": std}
    return model


def text(
    vocabulary: int,
    length: int,
    classes: int,
    *,
    width: int = 32,
    heads: int = 2,
    blocks: int = 1,
    seed: int = 0,
) -> Network:
    """Build a small transformer that reads texts of so many words, out of a vocabulary of so many."""
    with seeded(seed, "text"):
        reader = Words(vocabulary, length, width, heads, blocks)
        model = Network(reader, nn.Linear(width, width), nn.ReLU(), nn.Linear(width, classes))
    model.spec = {"network": "text", "vocabulary": vocabulary, "length": length, "classes": classes}
    model.spec |= {"width": width, "heads": heads, "blocks": blocks}
    return model


class Truncated(nn.Module):
    """A model without the output of one class: argmax and softmax run over the remaining ones."""

    def __init__(self, model: nn.Module, label: int) -> None:
        super().__init__()
        self.model, self.label = model, label
        # In the state dict, so that truncations of different classes are different models.
        self.register_buffer("truncated", torch.tensor(label))

    def forward(self, x: Tensor) -> Tensor:
        """Answer as the model does, the class's logit being minus infinity."""
        y = self.model(x)
        return y.index_fill(1, torch.tensor([self.label], device=y.device), float("-inf"))


NETWORKS: dict[str, Callable[..., Network]] = {"mlp": mlp, "resnet": resnet, "table": table, "text": text}


def network(name: str | None, data: Dataset, *, seed: int | None = 0, **options: Any) -> Network:
    """Build the named network for this data: its shape, classes, and the mean and deviation of D.

    Without a name: the MLP for images, and what tables and texts have.
    """
    kind = data.kind.name
    name = name or ("mlp" if kind == "plain" else kind)
    if name not in NETWORKS:
        raise UsageError(f"one of {', '.join(NETWORKS)}", f"network {name!r}", "choose one of those")
    fits = name == kind if kind != "plain" else data.x.ndim == 4 and name in ("mlp", "resnet")
    if not fits:
        wanted = "images (n, C, H, W)" if kind == "plain" else f"the network {kind}"
        found = f"{data}" if kind == "plain" else f"{name} for {data}"
        raise InputError(wanted, found, "bring a network of your own from Python")
    with one_thread():  # so that training can go on with another number
        model = NETWORKS[name](**_measures(data), classes=len(data.classes), seed=seed, **options)
    model.labels = data.classes
    return model


def _measures(data: Dataset) -> dict[str, Any]:
    """Return what a network for this data must know of it."""
    if data.kind.vocabulary:
        return {"vocabulary": len(data.kind.vocabulary), "length": data.x.shape[1]}
    mean, std = _mean_and_deviation(data.x)
    if data.kind.columns:
        return {"levels": [len(column.values) for column in data.kind.columns], "mean": mean, "std": std}
    return {"shape": data.x.shape[1:], "mean": mean, "std": std}


def _mean_and_deviation(x: Tensor) -> tuple[list[float], list[float]]:
    """Return both for each channel, a part of the images at a time: floats take eight times the room."""
    count = x.numel() // x.shape[1]
    total = squares = torch.zeros(x.shape[1], dtype=torch.float64)
    for part in x.split(4096):
        values = part.transpose(0, 1).flatten(1).double()
        total, squares = total + values.sum(1), squares + values.square().sum(1)
    mean = total / count
    std = (squares / count - mean.square()).clamp_min(0).sqrt().clamp_min(1e-6)
    return mean.tolist(), std.tolist()


def fresh(model: nn.Module, seed: int) -> nn.Module:
    """Return a model of the same kind with newly drawn parameters: eta of random network distillation.

    They come from a stream of their own: seed 0 must not give back the network that training began with.
    """
    spec = getattr(model, "spec", None)
    if spec:
        return NETWORKS[spec["network"]](**_arguments(spec), seed=int(stream(seed, "eta").integers(2**62)))
    eta = copy.deepcopy(model)
    with seeded(seed, "eta"):
        for name, module in eta.named_modules():
            if next(module.parameters(recurse=False), None) is None:
                continue
            reset = getattr(module, "reset_parameters", None) or getattr(module, "_reset_parameters", None)
            if reset is None:
                found = f"none in {name or type(module).__name__}"
                raise InputError("reset_parameters in every module for RND", found, "add it, or use RLD")
            reset()
    return eta


def identity(model: nn.Module) -> str:
    """Return the SHA-256 of names, shapes, types and values of everything in the state dict."""
    return store.digest(model.state_dict())


def save(model: nn.Module, path: Path | str) -> None:
    """Write a model as one safetensors file; for a network of this module, with the words to build it by."""
    inner, gone = model, []
    while isinstance(inner, Truncated):
        gone.append(inner.label)
        inner = inner.model
    spec = dict(getattr(inner, "spec", {})) | ({"truncated": gone} if gone else {})
    about = {"spec": spec, "labels": list(getattr(inner, "labels", ()))}
    store.write_tensors(path, model.state_dict(), about)


def load(path: Path | str, into: nn.Module | None = None) -> nn.Module:
    """Read a model that `save` wrote: a network of this module, or weights for a copy of your own.

    Only the networks named here are ever built from a file, and only as large as its tensors are.
    """
    tensors, about = store.read_tensors(path)
    if "memory" in about:
        raise InputError(f"a model at {path}", "a memory", "give the model first, and the memory as --memory")
    if into is not None:
        return _filled(copy.deepcopy(into), tensors, path)
    try:
        spec = dict(about["spec"])
        gone = spec.pop("truncated", [])
        if max(spec.get("depth", 0), spec.get("blocks", 0)) > len(tensors):  # each layer has its own
            raise ValueError
        with torch.device("meta"):  # no memory is taken before the shapes are known to be the file's
            network = NETWORKS[spec["network"]](**_arguments(spec))
            model: nn.Module = network
            for label in reversed(gone if isinstance(gone, list) else [gone]):  # one alone was a number once
                model = Truncated(model, int(label))
        network.spec, network.labels = spec, tuple(map(str, about["labels"]))
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError, IndexError):
        found = f"no such words in {path}"
        do = "give your own module: networks.load(path, into=model)"
        raise InputError(f"a network among {', '.join(NETWORKS)}", found, do) from None
    return _filled(model, tensors, path)


def _filled(model: nn.Module, tensors: dict[str, Tensor], path: Path | str) -> nn.Module:
    try:
        model.load_state_dict(tensors, assign=True)
    except RuntimeError as error:
        found = f"others in {path} ({str(error).splitlines()[1].strip()})"
        raise InputError("the weights of this network", found, "check which model this is") from None
    return model


def device_of(name: str | None = None) -> torch.device:
    """Return the device of that name, or an accelerator where there is one, else the CPU."""
    if name in (None, "auto"):
        found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        return found or torch.device("cpu")
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError):
        raise UsageError("a device of this machine", f"{name!r}", "use --device cpu") from None


def _spec(
    name: str, shape: Sequence[int], classes: int, mean: Any, std: Any, **options: Any
) -> dict[str, Any]:
    plain = {"shape": list(shape), "classes": classes, "mean": list(mean), "std": list(std)}
    return {"network": name, **plain, **options}


def _arguments(spec: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in spec.items() if key != "network"}
