"""A Hugging Face folder as a model: config.json says which network, model.safetensors holds its weights."""

import importlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from unsee import store
from unsee.cases.prepared import Opened, Prepared, Preprocessing
from unsee.data.pictures import class_name
from unsee.errors import HostileError, InputError
from unsee.weights import files as weights
from unsee.weights.files import Weights

# What makes transformers fetch, import or open more than the two files.
_LAYERS = ("layers", "depth", "blocks", "stages")  # of which each has a tensor at least
_NEVER = ("auto_map", "quantization_config", "attn_implementation", "experts_implementation", "backbone")


def open_folder(path: Path, classes: Sequence[str], preprocessing: Mapping[str, Any] | None) -> Opened:
    """Open a Hugging Face image classifier: config.json says which, model.safetensors holds the weights."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    transformers = installed("transformers", "transformers")
    file = path / "model.safetensors"
    if (path / "adapter_config.json").exists():
        raise InputError(f"a whole model in {path}", "an adapter", "merge it first")
    if not (path / "config.json").is_file() or not file.is_file():
        do = "save it with save_pretrained, in one file"
        raise InputError(f"config.json and model.safetensors in {path}", "not both", do)
    words = store.read_json(path / "config.json")
    _check_config(words, path / "config.json")
    read = weights.read(file)
    _check_bounds(words, read, path / "config.json")
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    try:
        # Its own loader, because it knows by which names older versions of a network saved their weights.
        inner, info = transformers.AutoModelForImageClassification.from_pretrained(
            str(path),
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            attn_implementation="eager",
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # they are in the info, and refused below
        )
    except Exception as error:
        wanted = f"an image classifier of transformers in {path}"
        raise InputError(wanted, said(error), "check config.json") from None
    if wrong := [key for keys in info.values() for key in keys]:
        found = ", ".join(map(str, wrong[:3]))
        raise InputError(f"the weights of config.json's network in {file}", found, "check both files")
    config = inner.config
    labels = tuple(classes) or _labels(config, path / "config.json")
    model = Prepared(inner.float(), _of_processor(path, config, preprocessing or {}), labels).eval()
    return Opened(model, read, labels)


def _labels(config: Any, file: Path) -> tuple[str, ...]:
    """Return the names of the outputs, one for each, in order."""
    names = config.id2label
    if sorted(names) != list(range(config.num_labels)):
        found = f"{', '.join(map(str, list(names)[:3]))} of {config.num_labels}"
        raise InputError(f"id2label for each output, from 0, in {file}", found, "name `classes` in the case")
    return tuple(class_name(str(names[i])) for i in range(len(names)))


def _of_processor(path: Path, config: Any, over: Mapping[str, Any]) -> Preprocessing:
    """Return the preprocessing of preprocessor_config.json, or pixels from 0 to 1, with what goes over it."""
    file = path / "preprocessor_config.json"
    size = getattr(config, "image_size", None)
    side = (int(size), int(size)) if isinstance(size, int) else None
    if not file.is_file() or {"divide_by", "mean", "std"} <= over.keys():
        return replace(Preprocessing(size=side), **over)
    words = store.read_json(file)
    try:
        if odd := [name for name in ("do_center_crop", "do_flip_channel_order") if words.get(name)]:
            do = "give divide_by, size, mean and std under `preprocess`"
            raise InputError(f"a preprocessing that scales and standardises in {file}", odd[0], do)
        given = words.get("size") or {}
        if isinstance(given, int):
            side = (given, given)
        elif "height" in given:
            side = int(given["height"]), int(given["width"])
        elif given and "size" not in over:
            do = "give `size` under `preprocess`, as height and width"
            raise InputError(f"height and width as size in {file}", json.dumps(given)[:80], do)
        factor = float(words.get("rescale_factor", 1 / 255)) if words.get("do_rescale", True) else 1.0
        normalise = words.get("do_normalize", True) and words.get("image_mean")
        mean, std = (words["image_mean"], words["image_std"]) if normalise else ([0.0], [1.0])
        found = Preprocessing(1 / factor, side, tuple(map(float, mean)), tuple(map(float, std)))
        return replace(found, **over)
    except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError):
        found = json.dumps(words)[:80]
        raise InputError(
            f"a preprocessor's words in {file}", found, "give `preprocess` in the case"
        ) from None


def _check_config(words: Any, file: Path) -> None:
    """Refuse a config that names code, other files or other places, at any depth."""
    parts = [words]
    while parts:
        part = parts.pop()
        if isinstance(part, dict):
            bad = [key for key in part if any(word in str(key) for word in _NEVER)]
            if str(part.get("model_type", "")).startswith("timm"):
                bad.append("model_type")
            if bad:
                do = "use networks of transformers itself"
                raise HostileError(f"a plain config in {file}", ascii(bad[0]), do)
        if isinstance(part, dict | list):
            parts += part.values() if isinstance(part, dict) else part


def _check_bounds(words: Any, read: Weights, file: Path) -> None:
    """Refuse a config of a network far larger than its weights' file, before it is built."""
    most = 16 * sum(tensor.numel() for tensor in read.tensors.values())
    parts = [("", words)]
    while parts:
        name, part = parts.pop()
        if isinstance(part, dict | list):
            parts += part.items() if isinstance(part, dict) else [(name, one) for one in part]
        elif isinstance(part, int | float):
            bound = len(read.tensors) if any(word in str(name) for word in _LAYERS) else most
            if part > bound:
                raise InputError(f"{name} of {bound:,} at most in {file}", f"{part:,}", "check both files")


def installed(module: str, package: str) -> Any:
    """Return a module of a package that need not be there."""
    try:
        return importlib.import_module(module)
    # A torchvision built for another torch fails with a RuntimeError about its operators.
    except (ImportError, RuntimeError, OSError) as error:
        found = str(error).splitlines()[0]
        raise InputError(f"{package} installed", found, f"pip install {package}") from None


def said(error: BaseException) -> str:
    """Return an error of foreign code in one line."""
    first = next(iter(str(error).splitlines()), "")
    return f"{type(error).__name__}: {first}"[:200].rstrip(": ")
