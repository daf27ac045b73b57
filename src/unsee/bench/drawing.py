"""Pictures of the results: one for each benchmark, drawn from what was written down and nothing else."""

from collections.abc import Callable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from unsee.bench.result import Result, Row

OURS, PLAIN, OTHER, LIMIT = "#0072B2", "#999999", "#009E73", "#D55E00"


def draw(result: Result) -> Figure:
    """Return the picture of a result."""
    figure = DRAWN[result.name](result)
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def fisher(result: Result) -> Figure:
    """Draw each way's time to a plain pass, on a log scale, for every network."""
    figure, axes = _one(8, 3.2)
    (rows,) = result.tables.values()
    ways = {"Fisher": OURS, "loop": PLAIN, "vmap": OTHER}
    for i, (way, color) in enumerate(ways.items()):
        places = [place + 0.27 * (i - 1) for place in range(len(rows))]
        label = "unsee" if way == "Fisher" else f"per-sample {way}"
        bars = axes.bar(places, [row[way] for row in rows], 0.25, color=color, label=label)
        axes.bar_label(bars, fmt="%.3g", fontsize=8)
    for place, limit in enumerate(result.limits):
        axes.hlines(limit.most, place - 0.4, place - 0.14, color=LIMIT, linewidth=2)
    axes.hlines([], 0, 0, color=LIMIT, linewidth=2, label="limit")
    axes.set(yscale="log", ylabel="time, in plain passes", xticks=range(len(rows)))
    axes.set_xticklabels([row["network"] for row in rows])
    axes.axhline(1, color=PLAIN, linewidth=0.8, linestyle=":")
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def forget(result: Result) -> Figure:
    """Draw where a step's time goes, and the share of the peak by batch."""
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    parts, share = figure.subplots(1, 2, width_ratios=(3, 2))
    _, batches, steps, *_ = result.tables.values()
    colors = (OTHER, OURS, "#56B4E9", "#E69F00", LIMIT)
    start = [0.0] * len(steps)
    names = [name for name in steps[0] if name != "recipe"]
    for name, color in zip(names, colors, strict=True):
        widths = [row[name] for row in steps]
        parts.barh([row["recipe"] for row in steps], widths, left=start, color=color, label=name)
        start = [left + width for left, width in zip(start, widths, strict=True)]
    parts.set(xlabel="% of a forgetting step", xlim=(0, 100))
    parts.legend(frameon=False, ncols=3, fontsize=8, loc="lower center", bbox_to_anchor=(0.4, 1))
    _line(share, batches, "batch", "share of the peak")
    share.set(ylim=(0, 1), ylabel="share of the product peak", xlabel="samples a step")
    return figure


def growth(result: Result) -> Figure:
    """Draw the four curves, each with the line that would be linear or flat."""
    figure = Figure(figsize=(10, 2.8), layout="constrained")
    for axes, (title, rows), limit in zip(
        figure.subplots(1, 4), result.tables.items(), result.limits, strict=True
    ):
        size = next(iter(rows[0]))
        _line(axes, rows, size, "seconds")
        ideal = 0 if limit.most < 1 else 1
        axes.set(**{"yscale": "log"} if ideal else {"ylim": (0, 1.5 * max(row["seconds"] for row in rows))})
        first = rows[0]
        line = [first["seconds"] * (row[size] / first[size]) ** ideal for row in rows]
        axes.plot([row[size] for row in rows], line, ":", color=LIMIT, label="linear" if ideal else "flat")
        axes.set_title(f"{title}\nexponent {limit.found:.2f}", fontsize=9)
        axes.set(ylabel="", xlabel=size)
        axes.legend(frameon=False, fontsize=8)
    return figure


def memory(result: Result) -> Figure:
    """Draw the peaks beside their limits, and the process while it remembers a stream."""
    figure = Figure(figsize=(9, 3), layout="constrained")
    peaks, stream = figure.subplots(1, 2)
    rows, points = result.tables.values()
    names = [row["what"] for row in rows]
    bars = peaks.barh(names, [row["less 500 MB"] for row in rows], color=OURS)
    peaks.bar_label(bars, fmt="%.2f", fontsize=8, label_type="center", color="white")
    for place, limit in enumerate(result.limits[:-1], 1):
        peaks.vlines(limit.most, place - 0.4, place + 0.4, color=LIMIT, linewidth=2)
    peaks.invert_yaxis()
    peaks.set(xlabel="peak less 500 MB, in times the parameters' bytes")
    stream.plot([p["samples"] for p in points], [p["MB"] for p in points], "o-", color=OURS, markersize=3)
    stream.set(xlabel="samples remembered", ylabel="MB of the process", ylim=(0, None))
    return figure


def startup(result: Result) -> Figure:
    """Draw the starts in starts of the interpreter."""
    figure, axes = _one(7, 2.2)
    (rows,) = result.tables.values()
    bars = axes.barh(
        [row["start"] for row in rows], [row["in starts of the interpreter"] for row in rows], color=OURS
    )
    axes.bar_label(bars, fmt="%.2f", fontsize=8, padding=2)
    axes.axvline(result.limits[0].most, color=LIMIT, linewidth=2, label="limit of unsee --help")
    axes.invert_yaxis()
    axes.set(xlabel="in starts of the interpreter")
    axes.legend(frameon=False, fontsize=8)
    return figure


DRAWN: dict[str, Callable[[Result], Figure]] = {
    "fisher": fisher,
    "forget": forget,
    "growth": growth,
    "memory": memory,
    "startup": startup,
}


def _one(width: float, height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()


def _line(axes: Axes, rows: Sequence[Row], x: str, y: str) -> None:
    axes.plot([row[x] for row in rows], [row[y] for row in rows], "o-", color=OURS)
    axes.set_xscale("log", base=2)
    axes.grid(alpha=0.25)
