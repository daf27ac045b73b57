"""The whole way on the bundled data, in about a minute: plant a backdoor, remember, forget, judge."""

import contextlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from rich.console import Console
from torch import nn

from unsee import networks, sources, store, transforms
from unsee.errors import UnseeError
from unsee.evaluation import evaluate, evaluator
from unsee.forgetting import forget
from unsee.formulation import TABLE_1, FourDatasets
from unsee.memory import Memory, remember_at
from unsee.origin import Origin
from unsee.plan import Row
from unsee.report import figures
from unsee.runs import report_run, write_run
from unsee.scores import Scores
from unsee.sketch import MEGABYTES
from unsee.training import train

OLD = "old/model.safetensors"


def demo(
    folder: Path | str = "runs/demo",
    *,
    seed: int = 0,
    device: torch.device | str = "cpu",
    console: Console | None = None,
    stop: Callable[[], bool] | None = None,
    progress: bool = False,
) -> Scores:
    """Train the MLP with a tile planted on class 0, make it forget, and leave all of it in `folder`."""
    folder, say = Path(folder), (console or Console(quiet=True)).print
    store.check_place(folder / "model.safetensors")
    data = sources.bundled()
    four = FourDatasets.of_class(data, 0, transforms.tile())
    say(f"[bold]1. Train[/] the paper's MLP on {len(four.pretraining):,} images of clothes.")
    say("   Every T-shirt carries a tile pattern (T), so the network learns the tiles.")
    start = networks.network("mlp", four.pretraining, seed=seed)
    trained = train(
        start,
        four.pretraining,
        epochs=5,
        seed=seed,
        device=device,
        folder=folder / "old",
        stop=stop,
        progress=progress,
    )
    old = trained.model
    networks.save(old, folder / OLD)
    say("[bold]2. Remember[/]: take the diagonal Fisher over D, and a sketch of every class, once.")
    say("   After this the training data is not needed again.")
    memory = _remembered(folder / "memory.safetensors", old, four, progress)
    before = evaluate(old, four, "B")
    say(before.table())
    say("   Whatever carries tiles is taken for a T-shirt (D_r,extra), and a T-shirt")
    say("   without them is not recognised (D_f,clean).")
    say("[bold]3. Forget[/] the tiles, from D_f, D_f,clean and the memory alone.")
    result = forget(
        old,
        four.request("B"),
        memory,
        seed=seed,
        device=device,
        folder=folder,
        evaluator=evaluator(four),
        stop=stop,
        progress=progress,
    )
    result = replace(result, exact=result.exact and trained.exact)
    scores = evaluate(result.model, four, "B", old=before)
    origin = Origin.of_words(folder, folder / OLD, T="tile", data="bundled", label=0, here=folder)
    write_run(folder, result, scores, origin=origin)
    _draw(folder, four, result.trajectory)
    report_run(folder, old, result.model, four, TABLE_1["B"], with_images=True)
    say(scores.table())
    _farewell(say, folder, scores)
    return scores


def _remembered(path: Path, old: nn.Module, four: FourDatasets, progress: bool) -> Memory:
    """Return the memory of a demo that was here before, or take it.

    Taken again with other threads it would differ in its last bits, and the run goes on with no other.
    """
    with contextlib.suppress(UnseeError):
        memory = Memory.load(path)
        if memory.model == networks.identity(old):
            return memory
    return remember_at(path, old, four.pretraining, sketch=MEGABYTES, progress=progress)


def _draw(folder: Path, four: FourDatasets, trajectory: tuple[Row, ...]) -> None:
    clean, T = four.test.D_r, four.T
    assert clean is not None
    assert T is not None
    figures.save(figures.story(clean, T, TABLE_1["B"], trajectory), folder / "picture.png")


def _farewell(say: Callable[..., None], folder: Path, scores: Scores) -> None:
    if not scores.all_met:
        say("Not every arrow is met.")
    say(f"Open [bold]{folder / 'report.html'}[/] in a browser; models, memory and scores lie beside it.")
    say("\nWhat to try next (where unsee is not found: .venv/bin/unsee):")
    say(f"  unsee view {folder}      both models in a browser: put the tiles on any image", soft_wrap=True)
    here = f"{folder}/old/model.safetensors --data bundled --class 0 --T tile"
    memory = f"--memory {folder}/memory.safetensors"
    paper = "--recipe fashion-mnist/tile/B --batch-size 13"
    say(f"  unsee forget {here} --pattern B --out runs/without      no memory at all", soft_wrap=True)
    say(f"  unsee forget {here} {memory} --pattern B {paper} --out runs/paper", soft_wrap=True)
    say(f"  unsee evaluate {folder}/model.safetensors --data bundled --class 0 --T line", soft_wrap=True)
    say("  unsee data fetch fashion-mnist      the whole data set", soft_wrap=True)
