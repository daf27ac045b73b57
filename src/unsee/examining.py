"""Examining a case before anything is computed: does all of it fit, and does the model react to T at all?"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from unsee import filling, transforms
from unsee.answers import accuracy, answers, check_fit, guesses
from unsee.case import Case, SetWords
from unsee.datasets import Dataset
from unsee.errors import InputError, UnseeWarning
from unsee.formulation import FourDatasets, FourSets, Request, Validation, pattern_of
from unsee.memory import Memory
from unsee.models import Opened, Preprocessing, factory, open_model
from unsee.recipe import Recipe, recipe_of
from unsee.samples import Samples, overlap, pair, read_samples
from unsee.transforms import Transform
from unsee.twins import fitted

REACTS = 0.05  # of the answers must change with T for there to be something to forget


@dataclass(frozen=True, eq=False)
class Ready:
    """A case that holds together: the model, the four sets, what forgetting will see, what was checked."""

    case: Case
    opened: Opened
    four: FourDatasets
    request: Request
    memory: Memory | None
    recipe: Recipe
    checked: tuple[str, ...]

    @property
    def model(self) -> nn.Module:
        """The model that is to forget."""
        return self.opened.model

    def words(self) -> dict[str, Any]:
        """Return the case as it was read, with the hash of everything that it names."""
        sets = {
            "forget": self.request.D_f,
            "clean": self.request.D_f_clean,
            "remember": self.four.test.D_r,
            "extra": self.four.test.D_r_extra,
        }
        hashes: dict[str, Any] = {
            f"{name} ({len(data):,} used)": data.fingerprint
            for name, data in sets.items()
            if data is not None
        }
        if self.opened.weights:
            hashes["weights"] = self.opened.weights.sha256
        return {**self.case.model_dump(exclude_none=True, mode="json"), "sha256": hashes}


def examine(case: Case, folder: Path | str = ".", *, allow_code: bool = False) -> Ready:
    """Open all that a case names and check that it fits together; whatever does not is one sentence."""
    folder = Path(folder)
    opened = _opened(case, folder, allow_code)
    size = case.preprocess.size if case.preprocess else None
    D_f = _read(case.forget, folder, opened.labels, size)
    checked = [_sentence("forget", D_f.data)]
    _check_outputs(opened, D_f.data)
    T = _trigger(case, folder, allow_code)
    bad, clean = _clean(case, D_f, T, folder, opened.labels, size, checked)
    if T is None and clean is not None and len(bad) == len(clean) and (T := fitted(clean.x, bad.x)):
        checked.append("trigger: not given, a map of each pixel is fitted to the twins")
    D_r = _read(case.remember, folder, opened.labels, size).data if case.remember else None
    extra = _read(case.extra, folder, opened.labels, size).data if case.extra else None
    _check_apart(bad, clean, D_r)
    four = _four(bad, clean, D_r, extra, T)
    checked += [
        _sentence(name, data) for name, data in (("remember", D_r), ("extra", extra)) if data is not None
    ]
    memory = None
    if case.memory:
        memory = Memory.load(folder / case.memory)
        memory.check(opened.model)
        checked.append(f"memory: of this model, over {memory.n:,} samples")
    request = four.request(case.pattern)
    return Ready(case, opened, four, request, memory, _recipe(case, folder), tuple(checked))


def symptom(ready: Ready) -> str:
    """Say how the old model reacts to what it is to forget; where it does not, refuse to go on."""
    model, request = ready.model, ready.request
    if request.pattern.name == "A":
        known, chance = accuracy(model, request.D_f), 1 / len(request.D_f.classes)
        if known <= chance:
            raise InputError(
                f"a model that knows the samples of `forget` (accuracy above {chance:.2f})",
                f"{known:.3f}",
                "check labels, weights and preprocessing",
            )
        return f"The model knows {known:.1%} of the samples of `forget`."
    assert request.D_f_clean is not None
    shares = {"`clean`": _changed(model, request.D_f_clean, _with_T(request))}
    if ready.four.validation and ready.four.validation.D_r_extra is not None:
        shares["`remember`"] = _changed(model, ready.four.validation.D_r, ready.four.validation.D_r_extra)
    said = " and ".join(f"{share:.1%} of {name}" for name, share in shares.items())
    if max(shares.values()) < REACTS:
        do = "check trigger, weights and preprocessing, or go on with --anyway"
        raise InputError("a model whose answers change with what is to be forgotten", said, do)
    return f"With what is to be forgotten, the model answers otherwise to {said}."


def _opened(case: Case, folder: Path, allow_code: bool) -> Opened:
    how = Preprocessing(**case.preprocess.model_dump()) if case.preprocess else None
    words = case.model
    opened = open_model(
        folder / words.weights,
        words.network,
        classes=words.classes,
        options=words.options,
        preprocessing=how,
        allow_code=allow_code,
    )
    if not opened.labels:
        raise InputError("the names of the model's classes", "none", "add `classes` under `model`, in order")
    return opened


def _check_outputs(opened: Opened, data: Dataset) -> None:
    outputs = check_fit(opened.model, data)
    if outputs != len(opened.labels):
        found = f"{outputs} outputs for {len(opened.labels)} names"
        raise InputError("a name for every output of the model", found, "mend `classes` under `model`")


def _read(words: SetWords, folder: Path, labels: Sequence[str], size: tuple[int, int] | None) -> Samples:
    return read_samples(folder / words.path, labels, label=words.label, size=size)


def _trigger(case: Case, folder: Path, allow_code: bool) -> Transform | None:
    """Return T as the case names it; a mask is no T, but what takes it away."""
    if case.trigger is None or case.trigger.startswith("mask:"):
        return None
    if case.trigger.partition(":")[0] in ("patch", "blend") or ":" not in case.trigger:
        return transforms.parse(case.trigger, folder)
    return transforms.custom(factory(case.trigger, allow_code), case.trigger)


def _clean(
    case: Case,
    D_f: Samples,
    T: Transform | None,
    folder: Path,
    labels: Sequence[str],
    size: tuple[int, int] | None,
    checked: list[str],
) -> tuple[Dataset, Dataset | None]:
    """Return D_f and D_f,clean as twins: paired by name, or filled from the surroundings, or as they come."""
    if case.pattern == "A":
        return D_f.data, None
    if case.clean is None:
        assert case.trigger is not None
        if D_f.data.x.ndim != 4:
            found = f"samples of shape {tuple(D_f.data.x.shape[1:])}"
            raise InputError("images for a mask", found, "give `clean`")
        height, width = D_f.data.x.shape[-2:]
        without = filling.parse(case.trigger, height, width, folder)(D_f.data)
        true = (
            _read(_unlabelled(case.forget), folder, labels, size).data.y
            if case.forget.label is not None
            else D_f.data.y
        )
        checked.append(f"clean: made of `forget` by {case.trigger}, filled from the surroundings")
        return D_f.data, without.with_(y=true, name="D_f_clean")
    given = _read(case.clean, folder, labels, size)
    checked.append(_sentence("clean", given.data))
    try:
        bad, clean = pair(D_f, given)
        checked.append(f"twins: {len(bad):,} pairs by name")
        return bad, clean
    except InputError as error:
        if T is None:
            raise
        warnings.warn(f"{error} Going on with T alone.", UnseeWarning, stacklevel=3)
        return D_f.data, given.data


def _unlabelled(words: SetWords) -> SetWords:
    """Return the same set with the labels that its own folders say."""
    return words.model_copy(update={"label": None})


def _check_apart(bad: Dataset, clean: Dataset | None, D_r: Dataset | None) -> None:
    """Refuse what would make a judgement worthless: the same samples on both sides of it."""
    if clean is not None and bad.x.shape == clean.x.shape and torch.equal(bad.x, clean.x):
        raise InputError("`clean` without the information", "the very samples of `forget`", "check the paths")
    for name, data in (("forget", bad), ("clean", clean)):
        if D_r is not None and data is not None and (shared := overlap(D_r, data)):
            found = f"{shared:,} of its samples in `{name}` too"
            raise InputError(
                "`remember` apart from what is trained on", found, "take them out of one of both"
            )


def _four(
    bad: Dataset, clean: Dataset | None, D_r: Dataset | None, extra: Dataset | None, T: Transform | None
) -> FourDatasets:
    """Return the sets: a fifth of D_f and D_f,clean, and half of D_r, are kept for the judgement."""
    four = FourDatasets.of_sets(FourSets(None, bad.with_(name="D_f"), clean), T)
    if D_r is None:
        return replace(four, test=replace(four.test, D_r_extra=extra))
    held, judged = D_r.split(0.5)
    if extra is None and T is not None:
        extra = T(judged)
    validation = Validation(held, T(held) if T else None)
    return replace(four, test=replace(four.test, D_r=judged, D_r_extra=extra), validation=validation)


def _with_T(request: Request) -> Dataset:
    if request.T is not None:
        return request.T(request.D_f_clean) if request.D_f_clean is not None else request.D_f
    return request.D_f


def _changed(model: nn.Module, clean: Dataset, bad: Dataset) -> float:
    """Return the share of answers that are not the same with the information and without."""
    if len(clean) != len(bad):
        return abs(accuracy(model, bad) - accuracy(model, clean))
    without, with_T = (guesses(answers(model, data)) for data in (clean, bad))
    return float((without != with_T).double().mean())


def _recipe(case: Case, folder: Path) -> Recipe:
    name = case.recipe
    if name is not None and name.endswith(".json"):
        name = str(folder / name)
    recipe = recipe_of(name, pattern_of(case.pattern))
    return recipe if case.floor is None else replace(recipe, floor=case.floor)


def _sentence(name: str, data: Dataset) -> str:
    named = [data.classes[label] for label in data.y.unique().tolist()]
    classes = ", ".join(named) if len(named) <= 5 else f"{len(named)} classes"
    return f"{name}: {len(data):,} samples of {'x'.join(map(str, data.x.shape[1:]))}, {classes}"
