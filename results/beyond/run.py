"""Beyond the paper, on whole Fashion-MNIST: the default recipe with a sketch, with the Fisher only, without
any memory, beside the paper's recipe and beside retraining from scratch.

From the repository's root, after `unsee data fetch fashion-mnist`:

    python results/beyond/run.py [--seeds 5]

Goes on where it was stopped: rows lie in results/beyond/rows, networks in runs/beyond.
"""

import argparse
import statistics
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import torch
import torch.nn.functional as F
from matplotlib.figure import Figure

from unsee import FourDatasets, evaluate, forget, line, networks, remember, sources, store, tile, train
from unsee.datasets import concatenate
from unsee.formulation import SETS, TABLE_1
from unsee.memory import Memory
from unsee.recipe import RECIPES
from unsee.report import figures
from unsee.transforms import Transform

HERE, WORK = Path("results/beyond"), Path("runs/beyond")
TS = {"tile": tile, "line": line}
# Under the default recipe B and C are one run: only the judgement differs.
OURS = ("ours, sketch", "ours, Fisher", "ours, no memory")
# What the last touch is worth: the same without it (unsee.balance).
ABLATION = "ours, sketch, balanced by the prior alone"
WAYS = ("the paper's recipe, B", "the paper's recipe, C", *reversed(OURS), ABLATION)
SCRATCH = ("retrained on D_r and D_f,clean", "retrained with T in training")


def variations(T: Transform) -> dict[str, Transform]:
    """T as it was never shown: moved by two pixels, at half its brightness, a pixel wider all around."""

    def put(shape, value):
        def pixels(x):
            mask = T.pixels(torch.zeros_like(x[:1])) > 0
            return torch.where(shape(mask), torch.tensor(value, dtype=x.dtype), x)

        return pixels

    wider = lambda m: F.max_pool2d(m.float(), 3, 1, 1) > 0  # noqa: E731
    return {
        "moved": Transform("moved", put(lambda m: m.roll((2, 2), (-2, -1)), 255)),
        "dimmed": Transform("dimmed", put(lambda m: m, 128)),
        "resized": Transform("resized", put(wider, 255)),
    }


def judged(model, four) -> dict:
    """The four accuracies, D_r,extra under variations of T, and the score of B and C."""
    found = {name: round(value, 6) for name, value in evaluate(model, four).accuracies().items()}
    for name, T in variations(four.T).items():
        moved = FourDatasets(four.train, replace(four.test, D_r_extra=T(four.test.D_r)), None, T)
        found[f"D_r_extra, {name}"] = round(evaluate(model, moved).accuracies()["D_r_extra"], 6)
    return found | {f"least {p}": min(found[s] for s in TABLE_1[p].arrows) for p in "BC"}


def once(path: Path, make) -> dict:
    """Return the row at `path`, made if it is not there."""
    if not path.exists():
        sys.stderr.write(f"{path.stem}\n")
        store.write_json(path, make())
    return store.read_json(path)


def run(T: str, seeds: int) -> None:
    """All rows of one T, seed by seed."""
    four = FourDatasets.of_class(sources.fashion_mnist(), 0, TS[T]())
    D = four.pretraining
    model = train(networks.network("mlp", D), D, epochs=5, folder=WORK / f"fashion-mnist-{T}").model
    path = WORK / f"fashion-mnist-{T}" / "sketch.safetensors"
    if not path.exists():
        remember(model, D, sketch=32).save(path)
    whole = Memory.load(path)
    memories = {"no memory": None, "Fisher": replace(whole, sketch=None), "sketch": whole}
    once(HERE / "rows" / f"{T}, pretrained.json", lambda: judged(model, four))

    def forgotten(way: str, seed: int) -> dict:
        memory, recipe, pattern = memories["Fisher"], None, "B"
        if way.startswith("ours"):
            memory = memories[way.split(", ")[1]]
            recipe = replace(RECIPES["unsee"], balance="prior") if way == ABLATION else None
        else:
            # Table S1's tile C diverges with the continuous activation (docs/decisions/0004).
            pattern = way[-1]
            recipe = "fashion-mnist/line/C" if pattern == "C" else f"fashion-mnist/{T}/B"
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            result = forget(model, four.request(pattern), memory, recipe, seed=seed)
        last = {k: round(v, 6) for k, v in result.trajectory[-1].items()}
        return {
            **judged(result.model, four),
            "recipe": result.recipe.name,
            "setting": dict(result.setting),
            "last epoch": last,
            "back_to": result.back_to,
            "said": [str(w.message) for w in said],
        }

    for way in (*OURS, *WAYS):
        for seed in range(seeds):
            once(HERE / "rows" / f"{T}, {way}, {seed}.json", lambda w=way, s=seed: forgotten(w, s))
    for way in SCRATCH:
        once(HERE / "rows" / f"{T}, {way}.json", lambda w=way: scratch(w, four))


