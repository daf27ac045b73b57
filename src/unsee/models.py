"""A model of one's own: which network it is, how its weights come in, and how pixels reach it.

The network is one of this package, of torchvision or timm where they are installed, a Hugging Face folder,
or what a factory `package.module:function` returns, which is code and is only called if that is allowed.
"""

import copy
import difflib
import importlib
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unsee import networks, store, weights
from unsee.errors import InputError, UsageError
from unsee.weights import Weights


@dataclass(frozen=True)
class Preprocessing:
    """How pixels from 0 to 255 become what the network was trained on: divided, resized, standardised.

    y = (resize(x / divide_by) - mean) / std
    """

    divide_by: float = 255.0
    size: tuple[int, int] | None = None
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)

    def __post_init__(self) -> None:
        if not self.divide_by > 0 or not all(s > 0 for s in self.std):
            found = f"{self.divide_by} and {', '.join(map(str, self.std))}"
            raise InputError("divide_by and std above 0", found, "mend the preprocessing")
        if len(self.mean) != len(self.std):
            found = f"{len(self.mean)} and {len(self.std)}"
            raise InputError("as many means as deviations in the preprocessing", found, "give both alike")


class Prepared(nn.Module):
    """A classifier of any origin behind one door: pixels in, logits out; `labels` are its classes' names.

    `model` is the network itself, whose state dict is the one in the weights' file.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, model: nn.Module, how: Preprocessing, labels: Sequence[str] = ()) -> None:
        super().__init__()
        self.model, self.how, self.labels = model, how, tuple(labels)
        self.register_buffer("mean", torch.tensor(how.mean).reshape(-1, 1, 1))
        self.register_buffer("std", torch.tensor(how.std).reshape(-1, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        """Map images (n, C, H, W) to logits (n, classes)."""
        x = x / self.how.divide_by
        if self.how.size and tuple(x.shape[-2:]) != self.how.size:
            x = F.interpolate(x, self.how.size, mode="bilinear", antialias=True)
        y = self.model((x - self.mean) / self.std)
        # Hugging Face's classifiers answer with a dictionary-like output.
        return getattr(y, "logits", y)


@dataclass(frozen=True, eq=False)
class Opened:
    """A model ready to forget, and the file that its weights came from, to be put back the same way."""

    model: nn.Module
    weights: Weights | None
    labels: tuple[str, ...]

    def write(self, path: Path | str, new: nn.Module) -> None:
        """Write a repaired model as the old one was found: the same keys, types and wrapping."""
        if self.weights is None:
            networks.save(new, path)
            return
        inner = new.model if isinstance(new, Prepared) else new
        weights.write(path, self.weights, _as_in_files(inner))


def open_model(
    file: Path | str,
    network: str | None = None,
    *,
    classes: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
    preprocessing: Preprocessing | None = None,
    allow_code: bool = False,
) -> Opened:
    """Open weights as a model; without `network`, a file of unsee's own or a Hugging Face folder.

    `classes` names the model's outputs in order; `options` go to the network's builder.
    """
    path = Path(file)
    if path.is_dir():
        return _of_folder(path, classes, preprocessing)
    if network is None:
        model = networks.load(path)
        labels = tuple(classes) or getattr(model, "labels", ())
        return Opened(model, None, labels)
    build = _builder(network, allow_code)
    read = weights.read(path)
    inner = _built(build, network, dict(options or {}), len(classes))
    found = weights.named_by(read, inner.state_dict().keys())
    filled(inner, found, path)
    model = Prepared(inner, preprocessing or Preprocessing(), classes).eval()
    return Opened(model, found, tuple(classes))


def filled(model: nn.Module, found: Weights, path: Path | str) -> None:
    """Put weights into a network, all of them and no others, in the network's own types."""
    wanted = model.state_dict()
    missing = [name for name in wanted if name not in found.tensors]
    unknown = [name for name in found.tensors if name not in wanted]
    shaped = [
        f"{name} of {tuple(found.tensors[name].shape)} for {tuple(value.shape)}"
        for name, value in wanted.items()
        if name in found.tensors and found.tensors[name].shape != value.shape
    ]
    wrong = [
        *(f"{name} missing" for name in missing[:3]),
        *(f"{name} unknown" for name in unknown[:3]),
        *shaped[:3],
    ]
    if wrong:
        do = "check the network's name, its options and the number of classes"
        raise InputError(f"in {path} the weights of this network", "; ".join(wrong), do)
    model.load_state_dict({name: found.tensors[name].to(value.dtype) for name, value in wanted.items()})


def _builder(network: str, allow_code: bool) -> Callable[..., nn.Module]:
    """Return what builds the network: never code from outside, unless that was allowed."""
    if network in networks.NETWORKS:
        return networks.NETWORKS[network]
    library, _, name = network.partition("/")
    if name and library in _LIBRARIES:
        return _LIBRARIES[library](name)
    if ":" in network:
        return factory(network, allow_code)
    known = [*networks.NETWORKS, "torchvision/resnet18", "timm/resnet18"]
    near = difflib.get_close_matches(network, known, 1)
    forms = f"{', '.join(networks.NETWORKS)}, torchvision/NAME, timm/NAME or package.module:function"
    raise UsageError(f"a network as {forms}", f"{network!r}", f"try {near[0]}" if near else "check it")


