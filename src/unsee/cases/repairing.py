"""Repairing: a case from its file to the run's folder, with everything that a manager will ask for in it."""

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from unsee import lineage
from unsee.cases.case import Case
from unsee.cases.examining import REACTS, Ready, examine, reactions, symptom
from unsee.errors import Diverged, UnseeWarning, UsageError
from unsee.evaluation import evaluate, evaluator, judged_by
from unsee.forgetting import Forgotten, forget
from unsee.networks import identity
from unsee.origin import Origin
from unsee.runs import report_run, write_memory, write_words
from unsee.scores import Scores
from unsee.store import write_bytes


@dataclass(frozen=True, eq=False)
class Repaired:
    """What came of a case: the result, how it was judged, and where all of it lies."""

    result: Forgotten
    scores: Scores
    words: dict[str, Any]
    weights: Path
    report: Path
    reactions: Mapping[str, float]
    """The shares of answers that still change with what was to be forgotten, on images kept for the test."""

    @property
    def failed(self) -> bool:
        """Whether an arrow was not met, or, where none could be judged, the symptom is still there."""
        judged = [name for name in self.scores.sets if self.scores.met(name) is not None]
        return self.scores.any_missed or (not judged and max(self.reactions.values(), default=0.0) >= REACTS)


def repair(
    case: Case,
    folder: Path | str,
    out: Path | str,
    *,
    file: Path | str | None = None,
    allow_code: bool = False,
    anyway: bool = False,
    with_images: bool = False,
    device: torch.device | str | None = None,
    say: Callable[[str], None] = lambda _: None,
    stop: Callable[[], bool] | None = None,
    progress: bool = False,
) -> Repaired:
    """Check a case, confirm the symptom, forget, judge, and write weights, scores and report to `out`.

    `folder` is where the case's paths start from; `file` is the case's own, for the run to say where it
    began. Killed, the same call goes on.
    """
    out = Path(out)
    weights, source = out / f"model.{case.save_as}", Path(folder) / case.model.weights
    if weights.resolve() in (source.resolve(), (source / "model.safetensors").resolve()):
        raise UsageError("--out other than the folder of the old model", str(out), "keep the old model")
    with _noted() as said:
        ready = examine(case, folder, allow_code=allow_code)
    origin = Origin.of_case(out, file) if file else None
    for line in ready.checked:
        say(line)
    if not anyway:
        say(symptom(ready))
    try:
        with _noted() as more:
            result = forget(
                ready.model,
                ready.request,
                ready.memory,
                ready.recipe,
                seed=case.seed,
                validation=ready.four.validation,
                lineage=lineage.beside(source, ready.model),
                device=device,
                folder=out,
                evaluator=evaluator(ready.four),
                stop=stop,
                progress=progress,
            )
    except Diverged as error:
        ready.opened.write(weights, error.last_good.model)
        write_words(out, error.last_good, None, case=ready.words(), warnings=said, origin=origin)
        say(f"The last good state is in {weights}.")
        raise
    result = _as_written(ready, result)
    ready.opened.write(weights, result.model)  # before judging, so that whatever fails there, it is not lost
    for name in ("config.json", "preprocessor_config.json"):
        # Of a Hugging Face folder, so that this is one too.
        if (source / name).is_file():
            write_bytes(out / name, (source / name).read_bytes())
    write_memory(out, result)
    return _judged(ready, result, weights, with_images, said + more, origin)


@contextmanager
def _noted() -> Iterator[list[str]]:
    """Write down the warnings that come inside the block, and give them on when it ends."""
    said: list[str] = []
    caught: list[warnings.WarningMessage] = []
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UnseeWarning)
            yield said
    finally:
        said += [str(one.message) for one in caught if issubclass(one.category, UnseeWarning)]
        for one in caught:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)


def _as_written(ready: Ready, result: Forgotten) -> Forgotten:
    """Return the result as its file will hold it: half precision rounds, and what is judged is that."""
    model = ready.opened.as_written(result.model)
    if model is result.model:
        return result
    last = replace(result.lineage[-1], model_after=identity(model))
    memory = result.memory.of(model) if result.memory else None
    return replace(result, model=model, memory=memory, lineage=(*result.lineage[:-1], last))


def _judged(
    ready: Ready,
    result: Forgotten,
    weights: Path,
    with_images: bool,
    said: list[str],
    origin: Origin | None,
) -> Repaired:
    out, pattern = weights.parent, judged_by(ready.request.pattern, ready.four)
    scores = evaluate(result.model, ready.four, pattern, old=ready.model)
    words = write_words(out, result, scores, case=ready.words(), warnings=said, origin=origin)
    left = reactions(ready, result.model)
    report = report_run(out, ready.model, result.model, ready.four, pattern, with_images=with_images)
    return Repaired(result, scores, words, weights, report, left)
