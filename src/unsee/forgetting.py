"""forget(): minimise L_c + lambda_f L_f + lambda_KL R, seeing only the request and a memory."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from unsee import networks, terms
from unsee.answers import accuracy, as_input, check_fit
from unsee.checkpoint import Checkpoints
from unsee.datasets import Dataset
from unsee.descent import Plan, Row, Watch, descend
from unsee.errors import Diverged, InputError
from unsee.formulation import Request, Validation
from unsee.memory import Memory, remember
from unsee.networks import Truncated
from unsee.randomness import cycle, stream
from unsee.recipe import Recipe, recipe_of


@dataclass(frozen=True, eq=False)
class Forgotten:
    """The new model, how it came about (a row an epoch), and the hashes of all that went in."""

    model: nn.Module
    trajectory: tuple[Row, ...]
    recipe: Recipe
    identity: dict[str, Any]
    exact: bool = True


def forget(
    model: nn.Module,
    request: Request,
    memory: Memory | None = None,
    recipe: Recipe | str | None = None,
    *,
    seed: int = 0,
    validation: Validation | None = None,
    device: torch.device | str | None = None,
    folder: Path | str | None = None,
    checkpoint_seconds: float = 30.0,
    evaluator: Callable[[nn.Module], Mapping[str, float]] | None = None,
    stop: Callable[[], bool] | None = None,
    progress: bool = False,
) -> Forgotten:
    """Make a copy of `model` forget what the request names; the model handed in stays as it is.

    L = lambda_c L_c(D_f,clean) + lambda_f L_f(D_f) + lambda_KL R(theta, theta_old)

    With a `folder` the same call goes on after a kill and ends in the same bits. `validation` and
    `evaluator` (see `unsee.evaluator`) add accuracies to the trajectory; neither ever gives a gradient.
    BatchNorm statistics stay frozen and dropout stays off: D_f alone would spoil the statistics.
    """
    recipe = recipe_of(recipe, request.pattern)
    classes = _check(model, request, memory, recipe)
    identity = _identity(model, request, memory, recipe, seed)
    if recipe.forgetting == "truncation":
        label = int(request.D_f.y[0])
        return Forgotten(Truncated(copy.deepcopy(model).eval(), label), (), recipe, identity)
    home = next(model.parameters()).device
    device = torch.device(device or home)
    new = copy.deepcopy(model).eval().to(device)
    plan = Plan(recipe.lr, recipe.momentum, recipe.epochs, len(request.D_f), recipe.batch_size)
    gradients = _Gradients(new, request, recipe, plan, _fisher(new, request, memory, recipe), classes, seed)
    watch = Watch(_evaluator(evaluator, validation), stop, "forgetting" if progress else None)
    checkpoints = Checkpoints(Path(folder), identity, checkpoint_seconds, str(device)) if folder else None
    try:
        rows, exact = descend(new, gradients, plan, watch=watch, checkpoints=checkpoints)
    except Diverged as error:
        error.last_good = Forgotten(new.to(home), error.rows, recipe, identity)
        raise
    return Forgotten(new.to(home), rows, recipe, identity, exact)


class _Gradients:
    """The gradient of the three terms at a step, which is a function of theta and the step's number."""

    def __init__(
        self,
        model: nn.Module,
        request: Request,
        recipe: Recipe,
        plan: Plan,
        fisher: dict[str, Tensor] | None,
        classes: int,
        seed: int,
    ) -> None:
        self.model, self.request, self.recipe, self.plan, self.seed = model, request, recipe, plan, seed
        named = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self.theta = list(named.values())
        self.theta_old = [p.detach().clone() for p in self.theta] if fisher else []
        self.fisher = [fisher[name].to(p.device, p.dtype) for name, p in named.items()] if fisher else []
        self.eta = None
        if recipe.forgetting == "rnd":
            self.eta = networks.fresh(model, seed).eval().to(self.theta[0])
        own = set(request.D_f.y.tolist()) if recipe.labels == "others" else set()
        self.labels = [label for label in range(classes) if label not in own]

    def __call__(self, step: int) -> dict[str, Tensor]:
        """Put the gradients into theta and return the losses, unweighted, by their names in the paper."""
        losses, total = self._losses(step)
        if losses:
            total.backward()
        if self.fisher:
            kl = self.recipe.lambda_kl
            losses["R"] = terms.add_remembering(self.theta, self.theta_old, self.fisher, kl)
        return {name: loss.detach() for name, loss in losses.items()}

    def _losses(self, step: int) -> tuple[dict[str, Tensor], Tensor]:
        """Return L_c and L_f on this step's samples, each term with a stream of its own, and their sum."""
        clean = self._drawn("D_f_clean", self.request.D_f_clean, step) if self.recipe.lambda_c else None
        bad = self._drawn("D_f", self.request.D_f, step) if _forgets(self.recipe) else None
        self.model.eval()  # whatever an evaluator has left behind
        # One pass for both: half as many small matrix products, and BatchNorm is frozen anyway.
        x = torch.cat([as_input(drawn[0], self.model) for drawn in (clean, bad) if drawn])
        y, losses, total = self.model(x), {}, x.new_zeros(())
        if clean:
            losses["L_c"] = terms.correction(y[: len(clean[1])], clean[1].to(y.device))
            total = total + self.recipe.lambda_c * losses["L_c"]
        if bad:
            n = len(bad[1])
            losses["L_f"] = self._forgetting(y[-n:], x[-n:], step)
            total = total + self.recipe.lambda_f * losses["L_f"]
        return losses, total

    def _forgetting(self, y: Tensor, x: Tensor, step: int) -> Tensor:
        if self.eta is not None:
            with torch.no_grad():
                y_eta = self.eta(x)
            return terms.rnd(y, y_eta)
        u = terms.random_labels(len(y), self.labels, stream(self.seed, "rld", step))
        return terms.rld(y, u.to(y.device))

    def _drawn(self, name: str, data: Dataset | None, step: int) -> tuple[Tensor, Tensor] | None:
        if data is None:
            return None
        rows = torch.as_tensor(cycle(self.seed, name, len(data), *self.plan.span(step)))
        return data.x[rows], data.y[rows]


