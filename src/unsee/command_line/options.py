"""What the command line's options name: the four data sets, and the recipe."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from torch import nn

from unsee import networks, parsing, sources
from unsee.cases import case as cases
from unsee.errors import UsageError
from unsee.formulation import SETS, FourDatasets, FourSets, pattern_of
from unsee.origin import Origin
from unsee.recipe import OURS, Recipe, recipe_of
from unsee.sources import TrainTest


def four_from(a: argparse.Namespace, model: nn.Module | None = None) -> FourDatasets:
    """Return the four data sets that the options name, always cut alike, whatever --seed says.

    Labels are those of the model's names of the classes, in whatever order the data has them.
    """
    given = {name: getattr(a, name) for name in ("D_r", "D_f", "D_f_clean", "D_r_extra") if getattr(a, name)}
    if given and a.label is not None:
        raise UsageError("--class or sets of your own", "both", "leave one out")
    if given:
        sets = FourSets(**_read_sets(given, model))
        first = next(iter(sets.present().values()))
        return FourDatasets.of_sets(sets, parsing.parse(a.T, first) if a.T else None)
    if a.label is None:
        raise UsageError("--class, or --D-f and the other sets", "neither", "name what is to be forgotten")
    source = source_of(a.data, model)
    T = parsing.parse(a.T, source.train) if a.T else None
    share = 1.0 if a.share is None else a.share
    return FourDatasets.of_class(source, _label(a.label, source.train.classes), T, share=share)


def origin_from(a: argparse.Namespace) -> Origin:
    """Return the same options as words that a run keeps, to find its data again."""
    sets = {name: getattr(a, name) for name in SETS if getattr(a, name)}
    data = None if sets else a.data
    return Origin.of_words(a.out, a.model, T=a.T, data=data, label=a.label, share=a.share, sets=sets)


def source_of(data: str, model: nn.Module | None) -> TrainTest:
    """Return the source that --data names, by the model's class names where its file has them."""
    return sources.open_source(data, _names(model))


def _names(model: nn.Module | None) -> tuple[str, ...]:
    inner = model.model if isinstance(model, networks.Truncated) else model
    return tuple(getattr(inner, "labels", ()))


def _read_sets(paths: dict[str, str], model: nn.Module | None) -> dict[str, Any]:
    """Read the sets by the model's class names, or, where there is no model yet, by all that are named."""
    classes = _names(model)
    if model is not None and not classes:
        raise UsageError("a model that names its classes", "none in its file", "train it with `unsee train`")
    if model is None:
        named = {name for path in paths.values() for name in sources.images(path).classes}
        classes = tuple(sorted(named))
    return {name: sources.images(path, classes=classes).with_(name=name) for name, path in paths.items()}


def _label(word: str, classes: tuple[str, ...]) -> int:
    if word in classes:
        return classes.index(word)
    if not (word.isascii() and word.isdigit() and int(word) < len(classes)):
        wanted = f"a class from 0 to {len(classes) - 1}, or one of {', '.join(classes)}"
        raise UsageError(wanted, repr(word), "choose one of them")
    return int(word)


def recipe_from(a: argparse.Namespace, defaults: Mapping[str, str] = OURS) -> Recipe:
    """Return the recipe that --recipe names, with what other options change in it."""
    recipe = recipe_of(a.recipe, pattern_of(a.pattern), defaults)
    changes = {f.name: getattr(a, f.name) for f in fields(Recipe) if getattr(a, f.name, None) is not None}
    name = f"{recipe.name}, {', '.join(f'{k} = {v}' for k, v in changes.items())}"
    return replace(recipe, **changes, name=name) if changes else recipe


def is_case(path: str) -> bool:
    """Say whether a path is that of a case file rather than of a model."""
    return Path(path).suffix in (".yaml", ".yml")


def case_from(a: argparse.Namespace) -> cases.Case:
    """Return the case, with the recipe that --recipe names in place of its own."""
    case = cases.load(a.model)
    if a.recipe is None:
        return case
    # A file's path is the caller's own, not one relative to the case.
    named = str(Path(a.recipe).resolve()) if a.recipe.endswith(".json") else a.recipe
    return case.model_copy(update={"recipe": named})


def refuse_options(a: argparse.Namespace, but: Sequence[str] = ()) -> None:
    """Refuse, beside a case file, what the case itself says."""
    words = [
        "pattern",
        "label",
        "T",
        "share",
        "D_f",
        "D_f_clean",
        "D_r",
        "D_r_extra",
        "old",
        "memory",
        "recipe",
    ]
    words += [field.name for field in fields(Recipe)]
    plain = {"data": "bundled", "seed": 0, "margin": 0.02, "ceiling": None}
    words += [word for word, value in plain.items() if getattr(a, word, value) != value]
    for word in words:
        if word not in but and getattr(a, word, None) is not None:
            option = {"label": "--class"}.get(word, f"--{word.replace('_', '-')}")
            in_case = word in ("pattern", "memory", "recipe", "floor", "seed")
            do = f"write it into {a.model}" if in_case else "the case says it, or the recipe's .json it names"
            raise UsageError(f"no {option} beside a case file", "one", do)
