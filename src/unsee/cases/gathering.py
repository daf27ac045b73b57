"""Gathering the sets of a case: read, paired, checked to be apart, and divided for training and judgement."""

import difflib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from unsee import filling, parsing, transforms
from unsee.cases.case import Case, SetWords
from unsee.cases.models import factory
from unsee.cases.prepared import Opened, Prepared
from unsee.cases.pretrained import said
from unsee.data.samples import Samples, distinct, first_rows, overlap, pair, read_samples
from unsee.datasets import Dataset
from unsee.errors import InputError, UnseeWarning
from unsee.formulation import FourDatasets, FourSets, Validation
from unsee.randomness import stream
from unsee.store import digest
from unsee.transforms import Transform
from unsee.twins import fitted, marked

TEST, HELD = 0.2, 0.5  # of D_f and D_f,clean for the test; of D_r for the test, the rest to hold the floor by


@dataclass(eq=False)
class Gathering:
    """A case's sets as they are read one after the other, and what was found in order about each."""

    case: Case
    folder: Path
    opened: Opened
    allow_code: bool = False
    checked: list[str] = field(default_factory=list)

    def four(self) -> FourDatasets:
        """Return the four sets of the case, for training and judgement."""
        D_f = self._read("forget", self.case.forget)
        T = self._trigger(D_f.data)
        bad, clean = self._twins(D_f, T)
        if clean is not None:
            bad, clean = self._distinct(bad, clean)
            if T is None and len(bad) == len(clean) and (T := fitted(clean.x, bad.x)):
                self.checked.append("trigger: not given, a map of each pixel is fitted to the twins")
        else:
            bad = _once("forget", bad)
        D_r, extra = (
            _once(name, self._read(name, words).data) if words else None
            for name, words in (("remember", self.case.remember), ("extra", self.case.extra))
        )
        _check_apart({"forget": bad, "clean": clean}, {"remember": D_r, "extra": extra})
        if clean is None and D_r is not None:
            _check_class(bad, D_r)
        four = _divided(bad, clean, D_r, extra, T)
        self.checked.append(_division(four))
        return four

    def _read(self, name: str, words: SetWords, *, told: bool = True) -> Samples:
        found = read_set(self.opened, self.folder / words.path, words.label)
        if told:
            self.checked.append(_sentence(name, found.data))
        return found

    def _trigger(self, D_f: Dataset) -> Transform | None:
        """Return T as the case names it; a mask is no T, but what takes it away."""
        text = self.case.trigger
        if text is None or text.startswith("mask:"):
            return None
        if text.split("+")[0].split(":")[0] in parsing.NAMES or ":" not in text:
            return parsing.parse(text, D_f, self.folder)
        try:
            function = factory(text, self.allow_code)
        except InputError as error:
            near = difflib.get_close_matches(text.split(":")[0], parsing.NAMES, 1)
            do = f"did you mean {near[0]}" if near else error.do
            raise InputError(error.expected, error.found, do) from None
        try:
            changed = torch.as_tensor(function(D_f.x[:8].clone()))
        except (Exception, SystemExit) as error:  # a stranger's code
            raise InputError(
                f"a map of batches of images at {text}", said(error), "mend that function"
            ) from None
        # Known by what it does, so that a run does not go on with the same name and another function.
        return transforms.custom(function, f"{text} ({digest({'': changed})[:12]})")

    def _twins(self, D_f: Samples, T: Transform | None) -> tuple[Dataset, Dataset | None]:
        """Return D_f and D_f,clean: paired by name, or filled from the surroundings, or as they come."""
        case = self.case
        if case.pattern == "A":
            return D_f.data, None
        if case.clean is None:
            return D_f.data, self._filled(D_f.data)
        given = self._read("clean", case.clean)
        try:
            bad, clean = pair(D_f, given, (lambda rest: marked(D_f.data, rest, T)) if T else None)
            made = ", some made by T" if len(bad) > len(D_f) else ""
            self.checked.append(f"twins: {len(bad):,} pairs by name{made}")
            return bad, clean
        except InputError as error:
            if T is None:
                raise
            warnings.warn(f"{error} Going on with T alone.", UnseeWarning, stacklevel=3)
            return marked(D_f.data, given.data, T), given.data

    def _filled(self, D_f: Dataset) -> Dataset:
        """Return D_f with the masked region filled, under the true labels."""
        case = self.case
        assert case.trigger is not None
        if D_f.x.ndim != 4:
            found = f"samples of shape {tuple(D_f.x.shape[1:])}"
            raise InputError("images for a mask", found, "give `clean`")
        height, width = D_f.x.shape[-2:]
        without = filling.parse(case.trigger, height, width, self.folder)(D_f)
        true = D_f.y
        if case.pattern == "B" and case.forget.label is not None:
            # The label is the attacker's; the folders that the images lie in say the truth.
            words = case.forget.model_copy(update={"label": None})
            try:
                true = self._read("forget", words, told=False).data.y
            except InputError as error:
                do = "sort `forget` into folders of the true classes, or list them in a .csv"
                raise InputError("the true classes of `forget`, to fill in a mask", error.found, do) from None
        self.checked.append(f"clean: made of `forget` by {case.trigger}, filled from the surroundings")
        return without.with_(y=true, name="D_f_clean")

    def _distinct(self, bad: Dataset, clean: Dataset) -> tuple[Dataset, Dataset]:
        """Leave out twins that do not differ, and those that are there twice: the test must not know them."""
        if len(bad) != len(clean) or bad.x.shape != clean.x.shape:
            return bad, clean
        alike = (bad.x == clean.x).flatten(1).all(1)
        if bool(alike.all()):
            do = "check the paths"
            raise InputError("`clean` without the information", "the very samples of `forget`", do)
        differ = torch.nonzero(~alike).flatten()
        rows = differ[first_rows(clean.x[differ])].tolist()
        if len(rows) < len(bad):
            text = f"{len(bad) - len(rows):,} pairs that do not differ, or stand there twice, are left out."
            warnings.warn(text, UnseeWarning, stacklevel=3)
        return bad.subset(rows), clean.subset(rows)


