"""The search: lambda_f, lambda_KL and the learning rate that maximise the least required accuracy.

As in the paper's supplement, each trial divides D_f and D_f,clean 80 / 20 in five folds, forgets on the
80 %, and is judged on D_r^val, T(D_r^val) and the 20 %. What the search receives holds no test data.
"""

import math
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from optuna.distributions import FloatDistribution
from optuna.trial import FrozenTrial, TrialState
from torch import nn

from unsee import store
from unsee.errors import InputError, Interrupted, UnseeWarning
from unsee.formulation import Request, Validation
from unsee.memory import Memory
from unsee.recipe import PAPERS, Recipe, recipe_of
from unsee.study import Study
from unsee.trials import DIVERGED, Budget, Trials, best

# Departs from the paper, which does not state its ranges: these hold all of Table S1 with room on both sides.
SPACE = {"lr": (1e-6, 1e-3), "lambda_kl": (1e3, 1e6), "lambda_f": (0.03, 10.0)}
ROOM = 10.0  # on both sides of a recipe's own value that lies elsewhere
PATIENCE = 0.5  # seconds between two looks at whether the others have finished


@dataclass(frozen=True, eq=False)
class Found:
    """The best recipe, its score over the folds, and all finished trials in order.

    As long as no trial has come to a score, the recipe is the one that the search starts from.
    """

    recipe: Recipe
    score: float
    deviation: float
    trials: tuple[dict[str, Any], ...]
    of: Mapping[str, Any] = field(default_factory=dict)
    """What was searched on, by hash, and how."""

    @property
    def holds(self) -> bool:
        """Whether the recipe is of a trial, and not only where the search starts."""
        return any(trial["state"] == "complete" for trial in self.trials)

    @property
    def samples(self) -> int:
        """How many samples all trials together have passed."""
        return sum(trial["samples"] for trial in self.trials)


def tune(
    model: nn.Module,
    request: Request,
    memory: Memory | None,
    validation: Validation,
    recipe: Recipe | str | None = None,
    *,
    folder: Path | str,
    budget: Budget = Budget(),  # noqa: B008
    space: Mapping[str, tuple[float, float]] = SPACE,
    seed: int = 0,
    device: torch.device | str | None = None,
    progress: bool = False,
    on_trial: Callable[[Found], None] | None = None,
    stop: Callable[[], bool] | None = None,
) -> Found:
    """Search for the recipe; `recipe` is where it starts and what it keeps of the rest.

    `space` has the range of each number that is sought; it holds the start, or is moved to it. A weight
    that is 0 in the recipe stays 0: that term is not used.

    Any number of processes may call this with the same folder: they share the trials. Each may be
    killed; the same call goes on.
    """
    base = recipe_of(recipe, request.pattern, PAPERS)
    base = replace(base, epochs=budget.epochs or base.epochs)
    ranges = _ranges(space, base)
    trials = Trials(model, request, memory, validation, base, budget, ranges, seed, device, progress)
    identity = trials.identity()
    of = identity | {"threads": torch.get_num_threads(), "torch": str(torch.__version__)}
    study = Study.open(Path(folder), identity, seed)
    start = {name: getattr(base, name) for name in ranges}
    end = time.monotonic() + 60 * (budget.minutes or math.inf)

    def enough() -> bool:
        """Whether to end; for want of time not before a trial has."""
        return bool(stop and stop()) or (time.monotonic() > end and bool(study.finished()))

    while not enough():
        try:
            with study.trial(budget.trials, ranges, start) as trial:
                if trial is not None:
                    trials.run(study, trial, enough)
        except Interrupted:
            break
        if trial is not None and on_trial:
            on_trial(_found(study, base, of))
        if len(study.finished()) >= budget.trials:
            break
        if trial is None:
            time.sleep(PATIENCE)  # the others may die, and leave theirs to be drawn anew
    return _checked(_found(study, base, of))


def _checked(found: Found) -> Found:
    """Refuse to hand a recipe out that no trial has come to."""
    if not found.trials:
        do = "the same command begins it anew"
        raise Interrupted("a finished trial", "a request to stop in the first", do)
    if not found.holds:
        said = f"{len(found.trials)}, all diverged"
        raise InputError("a trial that does not diverge", said, "search lower learning rates (lr in `space`)")
    return found


def _ranges(space: Mapping[str, tuple[float, float]], base: Recipe) -> dict[str, FloatDistribution]:
    """Return the ranges as they are searched, each with the start in it."""
    found = {}
    for name, (low, high) in space.items():
        if name not in SPACE:
            raise InputError(f"a range of {', '.join(SPACE)}", f"one of {name}", "leave it out")
        if not 0 < low < high < math.inf:
            raise InputError(f"0 < low < high for {name}", f"{low:g} and {high:g}", "turn or widen it")
        if start := getattr(base, name):
            if not low <= start <= high and (low, high) == SPACE[name]:
                low, high = start / ROOM, start * ROOM
            elif not low <= start <= high:  # a range of one's own: no further than it must
                low, high = min(low, start), max(high, start)
                said = f"its range is widened to {low:g} to {high:g}"
                warnings.warn(f"The search starts at {name} = {start:g}: {said}.", UnseeWarning, stacklevel=3)
            found[name] = FloatDistribution(low, high, log=True)
    return found


def write(found: Found, folder: Path | str) -> dict[str, Any]:
    """Write `recipe.json`, which `unsee forget --recipe` takes, and `search.json`; return the latter."""
    found.recipe.save(Path(folder) / "recipe.json")
    words = {
        "score": found.score,
        "deviation": found.deviation,
        "samples": found.samples,
        "seconds": sum(trial["seconds"] or 0.0 for trial in found.trials),
        "of": dict(found.of),
        "recipe": asdict(found.recipe),
        "trials": list(found.trials),
    }
    store.write_json(Path(folder) / "search.json", words)
    return words


def _found(study: Study, base: Recipe, of: Mapping[str, Any]) -> Found:
    rows, leader = tuple(_row(number, trial) for number, trial in enumerate(study.finished())), best(study)
    if leader is None:
        return Found(base, 0.0, 0.0, rows, of)
    recipe = replace(base, **leader.params, name=f"tuned from {base.name}")
    folds = leader.user_attrs["folds"]
    spread = float(np.std(folds, ddof=1)) if len(folds) > 1 else 0.0
    return Found(recipe, leader.value or 0.0, spread, rows, of)


def _row(number: int, trial: FrozenTrial) -> dict[str, Any]:
    values = trial.intermediate_values
    last = trial.value if trial.state is TrialState.COMPLETE else values[max(values)] if values else 0.0
    known = trial.user_attrs
    return {
        "trial": number + 1,
        "state": "diverged" if known.get(DIVERGED) else trial.state.name.lower(),
        **trial.params,
        "score": last,
        "samples": known.get("samples", 0),
        "seconds": known.get("seconds"),
    }
