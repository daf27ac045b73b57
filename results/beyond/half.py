"""CIFAR-10's MLP at half the size, as it is begun (decision 29): what decisions 31 and 32 were found on.

From the repository's root, after `unsee data fetch cifar-10`:

    python results/beyond/half.py

5 million weights in place of 85, tile. T is not given but fitted to the pairs. *Shifted*: the least of the
four accuracies if the logit of class 0 is shifted to where it is highest on the test set, so that what is
lost by balance can be told from the rest; nobody can do that without D_r. Goes on where it was stopped:
rows lie in results/beyond/half, networks in runs/beyond.
"""

import warnings
from dataclasses import replace
from pathlib import Path

import run as beyond
import torch

from unsee import FourDatasets, forget, remember, sources, store
from unsee.answers import logits
from unsee.datasets import Dataset, concatenate
from unsee.formulation import SETS, FourSets
from unsee.paper import pretraining
from unsee.paper.cells import TRANSFORMS, Unit
from unsee.paper.growing import halved
from unsee.paper.scale import Scale
from unsee.recipe import RECIPES

HERE, WORK, UNIT = Path("results/beyond/half"), Path("runs/beyond"), Unit("cifar-10", "tile")
FIRM = 3e3  # lambda_KL as it was


def half(sets: FourSets) -> FourSets:
    """Return the sets at half the size."""
    return FourSets(**{name: halved(data) for name, data in sets.present().items()})


def trained(D: Dataset, name: str, rates=UNIT.at_half) -> torch.nn.Module:
    """Train the network at half the size from scratch."""
    return pretraining.in_parts(pretraining.mlp(D, Scale()), D, rates, WORK / f"half-{name}", {})


def judged(model: torch.nn.Module, test: FourSets) -> dict:
    """Return the four accuracies, their least, and what it could be under another logit of class 0."""
    z = {name: (logits(model, data), data.y) for name, data in test.present().items()}

    def shifted(b: float) -> dict[str, float]:
        far = torch.zeros(10).index_fill(0, torch.tensor(0), b)
        return {
            name: float(((y + far).argmax(1) == labels).double().mean()) for name, (y, labels) in z.items()
        }

    found = shifted(0.0)
    best = max(min(shifted(b / 10).values()) for b in range(-20, 21))
    return {name: round(value, 6) for name, value in found.items()} | {
        "least": round(min(found.values()), 6),
        "shifted": round(best, 6),
    }


def run() -> None:
    """All rows: the network, what the default recipe makes of it, and retraining."""
    four = FourDatasets.of_class(sources.cifar_10(), 0, TRANSFORMS["tile"]())
    small = FourDatasets(half(four.train), half(four.test))
    model = trained(halved(four.pretraining), "tile")
    once = lambda name, make: beyond.once(HERE / f"{name}.json", make)  # noqa: E731
    once("pretrained", lambda: judged(model, small.test))
    whole = remember(model, halved(four.pretraining), sketch=32)
    ways = {"sketch": whole, "Fisher": replace(whole, sketch=None), "no memory": None}

    def forgotten(way: str, lambda_kl: float) -> dict:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            recipe = replace(RECIPES["unsee"], lambda_kl=lambda_kl)
            result = forget(model, small.request("B"), ways[way], recipe, seed=0, again=False)
        return judged(result.model, small.test) | {"back_to": result.back_to}

    for way in ways:
        once(f"ours, {way}", lambda w=way: forgotten(w, RECIPES["unsee"].lambda_kl))
    for way in ("sketch", "Fisher"):
        once(f"ours, {way}, lambda_KL = {FIRM:g}", lambda w=way: forgotten(w, FIRM))
    D = concatenate([four.train.D_r, four.train.D_f_clean], "D_r and D_f,clean")
    with_T = halved(beyond.half_with(four.T, D))
    once("retrained on D_r and D_f,clean", lambda: judged(trained(halved(D), "tile-retrained"), small.test))
    once("retrained with T, rates of pretraining", lambda: judged(trained(with_T, "tile-with-T"), small.test))
    gently = lambda: judged(trained(with_T, "tile-gently", beyond.GENTLY), small.test)  # noqa: E731
    once("retrained with T, smaller rates", gently)


def write() -> None:
    """Write half.md from the rows."""
    columns = (*SETS, "least", "shifted")
    text = ["# CIFAR-10's MLP at half the size", "", __doc__.strip(), "", "One forgetting seed.", ""]
    text += [f"| | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for path in sorted(HERE.glob("*.json")):
        row = store.read_json(path)
        text.append(f"| {path.stem} | {' | '.join(f'{row[name]:.3f}' for name in columns)} |")
    store.write_bytes(HERE.with_suffix(".md"), ("\n".join(text) + "\n").encode())


if __name__ == "__main__":
    run()
    write()
