"""forget(): make a copy of a model forget, seeing only the request and a memory."""

import copy
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from unsee import lineage as ancestry
from unsee import networks
from unsee.answers import accuracy, borrowed, check_fit
from unsee.balance import last_touch
from unsee.checkpoint import Checkpoints
from unsee.descent import Descent, Watch, descend
from unsee.errors import Diverged, InputError, UnseeWarning
from unsee.floor import Floor
from unsee.formulation import Request, Validation
from unsee.lineage import Generation
from unsee.loss import Loss
from unsee.matching import matched
from unsee.memory import Memory
from unsee.networks import Truncated
from unsee.plan import Row, plan_of
from unsee.recipe import METHOD, Recipe, ours, recipe_of
from unsee.replay import replay_of
from unsee.resting import give_back
from unsee.setting import leaned_on, setting_of
from unsee.succession import Succession, held, not_held, over
from unsee.terms import PAIRED, Term, known_by
from unsee.twins import twins_of

STUCK = 1e-5  # of theta's length: who moves by less has learnt nothing


@dataclass(frozen=True, eq=False)
class Forgotten:
    """The new model, how it came about (a row an epoch), and the hashes of all that went in."""

    model: nn.Module
    trajectory: tuple[Row, ...]
    recipe: Recipe
    identity: dict[str, Any]
    exact: bool = True
    back_to: int | None = None
    """The epoch gone back to, where the last of all fell below the floor."""
    setting: Mapping[str, Any] = field(default_factory=dict)
    """What forgetting leaned on (which memory, twins, T, replayed samples, floor), and what it took."""
    memory: Memory | None = None
    """The memory as it holds for the new model, to forget again with: without D_f's share, and with that of
    D_f,clean."""
    lineage: tuple[Generation, ...] = ()
    """The requests that led to the new model, this one last."""


def forget(
    model: nn.Module,
    request: Request,
    memory: Memory | None = None,
    recipe: Recipe | str | None = None,
    *,
    L_f: Term | None = None,
    seed: int = 0,
    validation: Validation | None = None,
    lineage: tuple[Generation, ...] = (),
    again: bool = True,
    device: torch.device | str | None = None,
    folder: Path | str | None = None,
    checkpoint_seconds: float = 30.0,
    evaluator: Callable[[nn.Module], Mapping[str, float]] | None = None,
    stop: Callable[[], bool] | None = None,
    progress: bool = False,
) -> Forgotten:
    """Make a copy of `model` forget what the request names; the model handed in stays as it is.

    L = lambda_c L_c(D_f,clean) + lambda_f L_f(D_f) + lambda_KL R(theta, theta_old)   (and ours, see Recipe)

    With a `folder` the same call goes on after a kill and ends in the same bits. `validation` and
    `evaluator` (see `unsee.evaluator`) add accuracies to the trajectory; neither ever gives a gradient.
    BatchNorm statistics stay frozen and dropout stays off: D_f alone would spoil them. `L_f`, a term of
    your own, is a function of the new answers to D_f, the old ones, and D_f's labels. To forget again:
    `forget(first.model, another, first.memory, lineage=first.lineage)`; `again=False` keeps no memory.
    """
    recipe = recipe_of(recipe, request.pattern, ours(request.D_f.kind))
    outputs = _check(model, request, memory, recipe, lineage)
    identity = _identity(model, request, memory, recipe, seed, validation, L_f)
    if recipe.forgetting == "truncation":
        return _truncated(model, request, recipe, identity, lineage)
    home = next(model.parameters()).device
    device = home if device is None else networks.device_of(str(device))
    old = borrowed(model) if device == home else copy.deepcopy(model).eval().to(device)
    kept, taken_out = over(old, request, memory, recipe)
    by, unknown = leaned_on(memory), not_held(request, memory, recipe)
    del memory  # large, and with luck nobody else's
    aside = Succession.of(kept, old, request, folder, taken_out) if again and kept else None
    loss = _loss(old, request, kept, recipe, outputs, seed, L_f)
    del kept
    floor = Floor.of(old, recipe, loss.replay, validation, seed, request.D_f.classes, loss.gone)
    new, touch = loss.model, last_touch(loss, floor.held_by)
    watch = _watch(loss, floor, _evaluator(evaluator, validation), stop, progress)
    checkpoints = Checkpoints(Path(folder), identity, checkpoint_seconds, str(device)) if folder else None
    give_back()  # what all this has taken: the descent needs as much as there is
    try:
        done = descend(new, loss, loss.plan, watch=watch, checkpoints=checkpoints, R=loss.R, last_touch=touch)
    except Diverged as error:
        error.last_good = Forgotten(new.to(home), error.rows, recipe, identity, lineage=lineage)
        raise
    line = (*lineage, _generation(new, old, request, identity, floor, done, loss.gone))
    if said := floor.said(done) or _stuck(line[-1].moved, recipe):
        warnings.warn(said, UnseeWarning, stacklevel=2)
    setting = setting_of(by, loss, floor, done, unknown)
    del loss, touch, floor, watch  # F and much else: the memory needs the room
    heir = aside.memory(old, new, forgotten=done.back_to != 0) if aside else None
    return Forgotten(new.to(home), done.rows, recipe, identity, done.exact, done.back_to, setting, heir, line)


