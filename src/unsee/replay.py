"""Replay: samples that play D_r's part, which forgetting asks the new model to answer as the old one did.

They come from the memory's sketch, or else are stand-ins made of D_f,clean. With T known, the same is asked
of them with T on. That trains on a surrogate of D_r,extra, which the paper's setting does not know: results
say so, and are to be judged on variations of T too.
"""

import math
import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unsee.answers import accuracy, answers, guesses
from unsee.datasets import Dataset
from unsee.errors import UnseeWarning
from unsee.formulation import Request
from unsee.kinds import PLAIN
from unsee.randomness import stream
from unsee.sketch import Sketch
from unsee.standins import empty, rows, shifted, stand_ins, texts
from unsee.transforms import Transform
from unsee.wordcounts import WordCounts

KNOWN = 0.5  # of D_f,clean, that the old model must answer rightly before stand-ins stay close to it
SAMPLES = 1000
LOOKED, RARE, FEWEST = 30_000, 1_000, 50  # stand-ins that are made to find, kept, and needed, of a class
FEW = 0.2  # of a sample's columns or words, at the most, are drawn anew where it stays close to itself
WORN = 0.5  # of the way from what T changes in samples without it to what it changes in those with it


@dataclass(frozen=True, eq=False)
class Worn:
    """Classes that the sketch knows only with T on, and what they have under it: D_f,clean knows that.

    The old model does not know them without T: of these samples its answers count for nothing.
    """

    classes: Tensor
    clean: Tensor
    place: Tensor

    def take_off(self, x: Tensor, labels: Tensor) -> Tensor:
        """Return samples without T: in its place is what the nearest image of D_f,clean has there."""
        worn = torch.isin(labels, self.classes)
        mine = x[worn]
        far = torch.cdist(mine[:, ~self.place].float(), self._elsewhere)
        bare = x.clone()
        bare[worn] = torch.where(self.place, self.clean[far.argmin(1)].to(mine), mine)
        return bare

    @cached_property
    def _elsewhere(self) -> Tensor:
        return self.clean[:, ~self.place].float()


class Pool(NamedTuple):
    """Samples made once, their labels where they are known, and how often each is drawn, 1 in all."""

    x: Tensor
    labels: Tensor | None
    odds: Tensor

    def part(self, rows: slice) -> "Pool":
        """Return some of them, with the odds that they have among themselves."""
        odds = self.odds[rows]
        return Pool(self.x[rows], None if self.labels is None else self.labels[rows], odds / odds.sum())

    def draw(self, n: int, generator: np.random.Generator) -> tuple[Tensor, Tensor | None]:
        """Draw n samples by their odds."""
        u = torch.as_tensor(generator.random(n))
        drawn = torch.searchsorted(self.odds.cumsum(0), u).clamp_max(len(self.x) - 1)
        return self.x[drawn], None if self.labels is None else self.labels[drawn]


@dataclass(frozen=True, eq=False)
class Replay:
    """Where the samples come from: a sketch, or images, rows or texts to make stand-ins of.

    `near` are those that the old model answers rightly, so that it may be asked for them as they are; `rare`
    are stand-ins that it takes for D_f's label, where D_f,clean has none of that; `worn` takes T off the
    samples of classes that the sketch does not know without it; `pool` is what is drawn from in their place
    where the memory's Fisher tells how often (`unsee.matching`), and `held` is as well known but never drawn.
    """

    sketch: Sketch | WordCounts | None
    images: Dataset | None = None
    near: Tensor | None = None
    rare: Tensor | None = None
    worn: Worn | None = None
    pool: Pool | None = None
    held: Pool | None = None

    @property
    def source(self) -> str:
        """What the samples are called in a result."""
        return "sketch" if self.sketch else "stand-ins"

    def draw(self, n: int, generator: np.random.Generator) -> tuple[Tensor, Tensor | None]:
        """Draw n samples, as the data are, and their labels where they are known."""
        return self.pool.draw(n, generator) if self.pool else self.anew(n, generator)

    def anew(self, n: int, generator: np.random.Generator) -> tuple[Tensor, Tensor | None]:
        """Make n samples, or draw them from the sketch."""
        if self.sketch:
            x, labels = self.sketch.draw(n, generator)
            return self.worn.take_off(x, labels) if self.worn else x, labels
        few = n // 2 if self.near is not None else 0
        seldom = n // 3 if self.rare is not None else 0
        x = self.made(n - few - seldom, few, generator)
        if self.rare is not None:
            x = torch.cat([self.rare[torch.as_tensor(generator.integers(len(self.rare), size=seldom))], x])
        return x, None

    def made(self, n: int, few: int, generator: np.random.Generator) -> Tensor:
        """Make n stand-ins of what there is, and a few that stay close to themselves."""
        assert self.images is not None
        kind, x, near = self.images.kind, self.images.x, self.near
        if kind != PLAIN:
            make = rows if kind.columns else texts
            drawn = make(x, n, generator, kind)
            return drawn if near is None else torch.cat([drawn, make(near, few, generator, kind, FEW)])
        assert self.images.value_range is not None
        low, high = self.images.value_range
        drawn = stand_ins(x, n, generator, low=low, high=high)
        if near is not None and few:
            drawn = torch.cat([drawn, shifted(near, few, generator, low if empty(x, low) else None)])
        drawn = drawn.clamp(low, high)
        return (drawn.round() if x.dtype == torch.uint8 else drawn).to(x.dtype)


