"""Facts: what a report shows beyond the scores, computed once while both models and the data are here."""

import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

import torch
from torch import Tensor, nn

from unsee import networks
from unsee.answers import answers, guesses
from unsee.datasets import MOST_CLASSES, Dataset
from unsee.errors import InputError, UnseeWarning
from unsee.formulation import SETS, TABLE_1, FourDatasets, Pattern, Request
from unsee.report import examples as showing
from unsee.report.examples import Example
from unsee.report.rates import Shift, shift_of, shift_read
from unsee.report.saliency import Looks, looks_of
from unsee.report.variations import Variation, judged
from unsee.report.words import Words
from unsee.twins import Twins, twins_of

FORMAT = 1
CONFUSED = ("D_r", "D_r_extra")
OTHER = -1


@dataclass(frozen=True)
class Layer:
    """A module with parameters of its own: |theta - theta_old| / |theta_old| over them."""

    name: str
    kind: str
    parameters: int
    moved: float


@dataclass(frozen=True)
class Facts:
    """What both models answer to the test sets, by class; and how the new one came to differ.

    `confusion` holds, for a set, (true class, answer, count before, count after), -1 being an answer that is
    no class of the data. `softmax` is the mean answer to D_f before and after, a pair a class.
    """

    classes: tuple[str, ...]
    model_before: str
    model_after: str
    seed: int
    sets: Mapping[str, Mapping[int, Shift]] = field(default_factory=dict)
    confusion: Mapping[str, tuple[tuple[int, int, int, int], ...]] = field(default_factory=dict)
    softmax: tuple[tuple[float, float], ...] = ()
    layers: tuple[Layer, ...] = ()
    variations: tuple[Variation, ...] = ()
    looks: Looks | None = None
    examples: tuple[Example, ...] = ()

    def shift(self, name: str) -> Shift | None:
        """Return what became of the answers to a whole set."""
        parts = list(self.sets.get(name, {}).values())
        return sum(parts[1:], parts[0]) if parts else None

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain words and numbers, for JSON."""
        words = {**asdict(self), "format": FORMAT}
        words["sets"] = {
            name: [[label, s.n, s.kept, s.gained, s.lost] for label, s in shifts.items()]
            for name, shifts in self.sets.items()
        }
        return words

    @classmethod
    def from_dict(cls, value: Any, file: str = "facts.json") -> Self:
        """Read what `to_dict` wrote; whatever does not fit is refused with its place."""
        words = Words(value, file)
        words.at("format").whole(1, FORMAT)
        classes = tuple(word.text() for word in words.at("classes").each(MOST_CLASSES))
        looks = words.perhaps("looks")
        softmax = tuple((b.share(), a.share()) for b, a in _rows(words.at("softmax"), 2, len(classes)))
        if softmax and len(softmax) != len(classes):
            raise words.at("softmax").refused("two shares for each class")
        return cls(
            classes,
            words.at("model_before").text(),
            words.at("model_after").text(),
            words.at("seed").whole(-(10**15)),
            {name: _shifts_read(part, len(classes)) for name, part in _known(words.at("sets"))},
            {name: _confusion_read(part, len(classes)) for name, part in _known(words.at("confusion"))},
            softmax,
            tuple(
                Layer(
                    w.at("name").text(),
                    w.at("kind").text(),
                    w.at("parameters").whole(),
                    w.at("moved").number(0),
                )
                for w in words.at("layers").each(100_000)
            ),
            tuple(map(Variation.read, words.at("variations").each(1000))),
            Looks.read(looks) if looks else None,
            tuple(map(Example.read, words.at("examples").each(showing.MOST))),
        )


def facts_of(
    old: nn.Module,
    new: nn.Module,
    four: FourDatasets,
    pattern: Pattern | None,
    *,
    with_images: bool = False,
    seed: int = 0,
    examples: int = 6,
) -> Facts:
    """Ask both models everything that the report shows. Images only where asked for, weights never."""
    present = {name: data for name, data in four.test.present().items() if len(data)}
    given = {name: (answers(old, data), answers(new, data)) for name, data in present.items()}
    guessed = {name: tuple(map(guesses, pair)) for name, pair in given.items()}
    remembered = present.get("D_r")
    # Pattern A forgets samples: T, where there is one, plays no part in it.
    with_T = pattern is None or pattern.name != "A"
    twins = _twins(four) if with_T else None
    T = four.T or (twins.T if twins else None) if with_T else None
    drawn = {"count": min(examples, showing.MOST), "seed": seed, "with_images": with_images}
    return Facts(
        next(iter(present.values())).classes if present else (),
        networks.identity(old),
        networks.identity(new),
        seed,
        {name: _shifts(present[name], *guessed[name]) for name in present},
        {name: _confusion(present[name], *guessed[name]) for name in CONFUSED if name in present},
        _softmax(present["D_f"], *given["D_f"]) if "D_f" in given else (),
        _layers(old, new),
        judged(old, new, T, remembered, present.get("D_f"), seed) if T and remembered is not None else (),
        looks_of(old, new, T, remembered, seed) if T and remembered is not None else None,
        showing.examples_of(old, new, four.test, T, twins, **drawn),
    )


def _twins(four: FourDatasets) -> Twins | None:
    """Return the affected test samples in pairs, and T as it is given or fits them; None if nobody knows."""
    test = four.test
    if test.D_f is None or test.D_f_clean is None or not len(test.D_f) or not len(test.D_f_clean):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnseeWarning)  # it was said when forgetting began
            return twins_of(Request(TABLE_1["B"], test.D_f, test.D_f_clean, four.T))
    except InputError:
        return None


def _shifts(data: Dataset, before: Tensor, after: Tensor) -> dict[int, Shift]:
    rows = {int(label): data.y == label for label in data.y.unique()}
    return {label: shift_of(data.y[row], before[row], after[row]) for label, row in rows.items()}


def _confusion(data: Dataset, before: Tensor, after: Tensor) -> tuple[tuple[int, int, int, int], ...]:
    counts: dict[tuple[int, int], list[int]] = {}
    for when, guessed in enumerate((before, after)):
        known = torch.where(guessed < len(data.classes), guessed, OTHER)
        pairs, times = torch.stack([data.y, known], 1).unique(dim=0, return_counts=True)
        for (true, answer), count in zip(pairs.tolist(), times.tolist(), strict=True):
            counts.setdefault((true, answer), [0, 0])[when] = count
    return tuple((true, answer, was, now) for (true, answer), (was, now) in sorted(counts.items()))


def _softmax(data: Dataset, before: Tensor, after: Tensor) -> tuple[tuple[float, float], ...]:
    """Return the mean answers to the data's classes; nothing where a model answered NaN."""
    means = torch.stack([before.double().mean(0), after.double().mean(0)], 1)[: len(data.classes)]
    return () if bool(means.isnan().any()) else tuple((b, a) for b, a in means.clamp(0, 1).tolist())


