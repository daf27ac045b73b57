"""The paper's figures, drawn from the rows: curves with bands, the softmax on D_f, the pictures of T."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from unsee.formulation import SETS, TABLE_1
from unsee.paper.cells import LINES, Cell, Unit
from unsee.paper.rows import Rows, curve
from unsee.scores import PRINTED

# Okabe and Ito's colours; the dashes tell the lines apart without them.
STYLE = {
    "CE": ("#E69F00", ":"),
    "CE + Fisher": ("#56B4E9", "--"),
    "CE + Fisher + RLD": ("#D55E00", "-"),
    "CE + RLD": ("#999999", "-."),
}


def curves(units: Sequence[tuple[Unit, str]], rows: Rows) -> Figure:
    """Draw accuracy per epoch: a row for each (unit, pattern), a column for each of the four sets."""
    figure = Figure(figsize=(10, 2.3 * len(units) + 0.5), layout="constrained")
    panels = figure.subplots(len(units), 4, sharex=True, sharey=True, squeeze=False)
    for (unit, pattern), row in zip(units, panels, strict=True):
        for name, axes in zip(SETS, row, strict=True):
            _panel(axes, unit, pattern, name, rows)
        row[0].set_ylabel(f"{unit.data}\nPattern {pattern}\naccuracy")
    for axes in panels[-1]:
        axes.set_xlabel("epoch")
        axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10], integer=True))
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    return figure


def _panel(axes: Axes, unit: Unit, pattern: str, name: str, rows: Rows) -> None:
    for label, (color, dashes) in STYLE.items():
        runs = rows.read(Cell(unit, pattern, label))
        if runs:
            epochs, mean, std = curve(runs, name)
            axes.plot(epochs, mean, dashes, color=color, label=label)
            axes.fill_between(epochs, mean - std, mean + std, color=color, alpha=0.2, linewidth=0)
    axes.set(ylim=(-0.03, 1.03))
    axes.set_title(f"{PRINTED[name]} {TABLE_1[pattern].arrows.get(name, '')}".rstrip(), fontsize=10)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)


def softmax(answers: Mapping[str, Sequence[float]], classes: Sequence[str]) -> Figure:
    """Draw the mean softmax on D_f of several models, class by class (Figure 3)."""
    figure = Figure(figsize=(8, 3.6), layout="constrained")
    axes = figure.subplots()
    width = 0.8 / max(1, len(answers))
    for i, (name, values) in enumerate(answers.items()):
        axes.bar(np.arange(len(values)) + (i - len(answers) / 2 + 0.5) * width, values, width, label=name)
    axes.set_xticks(range(len(classes)), classes, rotation=30, ha="right", fontsize=8)
    axes.set(ylabel="mean softmax on D_f")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
    return figure


def drawn_lines(units: Sequence[tuple[Unit, str]], rows: Rows) -> list[dict[str, Any]]:
    """Return what the curves show, as plain numbers."""
    return [
        {"cell": cell.name, "set": name, "seeds": len(runs), "mean": mean.tolist(), "std": std.tolist()}
        for unit, pattern in units
        for cell in (Cell(unit, pattern, label) for label in LINES)
        if (runs := rows.read(cell))
        for name in SETS
        for _, mean, std in [curve(runs, name)]
    ]
