"""The plausible readings of what the paper leaves unstated, on Fashion-MNIST, one seed: CE + Fisher + RLD
on tile, and RLD in Pattern A.

From the repository's root, after `unsee data fetch fashion-mnist`:

    python results/paper/readings.py

Goes on where it was stopped: rows lie in results/paper/readings.json, the page beside it. Final accuracies
are on whole test sets, the highest over the epochs on the first 2,000 images.
"""

import copy
import sys
from dataclasses import asdict, replace
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from unsee import Memory, networks, remember, store, train
from unsee.answers import as_input
from unsee.datasets import Dataset
from unsee.errors import Diverged, InputError
from unsee.formulation import FourDatasets
from unsee.layers import Standardise
from unsee.paper.cells import Cell, Unit
from unsee.paper.rows import Rows, summary
from unsee.paper.running import Pretrained, evaluate, evaluator, forget, pretrained
from unsee.paper.scale import Scale

HERE, WORK = Path("results/paper"), Path("runs/paper")
SETS = ("D_r", "D_f", "D_f_clean", "D_r_extra")
READINGS = {
    "as chosen": {},
    "RLD draws from the classes other than 0": {"labels": "others"},
    "RLD draws from all classes": {"labels": "all"},
    "Fisher over D": {"fisher_over": "D"},
    "batch size 32": {"batch_size": 32},
    "batch size 512": {"batch_size": 512},
    "5 epochs": {"epochs": 5},
    "20 epochs": {"epochs": 20},
    "Fisher of means of 128": {"fisher_over": 128},
}


# Of the network: it is pretrained anew.
NETWORKS = ("activation continuous", "inputs from 0 to 1", "activation continuous, inputs from 0 to 1")
# Fisher of means: the square of a batch's mean gradient in the place of the mean of squares.
WEAKLY = {"": {}} | {f", Fisher of means of {n}": {"fisher_over": n} for n in (8, 32, 128)}
ON_OTHERS = {reading: WEAKLY if reading == NETWORKS[0] else {"": {}} for reading in NETWORKS}
# Of RLD in Pattern A, for which the paper has one learning rate, 1e-5, and one lambda_KL, 1e5.
READINGS_A = {
    "as chosen": {},
    "Fisher over D_r": {"fisher_over": "D_r"},
    "RLD draws from all classes": {"labels": "all"},
    "batch size 32": {"batch_size": 32},
    "30 epochs": {"epochs": 30},
    "batch size 32, 30 epochs": {"batch_size": 32, "epochs": 30},
    "learning rate 3e-5": {"lr": 3e-5},
    "learning rate 1e-4": {"lr": 1e-4},
    "Fisher of means of 128": {"fisher_over": 128},
}
TILE, PLAIN = Unit("fashion-mnist", "tile"), Unit("fashion-mnist", None)


def run(ready: Pretrained, cell: Cell, changes: dict) -> dict:
    """Forget once under one reading, and return the accuracies."""
    memory, request = ready.memory, ready.four.request(cell.pattern)
    if isinstance(size := changes.get("fisher_over"), int):
        D = ready.four.pretraining if cell.pattern == "A" else ready.four.train.D_r
        memory, changes = of_batch_means(ready.model, D, memory, size), {**changes, "fisher_over": "D"}
    words = {"seed": 0, "evaluator": evaluator(ready.four, 2000), "again": False}
    try:
        result = forget(ready.model, request, memory, replace(cell.recipe, **changes), **words)
    except Diverged:
        return {"diverged": True, "network": ready.id}
    found = evaluate(result.model, ready.four).accuracies()
    row = {name: round(value, 6) for name, value in found.items()} | {"network": ready.id}
    if cell.pattern == "A":
        return row
    highest = max(row["D_r_extra"] for row in result.trajectory)
    return row | {"highest D_r_extra": round(highest, 6)}


def of_batch_means(model: nn.Module, D: Dataset, memory: Memory, size: int) -> Memory:
    """Return a memory with the mean over batches of the squared gradient of a batch's mean loss.

    Much public code of EWC takes this for the Fisher; it is smaller by about the batch size.
    """
    model, sums, n = copy.deepcopy(model).eval(), {}, 0
    order = torch.randperm(len(D), generator=torch.Generator().manual_seed(0))
    for rows in order.split(size):
        model.zero_grad()
        F.cross_entropy(model(as_input(D.x[rows], model)), D.y[rows]).backward()
        for name, p in model.named_parameters():
            sums[name] = sums.get(name, 0) + p.grad.double() ** 2
        n += 1
    return replace(memory, sums={name: values / n * memory.n for name, values in sums.items()})


