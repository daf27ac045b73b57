"""What the command line's verbs do: read files, call the library, write files, print."""

import argparse
import json
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from unsee import demo as demonstration
from unsee import forgetting, lineage, networks, sources, store, training, tuning
from unsee import memory as remembering
from unsee.errors import Diverged, InputError, UsageError
from unsee.evaluation import evaluate as judge
from unsee.evaluation import evaluator
from unsee.formulation import Pattern, pattern_of
from unsee.options import four_from, recipe_from
from unsee.paper import experiments
from unsee.paper.running import QUICK, Scale
from unsee.recipe import PAPERS
from unsee.report import figures
from unsee.runs import write_model, write_run, write_words
from unsee.scores import Scores


def demo(a: argparse.Namespace) -> int:
    """`unsee demo`: exits with 0 when complete, whatever the paper's method achieves."""
    with _stopping() as stop:
        scores = demonstration.demo(
            a.out,
            seed=a.seed,
            device=networks.device_of(a.device),
            console=Console(quiet=a.json, highlight=False),
            stop=stop,
            progress=not a.json,
        )
    if a.json:
        _print_json(scores.to_dict())
    return 0


def data(a: argparse.Namespace) -> int:
    """`unsee data list` and `unsee data fetch NAME`."""
    if a.action == "fetch":
        if a.name is None:
            raise UsageError("a data set's name after fetch", "none", "try `unsee data fetch fashion-mnist`")
        path = sources.fetch(a.name, progress=not a.json)
        _print_json({"name": a.name, "path": str(path)}) if a.json else Console().print(f"{a.name}: {path}")
        return 0
    rows = sources.listing()
    if a.json:
        _print_json([vars(row) | {"where": str(row.where)} for row in rows])
        return 0
    table = Table("name", "what", "samples", "here")
    table.add_column("where", overflow="fold")
    for row in rows:
        table.add_row(row.name, row.what, f"{row.samples:,}", "yes" if row.present else "no", str(row.where))
    Console().print(table)
    return 0


def train(a: argparse.Namespace) -> int:
    """`unsee train`: a network on D."""
    if a.T and a.label is None and not a.D_f:
        raise UsageError("--class with --T", "none", "name the class that is to carry T")
    four = four_from(a) if a.label is not None or a.D_f else None
    D = four.pretraining if four else sources.open_source(a.data).train
    start = networks.network(a.network, D, seed=a.seed)
    path = Path(a.out) / "model.safetensors"
    store.check_place(path)
    try:
        with _stopping() as stop:
            result = training.train(
                start,
                D,
                epochs=a.epochs,
                lr=a.lr,
                batch_size=a.batch_size,
                seed=a.seed,
                device=networks.device_of(a.device),
                folder=a.out,
                stop=stop,
                progress=not a.json,
            )
    except Diverged as error:
        networks.save(error.last_good.model, path)
        sys.stderr.write(f"unsee: the last good state is in {path}\n")
        raise
    networks.save(result.model, path)
    words = {
        "inputs": result.identity,
        "model": networks.identity(result.model),
        "bit_exact": result.exact,
        "trajectory": list(result.trajectory),
    }
    store.write_json(Path(a.out) / "run.json", words)
    _tell(a, words, judge(result.model, four) if four else None, f"{a.out}/model.safetensors")
    return 0


def remember(a: argparse.Namespace) -> int:
    """`unsee remember`: the memory of D, as one file."""
    store.check_place(a.out)
    model = networks.load(a.model).to(networks.device_of(a.device))
    D = four_from(a, model).pretraining if a.label is not None or a.D_f else sources.open_source(a.data).train
    if Path(a.out).exists() and remembering.Memory.load(a.out).model != networks.identity(model):
        raise UsageError(f"no memory of another model at {a.out}", "one", "keep it, and choose another file")
    memory = remembering.remember(model, D, sketch=a.sketch, batch_size=a.batch_size, progress=not a.json)
    memory.save(a.out)
    words = {"memory": memory.id, "model": memory.model, "data": list(memory.data), "n": memory.n}
    _tell(a, words, None, a.out)
    return 0


def forget(a: argparse.Namespace) -> int:
    """`unsee forget`: exits with 1 when an arrow is not met, 6 when it diverged (last good state kept)."""
    pattern = pattern_of(a.pattern)
    recipe = recipe_from(a)
    model = networks.load(a.model)
    four = four_from(a, model)
    request = four.request(pattern)
    memory = remembering.Memory.load(a.memory) if a.memory else None
    path = Path(a.out) / "model.safetensors"
    if path.resolve() == Path(a.model).resolve():
        raise UsageError("--out other than the folder of the old model", a.out, "keep the old model")
    store.check_place(path)
    there = {name for name, data in four.test.present().items() if len(data)}
    judged = pattern if pattern.arrows.keys() & there else None
    try:
        with _stopping() as stop:
            result = forgetting.forget(
                model,
                request,
                memory,
                recipe,
                seed=a.seed,
                validation=four.validation,
                lineage=lineage.beside(a.model, model),
                device=networks.device_of(a.device),
                folder=a.out,
                evaluator=evaluator(four),
                stop=stop,
                progress=not a.json,
            )
    except Diverged as error:
        write_run(a.out, error.last_good, None)
        sys.stderr.write(f"unsee: the last good state is in {path}\n")
        raise
    write_model(a.out, result)  # before judging, so that whatever fails there, it is not lost
    scores = judge(result.model, four, judged, old=model, margin=a.margin, ceiling=a.ceiling)
    _tell(a, write_words(a.out, result, scores), scores, str(path))
    _tell_unjudged(pattern, scores)
    return 1 if scores.any_missed else 0


