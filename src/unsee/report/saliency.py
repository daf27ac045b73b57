"""Saliency: which pixels speak for a model's answer, so that one sees it stop looking at the trigger.

Integrated gradients (Sundararajan, Taly, Yan 2017, arXiv 1703.01365) along the way from the mean image to
the image, for the answer that the model itself gives. A hint at what a model leans on, not a proof.
"""

from dataclasses import dataclass
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unsee.answers import as_input, evaluating
from unsee.datasets import Dataset
from unsee.randomness import stream
from unsee.report.words import Words
from unsee.transforms import Transform

STEPS = 24
AT_ONCE = 64
LOOKED_AT = 32
LARGE = 64 * 64  # pixels; above, an image takes seconds
_GLOW = torch.tensor([[0.0, 0.0, 0.0], [0.55, 0.12, 0.05], [0.94, 0.45, 0.08], [1.0, 0.93, 0.62]])


@dataclass(frozen=True)
class Looks:
    """How much of what speaks for the answers lies on the pixels that T changes, a mean over n samples.

    `area` is the share of those pixels in the image. `clean_before` and `clean_after` are the same samples
    without T, at the same pixels.
    """

    n: int
    area: float
    before: float
    after: float
    clean_before: float
    clean_after: float

    @classmethod
    def read(cls, words: Words) -> Self:
        """Read what a file holds of it."""
        names = ("area", "before", "after", "clean_before", "clean_after")
        return cls(words.at("n").whole(1), *(words.at(name).share() for name in names))


def looks_of(old: nn.Module, new: nn.Module, T: Transform, data: Dataset, seed: int) -> Looks | None:
    """Measure both models on random samples, with T and without; None for large images, and for no images."""
    if data.x.ndim != 4 or data.x[0, 0].numel() > LARGE:
        return None
    part = data.subset(stream(seed, "looks").permutation(len(data))[:LOOKED_AT])
    marked = T(part)
    changed = (marked.x != part.x).any(1)
    baseline = data.x.float().mean(0)
    shares = []
    for x in (marked.x, part.x):
        for model in (old, new):
            found = attributions(model, x, baseline)
            if found is None:
                return None
            shares.append(min(1.0, float(share_on(found, changed).mean())))
    return Looks(len(part), float(changed.double().mean()), *shares)


def attributions(model: nn.Module, x: Tensor, baseline: Tensor) -> Tensor | None:
    """Return, for images (n, C, H, W), how far each pixel speaks for the model's answer, (n, H, W).

    None for a model that no gradient leads through. Pixels below zero speak against the answer.
    """
    from captum.attr import IntegratedGradients

    images, start = as_input(x, model), as_input(baseline, model)[None]
    # A model may work in place, which autograd refuses on what it is asked the gradient of.
    method = IntegratedGradients(lambda images: model(images.clone()))
    try:
        with evaluating(model), torch.enable_grad():
            answers = torch.cat([model(part.clone()).detach().argmax(1) for part in images.split(AT_ONCE)])
            found = method.attribute(
                images, start.expand_as(images), target=answers, n_steps=STEPS, internal_batch_size=AT_ONCE
            )
    except RuntimeError:
        return None
    found = found.detach().sum(1).float().cpu()
    return found if bool(torch.isfinite(found).all()) else None


def share_on(found: Tensor, pixels: Tensor) -> Tensor:
    """Return, for each image, how much of what speaks for the answer lies on the given pixels.

    >>> share_on(torch.tensor([[[3.0, 1.0, -5.0]]]), torch.tensor([[[True, False, True]]])).tolist()
    [0.75]
    """
    speaking = found.clamp_min(0)
    whole = speaking.flatten(1).sum(1)
    return (speaking * pixels).flatten(1).sum(1) / whole.clamp_min(1e-12)


def picture(found: Tensor, grey: Tensor) -> Tensor:
    """Return one image's attribution as colours (3, H, W) in 0..1, glowing on the darkened grey image."""
    size = max(1, min(found.shape) // 28) * 2 + 1
    # Neighbours are added before the sign is looked at: single pixels of a network are mostly noise.
    smooth = F.avg_pool2d(found[None, None], size, 1, size // 2, count_include_pad=False)[0, 0].clamp_min(0)
    brightest = torch.quantile(smooth.flatten()[:: max(1, smooth.numel() // 100_000)], 0.995)
    glow = (smooth / brightest.clamp_min(1e-12)).clamp(0, 1)
    place = glow * (len(_GLOW) - 1)
    low = place.long().clamp_max(len(_GLOW) - 2)
    colours = torch.lerp(_GLOW[low], _GLOW[low + 1], (place - low)[..., None])
    return torch.lerp(0.4 * grey[..., None].expand_as(colours), colours, glow[..., None]).permute(2, 0, 1)
