"""Asking a person for what a case needs, in the words of its fields."""

import argparse
import os
from pathlib import Path
from typing import Any

from unsee.cases import case as cases
from unsee.cases.case import Case, ModelWords, Words
from unsee.errors import UsageError


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
