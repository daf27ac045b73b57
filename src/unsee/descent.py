"""Gradient descent that can die at any step: what training and forgetting have in common."""

import math
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from unsee.checkpoint import Checkpoints, State
from unsee.errors import Diverged, Interrupted
from unsee.plan import Plan, Row
from unsee.progress import bar
from unsee.retreat import BACK_TO, TOO_FAR, WAY, LastGood, retreat
from unsee.store import under
from unsee.updating import Mean, Remembering, Update

Touch = Callable[[], Mapping[str, float]]
COSTLY = 3  # epochs in a row below the floor, after which less is asked for: two may be a dip
COLLAPSE, PATIENCE = 0.1, 3  # so far below the floor, for so many epochs, there is no way back up


@dataclass(frozen=True)
class Watch:
    """Who looks on; nothing here ever gives a gradient.

    `evaluator` returns figures for the trajectory, before the first epoch and after each; `stop` is asked
    after each step; `progress` names a bar; `utility` is how good the model is, in the end at least `floor`;
    `ease`, where something can be asked for less, does that, once.
    """

    evaluator: Callable[[nn.Module], Mapping[str, float]] | None = None
    stop: Callable[[], bool] | None = None
    progress: str | None = None
    utility: Callable[[nn.Module], float] | None = None
    floor: float = -math.inf
    ease: Callable[[], None] | None = None


@dataclass(frozen=True)
class Descent:
    """How it went: a row an epoch, whether it is bit-exact, the epochs gone back to and eased after."""

    rows: tuple[Row, ...]
    exact: bool = True
    back_to: int | None = None
    eased: int | None = None


def descend(
    model: nn.Module,
    gradients: Callable[[int], Mapping[str, Tensor]],
    plan: Plan,
    *,
    watch: Watch = Watch(),  # noqa: B008
    checkpoints: Checkpoints | None = None,
    R: Remembering | None = None,
    last_touch: Touch | None = None,
) -> Descent:
    """Train `model` in place and say how it went.

    `gradients(step)` puts the gradients into the parameters and returns the losses by name; R is no part of
    them, it is added in the update. `last_touch()` may change the model once more, after the last step, and
    returns figures for the last row; below the floor, it is undone.
    """
    model.zero_grad()
    place = checkpoints.folder if checkpoints else None
    run = _Run(model, Update(_trainable(model), plan.momentum, R), plan, watch, last_touch, place)
    with checkpoints.alone() if checkpoints else nullcontext(), torch.enable_grad():
        return _descend(run, gradients, checkpoints)


def _descend(
    run: "_Run", gradients: Callable[[int], Mapping[str, Tensor]], checkpoints: Checkpoints | None
) -> Descent:
    plan, watch = run.plan, run.watch
    if checkpoints and (state := checkpoints.read()):
        run.restore(state)
    else:
        run.rows.append({"epoch": 0, **run.evaluated()})
        run.keep()
    with bar(watch.progress, plan.steps, run.step) as advance:
        while run.step < run.end:
            run.take(gradients(run.step))
            advance(1)
            if checkpoints and (run.step == run.end or (checkpoints.due and run.finite())):
                checkpoints.write(run.state(), last=run.step == run.end)
            if watch.stop and run.step < run.end and watch.stop():
                run.interrupt(checkpoints)
        advance(plan.steps - run.step)  # where it ended sooner than at the most
    return Descent(tuple(run.rows), run.exact, run.back_to_the_floor(), run.eased)


