"""A trial of the search: forget on four fifths of D_f, be judged on validation data and on the last fifth."""

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import optuna
import torch
from optuna.distributions import FloatDistribution
from optuna.trial import FrozenTrial, TrialState
from torch import nn

from unsee import networks
from unsee.answers import accuracy
from unsee.datasets import Dataset
from unsee.errors import Diverged, InputError, UnseeWarning
from unsee.forgetting import forget
from unsee.formulation import Request, Validation
from unsee.memory import Memory
from unsee.plan import plan_of
from unsee.progress import bar
from unsee.recipe import Recipe
from unsee.study import Study
from unsee.succession import over
from unsee.terms import PAIRED
from unsee.twins import twins_of

DIVERGED = "diverged"
SCORED = 5  # one more whenever the same trial comes to another score: a study does not mix both


@dataclass(frozen=True)
class Budget:
    """How much to search: the paper's 200 loops over five folds, or less.

    `epochs` are those of a fold; None leaves the recipe its own, ten in the paper's. `prune` is how far a
    trial may lie behind the best one at the same epoch of the same fold before it is given up; None never
    gives up. Nor is one in its first epochs, the `grace`: small learning rates begin slowly, and may end
    well.
    """

    trials: int = 200
    minutes: float | None = None
    folds: int = 5
    epochs: int | None = None
    prune: float | None = 0.05
    grace: int = 3

    def __post_init__(self) -> None:
        for name, least in (("trials", 1), ("folds", 2), ("epochs", 1), ("grace", 0)):
            if (found := getattr(self, name)) is not None and found < least:
                raise InputError(f"{name} of at least {least}", f"{found}", "give more")
        if self.minutes is not None and not self.minutes > 0:
            raise InputError("minutes above 0", f"{self.minutes:g}", "give more, or none for no limit")


class Trials:
    """One trial after the other, on folds that are the same for all."""

    def __init__(
        self,
        model: nn.Module,
        request: Request,
        memory: Memory | None,
        validation: Validation,
        base: Recipe,
        budget: Budget,
        ranges: Mapping[str, FloatDistribution],
        seed: int,
        device: torch.device | str | None = None,
        progress: bool = False,
    ) -> None:
        if memory is not None:
            memory.check(model)
        if validation.D_r_extra is None and "D_r_extra" in request.pattern.arrows:
            raise InputError("D_r,extra^val in the validation", "none", "give T, or the set itself")
        self.model, self.request, self.validation = model, request, validation
        self.base, self.budget, self.ranges, self.seed, self.device = base, budget, ranges, seed, device
        # F over D_r is the same for every trial: D_f's share is taken out once.
        self.whole, (self.memory, _) = memory, over(model, request, memory, base)
        self.folds = request.D_f.folds(budget.folds, seed)
        self.said, self.progress = False, progress

    def identity(self) -> dict[str, Any]:
        """Return what the study is about; going on with anything else is refused."""
        r, v = self.request, self.validation
        return {
            "model": networks.identity(self.model),
            "memory": self.whole.id if self.whole else None,
            "method": SCORED,
            "pattern": r.pattern.name,
            "T": r.T.name if r.T else None,
            "D_f": r.D_f.fingerprint,
            "D_f_clean": r.D_f_clean.fingerprint if r.D_f_clean is not None else None,
            "D_r_val": v.D_r.fingerprint,
            "D_r_extra_val": v.D_r_extra.fingerprint if v.D_r_extra is not None else None,
            "recipe": self.base.words(),
            "space": {name: [d.low, d.high] for name, d in self.ranges.items()},
            "folds": self.budget.folds,
            "prune": self.budget.prune,
            "grace": self.budget.grace,
            "seed": self.seed,
        }

    def run(self, study: Study, trial: optuna.Trial, stop: Callable[[], bool]) -> None:
        """Run one trial over the folds; give it up as soon as it lies too far behind the best.

        `stop` is asked after each step, and ends it with `Interrupted`: whoever goes on draws it anew.
        """
        # A fold is smaller than D_f: it averages theta only where all of D_f does, or lambda_kl differs.
        average = self.base.average and plan_of(self.base, len(self.request.D_f)).average
        recipe = replace(self.base, **trial.params, fisher_over="D", average=average)
        scores: list[float] = []
        trial.set_user_attr("samples", 0)
        begun = time.monotonic()
        label = f"trial {len(study.finished()) + 1}" if self.progress else None
        try:
            with bar(label, self.budget.folds * recipe.epochs) as advance:
                for fold in range(self.budget.folds):
                    scores.append(self._fold(study, trial, recipe, fold, scores, stop, advance))
        except optuna.TrialPruned:
            self._end(study, trial, begun, None)
            return
        except Diverged:
            # As the least score and not as a failure, from which the sampler would learn nothing.
            trial.set_user_attr(DIVERGED, True)
            scores = [0.0]
        trial.set_user_attr("folds", scores)
        self._end(study, trial, begun, float(np.mean(scores)))

    def _end(self, study: Study, trial: optuna.Trial, begun: float, score: float | None) -> None:
        trial.set_user_attr("seconds", round(time.monotonic() - begun, 1))
        study.tell(trial, score, TrialState.PRUNED if score is None else TrialState.COMPLETE)

    def _fold(
        self,
        study: Study,
        trial: optuna.Trial,
        recipe: Recipe,
        fold: int,
        before: list[float],
        stop: Callable[[], bool],
        advance: Callable[[int], object],
    ) -> float:
        held = self.folds[fold]
        kept = np.setdiff1d(np.arange(len(self.request.D_f)), held)
        part = _cut(self.request, kept)
        judge = _judge(_cut(self.request, held), self.validation)
        leader = best(study)
        before_it, epoch, score = trial.user_attrs["samples"], 0, 0.0

        def watch(model: nn.Module) -> Mapping[str, float]:
            nonlocal epoch, score
            if 0 < epoch <= recipe.epochs:  # once more where the end was undone, or touched
                score = judge(model)
                step = fold * recipe.epochs + epoch
                advance(1)
                value = float(np.mean([*before, score]))
                trial.report(value, step)
                trial.set_user_attr("samples", before_it + epoch * each)
                if step > self.budget.grace and _behind(value, leader, step, self.budget.prune):
                    raise optuna.TrialPruned
            epoch += 1
            return {"score": score}

        words: dict[str, Any] = {"seed": self.seed, "evaluator": watch, "stop": stop, "again": False}
        words |= {"device": self.device, "validation": self.validation if recipe.floor is not None else None}
        with warnings.catch_warnings():
            if self.said:  # of floors and fallbacks it would be the same of each fold
                warnings.simplefilter("ignore", UnseeWarning)
            self.said, each = True, passed(recipe, part)
            result = forget(self.model, part, self.memory, recipe, **words)
        trial.set_user_attr("samples", before_it + result.setting["samples passed"])
        return judge(result.model)  # what was watched last may have been undone, where it fell below a floor


