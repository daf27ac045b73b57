"""What the command line's options name: the four data sets, and the recipe."""

import argparse
import os
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from torch import nn

from unsee import case as cases
from unsee import networks, sources, transforms
from unsee.case import Case, ModelWords, Words
from unsee.errors import UsageError
from unsee.formulation import FourDatasets, FourSets, pattern_of
from unsee.recipe import OURS, Recipe, recipe_of


def four_from(a: argparse.Namespace, model: nn.Module | None = None) -> FourDatasets:
    """Return the four data sets that the options name, always cut alike, whatever --seed says.

    Sets of one's own take their labels from the model's names of the classes.
    """
    T = transforms.parse(a.T) if a.T else None
    given = {name: getattr(a, name) for name in ("D_r", "D_f", "D_f_clean", "D_r_extra") if getattr(a, name)}
    if given and a.label is not None:
        raise UsageError("--class or sets of your own", "both", "leave one out")
    if given:
        return FourDatasets.of_sets(FourSets(**_read_sets(given, model)), T)
    if a.label is None:
        raise UsageError("--class, or --D-f and the other sets", "neither", "name what is to be forgotten")
    source = sources.open_source(a.data)
    return FourDatasets.of_class(source, _label(a.label, source.train.classes), T)


def _read_sets(paths: dict[str, str], model: nn.Module | None) -> dict[str, Any]:
    """Read the sets by the model's class names, or, where there is no model yet, by all that are named."""
    if isinstance(model, networks.Truncated):
        model = model.model
    classes = tuple(getattr(model, "labels", ()))
    if model is not None and not classes:
        raise UsageError("a model that names its classes", "none in its file", "train it with `unsee train`")
    if model is None:
        named = {name for path in paths.values() for name in sources.images(path).classes}
        classes = tuple(sorted(named))
    return {name: sources.images(path, classes=classes).with_(name=name) for name, path in paths.items()}


def _label(word: str, classes: tuple[str, ...]) -> int:
    if word in classes:
        return classes.index(word)
    if not word.isdigit():
        raise UsageError(
            f"a class's number or one of {', '.join(classes)}", f"{word!r}", "choose one of them"
        )
    return int(word)


def recipe_from(a: argparse.Namespace, defaults: Mapping[str, str] = OURS) -> Recipe:
    """Return the recipe that --recipe names, with what other options change in it."""
    recipe = recipe_of(a.recipe, pattern_of(a.pattern), defaults)
    changes = {f.name: getattr(a, f.name) for f in fields(Recipe) if getattr(a, f.name, None) is not None}
    name = f"{recipe.name}, {', '.join(f'{k} = {v}' for k, v in changes.items())}"
    return replace(recipe, **changes, name=name) if changes else recipe


def refuse_options(a: argparse.Namespace) -> None:
    """Refuse, beside a case file, what the case itself says."""
    words = ["pattern", "label", "T", "D_f", "D_f_clean", "D_r", "D_r_extra", "memory", "recipe"]
    words += [field.name for field in fields(Recipe)]
    plain = {"data": "bundled", "seed": 0, "margin": 0.02, "ceiling": None}
    words += [word for word, value in plain.items() if getattr(a, word, value) != value]
    for word in words:
        if getattr(a, word, None) is not None:
            option = {"label": "--class"}.get(word, f"--{word.replace('_', '-')}")
            in_case = word in ("pattern", "memory", "recipe", "floor", "seed")
            do = f"write it into {a.model}" if in_case else "the case says it, or the recipe's .json it names"
            raise UsageError(f"no {option} beside a case file", "one", do)


def case_words(a: argparse.Namespace, *, ask: bool) -> dict[str, Any]:
    """Return a new case's words: from the options, and from a person for what is needed and not given."""
    needed = [f"--{name}" for name in ("weights", "pattern", "forget") if not getattr(a, name)]
    if needed and not ask:
        do = "name them, or run it in a terminal, where it asks"
        raise UsageError("--weights, --pattern and --forget", f"no {', '.join(needed)}", do)
    model: dict[str, Any] = {
        name: getattr(a, name) for name in ("weights", "network", "options") if getattr(a, name)
    }
    if a.options:
        model["options"] = cases.inline(a.options, "--options")
    if ask and not a.weights:
        model["weights"] = _asked(ModelWords, "weights")
    if ask and not a.network:
        model["network"] = _asked(ModelWords, "network", needed=False)
    classes = a.classes or (
        _asked(ModelWords, "classes", needed=False) if ask and model.get("network") else ""
    )
    if classes:
        model["classes"] = [name.strip() for name in classes.split(",")]
    names = ("pattern", "forget", "clean", "trigger", "remember", "extra", "memory")
    words: dict[str, Any] = {name: getattr(a, name) for name in names if getattr(a, name)}
    if a.preprocess:
        words["preprocess"] = cases.inline(a.preprocess, "--preprocess")
    if a.label is not None and a.forget:
        words["forget"] = {"path": a.forget, "label": a.label}
    for name, needed in (("pattern", True), ("forget", True), ("clean", False), ("trigger", False)):
        pointless = name in ("clean", "trigger") and words.get("pattern") == "A"
        if ask and name not in words and not pointless:
            words[name] = _asked(Case, name, needed=needed)
    if ask and "remember" not in words:
        words["remember"] = _asked(Case, "remember", needed=False)
    whole = {"model": {k: v for k, v in model.items() if v}, **{k: v for k, v in words.items() if v}}
    return _from_the_case(whole, Path(a.case).parent)


def _from_the_case(words: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return the words with paths that are there now written as seen from the case file."""

    def seen(text: Any) -> Any:
        return os.path.relpath(text, folder) if isinstance(text, str) and Path(text).exists() else text

    model = {**words["model"], "weights": seen(words["model"].get("weights"))}
    sets = {
        name: {**value, "path": seen(value["path"])}
        if isinstance(value, dict) and "path" in value
        else seen(value)
        for name, value in words.items()
        if name in ("forget", "clean", "remember", "extra", "memory")
    }
    return {**words, "model": {k: v for k, v in model.items() if v}, **sets}


def _asked(part: type[Words], name: str, *, needed: bool = True) -> str:
    """Ask a person for a field, in the words of its description."""
    from rich.prompt import Prompt

    text = part.model_fields[name].description or name
    more = {"classes": ", separated by commas"}.get(name, "")
    while True:
        question = f"{text}\n{name}{more}{'' if needed else ' (Enter: none)'}"
        answer = Prompt.ask(question, default="", show_default=False).strip()
        wrong = name == "pattern" and answer not in ("A", "B", "C")
        if (answer and not wrong) or not needed:
            return answer