class _Run:
    """A descent under way: the step, the rows so far, the sums of the epoch that has begun."""

    def __init__(
        self,
        model: nn.Module,
        update: Update,
        plan: Plan,
        watch: Watch,
        last_touch: Touch | None,
        place: Path | None,
    ) -> None:
        self.model, self.update, self.plan = model, update, plan
        self.watch, self.last_touch = watch, last_touch
        self.mean = Mean(update.theta) if plan.average else None
        self.step, self.exact, self.ended = 0, True, False
        self.rows: list[Row] = []
        self.sums: dict[str, float] = {}
        self.first: dict[str, float] = {}
        # With a mean, one copy of theta more, there may be no room for another.
        self.good = LastGood(place if plan.average else None)
        self.eased: int | None = None

    @property
    def since(self) -> int:
        """The step from which on the same is asked."""
        return self.plan.steps_per_epoch * (self.eased or 0)

    @property
    def end(self) -> int:
        """The last step, as far as it is known; at once, if the run had ended or the model has collapsed."""
        rows = self.rows[self.eased + 1 :] if self.eased else self.rows  # before, it was another loss
        last = [row.get("utility", math.inf) for row in rows[-PATIENCE:]]
        collapsed = len(last) == PATIENCE and max(last) < self.watch.floor - COLLAPSE
        if self.ended or collapsed:
            return self.step
        return self.plan.end(rows, self.eased or 0)

    def take(self, losses: Mapping[str, Tensor]) -> None:
        """Check the losses, make the step they belong to, and close the epoch if it ends here."""
        values = self.checked({name: float(loss) for name, loss in losses.items()})
        R = self.update(self.plan.lr_at(self.step - self.since, self.end - self.since))
        if R is not None:
            values = self.checked({**values, "R": float(R)})
        self.first = self.first or values
        self.step += 1
        self.sums = {name: self.sums.get(name, 0.0) + value for name, value in values.items()}
        if self.mean:
            self.mean.add(self.step - self.since)
        if self.step % self.plan.steps_per_epoch:
            return
        if self.mean:
            self.mean.swap()
        self.close_epoch()
        if self.mean and self.step < self.end:
            self.mean.swap()

    def close_epoch(self) -> None:
        """Write the epoch's row, and keep the model if it is good; touch it up if this was the last."""
        if not self.finite():
            self.diverge({"theta": math.nan})
        means = {name: total / self.plan.steps_per_epoch for name, total in self.sums.items()}
        self.rows.append({"epoch": self.step // self.plan.steps_per_epoch, **means, **self.evaluated()})
        self.sums = {}
        # Losses pass many orders before one is infinite: a state on that way is finite, but not good.
        sane = all(mean <= 10 * max(1.0, abs(self.first[name])) for name, mean in means.items())
        if sane and self.above_floor():
            self.keep()
        elif self.watch.ease and self.eased is None and self.too_costly():
            self.watch.ease()
            self.start_again()
        elif sane and self.step == self.end:
            self.go_back()
        if sane and self.above_floor() and self.step == self.end and self.last_touch:
            self.touch_up(self.last_touch())

    def too_costly(self) -> bool:
        """Whether some epochs in a row have ended below the floor, and there are more to come."""
        last = [row.get("utility", math.inf) for row in self.rows[1:][-COSTLY:]]
        below = not any(utility >= self.watch.floor for utility in last)
        return len(last) == COSTLY and below and self.step < self.plan.steps

    def start_again(self) -> None:
        """Begin again from the last good state, without momentum."""
        self.eased = self.step // self.plan.steps_per_epoch
        self.update.v = [None] * len(self.update.v)
        self.model.load_state_dict(self.good.state())
        if self.mean:
            self.mean.start_again()

    def go_back(self) -> None:
        """Keep as much of the way from the last good state as the floor allows, and take the row anew."""
        self.ended = True  # what ended it, a collapse perhaps, may be seen no longer
        useful, found = self.watch.utility, self.rows[-1].get("utility")
        assert useful is not None
        share = retreat(self.model, self.good.state(), lambda: useful(self.model) >= self.watch.floor)
        if share is not None:
            to = self.good.step // self.plan.steps_per_epoch
            self.rows[-1] |= {**self.evaluated(), TOO_FAR: found, BACK_TO: to, WAY: share}
            self.keep()

    def touch_up(self, figures: Mapping[str, float]) -> None:
        """Take the last row anew, of the model as the last touch left it; undo it if it costs too much."""
        before, self.rows[-1] = self.rows[-1], {**self.rows[-1], **figures, **self.evaluated()}
        if not self.above_floor():
            self.rows[-1] = before
            self.model.load_state_dict(self.good.state())

    def checked(self, values: dict[str, float]) -> dict[str, float]:
        """Return the losses, if each is a number."""
        if not all(math.isfinite(value) for value in values.values()):
            self.diverge(values)
        return values

    def keep(self) -> None:
        """Keep this state as the last good one."""
        self.good.keep(self.model.state_dict(), self.step)

    def above_floor(self) -> bool:
        """Whether the model is still as useful as it must be."""
        return self.rows[-1].get("utility", math.inf) >= self.watch.floor

    def back_to_the_floor(self) -> int | None:
        """Go back to the last epoch above the floor, if the last of all is not; return which it was."""
        if self.above_floor():
            return None
        self.model.load_state_dict(self.good.state())
        return self.good.step // self.plan.steps_per_epoch

    def finite(self) -> bool:
        """Whether this state is worth writing down."""
        return all(bool(torch.isfinite(p).all()) for p in _trainable(self.model))

    def evaluated(self) -> dict[str, float]:
        """Return the evaluator's figures, if there is one: a file has no word for what is not a number."""
        figures = dict(self.watch.evaluator(self.model)) if self.watch.evaluator else {}
        found = {name: float(value) for name, value in figures.items() if math.isfinite(value)}
        return found | ({"utility": float(self.watch.utility(self.model))} if self.watch.utility else {})

    def diverge(self, losses: Mapping[str, float]) -> None:
        """Go back to the last good state and say so."""
        self.model.load_state_dict(self.good.state())
        found = ", ".join(f"{name} = {value}" for name, value in losses.items())
        kept = f"kept the state after step {self.good.step}; lower lr or the weights"
        error = Diverged("finite losses", f"{found} at step {self.step}", kept)
        error.rows = tuple(self.rows)
        raise error

    def interrupt(self, checkpoints: Checkpoints | None) -> None:
        """Save what there is, if there is a place for it, and stop."""
        if checkpoints and self.finite():
            checkpoints.write(self.state())
        kept = f"saved in {checkpoints.folder}" if checkpoints else "nothing saved, as no folder was given"
        found = f"a request to stop after {self.step} ({kept})"
        raise Interrupted(f"{self.end} steps", found, "the same command goes on from there")

    def names(self) -> list[str]:
        """Return the names of the parameters that the update moves, in its order."""
        return [name for name, p in self.model.named_parameters() if p.requires_grad]

    def state(self) -> State:
        """Return all that is needed to go on: theta, momentum, step, and the trajectory so far."""
        tensors = {f"theta/{name}": value for name, value in self.model.state_dict().items()}
        for name, v in zip(self.names(), self.update.v, strict=True):
            if v is not None:
                tensors[f"momentum/{name}"] = v
        if self.mean:
            tensors |= {
                f"mean/{name}": value for name, value in zip(self.names(), self.mean.bar, strict=True)
            }
        log: Row = {"rows": self.rows, "sums": self.sums, "first": self.first}
        if self.watch.utility or self.mean or self.good.step < self.step:  # otherwise this is the good one
            tensors |= {f"good/{name}": value for name, value in self.good.state().items()}
            log["good_step"] = self.good.step
        if self.eased is not None:
            log["eased"] = self.eased
        return State(self.step, tensors, log, self.exact)

    def restore(self, state: State) -> None:
        """Become the run that wrote this state."""
        self.model.load_state_dict(under("theta/", state.tensors))
        for i, (name, p) in enumerate(zip(self.names(), self.update.theta, strict=True)):
            momentum = state.tensors.get(f"momentum/{name}")
            # In theta's own order in memory, which is how torch's SGD goes through both.
            self.update.v[i] = None if momentum is None else torch.empty_like(p).copy_(momentum)
            if self.mean:
                self.mean.bar[i].copy_(state.tensors[f"mean/{name}"])
        self.step, self.exact, self.ended = state.step, state.exact, state.last
        self.rows, self.sums = list(state.log["rows"]), dict(state.log["sums"])
        self.first = dict(state.log["first"])
        self.eased = state.log.get("eased")
        if self.watch.ease and self.eased is not None:
            self.watch.ease()
        self.keep()
        if "good_step" in state.log:
            self.good.keep(under("good/", state.tensors), state.log["good_step"])


def _trainable(model: nn.Module) -> list[nn.Parameter]:
    return [p for p in model.parameters() if p.requires_grad]
