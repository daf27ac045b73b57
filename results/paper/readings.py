"""The plausible readings of what the paper leaves unstated, one seed: CE + Fisher + RLD on Fashion-MNIST,
tile, and on CIFAR-10; and RLD in Pattern A on Fashion-MNIST.

From the repository's root, after `unsee data fetch fashion-mnist` and `unsee data fetch cifar-10`:

    python results/paper/readings.py

CIFAR-10's network is the one at half the size that ours is begun as (docs/decisions/0029), on halved images.
Goes on where it was stopped: rows lie in results/paper/readings.json, the page beside it. Final accuracies
are on whole test sets, the highest over the epochs on the first 2,000 images. A Fisher of means is the
square of a batch's mean gradient, averaged over batches, in the place of the mean of squares.
"""

import copy
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from unsee import Memory, evaluate, evaluator, forget, networks, remember, store, terms
from unsee.answers import as_input
from unsee.datasets import Dataset
from unsee.errors import Diverged, InputError
from unsee.formulation import FourDatasets
from unsee.layers import Standardise
from unsee.paper.cells import Cell, Unit
from unsee.paper.growing import halved
from unsee.paper.pretraining import Pretrained, in_parts, pretrained
from unsee.paper.reported import D_R_EXTRA_REMAINS_AROUND, TABLE_2
from unsee.paper.rows import Rows, summary
from unsee.paper.scale import Scale
from unsee.randomness import stream
from unsee.scores import PRINTED
from unsee.sources import TrainTest

HERE, WORK = Path("results/paper"), Path("runs/paper")
SETS = ("D_r", "D_f", "D_f_clean", "D_r_extra")
LINE = "CE + Fisher + RLD"
PAPER = {name: TABLE_2["fashion-mnist"]["RLD"][name].mean for name in ("D_r", "D_f")}
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
    "L_c and L_f summed over the batch": {"summed": True},
    "L_c and L_f summed over the batch of 8": {"summed": True, "batch_size": 8},
    "RLD's labels drawn once": {"once": True},
}
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
    "L_f summed over the batch": {"summed": True},
    "L_f summed over the batch of 16": {"summed": True, "batch_size": 16},
    "L_f summed over the batch of 32": {"summed": True, "batch_size": 32},
    "RLD's labels drawn once": {"once": True},
}
# Of the network, which is pretrained anew; with the first of them, the Fisher of means too.
CONTINUOUS, AFTER = "activation continuous", "T put on the halved images"
NETWORKS = (CONTINUOUS, "inputs from 0 to 1", f"{CONTINUOUS}, inputs from 0 to 1")
WEAKLY = {"": {}, ", Fisher of means of 128": {"fisher_over": 128}}
TILE, PLAIN = Unit("fashion-mnist", "tile"), Unit("fashion-mnist", None)
PHOTOGRAPHS = Unit("cifar-10", "line"), Unit("cifar-10", "tile")
OF_PHOTOGRAPHS = {
    name: words
    for name, words in READINGS.items()
    if name in ("as chosen", "batch size 512", "Fisher of means of 128") or "labels" in words
}


