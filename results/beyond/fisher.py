"""What theta_old still carries of T: the Fisher over D_r, and other ways to hold theta. Fashion-MNIST, tile.

From the repository's root, after `python results/beyond/run.py` (whose network and memory this uses):

    python results/beyond/fisher.py [--seeds 2]

R held ten times as firmly then as by default now, lambda_KL = 3,000 (docs/decisions/0032): rows here are to
be compared with each other, not with those of README.md.

Goes on where it was stopped: rows and page lie in results/beyond/fisher.json and fisher.md.
"""

import argparse
import statistics
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import torch

from unsee import FourDatasets, evaluate, forget, networks, remember, sources, store, tile, train
from unsee.datasets import Dataset
from unsee.memory import Memory
from unsee.randomness import stream
from unsee.recipe import RECIPES
from unsee.standins import stand_ins

HERE, WORK = Path("results/beyond"), Path("runs/beyond/fashion-mnist-tile")
SETS = ("D_r", "D_f", "D_f_clean", "D_r_extra")
# The memories below are as they are to be used. R held so firmly then (docs/decisions/0032).
OVER_D = replace(RECIPES["unsee"], fisher_over="D", lambda_kl=3e3)


def memories(model, four) -> dict[str, Memory | None]:
    """Return the memory in each of the ways that are compared."""
    whole = replace(Memory.load(WORK / "sketch.safetensors"), sketch=None)
    share = remember(model, four.train.D_f)
    rest = whole.subtract(share)

    def damped(how) -> Memory:
        parts = {
            name: how(rest.sums[name] / rest.n, share.sums[name] / share.n) * rest.n for name in rest.sums
        }
        return replace(rest, sums=parts)

    return {
        "none": None,
        "over D": whole,
        "over D_r": rest,
        "over D_r, times its share of F(D_r) + F(D_f)": damped(lambda r, f: r * r / (r + f).clamp_min(1e-30)),
        "over D_r, 0 where F(D_f) is ten times F(D_r)": damped(lambda r, f: r.where(f < 10 * r, 0.0)),
    }


def judged(model, four) -> dict:
    """Return the four accuracies."""
    return {name: round(value, 6) for name, value in evaluate(model, four).accuracies().items()}


def retaken(model, four, first, seed: int) -> dict:
    """Take the Fisher anew at the new theta, over stand-ins with the old model's answers, and forget on."""
    x = stand_ins(four.train.D_f_clean.x, 5000, stream(seed, "retaken"))
    with torch.no_grad():
        y = torch.cat([model(part.float()).argmax(1) for part in x.split(1000)])
    again = remember(first.model, Dataset(x, y, four.train.D_f.classes))
    second = forget(first.model, four.request("B"), again, replace(OVER_D, epochs=5), seed=seed)
    return judged(second.model, four)


def run(seeds: int) -> dict:
    """Return all rows, made where they are not there yet."""
    path = HERE / "fisher.json"
    rows = store.read_json(path) if path.exists() else {}
    four = FourDatasets.of_class(sources.fashion_mnist(), 0, tile())
    D = four.pretraining
    model = train(networks.network("mlp", D), D, epochs=5, folder=WORK).model
    ways = memories(model, four)
    for seed in range(seeds):
        for way, memory in ways.items():
            if (name := f"{way}: {seed}") not in rows:
                sys.stderr.write(f"{name}\n")
                first = forget(model, four.request("B"), memory, OVER_D, seed=seed)
                rows[name] = judged(first.model, four)
                if way == "over D_r":
                    rows[f"over D_r, then retaken: {seed}"] = retaken(model, four, first, seed)
                store.write_json(path, rows)
    return rows


def page(rows: dict) -> str:
    """Return the table as Markdown, means over the seeds."""
    lines = [f"| the Fisher | {' | '.join(SETS)} | least | runs |", "|---" * (len(SETS) + 3) + "|"]
    for way in dict.fromkeys(name.rsplit(": ", 1)[0] for name in rows):
        mine = [row for name, row in rows.items() if name.rsplit(": ", 1)[0] == way]
        means = [statistics.mean(row[name] for row in mine) for name in SETS]
        lines.append(f"| {way} | {' | '.join(f'{m:.3f}' for m in (*means, min(means)))} | {len(mine)} |")
    return "\n".join(["# Which Fisher", "", __doc__.strip(), "", *lines, ""])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=2)
    warnings.simplefilter("ignore")
    store.write_bytes(HERE / "fisher.md", page(run(parser.parse_args().seeds)).encode())
