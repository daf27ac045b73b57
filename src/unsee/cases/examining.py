"""Examining a case before anything is computed: does all of it fit, and does the model react to T at all?"""

import hashlib
import json
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from torch import nn

from unsee.answers import accuracy, answers, check_fit, guesses
from unsee.cases.case import Case, ModelCase
from unsee.cases.gathering import Gathering
from unsee.cases.models import open_model
from unsee.cases.prepared import Opened, Prepared
from unsee.datasets import Dataset
from unsee.errors import InputError, UnseeWarning
from unsee.formulation import FourDatasets, Request, pattern_of
from unsee.kinds import Kind
from unsee.memory import Memory, remember
from unsee.recipe import Recipe, ours, recipe_of
from unsee.succession import held

POOR = 0.6  # of the answers right: images that reach a model otherwise than in training do that
REACTS = 0.05  # of the answers must change with T for there to be something to forget
MOST_NAMES = 100  # of classes that a report repeats


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
    leaned_on: Mapping[str, str]
    """What else the case names: T, the memory and the recipe, by hash."""

    @property
    def model(self) -> nn.Module:
        """The model that is to forget."""
        return self.opened.model

    def words(self) -> dict[str, Any]:
        """Return the case as it was read, with the hash of everything that it names."""
        test = self.four.test
        sets = {
            "forget, trained on": self.request.D_f,
            "forget, test": test.D_f,
            "clean, trained on": self.request.D_f_clean,
            "clean, test": test.D_f_clean,
            "remember, floor": self.four.validation.D_r if self.four.validation else None,
            "remember, test": test.D_r,
            "extra, test": test.D_r_extra,
        }
        hashes: dict[str, Any] = dict(self.leaned_on) | {
            name: f"{data.fingerprint} ({len(data):,} samples)"
            for name, data in sets.items()
            if data is not None and len(data)
        }
        if self.opened.weights:
            hashes["weights"] = self.opened.weights.sha256
        words = self.case.model_dump(exclude_none=True, mode="json")
        if len(names := words["model"]["classes"]) > MOST_NAMES:
            words["model"]["classes"] = [*names[:MOST_NAMES], f"and {len(names) - MOST_NAMES} more"]
        if isinstance(self.model, Prepared):
            words["preprocess"] = asdict(self.model.how)  # as it is applied, whoever said so
        return {**words, "sha256": hashes}


def examine(case: Case, folder: Path | str = ".", *, allow_code: bool = False) -> Ready:
    """Open all that a case names and check that it fits together; whatever does not is one sentence."""
    folder = Path(folder)
    folder_given = (folder / case.model.weights).is_dir()
    if case.save_as == "pth" and (folder_given or case.model.network is None):
        kind = "a Hugging Face folder" if folder_given else "a file that unsee wrote"
        raise InputError(f"save_as: safetensors for {kind}", "pth", "leave save_as out")
    found = opened(case, folder, allow_code=allow_code)
    gathering = Gathering(case, folder, found, allow_code)
    four = gathering.four()
    assert four.train.D_f is not None
    recipe = _recipe(case, folder, four.train.D_f.kind)
    if recipe.forgetting == "truncation" and found.weights:
        do = "use another recipe, or truncate in your own code"
        raise InputError(
            "a recipe that keeps the weights' keys", "truncation, which takes an output away", do
        )
    _check_outputs(found, four.train.D_f)
    checked, memory = list(gathering.checked), None
    if case.memory:
        memory = Memory.load(folder / case.memory)
        memory.check(found.model)
        checked.append(f"memory: of this model, over {memory.n:,} samples")
    leaned_on = {"recipe": hashlib.sha256(json.dumps(asdict(recipe), sort_keys=True).encode()).hexdigest()}
    leaned_on |= {"memory": memory.id} if memory else {}
    leaned_on |= {"trigger": four.T.name} if four.T else {}  # its name holds the hash of what it puts on
    request = four.request(case.pattern)
    if memory and recipe.fisher_over == "D_r" and four.test.D_f is not None:
        memory = _without(memory, found.model, four.test.D_f, checked)
    return Ready(case, found, four, request, memory, recipe, tuple(checked), leaned_on)


