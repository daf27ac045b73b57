"""Pictures: what T does to an image, and how the four accuracies went while forgetting."""

import io
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from unsee.datasets import Dataset
from unsee.formulation import SETS, Pattern
from unsee.plan import Row
from unsee.scores import PRINTED
from unsee.store import write_bytes
from unsee.transforms import Transform

FEWEST = 10  # trials: of fewer, no parameter's importance is told

# Okabe and Ito's colours, told apart by readers of every colour vision; markers say it again.
COLORS = {"D_r": "#0072B2", "D_f": "#999999", "D_f_clean": "#009E73", "D_r_extra": "#D55E00"}
MARKERS = {"D_r": "o", "D_f": "x", "D_f_clean": "s", "D_r_extra": "^"}


def save(figure: Figure, path: Path | str) -> None:
    """Write a figure as PNG or SVG, by the ending of the path, whole or not at all.

    The same figure is the same bytes: no date, and names within an SVG that are not drawn by chance.
    """
    data, ending = io.BytesIO(), Path(path).suffix[1:]
    with rc_context({"svg.hashsalt": "unsee"}):
        figure.savefig(data, format=ending, dpi=150, metadata={"Date": None} if ending == "svg" else None)
    write_bytes(path, data.getvalue())


def story(clean: Dataset, T: Transform, pattern: Pattern, trajectory: Sequence[Row]) -> Figure:
    """Draw images without and with T above the accuracies per epoch: what was forgotten, and how."""
    figure = Figure(figsize=(8, 5.6), layout="constrained")
    grid = figure.add_gridspec(2, 1, height_ratios=(2, 3))
    axes = figure.add_subfigure(grid[0]).subplots(2, 6)
    shown = clean.subset(np.linspace(0, len(clean) - 1, 6).astype(int))
    for top, bottom, before, after in zip(axes[0], axes[1], shown.x, T(shown).x, strict=True):
        _image(top, before)
        _image(bottom, after)
    axes[0][0].set_ylabel("clean")
    axes[1][0].set_ylabel("with T")
    accuracies(figure.add_subfigure(grid[1]).subplots(), pattern, trajectory)
    return figure


def accuracies(axes: Axes, pattern: Pattern, trajectory: Sequence[Row]) -> None:
    """Draw the accuracy on each of the four sets over the epochs, with the pattern's arrows."""
    for name in SETS:
        points = [(row["epoch"], row[name]) for row in trajectory if name in row]
        if points:
            arrow = pattern.arrows.get(name, "")
            label = f"{PRINTED[name]} {arrow}".rstrip()
            style = "-" if arrow else ":"
            axes.plot(
                *zip(*points, strict=True), style, color=COLORS[name], marker=MARKERS[name], label=label
            )
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set(xlabel="epoch of forgetting", ylabel="accuracy (test)", ylim=(-0.03, 1.03))
    axes.set_title(f"Pattern {pattern.name}: forget {pattern.forgets}", loc="left", fontsize=10)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)


def gallery(image: Tensor, transforms: Sequence[Transform | None]) -> Figure:
    """Draw one image under several T, None being the image as it is (the paper's Figure 2)."""
    figure = Figure(figsize=(1.7 * len(transforms), 2), layout="constrained")
    for axes, T in zip(np.atleast_1d(figure.subplots(1, len(transforms))), transforms, strict=True):
        _image(axes, image if T is None else T.pixels(image[None].clone())[0])
        axes.set_title("no T" if T is None else T.name.split("(")[0], fontsize=10)
    return figure


def search(trials: Sequence[Row], names: Sequence[str]) -> Figure:
    """Draw a search: the score over the trials, how much each parameter mattered, and a slice for each."""
    figure = Figure(figsize=(3.2 * (len(names) + 2), 3), layout="constrained")
    progress, mattered, *slices = figure.subplots(1, len(names) + 2)
    scores = [trial["score"] for trial in trials]
    colors = ["#D55E00" if trial["state"] == "complete" else "#BBBBBB" for trial in trials]
    progress.scatter(range(1, len(trials) + 1), scores, c=colors, s=16)
    best = np.maximum.accumulate([t["score"] if t["state"] == "complete" else 0.0 for t in trials])
    progress.step(range(1, len(trials) + 1), best, where="post", color="#0072B2")
    progress.set(xlabel="trial (grey: given up, or diverged)", ylabel="least accuracy (validation)")
    found = importances(trials, names)
    mattered.barh(names, [found.get(name, 0.0) for name in names], color="#0072B2")
    text = "importance (PED-ANOVA)" if found else f"importance: not before {FEWEST} trials"
    mattered.set(xlabel=text, xlim=(0, 1))
    for axes, name in zip(slices, names, strict=True):
        axes.scatter([trial[name] for trial in trials], scores, c=colors, s=16)
        axes.set(xscale="log", xlabel=name)
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def importances(trials: Sequence[Row], names: Sequence[str]) -> dict[str, float]:
    """Return how much each parameter decided which trials are the best, 1 in all; nothing of few trials.

    By PED-ANOVA (Watanabe, Bansal, Hutter 2023, arXiv 2304.10255), pruned trials by their last score.
    """
    import optuna

    if len(trials) < FEWEST:
        return {}
    ends = {name: [trial[name] for trial in trials] for name in names}
    space: dict[str, optuna.distributions.BaseDistribution] = {
        name: optuna.distributions.FloatDistribution(min(values) / 2, max(values) * 2, log=True)
        for name, values in ends.items()
    }
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(direction="maximize")
    for trial in trials:
        params = {name: trial[name] for name in names}
        study.add_trial(optuna.trial.create_trial(params=params, distributions=space, value=trial["score"]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Optuna calls it experimental
        found = optuna.importance.get_param_importances(
            study, evaluator=optuna.importance.PedAnovaImportanceEvaluator()
        )
    return {name: float(found[name]) for name in names}


def _image(axes: Axes, x: Tensor) -> None:
    picture = x.squeeze(0) if x.shape[0] == 1 else x.movedim(0, -1)
    axes.imshow(picture.numpy(), cmap="gray", vmin=0, vmax=255)
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
