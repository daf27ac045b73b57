"""Recipe: which terms, with which weights, for how long. The paper's own are here by name.

Where the paper is silent (batch size, Pattern A's epochs, the labels of RLD in B and C, the data of
Pattern A's Fisher) the values are ours, and `docs/decisions/` says why.
"""

import difflib
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Self

from unsee import store
from unsee.errors import InputError, UsageError
from unsee.formulation import Pattern
from unsee.kinds import PLAIN, Kind
from unsee.paper.reported import TABLE_S1
from unsee.terms import TERMS

FORGETTING = (*TERMS, "none", "truncation")
REMEMBERING = ("penalty", "proximal")
BALANCE = ("none", "prior", "adjusted")
LABELS = ("others", "all")
FISHER_OVER = ("D_r", "D")
METHOD = 5  # one more whenever forgetting by the same recipe comes to end otherwise


@dataclass(frozen=True)
class Recipe:
    """L = lambda_c L_c + lambda_f L_f + lambda_h L_h + lambda_s L_s + lambda_KL R, minimised by SGD.

    The paper has lambda_c, lambda_f and lambda_KL; L_h and L_s are ours (docs/decisions/0022).

    >>> RECIPES["fashion-mnist/tile/B"].lambda_f
    1.73782
    """

    name: str = "my recipe"
    forgetting: str = "rld"
    """L_f: the paper's rld, rnd, truncation (which trains nothing) or none; with twins, twin or
    invariance; delete (masked distillation) or ascent (bounded)."""
    lambda_c: float = 1.0
    lambda_f: float = 1.0
    lambda_kl: float = 1e5
    lr: float = 1e-5
    momentum: float = 0.9
    batch_size: int = 128
    epochs: int = 10
    labels: str = "others"
    """What RLD draws from: the classes that D_f does not have (others), or all."""
    fisher_over: str = "D_r"
    """R leans on the memory without D_f's share (D_r), or on the whole memory (D)."""
    remembering: str = "penalty"
    """How R acts: by its gradient (penalty, the paper's), or in closed form after each step (proximal)."""
    lambda_h: float = 0.0
    """L_h: every layer reads of D_f what the old model's read of its clean twin, and of replayed samples,
    with T and without, what it read of them without; eased (decision 37), without alone. Where theta is
    averaged it counts up to ten times lambda_h, the more classes D_f,clean has (decision 40)."""
    lambda_s: float = 0.0
    """L_s: replayed samples, with T and without, are answered as the old model answered them without."""
    trust: float = 0.0
    """How far a replayed sample's own label counts, where it is known, against the old model's answer."""
    balance: str = "none"
    """prior: L_c counts by the share of the classes that D_f,clean has, on D_f's twins too, and only as far
    as it lies above the level of the memory, so that no class swallows its neighbours. adjusted: besides,
    where a memory tells of the others, the logits of these classes are lifted in the end (unsee.balance)."""
    stride: float | None = None
    """The longest step, before momentum, as a share of theta_old's length; None: as the gradient makes it."""
    settle: float | None = None
    """End when an epoch lowers L by less than this share, `epochs` at the most; None: all epochs."""
    average: bool = False
    """Whether, where it is to settle and D_f is small, the mean of theta over the way is the new model. It
    then ends where an epoch lowers L by less than a quarter, and R counts ten times lambda_kl, less where
    D_f,clean has many classes or the network few weights; without a memory R is of stand-ins and counts
    little (`unsee.firmness`)."""
    floor: float | None = None
    """How much of the old model's usefulness may be lost; None: no floor, as in the paper."""

    def __post_init__(self) -> None:
        _one_of("forgetting", self.forgetting, FORGETTING)
        _one_of("labels", self.labels, LABELS)
        _one_of("fisher_over", self.fisher_over, FISHER_OVER)
        _one_of("remembering", self.remembering, REMEMBERING)
        _one_of("balance", self.balance, BALANCE)
        for name, least in (("stride", math.ulp(0.0)), ("settle", 0), ("floor", 0)):
            if getattr(self, name) is not None:
                _number(name, getattr(self, name), least, 1)
        if not isinstance(self.average, bool):
            raise InputError("true or false as average", f"{self.average!r}", "change the recipe")
        _number("trust", self.trust, 0, 1 + math.ulp(1.0))
        for name in ("lambda_c", "lambda_f", "lambda_kl", "lambda_h", "lambda_s"):
            _number(name, getattr(self, name), 0, math.inf)
        _number("momentum", self.momentum, 0, 1)
        _number("lr", self.lr, math.ulp(0.0), math.inf)
        for name in ("batch_size", "epochs"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise InputError(f"a whole number of at least 1 as {name}", f"{value!r}", "change the recipe")

    @classmethod
    def from_dict(cls, words: Mapping[str, Any]) -> Self:
        """Build a recipe from plain words; a word that is no field is an error with the nearest name."""
        known = [field.name for field in fields(cls)]
        for word in words:
            if word not in known:
                near = difflib.get_close_matches(word, known, 1, 0) or known
                raise InputError("a field of a recipe", f"{word!r}", f"did you mean {near[0]!r}?".rstrip("?"))
        return cls(**words)

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Read a recipe from a JSON file."""
        words = store.read_json(path)
        if not isinstance(words, dict):
            raise InputError("a JSON object with a recipe's fields", type(words).__name__, f"mend {path}")
        return cls.from_dict(words)

    def words(self) -> dict[str, Any]:
        """Return the fields by which a run knows its recipe: runs from before there was `average` go on."""
        return {word: value for word, value in asdict(self).items() if word != "average" or value}

    def save(self, path: Path | str) -> None:
        """Write the recipe as a JSON file that `load` and `--recipe` take."""
        store.write_json(path, asdict(self))


def _one_of(field: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise InputError(f"{field} to be one of {', '.join(choices)}", f"{value!r}", "change the recipe")


def _number(field: str, value: Any, low: float, high: float) -> None:
    fits = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not (fits and low <= value < high):
        least = "above 0" if low > 0 else "at least 0"
        limit = "" if high == math.inf else f" and below {high:g}"
        raise InputError(f"a number {least}{limit} as {field}", f"{value!r}", "change the recipe")


def _table_s1() -> dict[str, Recipe]:
    """Return the recipes of Table S1."""
    # In C, labels other than D_f's own would fight the arrow on D_f (docs/decisions/0005).
    labels = {"B": "others", "C": "all"}
    return {
        name: Recipe(name, "rld", lr=lr, lambda_kl=lambda_kl, lambda_f=lambda_f, labels=labels[name[-1]])
        for name, (lr, lambda_kl, lambda_f) in TABLE_S1.items()
    }


# Ours, for any images: found on Fashion-MNIST and on CIFAR-10, tile, and used unchanged everywhere
# (docs/decisions/0022, 0032).
_OURS = Recipe(
    "unsee",
    "invariance",
    lambda_c=1.0,
    lambda_f=0.3,
    lambda_kl=300.0,
    lambda_h=10.0,
    lambda_s=1.0,
    trust=0.8,
    lr=3e-3,
    epochs=20,
    remembering="proximal",
    balance="adjusted",
    stride=1e-3,
    settle=0.03,
    average=True,
    floor=0.02,
)

_OURS_A = replace(
    _OURS, name="unsee/A", forgetting="delete", lambda_c=0.0, lambda_f=1.0, lambda_h=0.0, lambda_kl=3e3
)
# For tables and texts: their networks have thousands of weights and not millions, each holds more of what is
# known, and must move farther (docs/decisions/0026).
_BEYOND: dict[str, Any] = {"lambda_kl": 30.0, "lr": 0.03, "stride": 0.01, "settle": 0.01, "average": False}

RECIPES: dict[str, Recipe] = {
    "unsee": _OURS,
    "unsee/A": _OURS_A,
    "unsee/small": replace(_OURS, name="unsee/small", lambda_h=3.0, **_BEYOND),
    "unsee/small-A": replace(_OURS_A, name="unsee/small-A", **_BEYOND),
    "pattern-a/rld": Recipe("pattern-a/rld", "rld", lambda_c=0.0, fisher_over="D"),
    "pattern-a/rnd": Recipe("pattern-a/rnd", "rnd", lambda_c=0.0, fisher_over="D"),
    "truncation": Recipe("truncation", "truncation", lambda_c=0.0, lambda_f=0.0, lambda_kl=0.0),
    **_table_s1(),
}

# For C the row of line: that of tile holds only where no entry of the Fisher exceeds 0.123, and the MLP of
# this package, with its continuous activation, has larger ones (docs/decisions/0004).
PAPERS = {"A": "pattern-a/rld", "B": "fashion-mnist/tile/B", "C": "fashion-mnist/line/C"}
OURS = {"A": "unsee/A", "B": "unsee", "C": "unsee"}
OURS_BEYOND_IMAGES = {"A": "unsee/small-A", "B": "unsee/small", "C": "unsee/small"}


def ours(kind: Kind) -> Mapping[str, str]:
    """Return the names of our recipes by pattern: those for images, or those for tables and texts."""
    return OURS if kind == PLAIN else OURS_BEYOND_IMAGES


def recipe_of(
    name: str | Path | Recipe | None, pattern: Pattern, defaults: Mapping[str, str] = OURS
) -> Recipe:
    """Return a recipe by name or from a file; without a name, the default for this pattern."""
    if isinstance(name, Recipe):
        return name
    if name is None:
        return RECIPES[defaults[pattern.name]]
    if not isinstance(name, str | Path):
        raise InputError("a Recipe, its name or its file", type(name).__name__, "build an unsee.Recipe of it")
    if str(name) in RECIPES:
        return RECIPES[str(name)]
    if Path(name).suffix == ".json":
        return Recipe.load(name)
    near = difflib.get_close_matches(str(name), RECIPES, 1, 0)
    raise UsageError("a recipe's name or a .json file", f"{name!r}", f"the nearest name is {near[0]!r}")