def _layers(old: nn.Module, new: nn.Module) -> tuple[Layer, ...]:
    """Compare parameter by parameter, in order: a truncated model has the old one's under other names."""
    if [p.shape for p in old.parameters()] != [q.shape for q in new.parameters()]:
        return ()
    pairs = zip(old.named_parameters(), new.named_parameters(), strict=True)
    kinds = {name: type(module).__name__ for name, module in old.named_modules()}
    sums: dict[str, list[float]] = {}
    for (name, p), (_, q) in pairs:
        row = sums.setdefault(name.rpartition(".")[0], [0, 0, 0])
        steps = (q.detach().double() - p.detach().to(q.device).double(), p.detach().double())
        row[0] += p.numel()
        row[1], row[2] = (total + float(x.square().sum()) for total, x in zip(row[1:], steps, strict=True))
    # Where all was zero before, there is no length to hold the step against.
    return tuple(
        Layer(name or "(outermost)", kinds[name], int(count), (moved / whole) ** 0.5 if whole else 0.0)
        for name, (count, moved, whole) in sums.items()
    )


def _known(words: Words) -> list[tuple[str, Words]]:
    for name, part in words.items(len(SETS)):
        if name not in SETS:
            raise part.refused(f"one of {', '.join(SETS)}")
    return words.items()


def _rows(words: Words, width: int, most: int) -> list[list[Words]]:
    rows = [row.each(width) for row in words.each(most)]
    if any(len(row) != width for row in rows):
        raise words.refused(f"rows of {width} numbers")
    return rows


def _shifts_read(words: Words, classes: int) -> dict[int, Shift]:
    rows = _rows(words, 5, classes)
    return {
        label.whole(0, classes - 1): shift_read(words, *(count.whole() for count in counts))
        for label, *counts in rows
    }


def _confusion_read(words: Words, classes: int) -> tuple[tuple[int, int, int, int], ...]:
    rows = _rows(words, 4, 1_000_000)
    return tuple(
        (t.whole(0, classes - 1), a.whole(OTHER, classes - 1), b.whole(), n.whole()) for t, a, b, n in rows
    )
