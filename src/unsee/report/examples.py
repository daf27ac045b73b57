"""Examples: some test samples without and with T, and what both models answer to each."""

import base64
import binascii
import io
import struct
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from unsee.answers import answers
from unsee.datasets import Dataset
from unsee.formulation import SETS, FourSets
from unsee.kinds import PLAIN
from unsee.randomness import stream
from unsee.report import saliency
from unsee.report.words import Words
from unsee.transforms import Transform
from unsee.twins import Twins

TOP = 3
MOST = 64
LONGEST_SIDE = 128
LARGEST_FILE = 400_000
_PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"


@dataclass(frozen=True)
class Answer:
    """A class and the probability that a model gives it."""

    name: str
    p: float

    @classmethod
    def read(cls, words: Words) -> Self:
        """Read what a file holds of it."""
        return cls(words.at("name").text(), words.at("p").share())


@dataclass(frozen=True)
class View:
    """One sample, without T or with it: both models' first answers; if asked, pictures of it (PNG, base64).

    `looks_before` and `looks_after` are the saliency of the two models on it. A row of a table or a text is
    shown in `words` instead.
    """

    with_T: bool
    before: tuple[Answer, ...]
    after: tuple[Answer, ...]
    picture: str | None = None
    looks_before: str | None = None
    looks_after: str | None = None
    words: str | None = None

    @classmethod
    def read(cls, words: Words) -> Self:
        """Read what a file holds of it; a picture is a small PNG or is refused."""
        before, after = (
            tuple(map(Answer.read, words.at(when).each(most=TOP))) for when in ("before", "after")
        )
        pictures = (_picture_read(words, name) for name in ("picture", "looks_before", "looks_after"))
        said = words.perhaps("words")
        view = cls(words.at("with_T").truth(), before, after, *pictures)
        return replace(view, words=said.text()) if said else view


