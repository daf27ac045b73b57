"""What the verbs do that make things: the demo, data, networks, recipes, the paper's tables and figures."""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.markdown import Markdown
from rich.table import Table
from torch import nn

from unsee import demo as demonstration
from unsee import memory as remembering
from unsee import networks, sources, store, training, tuning
from unsee.cases import examining
from unsee.command_line.options import case_from, four_from, is_case, recipe_from, refuse_options
from unsee.command_line.telling import print_json, stopping, tell
from unsee.errors import Diverged, InputError, UsageError
from unsee.evaluation import evaluate as judge
from unsee.formulation import Request, Validation
from unsee.paper import experiments
from unsee.paper.scale import QUICK, Scale
from unsee.recipe import PAPERS, Recipe
from unsee.report import figures


def demo(a: argparse.Namespace) -> int:
    """`unsee demo`: exits with 0 when complete, whatever the paper's method achieves."""
    with stopping() as stop:
        scores = demonstration.demo(
            a.out,
            seed=a.seed,
            device=networks.device_of(a.device),
            console=Console(quiet=a.json, highlight=False),
            stop=stop,
            progress=not a.json,
        )
    if a.json:
        print_json(scores.to_dict())
    return 0


def data(a: argparse.Namespace) -> int:
    """`unsee data list` and `unsee data fetch NAME`."""
    if a.action == "fetch":
        if a.name is None:
            raise UsageError("a data set's name after fetch", "none", "try `unsee data fetch fashion-mnist`")
        path = sources.fetch(a.name, progress=not a.json)
        print_json({"name": a.name, "path": str(path)}) if a.json else Console().print(f"{a.name}: {path}")
        return 0
    rows = sources.listing()
    if a.json:
        print_json([vars(row) | {"where": str(row.where)} for row in rows])
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
        with stopping() as stop:
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
    tell(a, words, judge(result.model, four) if four else None, path)
    return 0


def tune(a: argparse.Namespace) -> int:
    """`unsee tune`: leaves recipe.json, search.json and search.png in the study's folder."""
    store.check_place(Path(a.out) / "any.safetensors")
    model, request, memory, validation, recipe, seed = _to_tune(a)
    if validation is None:
        do = (
            "write `remember` into the case" if is_case(a.model) else "give --D-r, or --data, with more of it"
        )
        raise InputError("D_r for validation", "none", do)
    prune = a.prune if a.prune >= 0 else None
    budget = tuning.Budget(a.trials, a.minutes, a.folds, a.epochs, prune, a.grace)
    asked = {name: getattr(a, f"{name}_range") for name in tuning.SPACE}
    space = tuning.SPACE | {name: (ends[0], ends[1]) for name, ends in asked.items() if ends}
    console = Console(quiet=a.json, highlight=False)

    def show(found: tuning.Found) -> None:
        last = found.trials[-1]
        said = f"{last['score']:.3f} ({last['state']}), best {found.score:.3f}"
        if len(found.trials) == 1 and a.trials > 1:
            minutes = a.trials * last["seconds"] / 60
            said += f"; {a.trials} such trials take {minutes:.0f} minutes, less where they are given up"
        console.print(f"trial {len(found.trials)}/{a.trials}: {said}")
        if found.holds:
            tuning.write(found, a.out)  # whoever stops the search has the best so far

    with stopping() as stop:
        found = tuning.tune(
            model,
            request,
            memory,
            validation,
            recipe,
            folder=a.out,
            budget=budget,
            space=space,
            seed=seed,
            device=networks.device_of(a.device),
            progress=not a.json,
            on_trial=show,
            stop=stop,
        )
    words = tuning.write(found, a.out)
    figures.save(
        figures.search(found.trials, [name for name in tuning.SPACE if name in found.trials[0]]),
        Path(a.out) / "search.png",
    )
    console.print(
        f"Best: the least accuracy on validation data is {found.score:.3f} ± {found.deviation:.3f} over the "
        f"folds; {found.samples:,} samples passed."
    )
    if found.score <= found.trials[0]["score"]:
        console.print("No trial came to more than the recipe that the search started from.")
    tell(a, words, None, Path(a.out) / "recipe.json", Path(a.out) / "search.png")
    if stop():
        raise KeyboardInterrupt  # what is written is the best so far, and a script can tell
    return 0


def _to_tune(
    a: argparse.Namespace,
) -> tuple[nn.Module, Request, remembering.Memory | None, Validation | None, Recipe, int]:
    """Return what is searched on, where the search starts, and its seed: as the case says, or the options."""
    if is_case(a.model):
        refuse_options(a, but=("epochs", "batch_size", "recipe"))
        ready = examining.examine(case_from(a), Path(a.model).parent, allow_code=a.allow_code)
        recipe = replace(ready.recipe, batch_size=a.batch_size or ready.recipe.batch_size)
        return ready.model, ready.request, ready.memory, ready.four.validation, recipe, ready.case.seed
    if a.pattern is None:
        raise UsageError("--pattern", "none", "name it, or name a case file")
    model = networks.load(a.model)
    four = four_from(a, model)
    memory = remembering.Memory.load(a.memory) if a.memory else None
    return model, four.request(a.pattern), memory, four.validation, recipe_from(a, PAPERS), a.seed


def reproduce(a: argparse.Namespace) -> int:
    """`unsee reproduce`: the paper's tables and figures; goes on where it was stopped."""
    scale = QUICK if a.quick else Scale()
    scale = replace(scale, seeds=a.seeds) if a.seeds is not None else scale
    console = Console(quiet=a.json, highlight=False)
    with stopping() as stop:
        words = experiments.reproduce(
            a.names,
            a.out or ("runs/quick" if a.quick else "results/paper"),
            work=f"{a.work}-quick" if a.quick else a.work,
            scale=scale,
            only=a.data,
            say=lambda text: console.print(text, markup=False),
            progress=not a.json,
            stop=stop,
        )
    if a.json:
        print_json(words)
    for section in words["sections"].values():
        console.print(Markdown(section))
    judged = [claim["holds"] for claim in words["claims"]]
    for claim in (claim for claim in words["claims"] if claim["holds"] is not None):
        here = "holds" if claim["holds"] else "does not hold"
        line = f"{claim['claim']} ({claim['case']}): {here}. {claim['by']}"
        console.print(line, markup=False, soft_wrap=True)
    console.print(
        f"\nOf the paper's claims {judged.count(True)} hold here, {judged.count(False)} do not, "
        f"{judged.count(None)} are not run yet.",
        markup=False,
    )
    for reason in words["skipped"]:
        sys.stderr.write(f"unsee: skipped {reason}\n")
    console.print(f"Written: {words['page']}", markup=False, soft_wrap=True)
    return 0