def another(unit: Unit, reading: str) -> Pretrained:
    """Pretrain a unit's network under another reading of what it is."""
    four = FourDatasets.of_class(Scale().data(unit.data), 0, unit.transform())
    D, folder = four.pretraining, WORK / f"{unit.name}-{reading.replace(', ', '-').replace(' ', '-')}"
    model: nn.Module = networks.network("mlp", D, printed="continuous" not in reading)
    if "inputs" in reading:
        model[0] = Standardise((0.0,), (255.0,))
    for i, (epochs, lr) in enumerate(unit.pretraining):
        model = train(model, D, epochs=epochs, lr=lr, folder=folder / f"part-{i + 1}" if i else folder).model
    return Pretrained(unit, four, model, remember(model, D), networks.identity(model))


def page(rows: dict) -> str:
    """Return the tables of all readings as Markdown."""
    columns = (*SETS, "highest D_r_extra")
    lines = [f"| pattern | reading | {' | '.join(columns)} |", "|---" * (len(columns) + 2) + "|"]
    for name, row in sorted(rows.items(), key=lambda item: "BCA".index(item[0][0])):
        pattern, reading = name.split(": ")
        if name == "A: as chosen":
            lines += [
                "",
                f"Pattern A, RLD; the paper has 0.819 on D_r and 0.012 on D_f{of_another(row)}:",
                "",
            ]
            lines += ["| pattern | reading | D_r | D_f |", "|---" * 4 + "|"]
        wanted = SETS[:2] if pattern == "A" else columns
        cells = (
            ["diverged"] + [""] * (len(wanted) - 1)
            if "diverged" in row
            else [f"{row[c]:.3f}" for c in wanted]
        )
        lines.append(f"| {pattern} | {reading} | {' | '.join(cells)} |")
    return "\n".join(["# Readings of what the paper leaves open", "", __doc__.strip(), "", *lines, ""])


def of_another(row: dict) -> str:
    """Say so where the rows of Table 2 are of another network than these."""
    known = store.read_json(HERE / "rows" / f"{PLAIN.name}-pretrained.json")["network"]
    if row["network"] == known:
        return ""
    mean = summary(Rows(HERE / "rows").read(Cell(PLAIN, "A", "RLD")), "D_f")[0]
    names = f"network {row['network'][:10]}, pretrained as Table 2's {known[:10]} was, on another machine"
    return f" ({names}: as chosen, D_f is {row['D_f']:.3f} here and {mean:.3f} there)"


def run_all(rows: dict, path: Path, cells: dict, prepare) -> None:
    """Run what is missing of these, on the network that `prepare` returns, which is made only if needed.

    Other machines make other networks: rows of two are not mixed.
    """
    ready, known = None, {rows[name]["network"] for name in cells if name in rows}
    for name, (cell, changes) in cells.items():
        if name not in rows:
            sys.stderr.write(f"{name}\n")
            ready = ready or prepare()
            if known - {ready.id}:
                do = f"remove {path}, and run all anew"
                raise InputError(f"network {known.pop()[:10]}, as {path} has", ready.id[:10], do)
            rows[name] = run(ready, cell, changes)
            store.write_json(path, rows)


def main() -> None:
    """Run all readings and write the page."""
    path = HERE / "readings.json"
    rows = store.read_json(path) if path.exists() else {}
    line = "CE + Fisher + RLD"
    tiles = {
        f"{p}: {name}": (cell, words)
        for p, cell in {p: Cell(TILE, p, line) for p in "BC"}.items()
        for name, words in READINGS.items()
        if not words or words.items() - asdict(cell.recipe).items()  # what was chosen is no other reading
    }
    run_all(rows, path, tiles, lambda: pretrained(TILE, Scale(), WORK))
    for reading in NETWORKS:
        cells = {
            f"{p}: {reading}{more}": (Cell(TILE, p, line), words)
            for more, words in ON_OTHERS[reading].items()
            for p in "BC"
        }
        run_all(rows, path, cells, lambda reading=reading: another(TILE, reading))
    plain = {f"A: {name}": (Cell(PLAIN, "A", "RLD"), words) for name, words in READINGS_A.items()}
    run_all(rows, path, plain, lambda: pretrained(PLAIN, Scale(), WORK))
    for reading in NETWORKS:
        cells = {
            f"A: {reading}{more}": (Cell(PLAIN, "A", "RLD"), words)
            for more, words in ON_OTHERS[reading].items()
        }
        run_all(rows, path, cells, lambda reading=reading: another(PLAIN, reading))
    store.write_bytes(HERE / "readings.md", page(rows).encode())


if __name__ == "__main__":
    main()