def _forgets(recipe: Recipe) -> bool:
    return recipe.forgetting != "none" and recipe.lambda_f > 0


def _fisher(
    model: nn.Module, request: Request, memory: Memory | None, recipe: Recipe
) -> dict[str, Tensor] | None:
    """Return F(theta_old) as the recipe wants it: over D, or without D_f's share, which is over D_r."""
    if recipe.lambda_kl == 0 or memory is None:
        return None
    if recipe.fisher_over == "D_r":
        memory = memory.subtract(remember(model, request.D_f))
    return memory.fisher()


def _check(model: nn.Module, request: Request, memory: Memory | None, recipe: Recipe) -> int:
    """Refuse what cannot work before anything is computed; return the number of the model's classes."""
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
    for name, p in model.named_parameters():
        if p.requires_grad and torch.finfo(p.dtype).bits < 32:
            found = f"{p.dtype} in {name}, whose steps would round to nothing"
            raise InputError("float32 or float64 weights", found, "call model.float()")
    if recipe.lambda_kl > 0 and memory is None:
        raise InputError(f"a memory for lambda_KL = {recipe.lambda_kl:g}", "none", "take one with `remember`")
    if memory is not None:
        memory.check(model)
    if not _forgets(recipe) and (recipe.lambda_c == 0 or request.D_f_clean is None):
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
    model: nn.Module, request: Request, memory: Memory | None, recipe: Recipe, seed: int
) -> dict[str, Any]:
    return {
        "model": networks.identity(model),
        "pattern": request.pattern.name,
        "D_f": request.D_f.fingerprint,
        "D_f_clean": request.D_f_clean.fingerprint if request.D_f_clean is not None else None,
        "classes": list(request.D_f.classes),
        "T": request.T.name if request.T else None,
        "memory": memory.id if memory else None,
        "recipe": asdict(recipe),
        "seed": seed,
    }
