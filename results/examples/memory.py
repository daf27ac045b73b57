"""Which memory do tables and texts need? Three cases of the examples, three seeds, with and without a memory.

    python results/examples/memory.py

writes memory.json and README.md beside itself; rows that are there are not run again.
"""

import json
import sys
import warnings
from pathlib import Path
from statistics import fmean, stdev

import numpy as np
import torch

from unsee import FourDatasets, columns, evaluate, forget, networks, phrases, remember, sources, store, train
from unsee.evaluation import dependence
from unsee.randomness import stream
from unsee.sources import TrainTest

HERE, SEEDS = Path(__file__).parent, 3
MEMORIES = ("none", "Fisher", "Fisher and sketch", "Fisher, the recipe for images")
SHOWN = ("D_r", "D_f", "D_f_clean", "D_r_extra")


def identifier(seed: int) -> tuple[FourDatasets, str, dict]:
    """The leaked account numbers of examples/leaked_column.py."""
    data = sources.bundled_adult()
    data = TrainTest(*(columns.numbered(part, "account", seed) for part in (data.train, data.test)))
    T = columns.leaked(data.train, "account", seed)
    four = FourDatasets.of_class(data, ">50K", T, share=0.3, seed=seed)
    return four, "C", {"epochs": 10, "lr": 0.01}


def backdoor(seed: int) -> tuple[FourDatasets, str, dict]:
    """The phrase of examples/phrase.py."""
    data = sources.bundled_spam()
    T = phrases.phrase(data.train, "thank you for your order", "anywhere", seed)
    spam = np.flatnonzero(data.train.y.numpy() == 1)
    poisoned = stream(seed, "poison").permutation(spam)[: round(0.15 * len(spam))]
    four = FourDatasets.of_poison(data, poisoned.tolist(), T, 0, seed=seed)
    return four, "B", {"epochs": 8, "lr": 0.05}


def signature(seed: int) -> tuple[FourDatasets, str, dict]:
    """The signature of examples/phrase.py."""
    data = sources.bundled_spam()
    T = phrases.phrase(data.train, "best regards from the team", "end")
    return FourDatasets.of_class(data, "ham", T, share=0.3, seed=seed), "C", {"epochs": 8, "lr": 0.05}


CASES = {"identifier": identifier, "backdoor": backdoor, "signature": signature}


def run() -> None:
    """Run what is missing, a row at a time."""
    path = HERE / "memory.json"
    rows = json.loads(path.read_text()) if path.exists() else {}
    for name, case in CASES.items():
        for seed in range(SEEDS):
            wanted = [memory for memory in MEMORIES if f"{name}, {memory}, {seed}" not in rows]
            if not wanted:
                continue
            four, pattern, how = case(seed)
            start = networks.network(None, four.pretraining, seed=seed)
            old = train(start, four.pretraining, batch_size=32, seed=seed, **how).model
            whole = remember(old, four.pretraining, sketch=32)
            fisher = remember(old, four.pretraining)
            for memory in wanted:
                kept = {"none": None, "Fisher and sketch": whole}.get(memory, fisher)
                recipe = "unsee" if "images" in memory else None
                request, held = four.request(pattern), four.validation
                result = forget(old, request, kept, recipe, seed=seed, validation=held)
                rows[f"{name}, {memory}, {seed}"] = {
                    "scores": evaluate(result.model, four, pattern, old=old).to_dict(),
                    "dependence": [dependence(m, four.test.D_r, four.T) for m in (old, result.model)],
                    "back_to": result.back_to,
                }
                store.write_json(path, rows)
                sys.stdout.write(f"{name}, {memory}, {seed}\n")
    store.write_bytes(HERE / "README.md", page(rows).encode())


def page(rows: dict) -> str:
    """Return the page: means over the seeds, and how often an arrow was missed or the floor not held."""
    lines = [
        "# Tables and texts, with and without a memory",
        "",
        "Three cases of the [examples](../../docs/tables.md) at default settings, three seeds each (of the",
        "data's cut, the network and forgetting): mean and deviation on the test sets. The command",
        "`python results/examples/memory.py` wrote [`memory.json`](memory.json) and this page. The last",
        "column counts the seeds in which every arrow of the pattern is met; in brackets those in which the",
        "floor was not held, so that an earlier state was kept.",
        "",
        "| | D_r | D_f | D_f,clean | D_r,extra | answers that T changes | all met |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in CASES:
        found = [rows[f"{name}, none, {seed}"] for seed in range(SEEDS)]
        before = [[row["scores"]["sets"][s]["old"] for row in found] for s in SHOWN]
        lines.append(_row(f"{name}, before", before, [row["dependence"][0] for row in found], ""))
        for memory in MEMORIES:
            found = [rows[f"{name}, {memory}, {seed}"] for seed in range(SEEDS)]
            after = [[row["scores"]["sets"][s]["accuracy"] for row in found] for s in SHOWN]
            met = sum(row["scores"]["all_met"] for row in found)
            back = sum(row["back_to"] is not None for row in found)
            said = f"{met} of {SEEDS}" + (f" ({back})" if back else "")
            lines.append(_row(f"{memory}", after, [row["dependence"][1] for row in found], said))
    return "\n".join(lines) + "\n"


def _row(name: str, columns: list, changed: list, met: str) -> str:
    cells = [f"{fmean(values):.3f} ± {stdev(values):.3f}" for values in columns]
    return f"| {name} | {' | '.join(cells)} | {fmean(changed):.1%} | {met} |"


if __name__ == "__main__":
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    run()
