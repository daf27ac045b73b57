"""The paper's formulation: four data sets, three patterns, and what forgetting may see of them.

`Request` is all that the forgetting procedure learns from, and it has no field for D_r: the paper's
central restriction is a type. Only judgement ever holds all four sets.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

import numpy as np
import torch

from unsee.conditions import check_alike, check_T
from unsee.datasets import Dataset, concatenate
from unsee.errors import InputError, UsageError
from unsee.randomness import stream
from unsee.sources import TrainTest
from unsee.transforms import Transform

SETS = ("D_r", "D_f", "D_f_clean", "D_r_extra")


class Arrow(StrEnum):
    """Which way an accuracy should go."""

    UP = "↑"
    DOWN = "↓"


@dataclass(frozen=True)
class Pattern:
    """A row of Table 1: what is to be forgotten, and which accuracies say that it was."""

    name: str
    forgets: str
    arrows: Mapping[str, Arrow]

    def score(self, accuracies: Mapping[str, float]) -> float:
        """Return the least of the required accuracies; where the arrow points down, 1 - accuracy.

        >>> round(TABLE_1["A"].score({"D_r": 0.9, "D_f": 0.2}), 3)
        0.8
        """
        return min(
            accuracies[name] if arrow is Arrow.UP else 1 - accuracies[name]
            for name, arrow in self.arrows.items()
        )


TABLE_1 = {
    "A": Pattern("A", "samples", {"D_r": Arrow.UP, "D_f": Arrow.DOWN}),
    "B": Pattern("B", "a backdoor", {"D_r": Arrow.UP, "D_f_clean": Arrow.UP, "D_r_extra": Arrow.UP}),
    "C": Pattern("C", "a leakage", {"D_r": Arrow.UP, "D_f": Arrow.UP, "D_r_extra": Arrow.UP}),
}


def pattern_of(name: str | Pattern) -> Pattern:
    """Return Table 1's row of that name."""
    if isinstance(name, Pattern):
        return name
    if name.upper() not in TABLE_1:
        raise UsageError(
            "pattern A, B or C", f"{name!r}", "choose by Table 1: samples, a backdoor, a leakage"
        )
    return TABLE_1[name.upper()]


@dataclass(frozen=True, eq=False)
class Request:
    """What the forgetting procedure learns from: D_f, and for Patterns B and C D_f,clean and perhaps T.

    D_f carries the labels it was trained with, D_f,clean the true ones.
    """

    pattern: Pattern
    D_f: Dataset
    D_f_clean: Dataset | None = None
    T: Transform | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "pattern", pattern_of(self.pattern))
        name = self.pattern.name
        if self.D_f is None or len(self.D_f) == 0:
            raise InputError("samples in D_f", "none", "there is nothing to forget without them")
        if name == "A" and self.D_f_clean is not None:
            do = "leave it out, or choose Pattern B or C"
            raise InputError("no D_f,clean (Table 1, Pattern A)", "one", do)
        if name == "A":
            return
        if self.D_f_clean is None or len(self.D_f_clean) == 0:
            found = "none" if self.D_f_clean is None else "an empty one"
            do = "give D_f without the information"
            raise InputError(f"D_f,clean (Table 1, Pattern {name})", found, do)
        check_alike(self.D_f, self.D_f_clean)
        if self.T is not None and not self.T.by_chance:
            check_T(self.T, self.D_f, self.D_f_clean)

    @property
    def corrected(self) -> list[int]:
        """The classes of D_f,clean; one that has less than a fifth of an even share is there by mistake."""
        if self.D_f_clean is None:
            return []
        labels, counts = self.D_f_clean.y.unique(return_counts=True)
        return labels[counts * len(labels) * 5 >= counts.sum()].tolist()

    def breadth(self, classes: int) -> float:
        """How many of all classes D_f,clean has: from 0, where it has one or none, to 1, where it has all."""
        return (max(1, len(self.corrected)) - 1) / max(classes - 1, 1)


@dataclass(frozen=True, eq=False)
class Validation:
    """D_r^val and D_r,extra^val: may be watched, and chosen by, but never give a gradient."""

    D_r: Dataset
    D_r_extra: Dataset | None = None

    def __post_init__(self) -> None:
        for name, data in (("D_r^val", self.D_r), ("D_r,extra^val", self.D_r_extra)):
            if data is not None and not len(data):
                raise InputError(f"samples in {name}", "none", "give more, or no validation")


@dataclass(frozen=True, eq=False)
class FourSets:
    """The four data sets at one time: for training, or for the test."""

    D_r: Dataset | None = None
    D_f: Dataset | None = None
    D_f_clean: Dataset | None = None
    D_r_extra: Dataset | None = None

    def present(self) -> dict[str, Dataset]:
        """Return the sets that are there, by name, in Table 1's order."""
        return {name: data for name in SETS if (data := getattr(self, name)) is not None}


