"""Repairing: a case from its file to the run's folder, with everything that a manager will ask for in it."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from unsee import lineage
from unsee.case import Case
from unsee.errors import Diverged, UnseeWarning
from unsee.evaluation import evaluate, evaluator
from unsee.examining import Ready, examine, symptom
from unsee.forgetting import Forgotten, forget
from unsee.formulation import FourDatasets, Pattern
from unsee.report.facts import facts_of
from unsee.report.page import write_report
from unsee.runs import write_words
from unsee.scores import Scores
from unsee.store import write_json


@dataclass(frozen=True, eq=False)
class Repaired:
    """What came of a case: the result, how it was judged, and where all of it lies."""

    result: Forgotten
    scores: Scores
    words: dict[str, Any]
    weights: Path
    report: Path


def repair(
    case: Case,
    folder: Path | str,
    out: Path | str,
    *,
    allow_code: bool = False,
    anyway: bool = False,
    with_images: bool = False,
    device: torch.device | str | None = None,
    say: Callable[[str], None] = lambda _: None,
    stop: Callable[[], bool] | None = None,
    progress: bool = False,
) -> Repaired:
    """Check a case, confirm the symptom, forget, judge, and write weights, scores and report to `out`.

    `folder` is where the case's paths start from. Killed, the same call goes on.
    """
    with _noted() as said:
        ready = examine(case, folder, allow_code=allow_code)
    for line in ready.checked:
        say(line)
    if not anyway:
        say(symptom(ready))
    out = Path(out)
    weights = out / f"model.{case.save_as}"
    before = lineage.beside(Path(folder) / case.model.weights, ready.model)
    watch = {"stop": stop, "progress": progress, "evaluator": evaluator(ready.four)}
    request, validation = ready.request, ready.four.validation
    words = {"seed": case.seed, "validation": validation, "lineage": before, "device": device, "folder": out}
    try:
        with _noted() as more:
            result = forget(ready.model, request, ready.memory, ready.recipe, **words, **watch)
    except Diverged as error:
        ready.opened.write(weights, error.last_good.model)
        raise
    ready.opened.write(weights, result.model)  # before judging, so that whatever fails there, it is not lost
    if result.memory:
        result.memory.save(out / "memory-after.safetensors")
    return _judged(ready, result, out, weights, with_images, said + more)


@contextmanager
def _noted() -> Iterator[list[str]]:
    """Write down the warnings that come inside the block, and give them on when it ends."""
    said: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UnseeWarning)
        yield said
    for one in caught:
        said.append(str(one.message))
        warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)


def _judged(
    ready: Ready, result: Forgotten, out: Path, weights: Path, with_images: bool, said: list[str]
) -> Repaired:
    there = {name for name, data in ready.four.test.present().items() if len(data)}
    pattern = ready.request.pattern if ready.request.pattern.arrows.keys() & there else None
    scores = evaluate(result.model, ready.four, pattern, old=ready.model)
    words = write_words(out, result, scores, case=ready.words(), warnings=said)
    report = report_run(out, ready.model, result.model, ready.four, pattern, with_images=with_images)
    return Repaired(result, scores, words, weights, report)


def report_run(
    folder: Path | str,
    old: nn.Module,
    new: nn.Module,
    four: FourDatasets,
    pattern: Pattern | None,
    *,
    with_images: bool = False,
) -> Path:
    """Gather what a report shows while both models are at hand, and write it beside `run.json`."""
    folder = Path(folder)
    facts = facts_of(old, new, four, pattern, with_images=with_images)
    write_json(folder / "facts.json", facts.to_dict())
    write_report([folder], folder / "report.html")
    return folder / "report.html"