def passed(recipe: Recipe, request: Request) -> int:
    """Return how many samples an epoch passes: of D_f, D_f,clean, and those replayed, with T and without."""
    paired = recipe.forgetting in PAIRED or recipe.lambda_h
    twins = twins_of(request) if paired else None
    parts = (
        2
        if twins
        else (request.D_f_clean is not None and recipe.lambda_c > 0)
        + (recipe.forgetting != "none" and recipe.lambda_f > 0)
    )
    if recipe.lambda_s:
        parts += 1 if (twins.T if twins else request.T) is None else 2
    return parts * plan_of(recipe, len(twins) if twins else len(request.D_f)).n


def _cut(request: Request, rows: np.ndarray) -> Request:
    """Return the request on some of its images; twins stay together."""
    clean = request.D_f_clean
    if clean is not None and len(clean) != len(request.D_f):
        raise InputError("D_f,clean as long as D_f, to cut both by image", f"{len(clean)}", "pair them up")
    clean = clean.subset(rows) if clean is not None else None
    return replace(request, D_f=request.D_f.subset(rows), D_f_clean=clean)


def _judge(held: Request, validation: Validation) -> Callable[[nn.Module], float]:
    """Return the pattern's score as a function of a model, on validation data only."""
    sets: dict[str, Dataset | None] = {
        "D_r": validation.D_r,
        "D_f": held.D_f,
        "D_f_clean": held.D_f_clean,
        "D_r_extra": validation.D_r_extra,
    }
    used = {name: data for name in held.pattern.arrows if (data := sets[name]) is not None}
    return lambda model: held.pattern.score({name: accuracy(model, data) for name, data in used.items()})


def best(study: Study) -> FrozenTrial | None:
    """Return the best complete trial; those that were pruned, failed, run or diverged decide nothing."""
    complete = [
        trial
        for trial in study.finished()
        if trial.state is TrialState.COMPLETE and DIVERGED not in trial.user_attrs
    ]
    return max(complete, key=lambda trial: trial.value or 0.0, default=None)


def _behind(value: float, best: FrozenTrial | None, step: int, slack: float | None) -> bool:
    if best is None or slack is None or step not in best.intermediate_values:
        return False
    return value < best.intermediate_values[step] - slack
