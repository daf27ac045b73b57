"""The plausible readings of what the paper leaves unstated: Fashion-MNIST, tile, CE + Fisher + RLD, one seed.

From the repository's root, after `unsee reproduce figure-4 --data fashion-mnist` (whose network this uses):

    python results/paper/readings.py

Goes on where it was stopped: rows lie in results/paper/readings.json, the page beside it.
"""

import sys
from dataclasses import replace
from pathlib import Path

from unsee import store
from unsee.paper.cells import Cell, Unit
from unsee.paper.running import Pretrained, Scale, evaluate, evaluator, forget, pretrained

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
}


def run(ready: Pretrained, pattern: str, reading: str) -> dict:
    """Forget once under one reading, and return the four accuracies."""
    recipe = Cell(Unit("fashion-mnist", "tile"), pattern, "CE + Fisher + RLD").recipe
    recipe = replace(recipe, **READINGS[reading])
    look = evaluator(ready.four, 2000)
    result = forget(ready.model, ready.four.request(pattern), ready.memory, recipe, seed=0, evaluator=look)
    found = evaluate(result.model, ready.four).accuracies()
    highest = max(row["D_r_extra"] for row in result.trajectory)
    return {name: round(found[name], 6) for name in SETS} | {"highest D_r_extra": round(highest, 6)}


def page(rows: dict) -> str:
    """Return the table of all readings as Markdown."""
    columns = (*SETS, "highest D_r_extra")
    lines = [f"| pattern | reading | {' | '.join(columns)} |", "|---" * (len(columns) + 2) + "|"]
    for name, row in rows.items():
        pattern, reading = name.split(": ")
        lines.append(f"| {pattern} | {reading} | {' | '.join(f'{row[c]:.3f}' for c in columns)} |")
    return "\n".join(["# Readings of what the paper leaves open", "", __doc__.strip(), "", *lines, ""])


if __name__ == "__main__":
    path = HERE / "readings.json"
    rows = store.read_json(path) if path.exists() else {}
    ready = pretrained(Unit("fashion-mnist", "tile"), Scale(), WORK)
    for pattern in "BC":
        for reading in READINGS:
            if (name := f"{pattern}: {reading}") not in rows:
                sys.stderr.write(f"{name}\n")
                rows[name] = run(ready, pattern, reading)
                store.write_json(path, rows)
    store.write_bytes(HERE / "readings.md", page(rows).encode())