@dataclass(frozen=True, eq=False)
class FourDatasets:
    """The four sets for training, validation and test, kept apart; for training and judgement only."""

    train: FourSets
    test: FourSets
    validation: Validation | None = None
    T: Transform | None = None

    @classmethod
    def of_class(
        cls,
        data: TrainTest,
        label: int | str,
        T: Transform | None = None,
        *,
        share: float = 1.0,
        validation: float = 0.1,
        seed: int = 0,
    ) -> Self:
        """Put T on one class, by number or name (Patterns B and C), or name the class itself (no T, A).

        With a `share` below 1 only so much of the class, by chance, is D_f; the rest of it belongs to D_r.
        """
        classes = data.train.classes
        number = classes.index(label) if label in classes else label
        if isinstance(number, str) or not 0 <= number < len(classes):
            wanted = f"a class from 0 to {len(classes) - 1}, or one of {', '.join(classes)}"
            raise InputError(wanted, repr(label), "choose one of them")
        if not 0 < share <= 1:
            raise InputError("a share above 0 and at most 1", f"{share}", "give one such as 0.3")
        train, test = (
            _around(*_apart(part, _rows(part, number, share, seed)), T) for part in (data.train, data.test)
        )
        return cls._holding_out(train, test, T, validation, seed)

    @classmethod
    def of_poison(
        cls,
        data: TrainTest,
        indices: Sequence[int],
        T: Transform,
        label: int,
        *,
        validation: float = 0.1,
        seed: int = 0,
    ) -> Self:
        """Put T on the training samples at `indices` and give them the attacker's label.

        A tenth of the test images, of the poisoned classes, plays D_f's part in the test.
        """
        rows = np.unique(np.asarray(indices, dtype=int))
        if len(rows) == 0 or rows[0] < 0 or rows[-1] >= len(data.train) or len(rows) != len(indices):
            wanted = f"different indices from 0 to {len(data.train) - 1}"
            raise InputError(wanted, f"{len(indices)} given", "check the list")
        if not 0 <= label < len(data.train.classes):
            wanted = f"a label from 0 to {len(data.train.classes) - 1}"
            raise InputError(wanted, str(label), "choose one of them")
        struck = np.isin(data.test.y.numpy(), data.train.y[torch.as_tensor(rows)].numpy())
        struck = stream(seed, "poisoned test").permutation(np.flatnonzero(struck))
        struck = np.sort(struck[: max(1, len(struck) // 10)])
        train = _around(*_apart(data.train, rows), T, label)
        test = _around(*_apart(data.test, struck), T, label)
        return cls._holding_out(train, test, T, validation, seed)

    @classmethod
    def of_sets(
        cls,
        sets: FourSets,
        T: Transform | None = None,
        *,
        test: float = 0.2,
        validation: float = 0.1,
        seed: int = 0,
    ) -> Self:
        """Take sets as they are, a part of each aside for the test; twins are cut alike.

        Where test sets of your own exist, make FourDatasets(train, test) yourself.
        """
        if sets.D_r is not None and sets.D_r_extra is None and T is not None:
            sets = FourSets(sets.D_r, sets.D_f, sets.D_f_clean, T(sets.D_r))
        parts: dict[str, tuple[Dataset, Dataset]] = {}
        for name, data in sets.present().items():
            twin = {"D_f_clean": sets.D_f, "D_r_extra": sets.D_r}.get(name)
            parts[name] = _cut(data, twin, test, seed)
        train, judged = (FourSets(**{name: part[i] for name, part in parts.items()}) for i in (0, 1))
        return cls._holding_out(train, judged, T, validation, seed)

    @classmethod
    def _holding_out(
        cls, train: FourSets, test: FourSets, T: Transform | None, validation: float, seed: int
    ) -> Self:
        """Hold D_r^val out of D_r before pretraining ever sees it."""
        if train.D_r is None or validation == 0:
            return cls(train, test, None, T)
        rest, held = train.D_r.split(validation, seed)
        kept, extra = FourSets(rest, train.D_f, train.D_f_clean), train.D_r_extra
        if not len(held):
            return cls(kept, test, None, T)
        if T is not None:
            extra = T(held)
        elif extra is not None:
            extra = _cut(extra, train.D_r, validation, seed)[1]
        return cls(kept, test, Validation(held, extra or None), T)

    @property
    def pretraining(self) -> Dataset:
        """D, the union of D_r and D_f: what the old model is trained on."""
        parts = [data for data in (self.train.D_r, self.train.D_f) if data is not None]
        return concatenate(parts, "D")

    def request(self, pattern: str | Pattern) -> Request:
        """Return what forgetting may see of these sets under that pattern."""
        row = pattern_of(pattern)
        if self.train.D_f is None:
            raise InputError("samples in D_f", "none", "there is nothing to forget without them")
        if row.name == "A":
            return Request(row, self.train.D_f)
        return Request(row, self.train.D_f, self.train.D_f_clean, self.T)


def _cut(data: Dataset, twin: Dataset | None, fraction: float, seed: int) -> tuple[Dataset, Dataset]:
    """Cut a set in two, by the rows of its twin where that is as long."""
    by = twin if twin is not None and len(twin) == len(data) else data
    rest, part = by.with_(x=torch.arange(len(data))).split(fraction, seed)
    return data.subset(rest.x), data.subset(part.x)


def _around(clean: Dataset, rest: Dataset, T: Transform | None, label: int | None = None) -> FourSets:
    """Return the four sets of samples that are to carry T and of the rest."""
    D_r = rest.with_(name="D_r")
    if T is None:
        return FourSets(D_r, clean.with_(name="D_f"))
    D_f = T(clean).with_(name="D_f")
    D_f = D_f if label is None else D_f.with_(y=torch.full_like(D_f.y, label))
    return FourSets(D_r, D_f, clean.with_(name="D_f_clean"), T(rest).with_(name="D_r_extra"))


def _rows(data: Dataset, label: int, share: float, seed: int) -> np.ndarray:
    """Return the rows of a class, or so large a share of them, in the data's order."""
    rows = torch.nonzero(data.y == label).flatten().numpy()
    if share == 1:
        return rows
    drawn = stream(seed, "share of a class").permutation(rows)
    return np.sort(drawn[: max(1, round(share * len(rows)))])


def _apart(data: Dataset, rows: np.ndarray) -> tuple[Dataset, Dataset]:
    return data.subset(rows), data.subset(np.setdiff1d(np.arange(len(data)), rows))
