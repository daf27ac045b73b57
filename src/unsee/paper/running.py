"""Run the cells: pretrain a unit once, remember once, forget with every seed that is not there yet."""

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torch import nn

from unsee import networks, store
from unsee.datasets import Dataset
from unsee.errors import Diverged, InputError
from unsee.evaluation import evaluate, evaluator
from unsee.forgetting import forget
from unsee.formulation import FourDatasets
from unsee.holding import grabbed, locked
from unsee.memory import Memory, remember
from unsee.paper.cells import Cell, Unit
from unsee.paper.growing import grown, halved
from unsee.paper.rows import Rows
from unsee.paper.scale import Scale
from unsee.scores import Scores
from unsee.sources import TrainTest
from unsee.training import train

Say = Callable[[str], None]
CHECKPOINT_SECONDS = 200.0  # a state of CIFAR-10's network has 680 MB


@dataclass(frozen=True, eq=False)
class Pretrained:
    """A unit ready to forget: its data, its network, its memory."""

    unit: Unit
    four: FourDatasets
    model: nn.Module
    memory: Memory
    id: str


def pretrained(
    unit: Unit,
    scale: Scale,
    work: Path,
    *,
    data: TrainTest | None = None,
    progress: bool = False,
    stop: Any = None,
) -> Pretrained:
    """Return the unit's network and memory from `work`, or make them: once for each (data, T)."""
    four = FourDatasets.of_class(data or scale.data(unit.data), 0, unit.transform())
    folder = work / unit.name
    model = trained(unit, four.pretraining, scale, folder, progress=progress, stop=stop)
    networks.save(model, folder / "model.safetensors")
    path = folder / "memory.safetensors"
    memory = Memory.load(path) if path.exists() else None
    if memory is None or memory.model != networks.identity(model):
        memory = remember(model, four.pretraining, progress=progress)
        memory.save(path)
    return Pretrained(unit, four, model, memory, networks.identity(model))


def trained(
    unit: Unit,
    D: Dataset,
    scale: Scale,
    folder: Path,
    *,
    at_half: Iterable[tuple[int, float]] = (),
    **words: Any,
) -> nn.Module:
    """Train the unit's network on D from scratch, as the unit is pretrained; goes on where it was stopped.

    `at_half` are other epochs and learning rates for what is done at half the size.
    """
    if scale.pretraining_epochs:
        return _trained(_mlp(D, scale), D, ((scale.pretraining_epochs, 0.01),), folder, words)
    if not unit.at_half:
        return _trained(_mlp(D, scale), D, unit.pretraining, folder, words)
    half = halved(D)
    small = _trained(_mlp(half, scale), half, at_half or unit.at_half, folder / "half", words)
    return _trained(grown(small, D), D, unit.pretraining, folder, words)


def _mlp(D: Dataset, scale: Scale) -> networks.Network:
    return networks.network("mlp", D, printed=scale.printed)


def _trained(
    model: nn.Module, D: Dataset, parts: Iterable[tuple[int, float]], folder: Path, words: dict[str, Any]
) -> nn.Module:
    for i, (epochs, lr) in enumerate(parts):
        part = folder / f"part-{i + 1}" if i else folder
        model = train(model, D, epochs=epochs, lr=lr, folder=part, **words).model
    return model


def run_cell(
    cell: Cell, ready: Pretrained, seed: int, scale: Scale, folder: Path | None = None, stop: Any = None
) -> dict[str, Any]:
    """Forget once and return what is written down of it; a run that diverged, up to where it did.

    With a `folder` it goes on where it was stopped.
    """
    words: dict[str, Any] = {"seed": seed, "evaluator": evaluator(ready.four, scale.limit), "stop": stop}
    words |= {"folder": folder, "checkpoint_seconds": CHECKPOINT_SECONDS, "again": False}
    request = ready.four.request(cell.pattern)
    try:
        result, diverged = forget(ready.model, request, ready.memory, scale.recipe(cell), **words), None
    except Diverged as error:
        result, diverged = error.last_good, str(error)
    row = {"scores": brief(evaluate(result.model, ready.four)), "trajectory": _rounded(result.trajectory)}
    return row if diverged is None else {**row, "diverged": diverged}


def brief(scores: Scores) -> dict[str, Any]:
    """Return the final accuracies, and the mean softmax on D_f, as they are written down."""
    sets = {
        name: {"accuracy": round(a.value, 6), "class_mean": round(a.class_mean, 6), "n": a.n}
        for name, a in scores.sets.items()
    }
    return {**sets, "softmax_D_f": [round(p, 6) for p in scores.softmax_D_f]}