def read_set(opened: Opened, path: Path | str, label: str | int | None = None) -> Samples:
    """Read samples as a model takes them: its classes, its size, its number of channels."""
    how = opened.model.how if isinstance(opened.model, Prepared) else None
    channels = len(how.mean) if how and len(how.mean) > 1 else None
    return read_samples(path, opened.labels, label=label, size=how.size if how else None, channels=channels)


def _once(name: str, data: Dataset) -> Dataset:
    """Leave out samples that are there twice: when the set is divided, they would be on both sides."""
    found = distinct(data)
    if len(found) < len(data):
        text = f"{len(data) - len(found):,} samples that stand twice in `{name}` are left out."
        warnings.warn(text, UnseeWarning, stacklevel=3)
    return found


def _check_apart(trained: dict[str, Dataset | None], judged: dict[str, Dataset | None]) -> None:
    """Refuse what would make a judgement worthless: the same samples on both sides of it."""
    for name, data in judged.items():
        for other, training in trained.items():
            if data is not None and training is not None and (shared := overlap(data, training)):
                found = f"{shared:,} of its samples in `{other}` too"
                raise InputError(f"`{name}` apart from what is trained on", found, "take them out of one")


def _check_class(bad: Dataset, D_r: Dataset) -> None:
    """Say that a class stands on both sides: what is held to its labels does not go as a whole."""
    labels = bad.y.unique()
    if len(labels) == 1 and (n := int((D_r.y == labels[0]).sum())):
        text = f"`remember` holds {n:,} samples of {bad.classes[int(labels[0])]}, the class of `forget`"
        do = "take them out, if the class is to go as a whole"
        warnings.warn(f"{text}, and what it holds is kept: {do}.", UnseeWarning, stacklevel=3)


def _divided(
    bad: Dataset, clean: Dataset | None, D_r: Dataset | None, extra: Dataset | None, T: Transform | None
) -> FourDatasets:
    """Return the sets: a fifth of D_f and D_f,clean, and half of D_r, are kept for the judgement.

    So is half of D_r,extra where it is given and T is not: the other half may be chosen by.
    """
    kept, tested = _cut(len(bad), TEST)
    one = bad.with_(name="D_f")
    train, test = FourSets(None, one.subset(kept)), FourSets(None, one.subset(tested))
    if clean is not None:
        both = _cut(len(clean), TEST)
        parts = [clean.with_(name="D_f_clean").subset(rows) for rows in both]
        train, test = replace(train, D_f_clean=parts[0]), replace(test, D_f_clean=parts[1])
    if D_r is None:
        return FourDatasets(train, replace(test, D_r_extra=extra), None, T)
    if len(D_r) < 2:
        raise InputError("two samples in `remember` or more", f"{len(D_r)}", "add some, or leave it out")
    held, judged = (D_r.with_(name="D_r").subset(rows) for rows in _cut(len(D_r), HELD))
    chosen_by = T(held) if T is not None else None
    if extra is None and T is not None:
        extra = T(judged).with_(name="D_r_extra")
    elif extra is not None and T is None and len(extra) > 1:
        chosen_by, extra = (extra.subset(rows) for rows in _cut(len(extra), HELD))
    validation = Validation(held, chosen_by)
    return FourDatasets(train, replace(test, D_r=judged, D_r_extra=extra), validation, T)


def _division(four: FourDatasets) -> str:
    """Say how many samples are learnt from, and how many kept to judge by."""
    D_f, kept, D_r = four.train.D_f, four.test.D_f, four.test.D_r
    assert D_f is not None
    assert kept is not None
    said = f"divided: forget {len(D_f):,} to learn from, {len(kept):,} to judge by"
    if four.validation and D_r is not None:
        held = len(four.validation.D_r)
        said += f"; remember {held:,} to hold the floor by (D_r^val), {len(D_r):,} to judge by"
        extra, judged = four.validation.D_r_extra, four.test.D_r_extra
        if four.T is None and extra is not None and judged is not None:
            said += f"; extra {len(extra):,} to choose by (D_r,extra^val), {len(judged):,} to judge by"
    return said


def _cut(n: int, fraction: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows to keep and a random part; twins, being as many, are cut alike."""
    order = stream(0, "case").permutation(n)
    part = max(1, round(fraction * n)) if n > 1 else 0
    return np.sort(order[part:]), np.sort(order[:part])


def _sentence(name: str, data: Dataset) -> str:
    named: Sequence[Any] = [data.classes[label] for label in data.y.unique().tolist()]
    classes = ", ".join(named) if len(named) <= 5 else f"{len(named)} classes"
    return f"{name}: {len(data):,} samples of {'x'.join(map(str, data.x.shape[1:]))}, {classes}"