def _without(memory: Memory, model: nn.Module, D_f: Dataset, checked: list[str]) -> Memory:
    """Take what is kept to judge by out of the memory too: it is to be forgotten as the rest of D_f is."""
    if (share := held(D_f, memory)) is None:
        return memory
    checked.append(
        f"memory: {len(share):,} samples of `forget` that are kept to judge by are taken out of it"
    )
    return memory.subtract(remember(model, share, sketch=memory.sketch), using_up=True)


def symptom(ready: Ready) -> str:
    """Say how the old model reacts to what it is to forget; where it does not, refuse to go on.

    A model that is no better than chance on what it was trained on is not the one that was meant.
    """
    model, D_f, chance = ready.model, ready.request.D_f, 1 / len(ready.request.D_f.classes)
    known = {"`forget`": accuracy(model, D_f)}
    if ready.four.validation:
        known["`remember` (its half for the floor)"] = accuracy(model, ready.four.validation.D_r)
    for name, share in known.items():
        if share <= chance:
            expected = f"a model that answers more than {chance:.0%} of {name} by its labels"
            do = "check `classes` and their order, `label` and `preprocess`, or go on with --anyway"
            raise InputError(expected, f"{share:.1%}", do)
    said = " and ".join(f"{share:.1%} of {name}" for name, share in known.items())
    if (least := min(known.values())) < POOR:
        text = f"The model answers {least:.1%} of what it was trained for by its labels"
        do = "if it was better in training, check `preprocess` and the order of `classes`"
        warnings.warn(f"{text}: {do}.", UnseeWarning, stacklevel=2)
    shares = reactions(ready, model)
    if not shares:
        unsure = "" if ready.case.pattern == "A" else " That it reacts to T is not confirmed: too few pairs."
        return f"The model answers {said} by their labels.{unsure}"
    change = " and ".join(f"{share:.1%} of {name}" for name, share in shares.items())
    if max(shares.values()) < REACTS:
        do = "check trigger, weights and preprocessing, or go on with --anyway"
        raise InputError("a model whose answers change with what is to be forgotten", f"{change}", do)
    return f"The model answers {said} by their labels; with what is to be forgotten, otherwise to {change}."


def reactions(ready: Ready, model: nn.Module) -> dict[str, float]:
    """Return the shares of answers that change with what is to be forgotten, on images kept for the test."""
    test, T = ready.four.test, ready.four.T
    shares = {}
    if test.D_f_clean is not None and len(test.D_f_clean):
        marked = T(test.D_f_clean) if T else test.D_f
        if marked is not None and len(marked) == len(test.D_f_clean):
            shares["`clean`"] = _changed(model, test.D_f_clean, marked)
    if T is not None and test.D_r is not None:
        shares["`remember`"] = _changed(model, test.D_r, T(test.D_r))
    return shares


def opened(
    case: ModelCase, folder: Path | str, *, allow_code: bool = False, weights: Path | str | None = None
) -> Opened:
    """Open a case's model, or other weights of the same network."""
    words, how = case.model, case.preprocess
    found = open_model(
        weights or Path(folder) / words.weights,
        words.network,
        classes=words.classes,
        options=words.options,
        preprocessing=how.model_dump(include=how.model_fields_set) if how else None,
        allow_code=allow_code,
    )
    if not found.labels:
        raise InputError("the names of the model's classes", "none", "add `classes` under `model`, in order")
    return found


def _check_outputs(opened: Opened, data: Dataset) -> None:
    outputs = check_fit(opened.model, data)
    if outputs != len(opened.labels):
        found = f"{outputs} outputs for {len(opened.labels)} names"
        raise InputError("a name for every output of the model", found, "mend `classes` under `model`")


def _changed(model: nn.Module, clean: Dataset, marked: Dataset) -> float:
    """Return the share of answers that are not the same with the information and without."""
    without, with_T = (guesses(answers(model, data)) for data in (clean, marked))
    return float((without != with_T).double().mean())


def _recipe(case: Case, folder: Path, kind: Kind) -> Recipe:
    name = case.recipe
    if name is not None and name.endswith(".json"):
        name = str(folder / name)
    recipe = recipe_of(name, pattern_of(case.pattern), ours(kind))
    return recipe if case.floor is None else replace(recipe, floor=case.floor)
