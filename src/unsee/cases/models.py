"""Opening a model of one's own: which network it is, and its weights, all of them and no others.

The network is one of this package, of torchvision or timm where they are installed, a Hugging Face folder,
or what a factory `package.module:function` returns, which is code and is only called if that is allowed.
"""

import contextlib
import copy
import difflib
import importlib
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from unsee import networks
from unsee.cases.prepared import Opened, Prepared, Preprocessing
from unsee.cases.pretrained import installed, open_folder, said
from unsee.errors import HostileError, InputError, StoreError, UsageError
from unsee.weights import files as weights
from unsee.weights.files import Weights


def open_model(
    file: Path | str,
    network: str | None = None,
    *,
    classes: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
    preprocessing: Mapping[str, Any] | None = None,
    allow_code: bool = False,
) -> Opened:
    """Open weights as a model; without `network`, a file of unsee's own or a Hugging Face folder.

    `classes` names the model's outputs in order; `options` go to the network's builder; `preprocessing` are
    fields of `Preprocessing`, which for a Hugging Face folder go over what its own files say.
    """
    path = Path(file)
    if path.is_dir():
        return open_folder(path, classes, preprocessing)
    if network is None:
        return _of_ours(path, classes, preprocessing)
    build = _builder(network, allow_code)
    read = weights.read(path)
    options = dict(options or {})
    if network in networks.NETWORKS:
        _check_depth(options, read, path)
    # Of ours, no memory is taken before the shapes are known to be the file's.
    with torch.device("meta") if network in networks.NETWORKS else contextlib.nullcontext():
        inner = _built(build, network, options, len(classes))
    found = weights.named_by(read, inner.state_dict().keys())
    filled(inner, found, path)
    model = Prepared(inner, Preprocessing(**(preprocessing or {})), classes).eval()
    return Opened(model, found, tuple(classes))


def _of_ours(path: Path, classes: Sequence[str], preprocessing: Mapping[str, Any] | None) -> Opened:
    """Open a file that unsee wrote, which says by itself which network it holds."""
    unnamed = InputError(f"`network`, of which {path} holds the weights", "none", "name it under `model`")
    if path.suffix.lower() in weights.PICKLED:
        raise unnamed
    if preprocessing is not None:
        do = "leave it out, or name the `network`"
        raise InputError("no `preprocess` for a file that unsee wrote", "one", do)
    try:
        model = networks.load(path)
    except StoreError as error:
        if "without its seal" in error.found:
            raise unnamed from None
        raise
    return Opened(model, None, tuple(classes) or getattr(model, "labels", ()))


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
    own = {name: found.tensors[name].to(value.dtype, copy=True) for name, value in wanted.items()}
    model.load_state_dict(own, assign=True)


def _check_depth(options: Mapping[str, Any], read: Weights, path: Path) -> None:
    """Refuse more layers than the file has tensors: each has one of its own."""
    for name in ("depth", "blocks"):
        if isinstance(given := options.get(name), int | float) and given > len(read.tensors):
            most = f"{name} of {len(read.tensors)} at most, the tensors in {path}"
            raise InputError(most, f"{given}", "check the options")


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
    except (Exception, SystemExit) as error:  # whatever a stranger's module does when it is imported
        do = "check the name, and that its folder is on PYTHONPATH"
        raise InputError(f"a function at {name}", said(error), do) from None
    if not callable(found):
        raise InputError(f"a function at {name}", type(found).__name__, "name a function or a class")
    return found


def _plain(library: str, name: str, options: Mapping[str, Any]) -> None:
    """Refuse what makes a library fetch or open files: names with addresses, and options that are no numbers.

    timm's `checkpoint_path`, for one, loads whatever lies there, and runs it.
    """
    if not re.fullmatch(r"[a-z0-9_.]+", name):
        raise HostileError(f"a plain name of {library}", f"{name!a}", "use one of its listed networks")
    for key, value in options.items():
        if not isinstance(value, bool | int | float) or key.startswith("pretrained"):
            found = f"{key!a}: {type(value).__name__}"
            raise HostileError(f"numbers as options of {library}", found, "use a factory of your own")


def _torchvision(name: str) -> Callable[..., nn.Module]:
    models = installed("torchvision.models", "torchvision")
    if name not in models.list_models(module=models):  # the others, of detection and so on, fetch a backbone
        raise InputError("a classifier of torchvision", f"{name!a}", "choose one of its list_models()")
    get = getattr(models, "get_model")  # noqa: B009
    return lambda classes, **options: get(name, weights=None, num_classes=classes, **options)


def _timm(name: str) -> Callable[..., nn.Module]:
    create = getattr(installed("timm", "timm"), "create_model")  # noqa: B009
    return lambda classes, **options: create(name, pretrained=False, num_classes=classes, **options)


_LIBRARIES: dict[str, Callable[[str], Callable[..., nn.Module]]] = {
    "torchvision": _torchvision,
    "timm": _timm,
}


def _built(build: Callable[..., nn.Module], network: str, options: dict[str, Any], classes: int) -> nn.Module:
    """Call the builder with its options, and with the number of classes where it asks for it."""
    known = network in networks.NETWORKS or network.partition("/")[0] in _LIBRARIES
    if known and not classes:
        raise InputError("the model's classes", "none", "name them in the order of its outputs")
    words = {"classes": classes, **options} if known else options
    library, _, name = network.partition("/")
    if library in _LIBRARIES and name:
        _plain(library, name, options)
    try:
        model = build(**words)
    except (Exception, SystemExit) as error:  # a builder may be anyone's
        raise InputError(f"options that {network} takes", said(error), "check the options") from None
    if not isinstance(model, nn.Module):
        raise InputError(f"an nn.Module from {network}", type(model).__name__, "return the module")
    return copy.deepcopy(model)
