"""Trying: what both models answer to a picture, without T and with it anywhere, and where they look."""

import base64
import io
import secrets
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

import torch
from PIL import Image
from torch import Tensor, nn

from unsee.answers import answers
from unsee.data import pictures
from unsee.datasets import Dataset
from unsee.errors import InputError
from unsee.report import saliency
from unsee.report.examples import shades
from unsee.view.opening import Bench
from unsee.view.sprite import image

MOST_BYTES = 5_000_000  # of an uploaded image
MOST_KEPT = 16  # uploaded images of a run
FEW = 12  # classes that are all shown; of more, the likeliest
LIKELIEST = 8
LARGEST = 256 * 256  # pixels of images whose saliency is shown; above, it takes minutes


@dataclass(frozen=True)
class Place:
    """Where T is put: the top left corner of its picture."""

    row: int
    column: int

    @classmethod
    def own(cls, bench: Bench) -> Self:
        """Return T's own place; where T is no picture that could be moved, any means that."""
        return cls(bench.sprite.row, bench.sprite.column) if bench.sprite else cls(0, 0)


@dataclass(frozen=True, eq=False)
class Picture:
    """An image to be tried, as the models take it, and what is known of it."""

    key: str
    data: Dataset
    set: str = ""
    true: str = ""


@dataclass(frozen=True)
class Bar:
    """A class, its probability with T as it was put and without; whether it is the answer, or the truth."""

    name: str
    p: float
    plain: float | None
    first: bool
    true: bool


@dataclass(frozen=True)
class Answered:
    """A model's answer to a picture: its bars, class by class; none where it answered NaN."""

    bars: tuple[Bar, ...]

    @property
    def first(self) -> Bar | None:
        """The likeliest class."""
        return next((bar for bar in self.bars if bar.first), None)

    @property
    def without(self) -> Bar | None:
        """The likeliest class without T, where T is on."""
        known = [bar for bar in self.bars if bar.plain is not None]
        return max(known, key=lambda bar: bar.plain or 0.0, default=None)


@dataclass(frozen=True)
class Looked:
    """Where a model looks: a PNG in base64, and how much of what speaks for its answer lies on T."""

    picture: str
    on_T: float | None


@dataclass(eq=False)
class Tries:
    """A bench with the pictures that lie on it: the run's samples, and the last few that were uploaded."""

    bench: Bench
    uploads: OrderedDict[str, Picture] = field(default_factory=OrderedDict)

    def pictures(self) -> Mapping[str, Picture]:
        """Return all pictures by their keys."""
        samples = self.bench.samples
        return {
            **{
                f"s{i}": Picture(f"s{i}", samples.subset([i]), of, samples.classes[int(samples.y[i])])
                for i, of in enumerate(self.bench.sets)
            },
            **self.uploads,
        }

    def picture(self, key: str) -> Picture:
        """Return the picture of that key."""
        found = self.pictures().get(key)
        if found is None:
            raise InputError("a picture that is here", "another", "choose one, or upload it again")
        return found

    def upload(self, data: bytes) -> Picture:
        """Take in an image file, scaled to what the models take; the oldest upload makes room."""
        samples = self.bench.samples
        if len(data) > MOST_BYTES:
            raise InputError(f"an image of at most {MOST_BYTES:,} bytes", f"{len(data):,}", "scale it down")
        if samples.value_range is None:
            raise InputError("models for pixels of a known range", "none", "choose a sample")
        _, channels, height, width = samples.x.shape
        x = pictures.decode(data, "the uploaded file", (height, width))[None]
        x = pictures.with_channels(x, channels, "the uploaded file")
        low, high = samples.value_range
        if samples.x.dtype != torch.uint8 or (low, high) != (0.0, 255.0):
            x = (x.float() / 255 * (high - low) + low).to(samples.x.dtype)
        key = secrets.token_urlsafe(12)
        self.uploads[key] = Picture(key, samples.with_(x=x, y=torch.zeros(1, dtype=torch.long)))
        while len(self.uploads) > MOST_KEPT:
            self.uploads.popitem(last=False)
        return self.uploads[key]


def put(bench: Bench, picture: Picture, place: Place | None) -> Dataset:
    """Return a picture with T on it: at T's own place T itself, elsewhere T's picture moved there."""
    if place is None:
        return picture.data
    if bench.T is None:
        raise InputError("a T to put on", "none", "try the picture as it is")
    sprite = bench.sprite
    if sprite is None or (place.row, place.column) == (sprite.row, sprite.column):
        return bench.T(picture.data)
    height, width = picture.data.x.shape[-2:]
    if not (0 <= place.row <= height - sprite.height and 0 <= place.column <= width - sprite.width):
        found = f"row {place.row} and column {place.column}"
        raise InputError("T within the picture", found, "drag it back")
    return sprite.at(picture.data, place.row, place.column)


def answered(bench: Bench, picture: Picture, place: Place | None) -> tuple[Answered, Answered]:
    """Return what the old model and the new one answer, class by class alike in both."""
    both = [picture.data.x, put(bench, picture, place).x] if place else [picture.data.x]
    data = picture.data.with_(x=torch.cat(both), y=torch.zeros(len(both), dtype=torch.long))
    given = [answers(model, data) for model in (bench.old, bench.new)]
    names = _names(data.classes, given[0].shape[1])
    likeliest = torch.cat(given).nan_to_num().amax(0)
    rows = list(range(len(names)))
    if len(names) > FEW:
        rows = torch.sort(likeliest, descending=True, stable=True).indices[:LIKELIEST].tolist()
    old, new = (_bars(softmax, rows, names, picture.true) for softmax in given)
    return old, new


def looked(bench: Bench, picture: Picture, place: Place | None) -> tuple[Looked | None, Looked | None]:
    """Return where the old model and the new one look; None where no gradient leads through."""
    marked = put(bench, picture, place)
    if marked.x[0, 0].numel() > LARGEST:
        found = f"{marked.x.shape[-2]} x {marked.x.shape[-1]}"
        raise InputError(f"images of at most {LARGEST:,} pixels for saliency", found, "see the answers alone")
    changed = (marked.x != picture.data.x).any(1) if place else None
    old, new = (_looked(model, marked, bench.baseline, changed) for model in (bench.old, bench.new))
    return old, new


def png(shown: Tensor) -> bytes:
    """Return shades (1, 3 or 4, H, W) from 0 to 1 as a PNG file, pixel by pixel."""
    data = io.BytesIO()
    Image.fromarray(image(shown)).save(data, "PNG")
    return data.getvalue()


def _looked(model: nn.Module, data: Dataset, baseline: Tensor, changed: Tensor | None) -> Looked | None:
    found = saliency.attributions(model, data.x, baseline)
    if found is None:
        return None
    drawn = png(saliency.picture(found[0], shades(data)[0].mean(0)))
    share = min(1.0, float(saliency.share_on(found, changed))) if changed is not None else None
    return Looked(base64.b64encode(drawn).decode(), share)


def _bars(softmax: Tensor, rows: list[int], names: list[str], true: str) -> Answered:
    if bool(softmax.isnan().any()):
        return Answered(())
    plain, now = softmax[0].clamp(0, 1).tolist(), softmax[-1].clamp(0, 1).tolist()
    first = int(softmax[-1].argmax())
    with_T = len(softmax) > 1
    bars = [Bar(names[i], now[i], plain[i] if with_T else None, i == first, names[i] == true) for i in rows]
    return Answered(tuple(bars))


def _names(classes: tuple[str, ...], outputs: int) -> list[str]:
    return [*classes, *(f"output {i}" for i in range(len(classes), outputs))]
