"""What the command line's verbs do: read files, call the library, write files, print."""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from unsee import case as cases
from unsee import demo as demonstration
from unsee import forgetting, lineage, networks, repairing, sources, store, training, tuning
from unsee import memory as remembering
from unsee.errors import Diverged, InputError, UsageError
from unsee.evaluation import evaluate as judge
from unsee.evaluation import evaluator, judged_by
from unsee.formulation import pattern_of
from unsee.options import case_words, four_from, recipe_from, refuse_options
from unsee.paper import experiments
from unsee.paper.running import QUICK, Scale
from unsee.recipe import PAPERS
from unsee.report import figures
from unsee.report.page import write_report
from unsee.runs import report_run, write_model, write_run, write_words
from unsee.telling import print_json, stopping, tell, tell_unjudged


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
    tell(a, words, judge(result.model, four) if four else None, f"{a.out}/model.safetensors")
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
    tell(a, words, None, a.out)
    return 0


def forget(a: argparse.Namespace) -> int:
    """`unsee forget`: exits with 1 when an arrow is not met, 6 when it diverged (last good state kept)."""
    if Path(a.model).suffix in (".yaml", ".yml"):
        return _forget_case(a)
    for option in ("pattern", "out"):
        if getattr(a, option) is None:
            raise UsageError(f"--{option}", "none", "name it, or write a case file with `unsee init`")
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
    judged = judged_by(pattern, four)
    try:
        with stopping() as stop:
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
    words = write_words(a.out, result, scores)
    page = report_run(a.out, model, result.model, four, judged, with_images=a.with_images)
    tell(a, words, scores, f"{path} and {page}")
    tell_unjudged(pattern, scores)
    return 1 if scores.any_missed else 0


def _forget_case(a: argparse.Namespace) -> int:
    """`unsee forget case.yaml`: everything else stands in the case."""
    refuse_options(a)
    case = cases.load(a.model)
    console = Console(quiet=a.json, highlight=False)
    out = a.out or str(Path("runs") / Path(a.model).stem)
    store.check_place(Path(out) / "model.safetensors")
    with stopping() as stop:
        done = repairing.repair(
            case,
            Path(a.model).parent,
            out,
            allow_code=a.allow_code,
            anyway=a.anyway,
            with_images=a.with_images,
            device=networks.device_of(a.device),
            say=lambda text: console.print(text, markup=False),
            stop=stop,
            progress=not a.json,
        )
    tell(a, done.words, done.scores, f"{done.weights} and {done.report}")
    tell_unjudged(pattern_of(case.pattern), done.scores)
    if done.result.back_to == 0:
        text = "The weights are unchanged, as nothing held the floor: give more clean images or a `floor`."
        console.print(text, markup=False)
    if done.reactions:
        left = " and ".join(f"{share:.1%} of {name}" for name, share in done.reactions.items())
        console.print(
            f"With what was to be forgotten, the model now answers otherwise to {left}.", markup=False
        )
    return 1 if done.failed else 0


def init(a: argparse.Namespace) -> int:
    """`unsee init`: write a case file from options, or from answers where there is someone to ask."""
    if a.schema:
        print_json(cases.schema())
        return 0
    path = Path(a.case)
    if path.exists():
        raise UsageError(f"no file at {path}", "one", "keep it, and choose another name")
    words = case_words(a, ask=sys.stdin.isatty() and not a.json)
    cases.checked(words, path)  # nothing is written that could not be read
    store.write_bytes(path, cases.written(words).encode())
    tell(a, {"case": str(path)}, None, f"{path}: now `unsee forget {path}`")
    return 0


def report(a: argparse.Namespace) -> int:
    """`unsee report`: the page of one run, or of several side by side."""
    name = "report.html" if len(a.runs) == 1 else "comparison.html"
    out = Path(a.out or Path(a.runs[0]) / name)
    write_report([Path(run) for run in a.runs], out)
    tell(a, {"report": str(out)}, None, str(out))
    return 0


def evaluate(a: argparse.Namespace) -> int:
    """`unsee evaluate`: exits with 1 when an arrow is not met."""
    old = networks.load(a.old) if a.old else None
    device = networks.device_of(a.device)
    model = networks.load(a.model).to(device)
    four = four_from(a, model)
    before = old.to(device) if old else None
    scores = judge(model, four, a.pattern, old=before, margin=a.margin, ceiling=a.ceiling)
    tell(a, scores.to_dict(), scores, None)
    tell_unjudged(scores.pattern, scores)
    return 1 if scores.any_missed else 0


def tune(a: argparse.Namespace) -> int:
    """`unsee tune`: leaves recipe.json, search.json and search.png in the study's folder."""
    model = networks.load(a.model)
    four = four_from(a, model)
    if four.validation is None:
        raise InputError("D_r for validation", "none", "give --D-r, or --data with --class")
    budget = tuning.Budget(a.trials, a.minutes, a.folds, a.epochs, a.prune if a.prune >= 0 else None)
    console = Console(quiet=a.json, highlight=False)

    def show(found: tuning.Found) -> None:
        last = found.trials[-1]
        score = f"{last['score']:.3f} ({last['state']}), best {found.score:.3f}"
        console.print(f"trial {len(found.trials)}/{a.trials}: {score}")

    with stopping() as stop:
        found = tuning.tune(
            model,
            four.request(a.pattern),
            remembering.Memory.load(a.memory),
            four.validation,
            recipe_from(a, PAPERS),
            folder=a.out,
            budget=budget,
            seed=a.seed,
            on_trial=show,
            stop=stop,
        )
    words = tuning.write(found, a.out)
    figures.save(figures.search(found.trials, tuple(tuning.SPACE)), Path(a.out) / "search.png")
    console.print(
        f"Best: {found.score:.3f} ± {found.deviation:.3f} over the folds; {found.samples:,} samples passed."
    )
    tell(a, words, None, f"{a.out}/recipe.json")
    return 0


def reproduce(a: argparse.Namespace) -> int:
    """`unsee reproduce`: the paper's tables and figures; goes on where it was stopped."""
    scale = QUICK if a.quick else Scale()
    scale = replace(scale, seeds=a.seeds) if a.seeds else scale
    console = Console(quiet=a.json, highlight=False)
    with stopping() as stop:
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
        print_json(words)
    for reason in words["skipped"]:
        sys.stderr.write(f"unsee: skipped {reason}\n")
    console.print(f"Written: {words['page']}", markup=False)
    return 0