def run(ready: Pretrained, cell: Cell, changes: dict) -> dict:
    """Forget once under one reading, and return the accuracies."""
    memory, request, recipe = ready.memory, ready.four.request(cell.pattern), cell.recipe
    words = {"seed": 0, "evaluator": evaluator(ready.four, 2000), "again": False}
    if isinstance(size := changes.get("fisher_over"), int):
        D = ready.four.pretraining if cell.pattern == "A" else ready.four.train.D_r
        memory, changes = of_batch_means(ready.model, D, memory, size), {"fisher_over": "D"}
    elif "summed" in changes:  # B (L_c + L_f) + lambda_KL R at lr: the means at B lr, with lambda_KL / B
        n = changes.get("batch_size", recipe.batch_size)
        changes = {"lr": n * recipe.lr, "lambda_kl": recipe.lambda_kl / n, "batch_size": n}
    elif "once" in changes:  # D_f carries its labels: what RLD draws for a sample is the same at each step
        if recipe.fisher_over == "D_r":
            memory = memory.subtract(remember(ready.model, request.D_f))
        among = list(range(1 if recipe.labels == "others" else 0, len(request.D_f.classes)))
        u = terms.random_labels(len(request.D_f), among, stream(0, "labels drawn once"))
        request, changes = replace(request, D_f=request.D_f.with_(y=u)), {"fisher_over": "D"}
        words["L_f"] = lambda y, _, labels: terms.rld(y, labels)
    try:
        result = forget(ready.model, request, memory, replace(recipe, **changes), **words)
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
    """Pretrain a unit's network under another reading of what it is; CIFAR-10's at half the size."""
    four, epochs = of(unit, reading), unit.at_half or unit.pretraining
    D, folder = four.pretraining, WORK / f"{unit.name}-{reading.replace(', ', '-').replace(' ', '-')}"
    model: nn.Module = networks.network("mlp", D, printed="continuous" not in reading)
    if "inputs" in reading:
        model[0] = Standardise((0.0,), (255.0,))
    model = in_parts(model, D, epochs, folder, {})
    return Pretrained(unit, four, model, remember(model, D), networks.identity(model))


def of(unit: Unit, reading: str) -> FourDatasets:
    """Return the four sets, of CIFAR-10 halved: with T on them, as ours are, or before T is put on."""
    data, T = Scale().data(unit.data), unit.transform()
    if not unit.at_half:
        return FourDatasets.of_class(data, 0, T)
    if reading == AFTER:
        return FourDatasets.of_class(TrainTest(halved(data.train), halved(data.test)), 0, T)
    four = FourDatasets.of_class(data, 0, T)
    train, test = (
        replace(sets, **{name: halved(part) for name, part in sets.present().items()})
        for sets in (four.train, four.test)
    )
    return FourDatasets(train, test)


def page(rows: dict) -> str:
    """Return the tables of all readings as Markdown."""
    lines = []
    for title, cells, unit in (
        ("Fashion-MNIST, tile", ("B", "C"), TILE),
        ("Fashion-MNIST, Pattern A, RLD", ("A",), PLAIN),
        ("CIFAR-10 at half the size, tile", ("cifar-10-tile, B", "cifar-10-tile, C"), None),
        ("CIFAR-10 at half the size, line", ("cifar-10-line, B", "cifar-10-line, C"), None),
    ):
        found = [(*name.split(": "), row) for name, row in rows.items() if name.split(": ")[0] in cells]
        if not found:
            continue
        columns = SETS[:2] if cells == ("A",) else (*SETS, "highest D_r_extra")
        lines += [f"## {title}", ""]
        if cells == ("A",):
            lines += [f"The paper has {PAPER['D_r']:.3f} on D_r and {PAPER['D_f']:.3f} on D_f.", ""]
        if unit and (said := of_another(unit, cells[0], rows)):
            lines += [said, ""]
        lines += [f"| pattern | reading | {' | '.join(columns)} |", "|---" * (len(columns) + 2) + "|"]
        for cell, reading, row in sorted(found, key=lambda item: cells.index(item[0])):
            values = [f"{row[c]:.3f}" for c in columns] if "diverged" not in row else ["diverged"]
            values += [""] * (len(columns) - len(values))
            lines.append(f"| {cell[-1]} | {reading} | {' | '.join(values)} |")
        lines += ["", nearest(cells, found), ""]
    return "\n".join(["# Readings of what the paper leaves open", "", __doc__.strip(), "", *lines])


