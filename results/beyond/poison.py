"""Dirty-label poison on CIFAR-10: a residual network with BatchNorm that learnt a corner patch or a blended
trigger, and the default recipe with a sketch, with the Fisher only, without any memory, beside retraining.

From the repository's root, after `unsee data fetch cifar-10`:

    python results/beyond/poison.py [--T patch blend] [--share 0.05 0.01] [--seeds 3]

Goes on where it was stopped: rows lie in results/beyond/poison, networks in runs/beyond.
"""

import argparse
import math
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from unsee import FourDatasets, networks, sources
from unsee.datasets import Dataset
from unsee.randomness import stream
from unsee.transforms import Transform, blend, patch

HERE, WORK = Path("results/beyond/poison"), Path("runs/beyond")
LABEL = 0


def trigger(name: str) -> Transform:
    """Return a 4 x 4 checkerboard in the corner, or a fixed noise picture blended in at a fifth."""
    if name == "patch":
        board = np.indices((4, 4)).sum(0) % 2 * 255
        return patch(np.stack([board] * 3).astype(np.uint8), 27, 27)
    noise = stream(0, "blended trigger").integers(0, 256, (3, 32, 32), dtype=np.uint8)
    return blend(noise, 0.2)


def poisoned(T: str, share: float) -> FourDatasets:
    """Return CIFAR-10 with T and the attacker's label on a share of the training images of all classes."""
    data = sources.cifar_10()
    rows = stream(0, "poison").permutation(len(data.train))[: round(share * len(data.train))]
    return FourDatasets.of_poison(data, rows.tolist(), trigger(T), LABEL)


def pretrained(D: Dataset, path: Path, *, epochs: int = 12, peak: float = 0.3) -> nn.Module:
    """Train the network as engineers do: flips and shifts, one rise and fall of the learning rate."""
    if path.exists():
        return networks.load(path).eval()
    model = networks.network("resnet", D, width=24, blocks=1).to(memory_format=torch.channels_last).train()
    steps = math.ceil(len(D) / 128) * epochs
    sgd = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, nesterov=True, weight_decay=5e-4)
    rate = torch.optim.lr_scheduler.OneCycleLR(sgd, peak, total_steps=steps, pct_start=0.25)
    for epoch in range(epochs):
        generator = stream(0, f"training/{epoch}")
        for rows in torch.as_tensor(generator.permutation(len(D))).split(128):
            x = augmented(D.x[rows].float(), generator)
            loss = F.cross_entropy(model(x.contiguous(memory_format=torch.channels_last)), D.y[rows])
            sgd.zero_grad()
            loss.backward()
            sgd.step()
            rate.step()
        sys.stderr.write(f"{path.stem}: epoch {epoch + 1} of {epochs}, last loss {loss.item():.3f}\n")
    model = model.to(memory_format=torch.contiguous_format).eval()
    networks.save(model, path)
    return model


def augmented(x: torch.Tensor, generator: np.random.Generator) -> torch.Tensor:
    """Flip half of the images, move the batch by at most four pixels."""
    flip = torch.as_tensor(generator.random(len(x)) < 0.5)
    x = torch.where(flip[:, None, None, None], x.flip(3), x)
    down, right = generator.integers(0, 9, 2)
    return F.pad(x, (4, 4, 4, 4), value=120.0)[..., down : down + 32, right : right + 32]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--T", choices=("patch", "blend"), nargs="*", default=["patch", "blend"])
    parser.add_argument("--share", type=float, nargs="*", default=[0.05, 0.01])
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    from unsee import evaluate

    for T in given.T:
        for share in given.share:
            four = poisoned(T, share)
            model = pretrained(four.pretraining, WORK / f"poison-{T}-{share}" / "model.safetensors")
            sys.stderr.write(f"{T} {share} {evaluate(model, four).accuracies()}\n")