def evaluate(a: argparse.Namespace) -> int:
    """`unsee evaluate`: exits with 1 when an arrow is not met."""
    old = networks.load(a.old) if a.old else None
    device = networks.device_of(a.device)
    model = networks.load(a.model).to(device)
    four = four_from(a, model)
    before = old.to(device) if old else None
    scores = judge(model, four, a.pattern, old=before, margin=a.margin, ceiling=a.ceiling)
    _tell(a, scores.to_dict(), scores, None)
    _tell_unjudged(scores.pattern, scores)
    return 1 if scores.any_missed else 0


def tune(a: argparse.Namespace) -> int:
    """`unsee tune`: leaves recipe.json, search.json and search.png in the study's folder."""
    model = networks.load(a.model)
    four = four_from(a, model)
    if four.validation is None:
        raise InputError("D_r for validation", "none", "give --D-r, or --data with --class")
    budget = tuning.Budget(a.trials, a.minutes, a.folds, a.epochs, a.prune if a.prune >= 0 else None)
    console = Console(quiet=a.json, highlight=False)

    def tell(found: tuning.Found) -> None:
        last = found.trials[-1]
        score = f"{last['score']:.3f} ({last['state']}), best {found.score:.3f}"
        console.print(f"trial {len(found.trials)}/{a.trials}: {score}")

    with _stopping() as stop:
        found = tuning.tune(
            model,
            four.request(a.pattern),
            remembering.Memory.load(a.memory),
            four.validation,
            recipe_from(a, PAPERS),
            folder=a.out,
            budget=budget,
            seed=a.seed,
            on_trial=tell,
            stop=stop,
        )
    words = tuning.write(found, a.out)
    figures.save(figures.search(found.trials, tuple(tuning.SPACE)), Path(a.out) / "search.png")
    console.print(
        f"Best: {found.score:.3f} ± {found.deviation:.3f} over the folds; {found.samples:,} samples passed."
    )
    _tell(a, words, None, f"{a.out}/recipe.json")
    return 0


def reproduce(a: argparse.Namespace) -> int:
    """`unsee reproduce`: the paper's tables and figures; goes on where it was stopped."""
    scale = QUICK if a.quick else Scale()
    scale = replace(scale, seeds=a.seeds) if a.seeds else scale
    console = Console(quiet=a.json, highlight=False)
    with _stopping() as stop:
        words = experiments.reproduce(
            a.names,
            a.out,
            work=f"{a.work}-quick" if a.quick else a.work,
            scale=scale,
            only=a.data,
            say=lambda text: console.print(text, markup=False),
            progress=not a.json,
            stop=stop,
        )
    if a.json:
        _print_json(words)
    for reason in words["skipped"]:
        sys.stderr.write(f"unsee: skipped {reason}\n")
    console.print(f"Written: {words['page']}", markup=False)
    return 0


@contextmanager
def _stopping() -> Iterator[Callable[[], bool]]:
    """Turn the first SIGINT or SIGTERM into a question that the loop asks after each step."""
    asked = False

    def ask(*_: Any) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True

    before = {name: signal.signal(name, ask) for name in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: asked
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)


def _tell(a: argparse.Namespace, words: dict[str, Any], scores: Scores | None, path: str | None) -> None:
    if a.json:
        _print_json(words)
        return
    console = Console(highlight=False)
    if scores:
        console.print(scores.table(), scores.class_table(), sep="\n")
    if "inputs" in words and "recipe" in words["inputs"]:
        console.print(f"Recipe: {words['inputs']['recipe']['name']}", markup=False)
    if setting := words.get("setting"):
        console.print(_leaned_on(setting), markup=False)
    if generations := words.get("lineage"):
        said = lineage.drift([lineage.Generation.from_dict(entry) for entry in generations])
        console.print(f"Lineage: {said}", markup=False)
    if path:
        console.print(f"Written: {path}", markup=False)


def _leaned_on(setting: Mapping[str, Any]) -> str:
    """Say what the result leans on, and where that is more than the paper allows itself."""
    known = f"T = {setting['T']}" if setting["T"] else "no T"
    replayed = f"replayed: {setting['replayed'] or 'nothing'}"
    more = "" if setting["within the paper's setting"] else " (with T on: beyond the paper's setting)"
    return f"Leaned on: memory: {setting['memory']}; {known}; {replayed}{more}"


def _tell_unjudged(pattern: Pattern | None, scores: Scores) -> None:
    missing = [name for name in (pattern.arrows if pattern else ()) if scores.met(name) is None]
    if missing:
        sys.stderr.write(f"unsee: not judged, for want of data or of the old model: {', '.join(missing)}\n")


def _print_json(words: Any) -> None:
    sys.stdout.write(json.dumps(words, indent=2, ensure_ascii=False) + "\n")
