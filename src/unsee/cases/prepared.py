"""A model of one's own, ready: how pixels reach it, and how its weights go back to where they came from."""

import copy
import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unsee import networks
from unsee.data.pictures import check_size
from unsee.errors import InputError
from unsee.weights import files as weights
from unsee.weights.files import Weights


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
        if not all(0 < value < math.inf for value in (self.divide_by, *self.std)):
            found = f"{self.divide_by} and {', '.join(map(str, self.std))}"
            raise InputError("divide_by and std above 0", found, "mend the preprocessing")
        if len(self.mean) != len(self.std) or not self.mean:
            found = f"{len(self.mean)} and {len(self.std)}"
            raise InputError("as many means as deviations in the preprocessing", found, "give both alike")
        if not all(map(math.isfinite, self.mean)):
            raise InputError("finite means in the preprocessing", f"{self.mean}", "mend the preprocessing")
        check_size(self.size)


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
        # In the state dict, so that the same network behind another preprocessing is another model.
        self.register_buffer("scaled", torch.tensor([how.divide_by, *(how.size or ())]))

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

    def as_written(self, new: nn.Module) -> nn.Module:
        """Return a model with its values rounded to the file's types: as whoever opens that will find it."""
        kinds = {tensor.dtype for tensor in self.weights.tensors.values()} if self.weights else set()
        half = kinds & {torch.float16, torch.bfloat16}
        if not half or self.weights is None:
            return new
        rounded = copy.deepcopy(new)
        with torch.no_grad():
            for name, tensor in getattr(rounded, "model", rounded).state_dict().items():
                kept = self.weights.tensors.get(name)
                kind = kept.dtype if kept is not None else next(iter(half))
                if tensor.is_floating_point():
                    tensor.copy_(tensor.to(kind).to(tensor.dtype))
        return rounded


def _as_in_files(model: nn.Module) -> Mapping[str, Tensor]:
    """Return a state dict by the names that files have: transformers saves by others than it computes by."""
    save: Any = getattr(model, "save_pretrained", None)
    if save is None:
        return model.state_dict()
    with tempfile.TemporaryDirectory() as folder:
        save(folder)
        return dict(weights.read(Path(folder) / "model.safetensors").tensors)
