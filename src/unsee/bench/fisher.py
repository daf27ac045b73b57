"""The Fisher pass: how much longer it takes than a plain forward and backward pass over the same data.

Beside it in the same run, on a few of the samples, a loop over samples and a vectorised map over them. What
the pass does once, before it begins, is to check its rules on the first samples: a column of its own.
"""

from collections.abc import Callable
from statistics import median
from typing import Any

import torch.nn.functional as F

from unsee import fisher
from unsee.answers import as_input
from unsee.bench import subjects
from unsee.bench.result import Limit, Result
from unsee.bench.subjects import Subject
from unsee.bench.timing import Seconds, in_turns, machine
from unsee.datasets import Dataset, batches
from unsee.rules import Squares, trainable
from unsee.tiers import PROBE, by_loop, by_vmap

MOST = (1.1, 1.6, 1.7)


def run(command: str, *, quick: bool = False) -> Result:
    """Measure the paper's MLP, a ResNet-18 with frozen BatchNorm and a small ViT."""
    here = machine()
    rows = [measured(subject, *how) for subject, *how in (_tiny() if quick else _whole())]
    limits = [
        Limit(f"Fisher pass to forward + backward, {row['network']}", row["Fisher"], most)
        for row, most in zip(rows, MOST, strict=True)
    ]
    return Result("fisher", command, here, limits, {"Time, in forward + backward passes": rows}, quick)


def _whole() -> list[tuple[Subject, int, int]]:
    """Return each subject, how many of its samples the slow ways get, and the rounds."""
    return [
        (subjects.mlp(3072), 16, 4),
        (subjects.resnet_18(48), 8, 3),
        (subjects.vit(128), 16, 3),
    ]


def _tiny() -> list[tuple[Subject, int, int]]:
    return [
        (subjects.mlp(40, side=6, depth=3, batch_size=20), 5, 1),
        (subjects.resnet_18(8, width=4, batch_size=4), 4, 1),
        (subjects.vit(8, dim=16, depth=1, batch_size=4), 4, 1),
    ]


def measured(subject: Subject, few: int, rounds: int) -> dict[str, Any]:
    """Return the subject's row: every way's time a sample, in those of a plain pass."""
    model, data, size = subject.model, subject.data, subject.batch_size
    first, some = data.subset(range(PROBE)), data.subset(range(few))
    taken: list[fisher.FisherSum] = []
    ways: dict[str, Callable[[], object]] = {
        "plain": lambda: plain_pass(subject),
        "Fisher": lambda: taken.append(fisher.fisher_sum(model, data, batch_size=size)),
        "checks": lambda: fisher.fisher_sum(model, first),
        "loop": lambda: one_by_one(subject, some, by_loop),
        "vmap": lambda: one_by_one(subject, some, by_vmap),
    }
    seconds = in_turns(ways, rounds)
    tiers = sorted(set(taken[-1].tiers.values()))
    return {
        "network": subject.name,
        "parameters": subject.parameters,
        "samples": len(data),
        "batch": size,
        "plain, ms a sample": round(1e3 * median(seconds["plain"]) / len(data), 3),
        "Fisher": _pass_alone(seconds, len(data)),
        "loop": _to_plain(seconds, "loop", len(data) / few),
        "vmap": _to_plain(seconds, "vmap", len(data) / few),
        "checks, in samples": round(median(seconds["checks"]) / median(seconds["plain"]) * len(data), 1),
        "served by": " and ".join(tiers),
    }


def plain_pass(subject: Subject) -> None:
    """Go once forward and once backward over the data, as training does, and leave no gradients behind."""
    for x, y in batches(subject.data, subject.batch_size, subjects.CLASSES):
        F.cross_entropy(subject.model(as_input(x, subject.model)), y).backward()
        subject.model.zero_grad()


def one_by_one(subject: Subject, data: Dataset, way: Callable[..., Squares]) -> Squares:
    """Return the sum of squares by one of the slow ways, for all parameters."""
    with fisher._working_copy(subject.model) as model:
        return way(model, as_input(data.x, model), data.y, set(trainable(model)))


def _pass_alone(seconds: Seconds, n: int) -> float:
    """Return the Fisher pass without the checks before it, which a long pass does not feel.

    The checks end with a pass over the samples they were made on.
    """
    parts = zip(seconds["Fisher"], seconds["checks"], seconds["plain"], strict=True)
    share = n / max(1, n - PROBE)
    return round(median(share * (whole - once) / plain for whole, once, plain in parts), 3)


def _to_plain(seconds: Seconds, name: str, scale: float) -> float:
    pairs = zip(seconds[name], seconds["plain"], strict=True)
    return round(median(scale * slow / plain for slow, plain in pairs), 2)
