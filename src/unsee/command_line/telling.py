"""What a verb says to a person or a machine, and how it hears that it should stop."""

import argparse
import json
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from unsee import lineage
from unsee.formulation import Pattern
from unsee.scores import Scores

HEARS = 10.0  # seconds
EASED = (
    "the floor was not held; begun again from the last good state, where T may change what layers read, "
    "and no answer"
)


@contextmanager
def stopping() -> Iterator[Callable[[], bool]]:
    """Turn the first SIGINT or SIGTERM into a question that the loop asks after each step.

    Where no loop has asked for a while, nobody would hear it: then it interrupts at once.
    """
    asked, heard = False, time.monotonic()

    def ask(*_: Any) -> None:
        nonlocal asked
        if asked or time.monotonic() - heard > HEARS:
            raise KeyboardInterrupt
        asked = True

    def question() -> bool:
        nonlocal heard
        heard = time.monotonic()
        return asked

    before = {name: signal.signal(name, ask) for name in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield question
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)


def tell(a: argparse.Namespace, words: dict[str, Any], scores: Scores | None, *paths: Path | str) -> None:
    """Print the words as JSON, or the scores, what they lean on and where everything lies."""
    written = [str(path) for path in paths]
    if a.json:
        print_json({**words, "written": written} if written else words)
        return
    console = Console(highlight=False)
    if scores:
        console.print(scores.table(), scores.class_table(), sep="\n")
    if "inputs" in words and "recipe" in words["inputs"]:
        console.print(f"Recipe: {words['inputs']['recipe']['name']}", markup=False)
    if setting := words.get("setting"):
        console.print(_leaned_on(setting), markup=False)
        if setting.get("eased") is not None:
            vain = words.get("back_to") is not None and words["back_to"] <= setting["eased"]
            said = f"{EASED}, in vain" if vain else EASED
            console.print(f"Eased after epoch {setting['eased']}: {said}.", markup=False)
        if setting.get("weaker"):
            console.print(f"Weaker: {setting['weaker']}.", markup=False)
    if generations := words.get("lineage"):
        said = lineage.drift([lineage.Generation.from_dict(entry) for entry in generations])
        console.print(f"Lineage: {said}", markup=False)
    if written:
        console.print(f"Written: {' and '.join(written)}", markup=False)


def _leaned_on(setting: Mapping[str, Any]) -> str:
    """Say what the result leans on, and where that is more than the paper allows itself."""
    known = f"T = {setting['T']}" if setting["T"] else "no T"
    replayed = f"replayed: {setting['replayed'] or 'nothing'}"
    more = "" if setting["within the paper's setting"] else " (with T on: beyond the paper's setting)"
    return f"Leaned on: memory: {setting['memory']}; {known}; {replayed}{more}"


def tell_unjudged(pattern: Pattern | None, scores: Scores) -> None:
    """Say which of the pattern's arrows could not be judged."""
    missing = [name for name in (pattern.arrows if pattern else ()) if scores.met(name) is None]
    if missing:
        why = "for want of data, of D_r to compare with, or of the old model"
        sys.stderr.write(f"unsee: not judged, {why}: {', '.join(missing)}\n")


def print_json(words: Any) -> None:
    """Print for machines."""
    sys.stdout.write(json.dumps(words, indent=2, ensure_ascii=False) + "\n")
