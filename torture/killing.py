"""Killed (SIGKILL) at any moment, and in the middle of a write."""

import hashlib
import os
import random
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from optuna.distributions import FloatDistribution

from torture.children import KILLED, POINTS, Counter, die_in_a_write, ended, forked, killed, measured, started
from torture.ordeal import Attempt
from torture.small import small
from unsee import memory, networks, store
from unsee.checkpoint import Checkpoints
from unsee.data import fetching
from unsee.data.catalogue import KNOWN
from unsee.data.published import Published
from unsee.errors import StoreError
from unsee.memory import remember
from unsee.report.page import write_report
from unsee.runs import report_run, write_run
from unsee.study import Study

PARTS = ("train", "test")
EVERY = 7  # steps between two checkpoints, where it is not one
BATCH = 16  # samples

Work = Callable[[], Any]


def died(
    number: int,
    place: Path,
    work: Work,
    duration: float,
    name: str,
    writes: int,
    count: Counter | None = None,
) -> bool:
    """Let a child work and die, two times in five in a write; return whether it was in one.

    `count`, of what it has done, begins at 0 for every child: one may die before it could set it.
    """
    chance = random.Random(number)
    forced = number % 5 > 2
    while True:
        which, point, moment = chance.randint(1, writes), chance.choice(POINTS), chance.uniform(0, duration)

        def mortal(which: int = which, point: str = point) -> None:
            if forced:
                die_in_a_write(which, point, name)
            work()

        if count:
            count.value = 0
        child = forked(mortal)
        if not forced:
            time.sleep(moment)
        code = ended(child) if forced else killed(child)
        if code == KILLED:
            return forced or any(place.glob(f".{name}.*"))
        if code:
            raise AssertionError(f"a child that ended with {code}")
        shutil.rmtree(place, ignore_errors=True)  # it was faster: the same again, killed sooner
        duration *= 0.7


def _timed(work: Work) -> tuple[Any, float]:
    start = time.monotonic()
    return work(), time.monotonic() - start


