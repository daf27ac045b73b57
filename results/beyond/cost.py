"""What forgetting costs and what it is worth, by how much of D_f is at hand: Fashion-MNIST, tile, a sketch.

From the repository's root, after `unsee data fetch fashion-mnist`:

    python results/beyond/cost.py [--seeds 3]

Every sample that a gradient is taken of counts: in the descent of D_f, of D_f,clean, and those replayed, with
T and without; before it once of D_f, whose Fisher is taken out of the memory. What only looks does not: the
old model's answers, the floor, the last touch.
Goes on where it was stopped: rows lie in results/beyond/cost.
"""

import argparse
import statistics
import warnings
from dataclasses import replace
from pathlib import Path

import run as beyond
from matplotlib.figure import Figure
from page import floors, mark, told

from unsee import FourDatasets, forget, networks, store
from unsee.formulation import SETS
from unsee.memory import Memory
from unsee.recipe import RECIPES
from unsee.report import figures

HERE = Path("results/beyond")
SIZES = (50, 200, 546, 2000, 6000)  # 546: one in a hundred of the training set
RETRAINING = 5  # epochs, over D_r and D_f,clean


def measured(model, four: FourDatasets, memory: Memory, n: int, seed: int) -> dict:
    """Forget with n samples of D_f and their twins; the others stay in the memory as they are."""
    few = range(min(n, len(four.train.D_f)))
    known = replace(four.train, D_f=four.train.D_f.subset(few), D_f_clean=four.train.D_f_clean.subset(few))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        result = forget(model, replace(four, train=known).request("B"), memory, seed=seed, again=False)
    found = {"n": len(few), "samples": result.setting["samples passed"] + len(few)}  # the Fisher of D_f
    return found | beyond.judged(result.model, four) | beyond.written(result, said)


def write(retraining: int) -> None:
    """Write cost.md and cost.png from the rows."""
    columns = [*SETS, "least B", "least C"]
    text = ["# Quality and cost by how much of D_f is at hand", "", __doc__.strip(), ""]
    text += [f"Retraining on D_r and D_f,clean passes {retraining:,} samples, in {RETRAINING} epochs.", ""]
    text += ["| samples of D_f | passed | of retraining | " + " | ".join(columns) + " | runs |"]
    text += ["|---" * (len(columns) + 4) + "|"]
    curves: dict[str, list[tuple[int, float]]] = {}
    for size in SIZES:
        rows = [store.read_json(path) for path in sorted((HERE / "cost").glob(f"{size}, *.json"))]
        if not rows:
            continue
        passed, cells = statistics.mean(row["samples"] for row in rows), []
        for column in columns:
            values = [row[column] for row in rows]
            cells.append(told(values))
            curves.setdefault(column, []).append((rows[0]["n"], statistics.mean(values)))
        line = [f"{rows[0]['n']:,}{mark(rows)}", f"{passed:,.0f}", f"1 / {retraining / passed:.2g}", *cells]
        text.append("| " + " | ".join(line) + f" | {len(rows)} |")
    figure = Figure(figsize=(6, 3.4), layout="constrained")
    axes = figure.subplots()
    for name in SETS if curves else ():
        axes.plot(*zip(*curves[name], strict=True), "o-", color=figures.COLORS[name], label=name)
    axes.set(xscale="log", xlabel="samples of D_f at hand", ylabel="accuracy (test)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, ncols=2)
    figures.save(figure, HERE / "cost.png")
    text += ["", "![Accuracy by how much of D_f is at hand](cost.png)", ""]
    text += ["± is the deviation over forgetting seeds.", ""]
    text += floors((HERE / "cost").glob("*.json"))
    store.write_bytes(HERE / "cost.md", ("\n".join(text) + "\n").encode())


def main() -> None:
    """Make the rows that are missing, and the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=3)
    seeds = parser.parse_args().seeds
    four, model, memory = beyond.ready("fashion-mnist", "tile")
    for size in SIZES:
        for seed in range(seeds):
            path = HERE / "cost" / f"{size}, {seed}.json"
            key = {"network": networks.identity(model), **beyond.method(RECIPES["unsee"])}
            beyond.once(path, lambda n=size, s=seed: measured(model, four, memory, n, s), **key)
    write(RETRAINING * (len(four.train.D_r) + len(four.train.D_f_clean)))


if __name__ == "__main__":
    main()