def _loss(
    old: nn.Module,
    request: Request,
    kept: Memory | None,
    recipe: Recipe,
    classes: int,
    seed: int,
    L_f: Term | None,
) -> Loss:
    """Return what is to be minimised, of a new model that begins as the old one."""
    twins = twins_of(request) if recipe.forgetting in PAIRED or recipe.lambda_h else None
    recalled = (kept.sketch, kept.level()) if kept else (None, None)
    T = twins.T if twins else request.T
    replay = replay_of(old, request, *recalled, T) if recipe.lambda_s else None
    plan = plan_of(recipe, len(twins) if twins else len(request.D_f))
    of_D_r = kept is not None and (recipe.fisher_over == "D_r" or held(request.D_f, kept) is None)
    # Not of a class that goes as a whole, nor for the few steps of a small D_f: they draw a handful.
    if replay and kept and of_D_r and request.pattern.name != "A" and not plan.average:
        replay = matched(replay, old, kept, request.D_f.y.unique().tolist())
    return Loss(copy.deepcopy(old), old, request, recipe, plan, kept, twins, replay, classes, seed, L_f)


def _stuck(moved: float, recipe: Recipe) -> str:
    """Say that nothing was learnt, where that is so: R's step in closed form holds whatever lr is."""
    text = f"The weights moved by {100 * moved:.1g} % of their length: nothing was forgotten"
    held = moved < STUCK and recipe.remembering == "proximal"
    return f"{text}; lower lr or lambda_kl, or raise what is too low." if held else ""


def _watch(
    loss: Loss,
    floor: Floor,
    evaluator: Callable[[nn.Module], dict[str, float]] | None,
    stop: Callable[[], bool] | None,
    progress: bool,
) -> Watch:
    """Return who looks on; where twins' layers are compared, that can be let go of."""
    ease = loss.ease if loss.hidden else None
    return Watch(evaluator, stop, "forgetting" if progress else None, floor.utility, floor.least, ease)


def _truncated(
    model: nn.Module,
    request: Request,
    recipe: Recipe,
    identity: dict[str, Any],
    lineage: tuple[Generation, ...],
) -> Forgotten:
    """Return the model without the output of D_f's class: the one way that trains nothing."""
    new = Truncated(copy.deepcopy(model).eval(), int(request.D_f.y[0]))
    ended = (*lineage, _generation(new, model, request, identity, gone=request.D_f.y[:1]))
    return Forgotten(new, (), recipe, identity, lineage=ended)


def _generation(
    new: nn.Module,
    old: nn.Module,
    request: Request,
    identity: dict[str, Any],
    floor: Floor = Floor(),  # noqa: B008
    done: Descent = Descent(()),  # noqa: B008
    gone: Tensor | None = None,
) -> Generation:
    """Return what this request adds to the model's lineage."""
    measured: dict[str, Any] = {}
    if floor.utility:
        last = done.rows[-1] if done.back_to is None else done.rows[done.back_to]
        measured = {"measured": floor.name, "before": done.rows[0]["utility"], "after": last["utility"]}
    return Generation(
        identity["model"],
        networks.identity(new),
        request.pattern.name,
        identity["D_f"],
        len(request.D_f),
        identity["recipe"]["name"],
        identity["seed"],
        ancestry.distance(new, old),
        gone=int(gone[0]) if gone is not None else None,
        **measured,
    )