def nearest(cells: tuple[str, ...], found: list[tuple[str, str, dict]]) -> str:
    """Say which comes nearest: to Table 2's numbers in A, to 50 % in B and C, to no rise with lines."""
    rows: dict[str, dict[str, dict]] = {}
    for cell, reading, row in found:
        rows.setdefault(reading, {})[cell] = row
    slight = "line" in cells[0]
    around = {"D_r_extra": 0.0 if slight else D_R_EXTRA_REMAINS_AROUND}
    wanted = PAPER if cells == ("A",) else around
    away = {
        reading: max(abs(row[name] - value) for row in by_cell.values() for name, value in wanted.items())
        for reading, by_cell in rows.items()
        if by_cell.keys() == set(cells) and not any("diverged" in row for row in by_cell.values())
    }
    if "as chosen" not in away:
        return "Not all of it is run yet."
    best, of = min(away, key=away.__getitem__), " and ".join(PRINTED[name] for name in wanted)
    if slight:
        said = f"The paper calls the rise slight. D_r,extra ends lowest, in both patterns, by: {best}"
        return f"{said}, at most {away[best]:.3f}; as chosen, {away['as chosen']:.3f}."
    both = "" if cells == ("A",) else ", in both patterns"
    said = f"Nearest to the paper in {of}{both}: {best}, at most {away[best]:.3f} off"
    return f"{said}; as chosen, {away['as chosen']:.3f}."


def of_another(unit: Unit, pattern: str, rows: dict) -> str:
    """Say so where the rows of the paper's page are of another network than these."""
    known, row = Rows(HERE / "rows").network(unit), rows[f"{pattern}: as chosen"]
    if row["network"] == known:
        return ""
    name = "D_f" if pattern == "A" else "D_r_extra"
    there = Rows(HERE / "rows").read(Cell(unit, pattern, "RLD" if pattern == "A" else LINE))
    mean, deviation, n = summary(there, name)
    return (
        f"Network {row['network'][:10]}, pretrained as {known[:10]} of [the page](README.md) was, on another "
        f"machine: as chosen, {pattern} ends at {name} {row[name]:.3f}, there at {mean:.3f} ± "
        f"{deviation:.3f} ({n} runs)."
    )


def run_all(rows: dict, path: Path, cells: dict, prepare: Callable[[], Pretrained]) -> None:
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


def readings(unit: Unit, pattern: str, these: dict) -> dict:
    """Return the cells by their names, those left out that are what was chosen."""
    cell = Cell(unit, pattern, "RLD" if pattern == "A" else LINE)
    name = pattern if unit.data == "fashion-mnist" else f"{unit.name}, {pattern}"
    chosen = asdict(cell.recipe).items()
    return {
        f"{name}: {r}": (cell, words) for r, words in these.items() if not words or words.items() - chosen
    }


def main() -> None:
    """Run all readings and write the page."""
    path = HERE / "readings.json"
    rows = store.read_json(path) if path.exists() else {}
    both = lambda unit, these: readings(unit, "B", these) | readings(unit, "C", these)  # noqa: E731
    run_all(rows, path, both(TILE, READINGS), lambda: pretrained(TILE, Scale(), WORK))
    run_all(rows, path, readings(PLAIN, "A", READINGS_A), lambda: pretrained(PLAIN, Scale(), WORK))
    for unit in PHOTOGRAPHS:
        run_all(rows, path, both(unit, OF_PHOTOGRAPHS), partial(another, unit, "as chosen"))
        run_all(rows, path, both(unit, {AFTER: {}}), partial(another, unit, AFTER))
    for unit in PHOTOGRAPHS:
        run_all(rows, path, both(unit, {CONTINUOUS: {}}), partial(another, unit, CONTINUOUS))
    for reading in NETWORKS:
        these = {
            f"{reading}{more}": words for more, words in WEAKLY.items() if reading == CONTINUOUS or not words
        }
        run_all(rows, path, both(TILE, these), partial(another, TILE, reading))
        run_all(rows, path, readings(PLAIN, "A", these), partial(another, PLAIN, reading))
    store.write_bytes(HERE / "readings.md", page(rows).encode())


if __name__ == "__main__":
    main()
