"""T bound to one class, a residual network with BatchNorm of thirty thousand weights: Fashion-MNIST, tile,
Pattern B, by the default recipe, with some of D_f known and with all of it.

From the repository's root, after `unsee data fetch fashion-mnist`:

    python results/beyond/bound.py [--seeds 3] [--known 100 1000 5400]

*as before*: R as firm as it was before docs/decisions/0041, where a thousand samples of D_f are known. Goes
on where it was stopped: rows lie in results/beyond/bound, and so does the network; its memory and what is
retrained lie in runs/beyond.
"""

import argparse
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import run as beyond
import torch
import torch.nn.functional as F
from page import floors, mark, told
from torch import nn

from unsee import FourDatasets, firmness, forget, networks, remember, sources, store
from unsee.datasets import Dataset, concatenate
from unsee.formulation import Request
from unsee.memory import Memory
from unsee.paper.cells import TRANSFORMS
from unsee.randomness import seeded, stream
from unsee.recipe import RECIPES

HERE, WORK = Path("results/beyond/bound"), Path("runs/beyond/bound")
WAYS, BEFORE = ("sketch", "Fisher", "no memory"), "as before"
COLUMNS = ("D_r", "D_f", "D_f_clean", "D_r_extra", "least B", "least C")


def trained(D: Dataset, path: Path) -> nn.Module:
    """Return the network at `path`, trained for three epochs if it is not there."""
    with seeded(0, "bound"):
        layers: list[nn.Module] = [networks.Standardise([73.0], [90.0])]
        layers += [nn.Conv2d(1, 10, 3, 1, 1, bias=False), nn.BatchNorm2d(10), nn.ReLU()]
        layers += [networks.ResidualBlock(a, b, 2) for a, b in pairwise((10, 10, 20, 40))]
        model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(40, 10))
    if path.exists():
        return networks.load(path, into=model).eval()
    sgd = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, nesterov=True, weight_decay=5e-4)
    rate = torch.optim.lr_scheduler.OneCycleLR(sgd, 0.2, total_steps=3 * -(-len(D) // 128), pct_start=0.25)
    for epoch in range(3):
        for rows in torch.as_tensor(stream(0, f"bound/{epoch}").permutation(len(D))).split(128):
            loss = F.cross_entropy(model.train()(D.x[rows].float()), D.y[rows])
            sgd.zero_grad()
            loss.backward()
            sgd.step()
            rate.step()
    networks.save(model, path)
    return model.eval()


def run(seeds: int, known: list[int]) -> None:
    """Make the rows that are missing."""
    four = FourDatasets.of_class(sources.fashion_mnist(), 0, TRANSFORMS["tile"]())
    model = trained(four.pretraining, HERE / "network.safetensors")
    network, path = networks.identity(model), WORK / "sketch.safetensors"
    beyond.once(HERE / "pretrained.json", lambda: beyond.judged(model, four), network=network)
    if not path.exists() or Memory.load(path).model != network:
        remember(model, four.pretraining, sketch=32).save(path)
    whole, most = Memory.load(path), firmness.MEAN_F
    memories = {"sketch": whole, "Fisher": replace(whole, sketch=None), "no memory": None}
    asked = four.request("B")

    def forgotten(way: str, n: int, seed: int) -> dict:
        request = Request("B", asked.D_f.subset(range(n)), asked.D_f_clean.subset(range(n)), asked.T)
        memory = memories[way.split(", ")[0]]
        firmness.MEAN_F = 1.0 if BEFORE in way else most  # no network's F is larger
        result = forget(model, request, memory, seed=seed, again=False)
        firmness.MEAN_F = most
        return beyond.judged(result.model, four) | beyond.written(result, [])

    for seed in range(seeds):
        for n in known:
            for way in (*WAYS, *(f"{way}, {BEFORE}" for way in WAYS[:2] if n == 1000)):
                made = lambda w=way, n=n, s=seed: forgotten(w, n, s)  # noqa: E731
                key = {"network": network, **beyond.method(RECIPES["unsee"])}
                beyond.once(HERE / f"{n} known, {way}, {seed}.json", made, **key)
    D = concatenate([four.train.D_r, four.train.D_f_clean], "D_r and D_f,clean")
    for name, data in {
        "on D_r and D_f,clean": D,
        "with T in training": concatenate([D, four.T(D)], "with and without T"),
    }.items():
        made = lambda d=data, n=name: beyond.judged(trained(d, WORK / f"{n}.safetensors"), four)  # noqa: E731
        beyond.once(HERE / f"retrained {name}.json", made)


def write() -> None:
    """Write bound.md from the rows."""
    text = ["# A class and its mark, a residual network", "", __doc__.strip(), ""]
    text += [f"| known | way | {' | '.join(COLUMNS)} | runs |", "|---" * (len(COLUMNS) + 3) + "|"]
    groups: dict[tuple[int, str], list[dict]] = {}
    for path in HERE.glob("*.json"):
        known, _, way = path.stem.rpartition(" known, ")
        way = way.rpartition(", ")[0] if known else way
        groups.setdefault((int(known or 0), way), []).append(store.read_json(path))
    for (known, way), rows in sorted(groups.items()):
        cells = [told([row[column] for row in rows]) for column in COLUMNS]
        text.append(
            f"| {f'{known:,}' if known else ''} | {way}{mark(rows)} | {' | '.join(cells)} | {len(rows)} |"
        )
    text += ["", "± is the deviation over forgetting seeds.", ""]
    text += floors(HERE.glob("*known*.json"))
    store.write_bytes(HERE.parent / "bound.md", ("\n".join(text) + "\n").encode())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--known", type=int, nargs="*", default=[100, 1000, 5400])
    parser.add_argument("--page", action="store_true", help="only write the page again")
    given = parser.parse_args()
    if not given.page:
        run(given.seeds, given.known)
    write()
