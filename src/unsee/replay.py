"""Replay: samples that play D_r's part, which forgetting asks the new model to answer as the old one did.

They come from the memory's sketch, or else are stand-ins made of D_f,clean. With T known, the same is asked
of them with T on. That trains on a surrogate of D_r,extra, which the paper's setting does not know: results
say so, and are to be judged on variations of T too.
"""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unsee.answers import answers, guesses
from unsee.datasets import Dataset
from unsee.formulation import Request
from unsee.sketch import Sketch
from unsee.standins import shifted, stand_ins

KNOWN = 0.5  # of D_f,clean, that the old model must answer rightly before stand-ins stay close to it


@dataclass(frozen=True, eq=False)
class Replay:
    """Where the samples come from: a sketch, or images to make stand-ins of.

    `near` are images that the old model answers rightly, so that it may be asked for them as they are.
    """

    sketch: Sketch | None
    images: Dataset | None = None
    near: Tensor | None = None

    @property
    def source(self) -> str:
        """What the samples are called in a result."""
        return "sketch" if self.sketch else "stand-ins"

    def draw(self, n: int, generator: np.random.Generator) -> tuple[Tensor, Tensor | None]:
        """Draw n samples, as the data are, and their labels where they are known."""
        if self.sketch:
            return self.sketch.draw(n, generator)
        assert self.images is not None
        assert self.images.value_range is not None
        low, high = self.images.value_range
        few = n // 2 if self.near is not None else 0
        x = stand_ins(self.images.x, n - few, generator, low=low)
        if self.near is not None and few:
            x = torch.cat([x, shifted(self.near, few, generator, low)])
        x = x.clamp(low, high)
        return (x.round() if self.images.x.dtype == torch.uint8 else x).to(self.images.x.dtype), None


def replay_of(old: nn.Module, request: Request, sketch: Sketch | None) -> Replay | None:
    """Return what can be replayed: the sketch, stand-ins where the data are images, or nothing."""
    if sketch and sketch.classes:
        return Replay(sketch)
    images = request.D_f_clean if request.D_f_clean is not None else request.D_f
    if images.x.ndim != 4 or images.value_range is None:
        return None
    if request.pattern.name == "A":
        return Replay(None, images)
    right = guesses(answers(old, images)) == images.y
    return Replay(None, images, images.x[right] if right.double().mean() >= KNOWN else None)


def targets(y_old: Tensor, labels: Tensor | None, trust: float) -> Tensor:
    """Return log-probabilities to answer replayed samples with: the old answers, mixed with their labels.

    A sample drawn from a class of the sketch belongs to it, whatever the old model makes of it.
    """
    if labels is None or trust == 0:
        return F.log_softmax(y_old, 1)
    p = (1 - trust) * y_old.softmax(1) + trust * F.one_hot(labels.to(y_old.device), y_old.shape[1])
    return p.clamp_min(1e-8).log()
