"""Asking a person for what a case needs, in the words of its fields."""

import argparse
import difflib
import os
from pathlib import Path
from typing import Any

from unsee.cases import notation
from unsee.cases.case import Case, ModelWords, SetWords, Words
from unsee.errors import UnseeError, UsageError

_PATHS = ("weights", "forget", "clean", "remember", "extra", "memory")


def case_words(a: argparse.Namespace, *, ask: bool) -> dict[str, Any]:
    """Return a new case's words: from the options, and from a person for what is not given."""
    missing = [f"--{name}" for name in ("weights", "pattern", "forget") if not getattr(a, name)]
    if missing and not ask:
        do = "name them, or run it in a terminal, where it asks"
        raise UsageError("--weights, --pattern and --forget", f"no {', '.join(missing)}", do)

    def word(part: type[Words], name: str, *, needed: bool = False, fits: bool = True) -> Any:
        given = getattr(a, name) or (_asked(part, name, model, needed=needed) if ask and fits else "")
        words = name in ("options", "preprocess") or str(given).startswith("{")
        return notation.inline(given, f"--{name}") if given and words else given

    model: dict[str, Any] = {}
    for name in ("weights", "network"):
        model[name] = word(ModelWords, name, needed=name == "weights")
    foreign = bool(model["network"])  # of a file of ours, and of a Hugging Face folder, all this is known
    model["options"] = word(ModelWords, "options", fits=foreign)
    classes = word(ModelWords, "classes", fits=foreign)
    model["classes"] = [name.strip() for name in classes.split(",")] if classes else None
    words = {"model": model, "preprocess": word(Case, "preprocess", fits=foreign)}
    words["pattern"] = word(Case, "pattern", needed=True)
    finer = words["pattern"] != "A"
    words["forget"] = found = word(Case, "forget", needed=True)
    set_words = found if isinstance(found, dict) else {"path": found}
    if label := a.label if set_words is found else word(SetWords, "label"):
        words["forget"] = {**set_words, "label": label}
    for name in ("clean", "trigger", "remember", "extra", "memory"):
        known = getattr(a, name) or name in ("remember", "memory") or (finer and name != "extra")
        words[name] = word(Case, name, fits=bool(known))
    whole = {name: value for name, value in words.items() if value}
    whole["model"] = {name: value for name, value in model.items() if value}
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


def _asked(part: type[Words], name: str, model: dict[str, Any], *, needed: bool = True) -> str:
    """Ask a person for a field, in the words of its description, until the answer can be one."""
    from rich.console import Console
    from rich.prompt import Prompt

    text = part.model_fields[name].description or name
    more = {"classes": ", separated by commas"}.get(name, "")
    while True:
        question = f"{text}\n{name}{more}{'' if needed else ' (Enter: none)'}"
        answer = Prompt.ask(question, default="", show_default=False).strip()
        wrong = _wrong(name, answer, model.get("classes"))
        if wrong:
            Console(highlight=False).print(wrong, markup=False)
        elif answer or not needed:
            return answer


def _wrong(name: str, answer: str, classes: list[str] | None) -> str:
    """Say what cannot be in an answer, as far as it can be told before the whole is there."""
    if name == "pattern" and answer not in ("A", "B", "C"):
        return "One of A, B and C."
    if answer and (name in ("options", "preprocess") or answer.startswith("{")):
        try:
            words = notation.inline(answer, name)
        except UnseeError as error:
            return str(error)
        if name in _PATHS:
            answer = str(words.get("path", answer)) if isinstance(words, dict) else answer
    if answer and name in _PATHS and not any(Path(path).exists() for path in _perhaps_split(answer)):
        return f"There is nothing at {answer}, seen from {Path.cwd()}."
    if answer and name == "label" and classes and not answer.isdigit() and answer not in classes:
        near = difflib.get_close_matches(answer, classes, 1)
        return f"No class of the model{f': did you mean {near[0]}?' if near else '.'}"
    return ""


def _perhaps_split(path: str) -> list[str]:
    """Return a path, and what it is without the split of a data set that may stand at its end."""
    return [path, *(path.rpartition(mark)[0] for mark in ":#" if mark in path)]