def forgetting(folder: Path) -> Attempt:
    """Kill a run of forgetting; one in five by our recipe, the others by the paper's."""
    here = small()
    runs = [
        _timed(partial(here.forget, i, folder=folder / f"whole-{i}", checkpoint_seconds=0)) for i in (0, 1)
    ]

    def attempt(number: int) -> dict[str, float]:
        place, which, every = folder / str(number), int(number // 5 % 5 == 4), (1, EVERY)[number % 2]
        (whole, duration), steps = runs[which], Counter()

        def due(_: Checkpoints) -> bool:
            """Asked when a step was made, and before it is written down."""
            steps.value += 1
            return steps.value % every == 0

        def work() -> None:
            Checkpoints.due = property(due)
            here.forget(which, folder=place)

        writes = 5 * (len(whole.trajectory) - 1) // every  # at the least
        in_write = died(number, place, work, duration, "checkpoint.safetensors", writes, steps)
        state = Checkpoints(place, whole.identity).read()
        lost = steps.value - (state.step if state else 0)
        assert lost <= every, f"{lost} steps lost, where every {every}th is kept"
        again = here.forget(which, folder=place)
        assert networks.identity(again.model) == networks.identity(whole.model), "other bits"
        assert again.trajectory == whole.trajectory, "another trajectory"
        assert again.exact
        shutil.rmtree(place)
        return {"checkpoint intervals lost": lost / every, "+killed in a write": in_write}

    return attempt


def remembering(folder: Path) -> Attempt:
    """Kill a run of remembering, with a sketch and without."""
    here = small()
    data = here.four.pretraining
    how = [{"sketch": sketch, "batch_size": BATCH, "checkpoint_seconds": 0} for sketch in (None, 2)]
    runs = [_timed(lambda i=i: remember(here.model, data, folder=folder / f"w{i}", **how[i])) for i in (0, 1)]

    def attempt(number: int) -> dict[str, float]:
        place, which = folder / str(number), number % 2
        (whole, duration), samples, keep = runs[which], Counter(), memory._keep

        def kept(run: Checkpoints, sketch: Any, taken: Any) -> None:
            samples.value = taken.n
            keep(run, sketch, taken)

        def work() -> None:
            memory._keep = kept
            remember(here.model, data, folder=place, **how[which])

        writes = len(data) // BATCH
        in_write = died(number, place, work, duration, "checkpoint.safetensors", writes, samples)
        states = sorted(place.glob("checkpoint*.safetensors"), key=lambda path: len(path.name))
        n = store.read_tensors(states[0])[1]["step"] if states else 0
        lost = (samples.value - n) / BATCH
        assert lost <= 1, f"{lost} batches lost"
        again = remember(here.model, data, folder=place, **how[which])
        assert (again.id, again.loss, again.data) == (whole.id, whole.loss, whole.data), "other bits"
        shutil.rmtree(place)
        return {"batches lost": lost, "+killed in a write": in_write}

    return attempt


def report(folder: Path) -> Attempt:
    """Kill the writing of a report and of a model over the ones before."""
    here = small()
    result = here.forget(0)
    run, out = folder / "run", folder / "out"
    write_run(run, result, None)
    report_run(run, here.model, result.model, here.four, None)
    write_report([run], out / "new.html")
    networks.save(result.model, out / "new.safetensors")
    whole = {
        name: (b"the one before", (out / f"new.{name}").read_bytes()) for name in ("html", "safetensors")
    }

    def attempt(number: int) -> dict[str, float]:
        kind = ("html", "safetensors")[number % 2]
        path = out / f"x.{kind}"
        store.write_bytes(path, whole[kind][0])

        def work() -> None:
            end = time.monotonic() + 10
            while time.monotonic() < end:  # or until it is killed
                write_report([run], path) if kind == "html" else networks.save(result.model, path)

        in_write = died(number, out, work, 0.3, path.name, 1)
        assert path.read_bytes() in whole[kind], "neither the old one nor the new one"
        for left in out.glob(f".{path.name}.*"):
            left.unlink()
        return {"+killed in a write": in_write}

    return attempt


def fetching_data(folder: Path) -> Attempt:
    """Kill one who fetches, and then let four fetch at once."""
    arrays = {f"{kind}_{part}": torch.randint(256, (50_000,)).byte() for kind in "xy" for part in PARTS}
    pinned = {name: hashlib.sha256(store.raw(array)).hexdigest() for name, array in arrays.items()}
    tiny = Published("tiny", "made up", (1, 1, 1), (50_000, 50_000), ("a", "b"), pinned)

    def attempt(number: int) -> dict[str, float]:
        place, downloads = folder / str(number), Counter()

        def way(_: bool) -> dict[str, torch.Tensor]:
            downloads.value += 1
            time.sleep(0.05)
            return arrays

        def work() -> str:
            KNOWN["tiny"] = replace(tiny, ways={"here": way})
            os.environ["UNSEE_CACHE"] = str(place)
            return store.digest(store.read_tensors(fetching.fetch("tiny"))[0])

        in_write = died(number, place, work, 0.12, "tiny.safetensors", 1)
        before, there = downloads.value, (place / "tiny.safetensors").exists()
        answers = [child.answer() for child in [started(work) for _ in range(4)]]
        assert {answer.value for answer in answers} == {store.digest(tiny_shaped(tiny, arrays))}, f"{answers}"
        assert downloads.value - before == (not there), "more than one download"
        shutil.rmtree(place)
        return {"+killed in a write": in_write}

    return attempt


def tiny_shaped(published: Published, arrays: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return arrays as the cache holds them."""
    return published.check(arrays, where="here", do="stop", error=StoreError)


SPACE = {"x": FloatDistribution(-5, 5), "y": FloatDistribution(1e-3, 1e3, log=True)}
TRIALS, KILLS = 15, 5


def tuning(folder: Path) -> Attempt:
    """Kill a search of 15 trials five times; the trials that came to an end must be the same."""

    def run(place: Path) -> list[Any]:
        study = Study.open(place, {"question": 1}, seed=3)
        while len(study.finished()) < TRIALS:
            with study.trial(TRIALS, SPACE, {"x": 1.0, "y": 2.0}) as trial:
                if trial is None:
                    break
                time.sleep(0.01)
                study.tell(trial, -((trial.params["x"] - 2) ** 2) - abs(trial.params["y"] - 1))
        return [[trial.params, trial.value] for trial in study.finished()]

    whole = measured(lambda: run(folder / "whole")).value
    assert len(whole) == TRIALS

    def attempt(number: int) -> dict[str, float]:
        place, chance, kills = folder / str(number), random.Random(number), 0
        for _ in range(KILLS):
            child = forked(lambda: run(place))
            time.sleep(chance.uniform(0.05, 0.6))
            kills += killed(child) == KILLED
        assert measured(lambda: run(place)).value == whole, "other trials"
        shutil.rmtree(place)
        return {"+kills of one at work": kills}

    return attempt
