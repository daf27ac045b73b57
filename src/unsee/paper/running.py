"""Run the cells: forget with every seed that is not there yet, on the one network of each unit."""

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from unsee import networks, store
from unsee.errors import Diverged, InputError, Interrupted
from unsee.evaluation import evaluate, evaluator
from unsee.forgetting import forget
from unsee.formulation import FourDatasets
from unsee.holding import grabbed, locked
from unsee.paper.cells import Cell, Unit
from unsee.paper.pretraining import Pretrained, pretrained, trained
from unsee.paper.rows import Rows
from unsee.paper.scale import Scale
from unsee.scores import Scores

Say = Callable[[str], None]
PATIENCE = 0.5  # seconds between two looks at whether another process has finished
CHECKPOINT_SECONDS = 200.0  # a state of CIFAR-10's network has 680 MB


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
    left = dict(units)
    tell = lambda text: say(f"{text}{remaining(left, rows, scale, work)}")  # noqa: E731
    tell("")
    for unit, mine in units.items():
        known, folder = rows.network(unit), work / unit.name
        if known and not _missing(mine, rows, scale, known):
            say(f"{unit.name}: all runs are there, of network {known[:10]}")
            continue
        try:
            opened[unit.data] = opened.get(unit.data) or scale.data(unit.data)
            here = _network_in(folder)
            _check_network(known, here, folder, rows)
        except InputError as error:
            skipped.append(f"{unit.name}: {error}")
            del left[unit]
            continue
        if known and not here:
            say(f"{unit.name}: its network is made anew; if it is {known[:10]} again, rows are gone on with")
        ready = _ready(
            unit, rows, scale, work, {"data": opened[unit.data], "progress": progress, "stop": stop}
        )
        try:
            _check_network(known, ready.id, folder, rows)
        except InputError as error:
            skipped.append(f"{unit.name}: {error}")
            del left[unit]
            continue
        for wait in (False, True):  # first what nobody is at; then what others were at and have left
            _run_unit(mine, ready, rows, scale, folder, tell, stop, wait)
    return skipped


def _ready(unit: Unit, rows: Rows, scale: Scale, work: Path, words: dict[str, Any]) -> Pretrained:
    """Return the unit's network, made if it is not there; who comes second waits for it, and shares it."""
    work.mkdir(parents=True, exist_ok=True)
    with locked(work / f"{unit.name}.lock"):
        made = not (work / unit.name / "memory.safetensors").exists()
        with _timed(work / unit.name) as seconds:
            ready = pretrained(unit, scale, work, **words)
        if not rows.network(unit):
            took = {"seconds": round(seconds())} if made else {}
            scores = brief(evaluate(ready.model, ready.four))
            about = {"network": ready.id, "scores": scores, "memory_n": ready.memory.n, **took}
            store.write_json(rows.folder / f"{unit.name}-pretrained.json", about)
    return ready


def _network_in(folder: Path) -> str | None:
    path = folder / "model.safetensors"
    return networks.identity(networks.load(path)) if path.exists() else None


def _check_network(known: str | None, found: str | None, folder: Path, rows: Rows) -> None:
    """Refuse to go on with rows of another network: its last bits are those of its machine."""
    if known and found and found != known:
        expected = f"network {known[:10]}, which the rows in {rows.folder} are of, at {folder}"
        do = "choose another folder for rows (--out), where all are run anew"
        raise InputError(expected, f"network {found[:10]}", do)


def _run_unit(
    cells: list[Cell],
    ready: Pretrained,
    rows: Rows,
    scale: Scale,
    folder: Path,
    tell: Say,
    stop: Any,
    wait: bool,
) -> None:
    """Run what is missing of a unit; what another process is at is left to it, or waited for."""
    for cell, seed in _missing(cells, rows, scale, ready.id):
        place = folder / f"{cell.name}-{seed}"
        with _claimed(place.with_suffix(".lock"), stop, wait) as mine:
            if not mine or seed in rows.read(cell):
                continue
            tell(f"{cell.name}, seed {seed}. ")
            with _timed(place) as seconds:
                run = run_cell(cell, ready, seed, scale, place, stop)
            run["seconds"] = round(seconds())
            rows.add(cell, _key(cell, scale, ready.id), seed, run)
            shutil.rmtree(place, ignore_errors=True)


@contextlib.contextmanager
def _timed(place: Path) -> Iterator[Callable[[], float]]:
    """Count the seconds of a run, with those that it took before it was stopped."""
    path = place / "spent.json"
    before, start = store.read_json(path)["seconds"] if path.exists() else 0.0, time.monotonic()
    spent = lambda: before + time.monotonic() - start  # noqa: E731
    try:
        yield spent
    except BaseException:
        store.write_json(path, {"seconds": spent()})
        raise


@contextlib.contextmanager
def _claimed(path: Path, stop: Any, wait: bool) -> Iterator[bool]:
    """Hold a run, so that processes side by side share the work; whether it was free, or became so."""
    while True:
        try:
            lock = grabbed(path, wait=False)
            break
        except BlockingIOError:
            if not wait:
                yield False
                return
        if stop and stop():
            found = "a request to stop while another process is at it"
            raise Interrupted(f"{path.stem}", found, "the same command goes on from there")
        time.sleep(PATIENCE)
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
        for seed in range(max(scale.runs(cell.unit.data) for cell in there))
        for cell, runs in there.items()
        if seed not in runs and (seed == 0 or cell.line != "truncation")
    ]


def remaining(units: dict[Unit, list[Cell]], rows: Rows, scale: Scale, work: Path) -> str:
    """Say how many runs are missing, and how long they take if they take as long as those that are there.

    Of a network that is not here yet, its pretraining too.
    """
    there = {unit: {cell: rows.read(cell) for cell in cells} for unit, cells in units.items()}
    parts = []
    for unit, mine in there.items():
        alike = [runs for other, cells in there.items() if other.data == unit.data for runs in cells.values()]
        seconds = [run["seconds"] for runs in alike for run in runs.values() if "seconds" in run]
        if left := len(_without(mine, scale)):
            minutes = left * sum(seconds) / max(len(seconds), 1) / 60
            said = f"{left} in {unit.name}" + (f", about {minutes:.0f} minutes" if seconds else "")
            if not (work / unit.name / "memory.safetensors").exists():
                took = [s for other in units if other.data == unit.data if (s := rows.pretraining(other))]
                said += ", after its network" + (f", about {max(took) / 60:.0f} minutes" if took else "")
            parts.append(said)
    return f"Runs that remain: {'; '.join(parts) or 'none'}"


def _key(cell: Cell, scale: Scale, network: str) -> dict[str, Any]:
    return {"network": network, **asdict(scale.recipe(cell))}


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


def _rounded(trajectory: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: round(v, 6) if isinstance(v, float) else v for k, v in row.items()} for row in trajectory]
