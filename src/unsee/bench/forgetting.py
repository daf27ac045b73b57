"""The forgetting step: how much longer it takes than a plain SGD step over the same samples, and on what.

The plain step is one of SGD with momentum on the cross entropy of all samples that the forgetting step sees,
in one batch, by the same loop. Training's share of the machine's peak counts its matrix products alone.
"""

import copy
import itertools
from dataclasses import replace
from statistics import median
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unsee import terms
from unsee.answers import answers, as_input
from unsee.bench import subjects
from unsee.bench.result import Limit, Result
from unsee.bench.subjects import Subject
from unsee.bench.timing import clock, in_turns, machine, peak, ratio
from unsee.descent import descend
from unsee.formulation import TABLE_1, Request
from unsee.loss import Loss
from unsee.memory import remember
from unsee.plan import Plan
from unsee.recipe import RECIPES
from unsee.replay import replay_of
from unsee.transforms import tile
from unsee.twins import twins_of
from unsee.updating import Remembering, Update

MOST = 1.15
BATCH = 128
SHAPES = ((160, (64,)), (9, (784, 784)), (3, (3072, 3072)))
QUICK_SHAPES = ((2, (32, 32)),)
PAPERS, OURS = "fashion-mnist/tile/B", "unsee"


def run(command: str, *, quick: bool = False) -> Result:
    """Measure the paper's recipe (all three terms) and ours on the MLP, 784 wide."""
    here, steps, rounds = machine(), 2 if quick else 8, 1 if quick else 5
    batch, side, depth = (8, 8, 3) if quick else (BATCH, 28, 10)
    subject = subjects.mlp(4 * batch, side, depth)
    request = _request(subject, steps * batch)
    papers, ours = (_loss(subject, request, name, batch, steps) for name in (PAPERS, OURS))
    rows = [_compared(name, loss, rounds) for name, loss in ((PAPERS, papers), (OURS, ours))]
    best = peak(256 if quick else 2048)
    tables = {
        "A step of forgetting beside a plain one": rows,
        "A plain step by its batch": [_plain_step(subject, n, best, rounds) for n in _batches(batch)],
        "Where a step's time goes, in its percent": [
            {"recipe": name} | _shares(loss, rounds) for name, loss in ((PAPERS, papers), (OURS, ours))
        ],
        "The update: R, momentum and weights, in one pass over memory and in two": [
            _update(layers, shape, rounds) for layers, shape in (QUICK_SHAPES if quick else SHAPES)
        ],
        "Beside the steps": _beside(subject, papers, rounds),
    }
    limit = Limit("forgetting step to plain SGD over the same samples, MLP", rows[0]["ratio"], MOST)
    return Result("forget", command, here, [limit], tables, quick)


def _batches(batch: int) -> tuple[int, ...]:
    return batch // 8, batch // 2, batch, 2 * batch, 4 * batch


def _request(subject: Subject, n: int) -> Request:
    clean = subjects.images(n, subject.data.x.shape[1:], seed=1)
    T = tile()
    return Request(TABLE_1["B"], T(clean).with_(y=torch.zeros_like(clean.y)), clean, T)


def _loss(subject: Subject, request: Request, name: str, batch: int, steps: int) -> Loss:
    """Return what `forget` minimises with this recipe, in batches of this size."""
    # So small a learning rate that a network which has learnt nothing does not diverge.
    recipe, old = replace(RECIPES[name], lr=1e-9), subject.model
    memory = remember(old, subject.data, sketch=1.0)
    twins = twins_of(request) if recipe.forgetting in terms.PAIRED or recipe.lambda_h else None
    replay = replay_of(old, request, memory.sketch, memory.level()) if recipe.lambda_s else None
    plan = Plan(recipe.lr, recipe.momentum, 1, batch * steps, batch)
    new = copy.deepcopy(old)
    return Loss(new, old, request, recipe, plan, memory, twins, replay, subjects.CLASSES, 0)


def _compared(name: str, loss: Loss, rounds: int) -> dict[str, Any]:
    """Return a recipe's step beside plain steps over the samples that it draws."""
    other, plan = copy.deepcopy(loss.model), loss.plan

    def plain(step: int) -> dict[str, Tensor]:
        x, labels = loss.samples(step)
        whole = torch.cat(list(x.values()))
        y = torch.cat(
            [labels.get(part, torch.zeros(len(rows), dtype=torch.long)) for part, rows in x.items()]
        )
        return _cross_entropy(other, whole, y)

    seconds = in_turns(
        {
            "forgetting": lambda: descend(loss.model, loss, plan, R=loss.R),
            "plain": lambda: descend(other, plain, plan),
        },
        rounds,
    )
    return {
        "recipe": name,
        "samples a step": sum(map(len, loss.samples(0)[0].values())),
        "ms a step": _ms(seconds["forgetting"], plan.steps),
        "plain, ms a step": _ms(seconds["plain"], plan.steps),
        "ratio": round(ratio(seconds, "forgetting", "plain"), 3),
    }


