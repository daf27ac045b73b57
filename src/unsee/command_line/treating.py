"""What the verbs do that treat a model, or a case: init, remember, forget, evaluate, report."""

import argparse
import sys
import warnings
from pathlib import Path

import torch
from rich.console import Console
from torch import nn

from unsee import forgetting, lineage, networks, store
from unsee import memory as remembering
from unsee.cases import case as cases
from unsee.cases import examining, gathering, repairing
from unsee.command_line.asking import case_words
from unsee.command_line.options import (
    case_from,
    four_from,
    is_case,
    origin_from,
    recipe_from,
    refuse_options,
    source_of,
)
from unsee.command_line.telling import print_json, stopping, tell, tell_unjudged
from unsee.datasets import Dataset, sample_hashes
from unsee.errors import Diverged, UnseeWarning, UsageError
from unsee.evaluation import evaluate as judge
from unsee.evaluation import evaluator, judged_by
from unsee.formulation import pattern_of
from unsee.recipe import ours
from unsee.replay import recognised
from unsee.report.page import write_report
from unsee.runs import report_run, write_model, write_run, write_words


def remember(a: argparse.Namespace) -> int:
    """`unsee remember`: the memory of D, as one file."""
    store.check_place(a.out)
    if is_case(a.model):
        refuse_options(a, but=("data", "batch_size"))
        opened = examining.opened(cases.load_model(a.model), Path(a.model).parent, allow_code=a.allow_code)
        model, D = opened.model, gathering.read_set(opened, a.data).data
    else:
        model = networks.load(a.model)
        named = a.label is not None or a.D_f
        D = four_from(a, model).pretraining if named else source_of(a.data, model).train
    model = model.to(networks.device_of(a.device))
    if Path(a.out).exists() and (other := _another(remembering.Memory.load(a.out), model, D, a.sketch)):
        raise UsageError(f"no memory of {other} at {a.out}", "one", "keep it, and choose another file")
    how = {"sketch": a.sketch, "batch_size": a.batch_size, "progress": not a.json}
    memory = remembering.remember_at(a.out, model, D, **how)
    if (sketch := memory.sketch) and not recognised(model, D.value_range, sketch, memory.level()):
        text = "The model does not know what is drawn from the sketch, as convolutional networks often do not"
        warnings.warn(f"{text}: forgetting will make stand-ins in its place.", UnseeWarning, stacklevel=1)
    words = {"memory": memory.id, "model": memory.model, "data": list(memory.data), "n": memory.n}
    tell(a, words, None, a.out)
    return 0


def _another(there: remembering.Memory, model: nn.Module, D: Dataset, sketch: float | None) -> str:
    """Say what a memory holds that taking one of this model and data in its place would lose, or nothing."""
    if there.model != networks.identity(model):
        return "another model"
    mine, found = (hashes.sort().values for hashes in (sample_hashes(D.x, D.y), there.samples))
    if not torch.equal(mine, found):
        return "other data"
    return "the same, with a sketch," if there.sketch and sketch is None else ""


def forget(a: argparse.Namespace) -> int:
    """`unsee forget`: exits with 1 when an arrow is not met, 6 when it diverged (last good state kept)."""
    if is_case(a.model):
        return _forget_case(a)
    if Path(a.model).is_dir():
        raise UsageError(
            "a model's .safetensors file or a case.yaml", f"a folder, {a.model}", "name the file"
        )
    for option in ("pattern", "out"):
        if getattr(a, option) is None:
            raise UsageError(f"--{option}", "none", "name it, or write a case file with `unsee init`")
    pattern = pattern_of(a.pattern)
    model = networks.load(a.model)
    four = four_from(a, model)
    request = four.request(pattern)
    recipe = recipe_from(a, ours(request.D_f.kind))
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
                # Nobody else has hold of it, so that it can go when it has served.
                remembering.Memory.load(a.memory) if a.memory else None,
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
        write_run(a.out, error.last_good, None, origin=origin_from(a))
        sys.stderr.write(f"unsee: the last good state is in {path}\n")
        raise
    write_model(a.out, result)  # before judging, so that whatever fails there, it is not lost
    scores = judge(result.model, four, judged, old=model, margin=a.margin, ceiling=a.ceiling)
    words = write_words(a.out, result, scores, origin=origin_from(a))
    page = report_run(a.out, model, result.model, four, judged, with_images=a.with_images)
    tell(a, words, scores, path, page)
    tell_unjudged(pattern, scores)
    return 1 if scores.any_missed else 0


def _forget_case(a: argparse.Namespace) -> int:
    """`unsee forget case.yaml`: everything else stands in the case."""
    refuse_options(a, but=("recipe",))
    case = case_from(a)
    console = Console(quiet=a.json, highlight=False)
    out = a.out or str(Path("runs") / Path(a.model).stem)
    store.check_place(Path(out) / "model.safetensors")
    with stopping() as stop:
        done = repairing.repair(
            case,
            Path(a.model).parent,
            out,
            file=a.model,
            allow_code=a.allow_code,
            anyway=a.anyway,
            with_images=a.with_images,
            device=networks.device_of(a.device),
            say=lambda text: console.print(text, markup=False),
            stop=stop,
            progress=not a.json,
        )
    tell(a, done.words, done.scores, done.weights, done.report)
    tell_unjudged(pattern_of(case.pattern), done.scores)
    if done.result.back_to == 0:
        text = (
            "The weights are unchanged, as nothing held the floor: give clean images of the class that fell, "
            "a memory with a sketch, or write a larger `floor` into the case."
        )
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
    cases.checked(words, path, cases.Case)  # nothing is written that could not be read
    store.write_bytes(path, cases.written(words).encode())
    tell(a, {"case": str(path)}, None, path)
    code = " --allow-code" if ":" in (words["model"].get("network") or "") else ""
    Console(quiet=a.json, highlight=False).print(f"Now: unsee forget {path}{code}", markup=False)
    return 0


def report(a: argparse.Namespace) -> int:
    """`unsee report`: the page of one run, or of several side by side."""
    name = "report.html" if len(a.runs) == 1 else "comparison.html"
    out = Path(a.out or Path(a.runs[0]) / name)
    write_report([Path(run) for run in a.runs], out)
    tell(a, {}, None, out)
    return 0


def evaluate(a: argparse.Namespace) -> int:
    """`unsee evaluate`: exits with 1 when an arrow is not met."""
    device = networks.device_of(a.device)
    if is_case(a.model):
        refuse_options(a)
        ready = examining.examine(cases.load(a.model), Path(a.model).parent, allow_code=a.allow_code)
        four, pattern = ready.four, judged_by(ready.request.pattern, ready.four)
        new = examining.opened(ready.case, ".", allow_code=a.allow_code, weights=a.new) if a.new else None
        model, old = (new.model if new else ready.model).to(device), ready.model.to(device)
    else:
        if a.new:
            raise UsageError("--new beside a case file", "one beside a model", "name that model instead")
        model = networks.load(a.model).to(device)
        old = networks.load(a.old).to(device) if a.old else None
        four, pattern = four_from(a, model), pattern_of(a.pattern) if a.pattern else None
    scores = judge(model, four, pattern, old=old, margin=a.margin, ceiling=a.ceiling)
    tell(a, scores.to_dict(), scores)
    tell_unjudged(scores.pattern, scores)
    return 1 if scores.any_missed else 0
