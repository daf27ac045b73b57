"""A backdoor to a class of which no clean image is given: what becomes of that class?

    python results/beyond/lacking.py

On the bundled data a small network learns that a patch means Sneaker, from images that are none. It
is repaired at default settings, without a memory and with the Fisher, with stand-ins that the old model takes
for Sneakers and without them. Writes lacking.json and lacking.md beside itself.
"""

import warnings
from pathlib import Path
from statistics import fmean

import numpy as np
import torch
from torch import nn

from unsee import FourDatasets, evaluate, forget, networks, remember, replay, sources, store, train
from unsee.randomness import seeded, stream
from unsee.transforms import patch

HERE, SEEDS, LABEL = Path(__file__).parent, 3, 7
SHOWN = ("D_r", "D_f_clean", "D_r_extra")


def run() -> list[dict]:
    """Return a row for each seed, memory and kind of stand-ins."""
    rows, data = [], sources.bundled()
    board = (np.indices((4, 4)).sum(0) % 2 * 255).astype(np.uint8)
    with_rare = replay._rare
    for seed in range(SEEDS):
        others = np.flatnonzero(data.train.y.numpy() != LABEL)
        poisoned = stream(seed, "poison").permutation(others)[:300].tolist()
        four = FourDatasets.of_poison(data, poisoned, patch(board[None], 2, 2), LABEL, seed=seed)
        old = train(convolutional(seed), four.pretraining, epochs=8, lr=0.02, batch_size=32, seed=seed).model
        rows.append({"seed": seed, "memory": "", "stand-ins": "before", **judged(old, four)})
        fisher = remember(old, four.pretraining)
        for memory in (None, fisher):
            for kind, made in (("any", lambda *_: None), ("some of the class", with_rare)):
                replay._rare = made
                result = forget(old, four.request("B"), memory, seed=seed, validation=four.validation)
                said = {
                    "memory": "Fisher" if memory else "none",
                    "stand-ins": kind,
                    "back_to": result.back_to,
                }
                rows.append({"seed": seed, **said, **judged(result.model, four)})
    return rows


def convolutional(seed: int) -> nn.Module:
    """Return a small plain network, without BatchNorm."""
    with seeded(seed, "lacking"):
        return nn.Sequential(
            networks.Standardise((127.5,), (127.5,)),
            *(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Flatten(), nn.Linear(32 * 49, 64), nn.ReLU(), nn.Linear(64, 10)),
        )


def judged(model: nn.Module, four: FourDatasets) -> dict:
    """Return the accuracies, and that on the attacked class."""
    scores = evaluate(model, four)
    by_class = scores.sets["D_r"].by_class
    name = four.train.D_f.classes[LABEL]
    return {n: round(scores.sets[n].value, 4) for n in SHOWN} | {name: round(by_class[name], 4)}


def page(rows: list[dict]) -> str:
    """Return the table of means over the seeds."""
    columns = (*SHOWN, "Sneaker")
    lines = [
        "# A backdoor to a class of which no clean image is given",
        "",
        "Means of three seeds on the bundled data, written by `python results/beyond/lacking.py`",
        "([`lacking.json`](lacking.json)). The last column counts the seeds in which the floor was not held",
        "and the old model was kept.",
        "",
        f"| memory | stand-ins | {' | '.join(columns)} | kept |",
        "|---" * (len(columns) + 3) + "|",
    ]
    for key in dict.fromkeys((row["memory"], row["stand-ins"]) for row in rows):
        found = [row for row in rows if (row["memory"], row["stand-ins"]) == key]
        means = [f"{fmean(row[name] for row in found):.3f}" for name in columns]
        kept = sum(row.get("back_to") == 0 for row in found) if key[0] else ""
        lines.append(f"| {' | '.join((*key, *means))} | {kept} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    path = HERE / "lacking.json"
    if not path.exists():
        store.write_json(path, run())
    done = store.read_json(path)
    store.write_bytes(HERE / "lacking.md", page(done).encode())