def _plain_step(subject: Subject, batch: int, best: float, rounds: int) -> dict[str, Any]:
    """Return what a plain step of this batch takes, and its share of the machine's matrix-product peak."""
    model = copy.deepcopy(subject.model)
    data = subjects.images(batch, subject.data.x.shape[1:])
    plan = Plan(1e-5, 0.9, 1, max(4, 1024 // batch) * batch, batch)
    taken = in_turns(
        {
            "step": lambda: descend(
                model, lambda _: _cross_entropy(model, as_input(data.x, model), data.y), plan
            )
        },
        rounds,
    )
    seconds = median(taken["step"]) / plan.steps
    return {
        "batch": batch,
        "ms a step": round(1e3 * seconds, 2),
        "us a sample": round(1e6 * seconds / batch, 1),
        "share of the peak": round(_products(model) * batch / seconds / best, 3),
    }


def _products(model: nn.Module) -> int:
    """Return the multiplications and additions of a sample's products: forward, and backward to each side.

    The first layer's input needs no gradient.
    """
    weights = [layer.weight.numel() for layer in model.modules() if isinstance(layer, nn.Linear)]
    return 2 * (3 * sum(weights) - weights[0])


def _shares(loss: Loss, rounds: int) -> dict[str, Any]:
    """Return the percentages of a step's time by what it goes to."""
    update = Update(loss.theta, loss.plan.momentum, loss.R)
    found = [_parts(loss, update, step % loss.plan.steps) for step in range((1 + rounds) * loss.plan.steps)]
    taken = {part: sum(parts[part] for parts in found[loss.plan.steps :]) for part in found[0]}
    return {part: round(100 * seconds / sum(taken.values()), 1) for part, seconds in taken.items()}


def _parts(loss: Loss, update: Update, step: int) -> dict[str, float]:
    """Make a step and return the seconds of its parts."""
    marks = [clock()]
    loss.samples(step)  # once more for itself: the losses draw them again
    marks.append(clock())
    _, total = loss._losses(step)
    marks.append(clock())
    total.backward()
    marks.append(clock())
    if loss.recipe.stride is not None:
        nn.utils.clip_grad_norm_(loss.theta, loss.recipe.stride * loss.length / loss.plan.lr)
    marks.append(clock())
    update(loss.plan.lr)
    marks.append(clock())
    draw, forward, *rest = (after - before for before, after in itertools.pairwise(marks))
    names = ("drawing and converting", "forward", "backward", "length of the step", "R, momentum and weights")
    return dict(zip(names, (draw, max(0.0, forward - draw), *rest), strict=True))


def _update(layers: int, shape: tuple[int, ...], rounds: int) -> dict[str, Any]:
    """Return what the update takes, beside R over all layers first and torch's SGD over all then."""
    generator = torch.Generator().manual_seed(0)
    old, *sides = ([torch.randn(shape, generator=generator) for _ in range(layers)] for _ in range(3))
    R = Remembering(old, [p.square() for p in old], 1e-9)
    one, two = ([nn.Parameter(p) for p in side] for side in sides)
    given = [torch.randn(shape, generator=generator) for _ in range(2 * layers)]
    update, optimizer = Update(one, 0.9, R), torch.optim.SGD(two, 1e-9, 0.9, fused=True)
    room = torch.empty_like(old[0]), torch.empty_like(old[0])

    def one_pass() -> None:
        for p, g in zip(one, given[:layers], strict=True):
            p.grad = g
        update(1e-9)

    def two_passes() -> None:
        for p, g, p_old, f in zip(two, given[layers:], R.theta_old, R.fisher, strict=True):
            p.grad = g
            terms.pull_(g, p, p_old, f, R.lambda_kl, room)
        optimizer.step()
        optimizer.zero_grad()

    seconds = in_turns({"one": one_pass, "two": two_passes}, 2 * rounds)
    return {
        "tensors": layers,
        "shape": "x".join(map(str, shape)),
        "ms in one pass": _ms(seconds["one"], 1),
        "ms in two": _ms(seconds["two"], 1),
        "ratio": round(ratio(seconds, "one", "two"), 3),
    }


def _beside(subject: Subject, loss: Loss, rounds: int) -> list[dict[str, Any]]:
    """Return what is done beside the steps, a sample, in samples of training."""
    model, n = copy.deepcopy(subject.model), loss.plan.batch_size
    data = loss.request.D_f
    few = data.subset(range(n))
    seconds = in_turns(
        {
            "a training step": lambda: descend(
                model,
                lambda _: _cross_entropy(model, as_input(few.x, model), few.y),
                Plan(1e-5, 0.9, 1, n, n),
            ),
            "evaluating": lambda: answers(model, data),
            "drawing and converting samples": lambda: loss.samples(0),
            "the Fisher of D_f": lambda: remember(model, data),
        },
        rounds,
    )
    step = median(seconds.pop("a training step")) / n
    counts = {
        "evaluating": len(data),
        "the Fisher of D_f": len(data),
        "drawing and converting samples": 2 * n,
    }
    return [
        {
            "what": name,
            "us a sample": round(1e6 * median(taken) / counts[name], 1),
            "in trained samples": round(median(taken) / counts[name] / step, 3),
        }
        for name, taken in seconds.items()
    ]


def _cross_entropy(model: nn.Module, x: Tensor, y: Tensor) -> dict[str, Tensor]:
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    return {"L_cls": loss.detach()}


def _ms(seconds: list[float], steps: int) -> float:
    return round(1e3 * median(seconds) / steps, 2)