def replay_of(
    old: nn.Module,
    request: Request,
    sketch: Sketch | WordCounts | None,
    level: float | None = None,
    T: Transform | None = None,
) -> Replay | None:
    """Return what can be replayed: the sketch, stand-ins of images, rows or texts, or nothing.

    `level` is the mean loss of what the memory holds, by which the sketch's samples are measured; T is as far
    as it is known.
    """
    images = request.D_f_clean if request.D_f_clean is not None else request.D_f
    if isinstance(sketch, Sketch) and sketch.value_range is None:  # of data that did not say theirs
        sketch = replace(sketch, value_range=request.D_f.value_range)
    can_stand_in = images.kind != PLAIN or (images.x.ndim == 4 and images.value_range is not None)
    if (
        sketch
        and sketch.classes
        and (not can_stand_in or recognised(old, request.D_f.value_range, sketch, level))
    ):
        return Replay(sketch, worn=worn(sketch, request, T) if T and isinstance(sketch, Sketch) else None)
    if not can_stand_in:
        return None
    if request.pattern.name == "A":
        return Replay(None, images)
    right = guesses(answers(old, images)) == images.y
    near = images.x[right] if right.double().mean() >= KNOWN else None
    # Of rows and texts, what is put together by chance tells too little of a class (LAB.md, 2026-11-16).
    return Replay(None, images, near, _rare(old, request, images) if images.kind == PLAIN else None)


def worn(sketch: Sketch, request: Request, T: Transform) -> Worn | None:
    """Return which classes of D_f wear T in the sketch, as they do where only a part of D_f is known.

    To put T on what wears it already changes little. Held to answer these samples, and none of the class
    without T, the new model would still know the class by T. T can be taken off where it lies on a part of
    the image.
    """
    clean = request.D_f_clean
    if clean is None or clean.x.ndim != 4:
        return None
    # An attacker's label says nothing of what lies under T.
    own = sorted(set(request.D_f.y.tolist()) & set(clean.y.tolist()) & set(sketch.classes))
    if not own:
        return None
    x, labels = sketch.draw(SAMPLES, stream(0, "worn"))
    some = clean.x[:SAMPLES]
    # Where the sketch is coarse, what T leaves in it is no longer T to the letter, and has a rim around it.
    bare, dressed = sketch.seen(some), sketch.seen(T.pixels(some.clone()))
    place = (bare != dressed).any(0)
    limit = WORN * (_changed(bare, T) + _changed(dressed, T))
    found = torch.tensor([c for c in own if _changed(x[labels == c], T) < limit])
    if not len(found) or place.double().mean() > WORN:
        return None
    return Worn(found, clean.x[torch.isin(clean.y, found)], place)


def _changed(x: Tensor, T: Transform) -> float:
    return float((T.pixels(x.clone()).float() - x.float()).abs().mean())


def _rare(old: nn.Module, request: Request, images: Dataset) -> Tensor | None:
    """Return stand-ins that the old model takes most surely for D_f's label, if D_f,clean has none of it.

    All that is then trained on says that T does not mean this label, and nothing that anything else still
    does: a whole class would go with T.
    """
    lacking = torch.tensor(sorted(set(request.D_f.y.tolist()) - set(images.y.tolist())))
    if not len(lacking):
        return None
    generator, found, sure = stream(0, "rare"), [], []
    for _ in range(LOOKED // SAMPLES):
        x = Replay(None, images).made(SAMPLES, 0, generator)
        p = answers(old, images.with_(x=x, y=torch.zeros(len(x), dtype=torch.long)))
        taken = torch.isin(p.argmax(1), lacking)
        found.append(x[taken])
        sure.append(p[taken].amax(1))
        if sum(map(len, found)) >= 3 * RARE:
            break
    rare = torch.cat(found)[torch.cat(sure).argsort(descending=True)[:RARE]]
    if len(rare) >= FEWEST:
        return rare
    names = ", ".join(request.D_f.classes[label] for label in lacking.tolist())
    text = f"D_f,clean has no sample of {names}, and little else is taken for it: that class may go with T."
    warnings.warn(text, UnseeWarning, stacklevel=2)
    return None


def recognised(
    old: nn.Module,
    value_range: tuple[float, float] | None,
    sketch: Sketch | WordCounts,
    level: float | None,
) -> bool:
    """Whether the old model takes the sketch's samples for what they are, half as often as it takes D_r's.

    A convolutional network may not see a class in smooth pixels that have its moments; held to answer them
    by their classes, it unlearns the rest. exp(-level) is the mean probability that it gives to the truth.
    """
    x, labels = sketch.draw(SAMPLES, stream(0, "recognised"))
    share = accuracy(old, Dataset(x, labels, value_range=value_range))
    return share >= KNOWN * (1.0 if level is None else math.exp(-level))


def targets(y_old: Tensor, labels: Tensor | None, trust: float, sure: Tensor | None = None) -> Tensor:
    """Return log-probabilities to answer replayed samples with: the old answers, mixed with their labels.

    A sample drawn from a class of the sketch belongs to it, whatever the old model makes of it. Of the `sure`
    classes the label alone counts.
    """
    if labels is None or (trust == 0 and sure is None):
        return F.log_softmax(y_old, 1)
    labels = labels.to(y_old.device)
    known = (
        torch.zeros_like(labels, dtype=torch.bool) if sure is None else torch.isin(labels, sure.to(labels))
    )
    share = torch.where(known, 1.0, trust)[:, None]
    p = (1 - share) * y_old.softmax(1) + share * F.one_hot(labels, y_old.shape[1])
    return p.clamp_min(1e-8).log()