def factory(name: str, allow_code: bool) -> Callable[..., Any]:
    """Return the callable at `package.module:function`; code is imported only if that was allowed."""
    if not allow_code:
        raise UsageError(f"--allow-code to run {name}", "none", "read that code first, then allow it")
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        do = "check the name, and that its folder is on PYTHONPATH"
        raise InputError(f"a function at {name}", f"{type(error).__name__}: {error}", do) from None
    if not callable(found):
        raise InputError(f"a function at {name}", type(found).__name__, "name a function or a class")
    return found


def _torchvision(name: str) -> Callable[..., nn.Module]:
    get = getattr(_installed("torchvision.models", "torchvision"), "get_model")  # noqa: B009
    return lambda classes, **options: get(name, weights=None, num_classes=classes, **options)


def _timm(name: str) -> Callable[..., nn.Module]:
    create = getattr(_installed("timm", "timm"), "create_model")  # noqa: B009
    return lambda classes, **options: create(name, pretrained=False, num_classes=classes, **options)


_LIBRARIES: dict[str, Callable[[str], Callable[..., nn.Module]]] = {
    "torchvision": _torchvision,
    "timm": _timm,
}


def _installed(module: str, package: str) -> Any:
    try:
        return importlib.import_module(module)
    # A torchvision built for another torch fails with a RuntimeError about its operators.
    except (ImportError, RuntimeError, OSError) as error:
        found = str(error).splitlines()[0]
        raise InputError(f"{package} installed", found, f"pip install {package}") from None


def _built(build: Callable[..., nn.Module], network: str, options: dict[str, Any], classes: int) -> nn.Module:
    """Call the builder with its options, and with the number of classes where it asks for it."""
    known = network in networks.NETWORKS or network.partition("/")[0] in _LIBRARIES
    if known and not classes:
        raise InputError("the model's classes", "none", "name them in the order of its outputs")
    words = {"classes": classes, **options} if known else options
    try:
        model = build(**words)
    except (TypeError, ValueError, RuntimeError, KeyError) as error:
        found = f"{type(error).__name__}: {str(error).splitlines()[0]}"
        raise InputError(f"options that {network} takes", found, "check the options") from None
    if not isinstance(model, nn.Module):
        raise InputError(f"an nn.Module from {network}", type(model).__name__, "return the module")
    return copy.deepcopy(model)


def _of_folder(path: Path, classes: Sequence[str], preprocessing: Preprocessing | None) -> Opened:
    """Open a Hugging Face image classifier: config.json says which, model.safetensors holds the weights."""
    transformers = _installed("transformers", "transformers")
    file = path / "model.safetensors"
    if not (path / "config.json").is_file() or not file.is_file():
        do = "save it with save_pretrained, in one file"
        raise InputError(f"config.json and model.safetensors in {path}", "not both", do)
    read = weights.read(file)
    transformers.utils.logging.disable_progress_bar()
    try:
        # Its own loader, because it knows by which names older versions of a network saved their weights.
        inner, info = transformers.AutoModelForImageClassification.from_pretrained(
            str(path),
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            output_loading_info=True,
        )
    except (OSError, ValueError, KeyError, TypeError, ImportError, RuntimeError) as error:
        found = f"{type(error).__name__}: {str(error).splitlines()[0]}"
        raise InputError(
            f"an image classifier of transformers in {path}", found, "check config.json"
        ) from None
    if wrong := [key for keys in info.values() for key in keys]:
        found = ", ".join(map(str, wrong[:3]))
        raise InputError(f"the weights of config.json's network in {file}", found, "check both files")
    config = inner.config
    labels = tuple(classes) or tuple(str(config.id2label[i]) for i in range(config.num_labels))
    model = Prepared(inner.float(), preprocessing or _of_processor(path, config), labels).eval()
    return Opened(model, read, labels)


def _as_in_files(model: nn.Module) -> Mapping[str, Tensor]:
    """Return a state dict by the names that files have: transformers saves by others than it computes by."""
    save: Any = getattr(model, "save_pretrained", None)
    if save is None:
        return model.state_dict()
    with tempfile.TemporaryDirectory() as folder:
        save(folder)
        return dict(weights.read(Path(folder) / "model.safetensors").tensors)


def _of_processor(path: Path, config: Any) -> Preprocessing:
    """Return the preprocessing that preprocessor_config.json names, or pixels from 0 to 1."""
    file = path / "preprocessor_config.json"
    size = getattr(config, "image_size", None)
    side = (int(size), int(size)) if isinstance(size, int) else None
    if not file.is_file():
        return Preprocessing(size=side)
    words = store.read_json(file)
    try:
        given = words.get("size") or {}
        if isinstance(given, int):
            side = (given, given)
        elif "height" in given:
            side = int(given["height"]), int(given["width"])
        factor = float(words.get("rescale_factor", 1 / 255)) if words.get("do_rescale", True) else 1.0
        normalise = words.get("do_normalize", True) and words.get("image_mean")
        mean, std = (words["image_mean"], words["image_std"]) if normalise else ([0.0], [1.0])
        return Preprocessing(1 / factor, side, tuple(map(float, mean)), tuple(map(float, std)))
    except (AttributeError, KeyError, TypeError, ValueError, ZeroDivisionError):
        found = json.dumps(words)[:80]
        raise InputError(
            f"a preprocessor's words in {file}", found, "give `preprocess` in the case"
        ) from None
