"""Charts as numbers: where each line, mark and cell of a drawing goes. The page draws them as inline SVG."""

from collections.abc import Sequence
from dataclasses import dataclass

from unsee.formulation import SETS
from unsee.report.facts import OTHER, Facts
from unsee.report.run import Run

WIDTH, HEIGHT = 480, 250
LEFT, RIGHT, TOP, BOTTOM = 34, 350, 12, 212
APART = 18  # between two labels, so that both can be read
NUMBERED = 12  # classes up to which each cell of a confusion matrix has its number
DRAWN = 120  # classes up to which a confusion matrix is drawn at all
LEVELS = 8


@dataclass(frozen=True)
class Line:
    """The accuracies on one set over the epochs: its marks, and where its label stands."""

    name: str
    marks: tuple[tuple[float, float], ...]
    last: float
    label: float

    @property
    def points(self) -> str:
        """The marks as the points of an SVG polyline."""
        return " ".join(f"{x},{y}" for x, y in self.marks)


@dataclass(frozen=True)
class Plot:
    """Lines over epochs, with the places of the ticks and of the epoch that was gone back to."""

    lines: tuple[Line, ...]
    x_ticks: tuple[tuple[float, int], ...]
    y_ticks: tuple[tuple[float, str], ...]
    back_to: float | None = None


def trajectory(run: Run) -> Plot | None:
    """Lay out accuracy per epoch; None where a run has none."""
    rows = sorted(run.trajectory, key=lambda row: row["epoch"])
    found = {name: [(row["epoch"], row[name]) for row in rows if name in row] for name in SETS}
    found = {name: points for name, points in found.items() if points}
    if not found:
        return None
    last = max(1, int(rows[-1]["epoch"]))

    def x(epoch: float) -> float:
        return round(LEFT + (RIGHT - LEFT) * epoch / last, 1)

    ends = spread([_y(points[-1][1]) for points in found.values()], APART)
    lines = tuple(
        Line(name, tuple((x(epoch), _y(value)) for epoch, value in points), points[-1][1], end)
        for (name, points), end in zip(found.items(), ends, strict=True)
    )
    step = max(1, -(-last // 8))
    ticks = tuple((x(epoch), epoch) for epoch in range(0, last + 1, step))
    back = None if run.back_to is None or run.back_to > last else x(run.back_to)
    return Plot(lines, ticks, tuple((_y(v / 4), f"{v / 4:.2f}") for v in range(5)), back)


def _y(value: float) -> float:
    return round(BOTTOM - (BOTTOM - TOP) * value, 1)


def spread(places: Sequence[float], apart: float, low: float = TOP, high: float = BOTTOM) -> list[float]:
    """Return the places, from low to high, moved as little as needed to lie apart from each other.

    >>> spread([30, 32, 90], 8)
    [27.0, 35.0, 90.0]
    """
    groups: list[list[int]] = []

    def start(group: Sequence[int]) -> float:
        span = apart * (len(group) - 1)
        middle = sum(places[i] for i in group) / len(group)
        return max(low, min(middle - span / 2, high - span))

    for i in sorted(range(len(places)), key=lambda i: places[i]):
        groups.append([i])
        while len(groups) > 1 and start(groups[-1]) < start(groups[-2]) + apart * len(groups[-2]):
            groups[-2:] = [groups[-2] + groups[-1]]
    found = [0.0] * len(places)
    for group in groups:
        for k, i in enumerate(group):
            found[i] = round(start(group) + k * apart, 1)
    return found


@dataclass(frozen=True)
class Shade:
    """All cells of one kind (right or wrong) and one strength, as an SVG path."""

    kind: str
    level: int
    path: str


@dataclass(frozen=True)
class Cell:
    """The number in a cell of a small matrix."""

    column: int
    row: int
    count: int
    level: int


@dataclass(frozen=True)
class Matrix:
    """A confusion matrix: a row a true class, a column an answer, a shade the share of the row."""

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    shades: tuple[Shade, ...]
    cells: tuple[Cell, ...]


def matrix(facts: Facts, name: str, when: str) -> Matrix | None:
    """Lay out the confusion on one set, before or after; None where there is none, or too many classes."""
    entries = facts.confusion.get(name, ())
    if not entries or len(facts.classes) > DRAWN:
        return None
    rows = sorted({true for true, *_ in entries})
    columns = list(range(len(facts.classes)))
    columns += [OTHER] if any(answer == OTHER for _, answer, *_ in entries) else []
    place = 2 if when == "before" else 3
    totals = dict.fromkeys(rows, 0)
    for entry in entries:
        totals[entry[0]] += entry[place]
    paths: dict[tuple[str, int], list[str]] = {}
    cells = []
    for entry in entries:
        true, answer, count = entry[0], entry[1], entry[place]
        if count:
            level = max(1, round(LEVELS * count / totals[true]))
            column, row = columns.index(answer), rows.index(true)
            kind = "right" if true == answer else "wrong"
            paths.setdefault((kind, level), []).append(f"M{column} {row}h1v1h-1z")
            cells.append(Cell(column, row, count, level))
    shades = tuple(Shade(*key, "".join(parts)) for key, parts in sorted(paths.items()))
    small = len(columns) <= NUMBERED
    return Matrix(tuple(rows), tuple(columns), shades, tuple(cells) if small else ())