@dataclass(frozen=True)
class Example:
    """A test sample of a set: its true class, the one it was trained as if another, and its views."""

    of: str
    index: int
    true: str
    trained: str | None
    views: tuple[View, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain words for a JSON file."""
        return asdict(self)

    @classmethod
    def read(cls, words: Words) -> Self:
        """Read what `to_dict` wrote."""
        if (of := words.at("of")).value not in SETS:
            raise of.refused(f"one of {', '.join(SETS)}")
        trained = words.perhaps("trained")
        views = tuple(map(View.read, words.at("views").each(most=2)))
        return cls(
            of.value,
            words.at("index").whole(),
            words.at("true").text(),
            trained.text() if trained else None,
            views,
        )


def examples_of(
    old: nn.Module,
    new: nn.Module,
    test: FourSets,
    T: Transform | None,
    twins: Twins | None,
    *,
    count: int = 6,
    seed: int = 0,
    with_images: bool = False,
) -> tuple[Example, ...]:
    """Draw test samples by chance, of as many classes as there are, a third of them from D_f."""
    sources = [source for source in (_remembered(test, T), _affected(test, twins)) if source]
    baseline = None
    if with_images and sources:
        _, plain, marked = sources[0]
        common = plain or marked
        assert common is not None
        baseline = common.x.float().mean(0)
    found: list[Example] = []
    for of, plain, marked in sources:
        data = plain or marked
        assert data is not None
        more = -(-2 * count // 3) if len(sources) == 2 and not found else count - len(found)
        if rows := _drawn(data, more, seed, of):
            found += _of_set(old, new, of, plain, marked, rows, baseline)
    return tuple(found)


Source = tuple[str, Dataset | None, Dataset | None]


def _remembered(test: FourSets, T: Transform | None) -> Source | None:
    """Return samples to be remembered, without T and with it; with it alone where T is not known."""
    D_r, extra = (data if data is not None and len(data) else None for data in (test.D_r, test.D_r_extra))
    if D_r is not None and (T is not None or extra is None):
        return "D_r", D_r, T(D_r) if T else None
    return ("D_r_extra", None, extra) if extra is not None else None


def _affected(test: FourSets, twins: Twins | None) -> Source | None:
    """Return affected samples beside their twins, or alone where nobody knows which belongs to which."""
    if twins:
        return "D_f", twins.D_f_clean, twins.D_f
    if test.D_f is None or not len(test.D_f):
        return None
    return ("D_f", test.D_f, None) if test.D_f_clean is None else ("D_f", None, test.D_f)


def _drawn(data: Dataset, count: int, seed: int, of: str) -> list[int]:
    """Return random rows, each class once before any comes twice."""
    order = stream(seed, f"examples of {of}").permutation(len(data))
    seen: dict[int, int] = {}
    turn = {}
    for row in order.tolist():
        label = int(data.y[row])
        turn[row] = seen[label] = seen.get(label, -1) + 1
    return sorted(order.tolist(), key=lambda row: turn[row])[: max(0, count)]


def _of_set(
    old: nn.Module,
    new: nn.Module,
    of: str,
    plain: Dataset | None,
    marked: Dataset | None,
    rows: Sequence[int],
    baseline: Tensor | None,
) -> list[Example]:
    both = [(with_T, data) for with_T, data in ((False, plain), (True, marked)) if data is not None]
    views = [_views(old, new, data.subset(rows), with_T, baseline) for with_T, data in both]
    first, last = both[0][1], both[-1][1]
    found = []
    for i, row in enumerate(rows):
        true, trained = (data.classes[int(data.y[row])] for data in (first, last))
        other = trained if trained != true else None
        found.append(Example(of, row, true, other, tuple(view[i] for view in views)))
    return found


def _views(
    old: nn.Module, new: nn.Module, data: Dataset, with_T: bool, baseline: Tensor | None
) -> list[View]:
    before, after = (_first(answers(model, data), data.classes) for model in (old, new))
    pictures: list[list[str | None]] = [[None] * len(data)] * 4
    if baseline is not None and data.x.ndim == 4:
        looks = (_looks(model, data, baseline) for model in (old, new))
        pictures = [[png(x) for x in shades(data)], *looks, [None] * len(data)]
    if baseline is not None and data.kind != PLAIN:
        said: list[str | None] = [data.kind.said(x) for x in data.x]
        pictures = [*pictures[:3], said]
    columns = zip(before, after, *pictures, strict=True)
    return [View(with_T, *column) for column in columns]


def _first(softmax: Tensor, classes: Sequence[str]) -> list[tuple[Answer, ...]]:
    """Return the likeliest answers to each sample; none where a model answered NaN."""
    named = [*classes, *(f"output {i}" for i in range(len(classes), softmax.shape[1]))]
    p, labels = torch.sort(softmax, dim=1, descending=True, stable=True)
    return [
        ()
        if bool(row.isnan().any())
        else tuple(
            Answer(named[j], min(1.0, max(0.0, float(v))))
            for v, j in zip(row[:TOP], order[:TOP].tolist(), strict=True)
        )
        for row, order in zip(p, labels, strict=True)
    ]


def _looks(model: nn.Module, data: Dataset, baseline: Tensor) -> list[str | None]:
    found = saliency.attributions(model, data.x, baseline)
    if found is None:
        return [None] * len(data)
    grey = shades(data).mean(1)
    return [png(saliency.picture(one, image)) for one, image in zip(found, grey, strict=True)]


def shades(data: Dataset) -> Tensor:
    """Return images as shades from 0 to 1, grey or RGB, whatever their range and channels are."""
    x = data.x.float()
    low, high = data.value_range or (float(x.min()), float(x.max()))
    x = ((x - low) / max(high - low, 1e-12)).clamp(0, 1)
    return x if x.shape[1] in (1, 3) else x.mean(1, keepdim=True)


def png(shades: Tensor) -> str:
    """Return an image (1 or 3, H, W) with shades in 0..1 as a PNG file in base64, at most 128 pixels long."""
    array = (shades * 255).round().to(torch.uint8).movedim(0, -1).numpy()
    image = Image.fromarray(np.ascontiguousarray(array.squeeze(-1) if array.shape[-1] == 1 else array))
    image.thumbnail((LONGEST_SIDE, LONGEST_SIDE), Image.Resampling.BILINEAR)
    data = io.BytesIO()
    image.save(data, "PNG", optimize=True)
    return base64.b64encode(data.getvalue()).decode()


def _picture_read(words: Words, name: str) -> str | None:
    found = words.perhaps(name)
    if found is None:
        return None
    try:
        data = base64.b64decode(found.text().encode("ascii"), validate=True)
        sides = struct.unpack(">II", data[16:24])
        if len(data) <= LARGEST_FILE and data.startswith(_PNG) and all(0 < s <= 1024 for s in sides):
            return base64.b64encode(data).decode()  # in its one spelling: nothing else can come along
    except (UnicodeEncodeError, binascii.Error, struct.error):
        pass
    raise Words("something else", found.file, found.place).refused("a small PNG file in base64")
