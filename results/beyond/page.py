"""What the rows of run.py are called, and the page and the picture that show them."""

import re
import statistics
from collections.abc import Iterable
from pathlib import Path

from matplotlib.figure import Figure

from unsee import store
from unsee.floor import kept_of
from unsee.formulation import SETS, TABLE_1
from unsee.paper.cells import Cell, Unit
from unsee.paper.rows import Rows
from unsee.recipe import METHOD
from unsee.report import figures

HERE = Path("results/beyond")
AGED = "by the default recipe as it was before its last change; to be made anew."
CASES = {"fashion-mnist": ("tile", "line"), "cifar-10": ("tile", "line", "color")}
# Under the default recipe B and C are one run: only the judgement differs.
OURS = ("ours, sketch", "ours, Fisher", "ours, no memory")
# What the last touch is worth: the same without it (unsee.balance).
ABLATION = "ours, sketch, balanced by the prior alone"
WAYS = ("the paper's recipe, B", "the paper's recipe, C", *reversed(OURS), ABLATION)
SCRATCH = ("retrained on D_r and D_f,clean", "retrained with T in training")
SURROGATE = (
    "Ours, with T known, trains on samples of the sketch, or stand-ins, with T on: a surrogate of "
    "D_r,extra, which leaves the paper's setting. So it is judged on variations of T too, which were "
    "never used: moved, dimmed, resized. Dimmed, T costs little. A tile that is moved or a pixel wider "
    "costs every network here a third of its accuracy or more, those retrained too; a wider line costs "
    "ours as much without a sketch, and those retrained little.",
    "",
    "The defaults were found on these data sets and judged on these test sets (LAB.md has what was "
    "tried): on data that nobody tried they may reach less. Each retraining is one network, and its class "
    "0 the luck of one run. With all of D_f ours passes about as many samples as retraining: "
    "[cost](cost.md) has what less takes.",
    "",
)


def case_of(data: str, T: str) -> str:
    """Return what a case is called in rows and on the page."""
    return T if data == "fashion-mnist" else f"{data} {T}"


def rows_of(data: str, T: str, way: str) -> list[dict]:
    """Return the rows of one way, a seed each; of CIFAR-10, the paper's recipe from the reproduction."""
    if data == "cifar-10" and way.startswith("the paper"):
        cell, papers = Cell(Unit(data, T), way[-1], "CE + Fisher + RLD"), Rows(Path("results/paper/rows"))
        if not papers.path(cell).exists():
            return []
        network = {"network": store.read_json(papers.path(cell))["key"]["network"]}
        found = papers.read(cell).values()
        rows = [{name: row["scores"][name]["accuracy"] for name in SETS} | network for row in found]
        return [row | {f"least {p}": min(row[s] for s in TABLE_1[p].arrows) for p in "BC"} for row in rows]
    stem = f"{case_of(data, T)}, {way}"
    paths = sorted((HERE / "rows").glob(f"{stem}, [0-9].json")) or [HERE / "rows" / f"{stem}.json"]
    return [store.read_json(path) for path in paths if path.exists()]


def of_another(data: str, T: str, ways: list[str]) -> list[str]:
    """Say where the paper's recipe is not that of this T, or its network not the one that we treat."""
    said, mine = [], [row["network"] for row in rows_of(data, T, "pretrained")]
    for way in ways:
        row = next(iter(rows_of(data, T, way)), None) if way.startswith("the paper") else None
        if row and f"/{T}/" not in (recipe := row.get("recipe", f"{data}/{T}/")):
            said += [f"*{way}* is `{recipe}`: that of {T} diverges here (docs/decisions/0004)."]
        if row and row["network"] not in mine:
            said += [f"*{way}* treated another network of the same training ({row['network'][:10]})."]
    return [*said, ""] if said else []


def mark(rows: Iterable[dict]) -> str:
    """Return what tells rows of the default recipe as it was before from those of today."""
    ours = (None, "unsee", "unsee/A")  # the oldest rows do not say
    treated = [row for row in rows if row.keys() & {"setting", "method"}]
    aged = [row.get("recipe") in ours and row.get("method") != METHOD for row in treated]
    return " †" if any(aged) else ""


def told(values: list[float]) -> str:
    """Return a mean, and the deviation where there are several, as a cell of a table."""
    spread = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.3f}{spread}"