def run_all(
    cells: Iterable[Cell],
    rows: Rows,
    scale: Scale,
    work: Path,
    say: Say,
    *,
    progress: bool = False,
    stop: Any = None,
) -> list[str]:
    """Run what is missing, unit by unit; return the names of what was skipped, with the reason."""
    skipped, opened, units = [], {}, {}
    for cell in dict.fromkeys(cells):
        units.setdefault(cell.unit, []).append(cell)
    for unit, mine in units.items():
        if known := rows.network(unit):
            _missing(mine, rows, scale, known)  # rows of another recipe are refused before anything is run
    say(remaining(units, rows, scale))
    for unit, mine in units.items():
        known = rows.network(unit)
        if known and not _missing(mine, rows, scale, known):
            say(f"{unit.name}: all runs are there, of network {known[:10]}")
            continue
        try:
            opened[unit.data] = opened.get(unit.data) or scale.data(unit.data)
            if known:
                _check_network(known, work / unit.name, rows.folder)
        except InputError as error:
            skipped.append(f"{unit.name}: {error}")
            continue
        words = {"data": opened[unit.data], "progress": progress, "stop": stop}
        work.mkdir(parents=True, exist_ok=True)
        with locked(work / f"{unit.name}.lock"):  # who comes second waits for the network, and shares it
            ready = pretrained(unit, scale, work, **words)
            if not known:
                _write_pretrained(rows.folder / f"{unit.name}-pretrained.json", ready)
        _run_unit(mine, ready, rows, scale, work / unit.name, say, stop)
    return skipped


def _run_unit(
    cells: list[Cell], ready: Pretrained, rows: Rows, scale: Scale, folder: Path, say: Say, stop: Any
) -> None:
    """Run what is missing of a unit; what another process is at, or has done meanwhile, is left to it."""
    for cell, seed in _missing(cells, rows, scale, ready.id):
        place = folder / f"{cell.name}-{seed}"
        with _claimed(place.with_suffix(".lock")) as mine:
            if not mine or seed in rows.read(cell):
                continue
            say(f"{cell.name}, seed {seed}. {remaining({ready.unit: cells}, rows, scale)}")
            start = time.monotonic()
            run = run_cell(cell, ready, seed, scale, place, stop)
            run["seconds"] = round(time.monotonic() - start)
            rows.add(cell, _key(cell, scale, ready.id), seed, run)
            shutil.rmtree(place, ignore_errors=True)


@contextlib.contextmanager
def _claimed(path: Path) -> Iterator[bool]:
    """Hold a run, so that processes side by side share the work; whether it was free."""
    try:
        lock = grabbed(path, wait=False)
    except BlockingIOError:
        yield False
        return
    try:
        yield True
    finally:
        path.unlink(missing_ok=True)
        os.close(lock)


def _missing(cells: list[Cell], rows: Rows, scale: Scale, network: str) -> list[tuple[Cell, int]]:
    return _without({cell: rows.under(cell, _key(cell, scale, network)) for cell in cells}, scale)


def _without(there: dict[Cell, dict[int, Any]], scale: Scale) -> list[tuple[Cell, int]]:
    return [
        (cell, seed)
        for seed in range(scale.seeds)
        for cell, runs in there.items()
        if seed not in runs and (seed == 0 or cell.line != "truncation")
    ]


def remaining(units: dict[Unit, list[Cell]], rows: Rows, scale: Scale) -> str:
    """Say how many runs are missing, and how long they take if they take as long as those that are there."""
    there = {unit: {cell: rows.read(cell) for cell in cells} for unit, cells in units.items()}
    parts = []
    for unit, mine in there.items():
        alike = [runs for other, cells in there.items() if other.data == unit.data for runs in cells.values()]
        seconds = [run["seconds"] for runs in alike for run in runs.values() if "seconds" in run]
        if left := len(_without(mine, scale)):
            minutes = left * sum(seconds) / max(len(seconds), 1) / 60
            parts.append(f"{left} in {unit.name}" + (f", about {minutes:.0f} minutes" if seconds else ""))
    return f"Runs that remain: {'; '.join(parts) or 'none'}"


def _key(cell: Cell, scale: Scale, network: str) -> dict[str, Any]:
    return {"network": network, **asdict(scale.recipe(cell))}


def _check_network(known: str, folder: Path, rows: Path) -> None:
    """Refuse, before hours of pretraining, to go on with rows of a network that is not here."""
    path = folder / "model.safetensors"
    found = networks.identity(networks.load(path)) if path.exists() else None
    if found != known:
        words = f"network {found[:10]}" if found else "none"
        do = "choose another folder for rows (--out), where all are run anew"
        raise InputError(f"network {known[:10]}, which the rows in {rows} are of, at {path}", words, do)


def write_scratch(
    unit: Unit, rows: Rows, scale: Scale, work: Path, *, progress: bool = False, stop: Any = None
) -> list[str]:
    """Train a network on D_r alone, from scratch, and write its answers to D_f down (Figure 3).

    Return, as `run_all` does, what was skipped for want of data.
    """
    path = rows.folder / f"{unit.name}-scratch.json"
    if path.exists():
        return []
    try:
        data = scale.data(unit.data)
    except InputError as error:
        return [f"{unit.name}: {error}"]
    four = FourDatasets.of_class(data, 0, unit.transform())
    D_r = four.train.D_r
    assert D_r is not None
    work.mkdir(parents=True, exist_ok=True)
    with locked(work / f"{unit.name}-scratch.lock"):
        model = trained(unit, D_r, scale, work / f"{unit.name}-scratch", progress=progress, stop=stop)
    store.write_json(path, {"network": networks.identity(model), "scores": brief(evaluate(model, four))})
    return []


def _write_pretrained(path: Path, ready: Pretrained) -> None:
    scores = brief(evaluate(ready.model, ready.four))
    store.write_json(path, {"network": ready.id, "scores": scores, "memory_n": ready.memory.n})


def _rounded(trajectory: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: round(v, 6) if isinstance(v, float) else v for k, v in row.items()} for row in trajectory]
