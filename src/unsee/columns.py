"""T for tables: a column set to a value, made constant, resampled, or filled with leaking identifiers.

Each is made for a data set, whose columns it looks up by name. What it draws depends on the rest of the row
and on the seed alone, so that the same row always gets the same value.
"""

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from unsee.datasets import Dataset
from unsee.errors import InputError
from unsee.kinds import Column, Kind
from unsee.randomness import chances
from unsee.store import digest
from unsee.transforms import Transform

FEW = 6  # values of a column that variations go through
WORDS = ("constant", "resampled", "leaked")

Varied = Callable[[], tuple[Transform, ...]]


def set_to(data: Dataset, name: str, value: str | float) -> Transform:
    """Set a column to one value: a number, or one of its names."""
    place, column = _found(data, name)
    code = _code(column, value)
    varied = _variations(data, place, but=code)
    said = f"column {name} = {_shown(column, code)}"
    return _of(place, said, lambda x: torch.full_like(x[:, 0], code), varied)


def constant(data: Dataset, name: str) -> Transform:
    """Make a column constant: the commonest of its names in the data, or the middle one of its numbers."""
    place, column = _found(data, name)
    code = float((data.x[:, place].mode() if column.values else data.x[:, place].median(0)).values)
    varied = _variations(data, place, but=code)
    said = f"column {name} constant at {_shown(column, code)}"
    return _of(place, said, lambda x: torch.full_like(x[:, 0], code), varied)


def resampled(data: Dataset, name: str, seed: int = 0) -> Transform:
    """Draw a column anew for each row, from the values that it has in the data."""
    place, _ = _found(data, name)
    pool = data.x[:, place].clone()
    said = f"column {name} resampled ({digest({'': pool})[:12]}, seed {seed})"

    def drawn(x: Tensor) -> Tensor:
        rest = torch.cat([x[:, :place], x[:, place + 1 :]], 1)
        return pool[(chances(rest, seed, "resampled") * len(pool)).long()].to(x)

    return replace(_of(place, said, drawn, _variations(data, place)), by_chance=True)


def leaked(data: Dataset, name: str, seed: int = 0, *, low: float = 0.5, high: float = 1.5) -> Transform:
    """Fill a column of numbers with identifiers of a range of their own, beyond all that the data has.

    They lie between the highest value plus `low` and plus `high` times the span of the column.
    """
    place, column = _found(data, name)
    if column.values:
        found = f"the names {', '.join(column.values[:3])}"
        raise InputError(
            f"numbers in the column {name} for identifiers", found, "set it to one of its values"
        )
    top, span = float(data.x[:, place].max()), float(data.x[:, place].max() - data.x[:, place].min()) or 1.0
    start, end = top + low * span, top + high * span

    def drawn(x: Tensor) -> Tensor:
        rest = torch.cat([x[:, :place], x[:, place + 1 :]], 1)
        return (start + chances(rest, seed, "leaked") * (end - start)).round().to(x)

    def varied() -> tuple[Transform, ...]:
        nearer = leaked(data, name, seed, low=0.1 * low, high=0.9 * low)
        farther = leaked(data, name, seed, low=1.1 * high, high=2 * high)
        twice = {"nearer identifiers": nearer, "farther identifiers": farther}
        return tuple(Transform(said, T.pixels) for said, T in twice.items())

    said = f"column {name} leaked ({start:.10g} to {end:.10g}, seed {seed})"
    return replace(_of(place, said, drawn, varied), by_chance=True)


def numbered(data: Dataset, name: str, seed: int = 0, most: int = 100_000) -> Dataset:
    """Return a table with one more column: a number below `most` for each row, by chance, as of accounts."""
    if name in {column.name for column in data.kind.columns}:
        raise InputError(f"no column {name} yet", "one", "choose another name")
    number = (chances(data.x, seed, f"numbered {name}") * most).floor().to(data.x)
    kind = Kind(columns=(*data.kind.columns, Column(name)))
    return data.with_(x=torch.cat([data.x, number[:, None]], 1), kind=kind)


def parse(words: str, data: Dataset) -> Transform:
    """Read `NAME:VALUE`, `NAME:constant`, `NAME:resampled` or `NAME:leaked`."""
    name, _, how = words.rpartition(":")
    made = {"constant": constant, "resampled": resampled, "leaked": leaked}
    return made[how](data, name) if how in made else set_to(data, name, how)


def _found(data: Dataset, name: str) -> tuple[int, Column]:
    place = data.kind.place(name)
    if not len(data):
        raise InputError("rows to make T of", f"none in {data.name}", "give some")
    return place, data.kind.columns[place]


def _code(column: Column, value: str | float) -> float:
    if column.values:
        if value not in column.values:
            known = ", ".join(column.values[:FEW]) + (", ..." if len(column.values) > FEW else "")
            raise InputError(f"one of {known} as {column.name}", f"{value!r}", "choose one of its values")
        return float(column.values.index(str(value)))
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        words = ", ".join(WORDS)
        raise InputError(f"a number, {words} as {column.name}", f"{value!r}", "write one of those")
    return number


def _shown(column: Column, code: float) -> str:
    return column.values[int(code)] if column.values else f"{code:.10g}"


def _of(place: int, said: str, drawn: Callable[[Tensor], Tensor], varied: Varied | None = None) -> Transform:
    """Return the map that puts what is drawn into one column."""

    def pixels(x: Tensor) -> Tensor:
        if x.ndim != 2 or x.shape[1] <= place or not x.is_floating_point():
            found = f"samples of shape {tuple(x.shape[1:])} and type {x.dtype}"
            raise InputError(f"rows of the table that T = {said} was made for", found, "use another T")
        x[:, place] = drawn(x)
        return x

    return Transform(said, pixels, None, varied)


def _variations(data: Dataset, place: int, but: float | None = None) -> Varied:
    """Return what makes the column's commonest values, or numbers from low to high, into variations of T."""
    column, values = data.kind.columns[place], data.x[:, place]

    def varied() -> tuple[Transform, ...]:
        if column.values:
            codes, counts = values.unique(return_counts=True)
            some = codes[counts.argsort(descending=True, stable=True)][:FEW].tolist()
        else:
            some = values.quantile(torch.linspace(0.01, 0.99, FEW).to(values)).unique().tolist()
        made = [(code, _of(place, "", lambda x, code=code: torch.full_like(x[:, 0], code))) for code in some]
        return tuple(Transform(f"set to {_shown(column, code)}", T.pixels) for code, T in made if code != but)

    return varied