def by_number(path: Path) -> list[str | int]:
    """Return by what file names are sorted: 50 before 200."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", path.stem)]


def floors(paths: Iterable[Path]) -> list[str]:
    """Return a table of these runs: what the floor was taken of, where it lay, where the run ended."""
    heads = [
        "## Floors",
        "",
        "| run | of | floor | at the end | gone back |",
        "|---|---|---|---|---|",
    ]
    text = []
    for path in sorted(paths, key=by_number):
        row = store.read_json(path)
        if floor := row.get("setting", {}).get("floor"):
            end = f"{row['last epoch']['utility']:.3f}" if "last epoch" in row else "not written down"
            text.append(
                f"| {path.stem}{mark([row])} | {floor['of']} | {floor['least']:.3f} | {end} | {kept(row)} |"
            )
    said = [f"†: {AGED}", ""] if any("†" in line for line in text) else []
    return [*heads, *text, "", *said] if text else []


def kept(row: dict) -> str:
    """Say what is kept of a run that ended below its floor; nothing of one that did not."""
    way = row["setting"].get("retreat")
    if row["back_to"] is None and way is None:
        return ""
    return kept_of(row["back_to"], (way["of the way"], way["from"]) if way else None)


def write(about: str) -> None:
    """Write README.md and picture.png from the rows, below what run.py is about."""
    text = ["# Beyond the paper: the MLP, class 0", "", about, ""]
    text += ["**Every limit that was set, and whether it holds: [what was asked](asked.md).** Other pages:"]
    text += ["[dirty-label poison](poison.md), [a class forgotten](classes.md), [cost](cost.md),"]
    text += ["[CIFAR-10's network at half the size, color too](half.md),"]
    text += ["[a small residual network](bound.md).", ""]
    there = {data: [T for T in CASES[data] if rows_of(data, T, "pretrained")] for data in CASES}
    there = {data: Ts for data, Ts in there.items() if Ts}
    figure = Figure(figsize=(10, 3.6 * len(there)), layout="constrained")
    panels = figure.subplots(
        len(there), max(map(len, there.values())), sharex=True, sharey="row", squeeze=False
    )
    for row, (data, Ts) in zip(panels, there.items(), strict=True):
        ways = [w for w in ("pretrained", *WAYS, *SCRATCH) if any(rows_of(data, T, w) for T in Ts)]
        for axes, T in zip(row, Ts, strict=False):
            text += [f"## {data}, {T}", "", *table(data, T, ways), "", *of_another(data, T, ways)]
            drawn(axes, data, T, ways)
        row[0].invert_yaxis()
        for axes in row[len(Ts) :]:
            axes.set_axis_off()
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    figures.save(figure, HERE / "picture.png")
    text += ["![Accuracy on the four sets by way](picture.png)", ""]
    text += ["Dotted: D_r before, less two points. ± is the deviation over forgetting seeds.", ""]
    said = "without the last touch, `balance = prior` in place of `adjusted` (`unsee.balance`)."
    text += [f"*{ABLATION}*: {said}", "", *SURROGATE, *floors((HERE / "rows").glob("*, ours, *.json"))]
    store.write_bytes(HERE / "README.md", ("\n".join(text) + "\n").encode())


def table(data: str, T: str, ways: list[str]) -> list[str]:
    """Return the lines of one case's table."""
    columns = [
        *SETS,
        *(f"D_r_extra, {name}" for name in ("moved", "dimmed", "resized")),
        "least B",
        "least C",
    ]
    text = ["| | " + " | ".join(columns) + " | runs |", "|---" * (len(columns) + 2) + "|"]
    for way in ways:
        if not (rows := rows_of(data, T, way)):
            continue
        cells = [told([row[column] for row in rows]) if column in rows[0] else "" for column in columns]
        text.append(f"| {way}{mark(rows)} | {' | '.join(cells)} | {len(rows)} |")
    return text


def drawn(axes, data: str, T: str, ways: list[str]) -> None:
    """Draw one case: for each way a bar of each set."""
    for place, way in enumerate(ways):
        rows = rows_of(data, T, way)
        for shift, name in enumerate(SETS if rows else ()):
            mean = statistics.mean(row[name] for row in rows)
            label = name if not place else None
            axes.barh(place + 0.2 * shift - 0.3, mean, 0.2, color=figures.COLORS[name], label=label)
    axes.axvline(rows_of(data, T, "pretrained")[0]["D_r"] - 0.02, color="black", lw=0.8, ls=":")
    axes.set(yticks=range(len(ways)), yticklabels=ways, xlim=(0, 1), title=f"{data}, {T}")
    axes.set_xlabel("accuracy (test)")
    axes.tick_params(labelbottom=True)
    axes.spines[["top", "right"]].set_visible(False)
