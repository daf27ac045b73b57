"""Train a network on D: the pretrained state from which forgetting starts."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unsee import networks
from unsee.answers import as_input
from unsee.checkpoint import Checkpoints
from unsee.datasets import Dataset
from unsee.descent import Watch, descend
from unsee.errors import Diverged
from unsee.plan import Plan, Row
from unsee.randomness import cycle, seeded


@dataclass(frozen=True, eq=False)
class Trained:
    """A trained model, how the training went, and whether it is bit-exact after a resumption."""

    model: nn.Module
    trajectory: tuple[Row, ...]
    identity: dict[str, Any]
    exact: bool = True


def train(
    model: nn.Module,
    data: Dataset,
    *,
    epochs: int = 5,
    lr: float = 0.01,
    momentum: float = 0.9,
    batch_size: int = 128,
    seed: int = 0,
    device: torch.device | str | None = None,
    folder: Path | str | None = None,
    evaluator: Callable[[nn.Module], Mapping[str, float]] | None = None,
    stop: Callable[[], bool] | None = None,
    progress: bool = False,
) -> Trained:
    """Train a copy of `model` on `data` by SGD with momentum and cross entropy.

    With a `folder`, the same call goes on after a kill and ends in the same bits.
    """
    plan = Plan(lr, momentum, epochs, len(data), batch_size)
    identity = {
        "model": networks.identity(model),
        "data": data.fingerprint,
        # Without what training does not use: runs begun before there was such a word go on.
        "plan": {k: v for k, v in asdict(plan).items() if v is not None and v is not False},
        "seed": seed,
    }
    home = next(model.parameters()).device
    device = torch.device(device or home)
    new = copy.deepcopy(model).to(device)

    def gradients(step: int) -> dict[str, Tensor]:
        rows = torch.as_tensor(cycle(seed, "D", len(data), *plan.span(step)))
        new.train()
        with seeded(seed, f"dropout/{step}"):
            loss = F.cross_entropy(new(as_input(data.x[rows], new)), data.y[rows].to(device))
        loss.backward()
        return {"L_cls": loss.detach()}

    checkpoints = Checkpoints(Path(folder), identity, device=str(device)) if folder else None
    watch = Watch(evaluator, stop, "training" if progress else None)
    try:
        done = descend(new, gradients, plan, watch=watch, checkpoints=checkpoints)
    except Diverged as error:
        error.last_good = Trained(new.eval().to(home), error.rows, identity)
        raise
    return Trained(new.eval().to(home), done.rows, identity, done.exact)