def scratch(way: str, four: FourDatasets) -> dict:
    """Retrain from scratch: five epochs, or three over twice as many, each with and without T."""
    D = concatenate([four.train.D_r, four.train.D_f_clean], "D_r and D_f,clean")
    epochs = 5
    if way.endswith("in training"):
        D, epochs = concatenate([D, four.T(D)], "with and without T"), 3
    return judged(train(networks.network("mlp", D), D, epochs=epochs).model, four)


def rows_of(T: str, way: str) -> list[dict]:
    """Return the rows of one way, a seed each."""
    paths = sorted((HERE / "rows").glob(f"{T}, {way}, [0-9].json")) or [HERE / "rows" / f"{T}, {way}.json"]
    return [store.read_json(path) for path in paths if path.exists()]


def told(values: list[float]) -> str:
    """Return a mean, and the deviation where there are several, as a cell of a table."""
    spread = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.3f}{spread}"


def floors() -> list[str]:
    """Return a table of all our runs: what the floor was taken of, where it lay, where the run ended."""
    text = [
        "## Floors",
        "",
        "| run | of | floor | at the end | gone back to epoch |",
        "|---|---|---|---|---|",
    ]
    for path in sorted((HERE / "rows").glob("*, ours, *.json")):
        row = store.read_json(path)
        floor, back = row["setting"]["floor"], row["back_to"]
        end = row["last epoch"]["utility"]
        cells = [
            path.stem,
            floor["of"],
            f"{floor['least']:.3f}",
            f"{end:.3f}",
            "" if back is None else f"{back}",
        ]
        text.append("| " + " | ".join(cells) + " |")
    return [*text, ""]


def page() -> None:
    """Write README.md and picture.png from the rows."""
    extras = [f"D_r_extra, {name}" for name in ("moved", "dimmed", "resized")]
    columns = [*SETS, *extras, "least B", "least C"]
    text = ["# Beyond the paper: Fashion-MNIST, MLP, class 0", __doc__.strip(), ""]
    there = [T for T in TS if rows_of(T, "pretrained")]
    figure = Figure(figsize=(10, 3.8), layout="constrained")
    panels = figure.subplots(1, len(there), sharey=True, squeeze=False)[0]
    for axes, T in zip(panels, there, strict=True):
        text += [f"## {T}", "", "| | " + " | ".join(columns) + " | runs |", "|---" * (len(columns) + 2) + "|"]
        ways = [way for way in ("pretrained", *WAYS, *SCRATCH) if rows_of(T, way)]
        for place, way in enumerate(ways):
            rows = rows_of(T, way)
            cells = []
            for column in columns:
                values = [row[column] for row in rows]
                cells.append(told(values))
            text.append(f"| {way} | {' | '.join(cells)} | {len(rows)} |")
            for shift, name in enumerate(SETS):
                mean = statistics.mean(row[name] for row in rows)
                color = figures.COLORS[name]
                axes.barh(
                    place + 0.2 * shift - 0.3, mean, 0.2, color=color, label=name if not place else None
                )
        before = rows_of(T, "pretrained")[0]["D_r"]
        axes.axvline(before - 0.02, color="black", lw=0.8, ls=":")
        axes.set(yticks=range(len(ways)), yticklabels=ways, xlim=(0, 1), xlabel="accuracy (test)", title=T)
        axes.spines[["top", "right"]].set_visible(False)
        text.append("")
    figure.axes[0].invert_yaxis()
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    figures.save(figure, HERE / "picture.png")
    text += ["![Accuracy on the four sets by way](picture.png)", ""]
    text += ["Dotted: D_r before, less two points. ± is the deviation over forgetting seeds.", ""]
    said = "without the last touch, `balance = prior` in place of `adjusted` (`unsee.balance`)."
    text += [f"*{ABLATION}*: {said}", "", *floors()]
    store.write_bytes(HERE / "README.md", ("\n".join(text) + "\n").encode())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--T", choices=TS, nargs="*", default=list(TS))
    parser.add_argument("--page", action="store_true", help="only write the page again")
    given = parser.parse_args()
    for name in () if given.page else given.T:
        run(name, given.seeds)
    page()
