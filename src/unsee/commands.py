"""What the command line's verbs do: read files, call the library, write files, print."""

import argparse
import json
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from torch import nn

from unsee import demo as demonstration
from unsee import forgetting, networks, sources, store, training, transforms
from unsee import memory as remembering
from unsee.errors import Diverged, UsageError
from unsee.evaluation import evaluate as judge
from unsee.evaluation import evaluator
from unsee.formulation import FourDatasets, FourSets, pattern_of
from unsee.paper import experiments
from unsee.paper.running import QUICK, Scale
from unsee.recipe import Recipe, recipe_of
from unsee.runs import write_run
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
    table = Table("name", "what", "samples", "here", "where")
    for row in rows:
        table.add_row(row.name, row.what, f"{row.samples:,}", "yes" if row.present else "no", str(row.where))
    Console().print(table)
    return 0


def train(a: argparse.Namespace) -> int:
    """`unsee train`: a network on D."""
    four = _four(a) if a.label is not None or a.D_f else None
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
    D = _four(a, model).pretraining if a.label is not None or a.D_f else sources.open_source(a.data).train
    memory = remembering.remember(model, D, batch_size=a.batch_size, progress=not a.json)
    memory.save(a.out)
    words = {"memory": memory.id, "model": memory.model, "data": list(memory.data), "n": memory.n}
    _tell(a, words, None, a.out)
    return 0


def forget(a: argparse.Namespace) -> int:
    """`unsee forget`: exits with 1 when an arrow is not met, 6 when it diverged (last good state kept)."""
    pattern = pattern_of(a.pattern)
    recipe = _recipe(a)
    model = networks.load(a.model)
    four = _four(a, model)
    request = four.request(pattern)
    memory = remembering.Memory.load(a.memory) if a.memory else None
    path = Path(a.out) / "model.safetensors"
    if path.resolve() == Path(a.model).resolve():
        raise UsageError("--out other than the folder of the old model", a.out, "keep the old model")
    store.check_place(path)
    there = {name for name, data in four.test.present().items() if len(data)}
    judged = pattern if pattern.arrows.keys() <= there else None
    try:
        with _stopping() as stop:
            result = forgetting.forget(
                model,
                request,
                memory,
                recipe,
                seed=a.seed,
                validation=four.validation,
                device=networks.device_of(a.device),
                folder=a.out,
                evaluator=evaluator(four),
                stop=stop,
                progress=not a.json,
            )
    except Diverged as error:
        write_run(a.out, error.last_good, None)
        raise
    networks.save(result.model, path)
    scores = judge(result.model, four, judged, old=model, margin=a.margin, ceiling=a.ceiling)
    _tell(a, write_run(a.out, result, scores), scores, f"{a.out}/model.safetensors")
    if judged is None:
        sys.stderr.write(f"unsee: not judged: Pattern {pattern.name} wants {', '.join(pattern.arrows)}\n")
        return 0
    return 1 if scores.any_missed else 0


def evaluate(a: argparse.Namespace) -> int:
    """`unsee evaluate`: exits with 1 when an arrow is not met."""
    old = networks.load(a.old) if a.old else None
    device = networks.device_of(a.device)
    model = networks.load(a.model).to(device)
    four = _four(a, model)
    before = old.to(device) if old else None
    scores = judge(model, four, a.pattern, old=before, margin=a.margin, ceiling=a.ceiling)
    _tell(a, scores.to_dict(), scores, None)
    return 1 if scores.any_missed else 0


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


def _four(a: argparse.Namespace, model: nn.Module | None = None) -> FourDatasets:
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


def _recipe(a: argparse.Namespace) -> Recipe:
    """Return the recipe that --recipe names, with what other options change in it."""
    recipe = recipe_of(a.recipe, pattern_of(a.pattern))
    changes = {f.name: getattr(a, f.name) for f in fields(Recipe) if getattr(a, f.name, None) is not None}
    name = f"{recipe.name}, {', '.join(f'{k} = {v}' for k, v in changes.items())}"
    return replace(recipe, **changes, name=name) if changes else recipe


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
    if path:
        console.print(f"Written: {path}", markup=False)


def _print_json(words: Any) -> None:
    sys.stdout.write(json.dumps(words, indent=2, ensure_ascii=False) + "\n")
