"""What the paper ran, as data: a cell is one line of a figure or one entry of a table."""

from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from unsee.recipe import RECIPES, Recipe
from unsee.transforms import Transform, color, line, tile

TRANSFORMS = {"line": line, "tile": tile, "color": color}
DATA = ("fashion-mnist", "cifar-10")
# Pretraining as (epochs, learning rate), one after the other, where five epochs at 0.01 stay points below the
# paper's range on D_r (LAB.md, 2026-11-16). The network of CIFAR-10 begins as one for images of half the
# size (docs/decisions/0029).
PRETRAINING = {
    "fashion-mnist-plain": ((5, 0.01), (4, 0.001)),
    "cifar-10": ((1, 0.001), (1, 0.0003)),
}
AT_HALF = {"cifar-10": ((8, 0.03), (4, 0.01), (2, 0.003), (1, 0.001))}

# Figure 4's lines. Its caption reads swapped (docs/decisions/0008); CE + RLD is the literal reading.
LINES: dict[str, dict[str, Any]] = {
    "CE": {"lambda_f": 0.0, "lambda_kl": 0.0},
    "CE + Fisher": {"lambda_f": 0.0},
    "CE + Fisher + RLD": {},
    "CE + RLD": {"lambda_kl": 0.0},
}
# Table 2's columns. The Fisher's data is unstated there: over D, and beside it over D_r on Fashion-MNIST,
# where it hardly matters.
METHODS: dict[str, Recipe] = {
    "RND": RECIPES["pattern-a/rnd"],
    "RLD": RECIPES["pattern-a/rld"],
    "RND, Fisher over D_r": replace(RECIPES["pattern-a/rnd"], fisher_over="D_r"),
    "RLD, Fisher over D_r": replace(RECIPES["pattern-a/rld"], fisher_over="D_r"),
    "truncation": RECIPES["truncation"],
}


@dataclass(frozen=True)
class Unit:
    """One pretrained network: a data set, and the T on its class 0, or none (Pattern A)."""

    data: str
    T: str | None

    @property
    def name(self) -> str:
        """What the unit's folder is called."""
        return f"{self.data}-{self.T or 'plain'}"

    @property
    def pretraining(self) -> tuple[tuple[int, float], ...]:
        """Epochs of pretraining and their learning rate, one after the other."""
        return PRETRAINING.get(self.name) or PRETRAINING.get(self.data) or ((5, 0.01),)

    @property
    def at_half(self) -> tuple[tuple[int, float], ...]:
        """The same for the network that it begins as, on images of half the size; nothing: on the whole."""
        return AT_HALF.get(self.data, ())

    def transform(self) -> Transform | None:
        """Return T itself."""
        return TRANSFORMS[self.T]() if self.T else None


@dataclass(frozen=True)
class Cell:
    """A forgetting procedure on a unit, to be run with several seeds.

    >>> Cell(Unit("cifar-10", "color"), "C", "CE + Fisher").name
    'cifar-10-color-C-ce-fisher'
    """

    unit: Unit
    pattern: str
    line: str

    @property
    def name(self) -> str:
        """What the cell's file is called."""
        words = self.line.lower().replace(",", "").replace(" + ", " ").split()
        return "-".join([self.unit.name, self.pattern, *words])

    @property
    def recipe(self) -> Recipe:
        """The paper's values for this cell."""
        if self.pattern == "A":
            return METHODS[self.line]
        found = RECIPES[f"{self.unit.data}/{self.unit.T}/{self.pattern}"]
        return replace(found, **LINES[self.line], name=f"{found.name}, {self.line}")


def _figure(T: str, data: tuple[str, ...] = DATA) -> tuple[Cell, ...]:
    return tuple(Cell(Unit(d, T), pattern, name) for d, pattern, name in product(data, "BC", LINES))


CELLS: dict[str, tuple[Cell, ...]] = {
    "table-2": tuple(
        Cell(Unit(d, None), "A", method)
        for d, method in product(DATA, METHODS)
        if d == DATA[0] or "Fisher" not in method
    ),
    "table-s1": (),
    "figure-2": (),
    "figure-3": tuple(Cell(Unit("fashion-mnist", None), "A", m) for m in ("RND", "RLD", "truncation")),
    "figure-4": _figure("tile"),
    "figure-s1": _figure("line"),
    "figure-s2": _figure("color", ("cifar-10",)),
}