def _check(
    model: nn.Module,
    request: Request,
    memory: Memory | None,
    recipe: Recipe,
    lineage: tuple[Generation, ...],
) -> int:
    """Refuse what cannot work before anything is computed; return the number of the model's classes."""
    if memory is not None and not isinstance(memory, Memory):
        raise InputError("a Memory", type(memory).__name__, "open its file with Memory.load")
    if torch.is_inference_mode_enabled():
        raise InputError("a call that may take gradients", "torch.inference_mode", "call it outside of that")
    ancestry.check(lineage, model)
    ancestry.say_what_returns(lineage, request.D_f_clean)
    classes = check_fit(model, request.D_f)
    name = request.pattern.name
    if recipe.forgetting == "truncation":
        if name != "A":
            raise InputError(
                "Pattern A for truncation", f"Pattern {name}", "it forgets a class, nothing finer"
            )
        if len(set(request.D_f.y.tolist())) > 1:
            raise InputError("D_f of one class for truncation", "several", "use RLD")
        return classes
    if gone := [m.label for m in model.modules() if isinstance(m, Truncated)]:
        found = f"one that truncation left without class {', '.join(map(str, gone))}"
        raise InputError("a model that answers with all its classes", found, "truncate last of all")
    if not any(p.requires_grad for p in model.parameters()):
        raise InputError("parameters that may change", "all frozen", "set requires_grad of some")
    for name, p in model.named_parameters():
        if p.requires_grad and torch.finfo(p.dtype).bits < 32:
            found = f"{p.dtype} in {name}, too coarse for steps"
            raise InputError("float32 or float64 weights", found, "call model.float()")
    if recipe.lambda_kl > 0 and memory is None and recipe.remembering == "penalty":
        raise InputError(f"a memory for lambda_KL = {recipe.lambda_kl:g}", "none", "take one with `remember`")
    if memory is not None:
        memory.check(model)
    if recipe.forgetting in PAIRED and request.D_f_clean is None:
        found = f"Pattern {request.pattern.name}"
        raise InputError(f"D_f,clean for L_f = {recipe.forgetting}", found, "use delete, rld or rnd")
    if (recipe.forgetting == "none" or recipe.lambda_f == 0) and (
        recipe.lambda_c == 0 or request.D_f_clean is None
    ):
        raise InputError("a forgetting or a correction term", "neither", "change the recipe")
    if recipe.forgetting == "rld" and recipe.labels == "others":
        own = set(request.D_f.y.tolist())
        if len(own) == classes:
            raise InputError("a class that D_f does not have for RLD", "none", "use labels = all")
    return classes


def _evaluator(
    given: Callable[[nn.Module], Mapping[str, float]] | None, validation: Validation | None
) -> Callable[[nn.Module], dict[str, float]] | None:
    """Return what fills the trajectory's columns: the caller's figures, then the validation's."""
    if given is None and validation is None:
        return None

    def figures(model: nn.Module) -> dict[str, float]:
        row = dict(given(model)) if given else {}
        if validation:
            row["D_r_val"] = accuracy(model, validation.D_r)
            if validation.D_r_extra is not None:
                row["D_r_extra_val"] = accuracy(model, validation.D_r_extra)
        return row

    return figures


def _identity(
    model: nn.Module,
    request: Request,
    memory: Memory | None,
    recipe: Recipe,
    seed: int,
    validation: Validation | None,
    L_f: Term | None,
) -> dict[str, Any]:
    if L_f and recipe.forgetting in ("none", "truncation"):
        raise InputError("a recipe with a forgetting term, for L_f", recipe.forgetting, "choose another")
    more: dict[str, Any] = {"L_f": known_by(L_f, len(request.D_f.classes))} if L_f else {}
    if frozen := [name for name, p in model.named_parameters() if not p.requires_grad]:
        more["frozen"] = frozen
    if recipe.floor is not None:  # it decides where the run ends
        more["D_r_val"] = validation.D_r.fingerprint if validation else None
    return {
        "model": networks.identity(model),
        "method": METHOD,  # half a run by one and half by another would be a run by none
        "pattern": request.pattern.name,
        "D_f": request.D_f.fingerprint,
        "D_f_clean": request.D_f_clean.fingerprint if request.D_f_clean is not None else None,
        "classes": list(request.D_f.classes),
        "T": request.T.name if request.T else None,
        "memory": memory.id if memory else None,
        "recipe": recipe.words(),
        "seed": int(seed),
        **more,
    }
