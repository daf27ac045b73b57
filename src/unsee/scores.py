"""Scores: accuracy on the four sets, the pattern's score, each arrow, and which class paid for it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unsee.formulation import Arrow, Pattern

if TYPE_CHECKING:
    from rich.table import Table

MARGIN = 0.02
ROWS = 50  # classes that a table shows; JSON has all
PRINTED = {"D_r": "D_r", "D_f": "D_f", "D_f_clean": "D_f,clean", "D_r_extra": "D_r,extra"}
_TICKS = {True: " ✓", False: " ✗", None: ""}


@dataclass(frozen=True)
class Accuracy:
    """Correct answers among n, with the 95 % interval of Wilson, and by class."""

    correct: int
    n: int
    by_class: Mapping[str, float]

    @property
    def value(self) -> float:
        """The share of correct answers."""
        return self.correct / self.n

    @property
    def class_mean(self) -> float:
        """The mean of the accuracies of the classes, as in the paper's Table 2."""
        return sum(self.by_class.values()) / len(self.by_class)

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval (Wilson 1927).

        >>> tuple(round(end, 3) for end in Accuracy(80, 100, {"cat": 0.8}).interval)
        (0.711, 0.867)
        """
        from scipy.stats import binomtest  # takes a second to import, and only judgement needs it

        low, high = binomtest(self.correct, self.n).proportion_ci(method="wilson")
        return float(low), float(high)


@dataclass(frozen=True)
class Scores:
    """How a model stands on the four sets, and what the pattern asks of it."""

    sets: Mapping[str, Accuracy]
    softmax_D_f: tuple[float, ...]
    classes: tuple[str, ...]
    pattern: Pattern | None = None
    old: "Scores | None" = None
    margin: float = MARGIN
    ceiling: float | None = None
    truncated: int | None = None

    def accuracies(self) -> dict[str, float]:
        """Return the accuracy by set."""
        return {name: accuracy.value for name, accuracy in self.sets.items()}

    @property
    def score(self) -> float | None:
        """The least of the pattern's accuracies (down counts as 1 - accuracy), where all are known."""
        if self.pattern is None or not self.pattern.arrows.keys() <= self.sets.keys():
            return None
        return self.pattern.score(self.accuracies())

    def threshold(self, name: str) -> float | None:
        """Return what the arrow asks: up, the old D_r - margin at least; down, the ceiling (1/C) at most."""
        arrow = self.pattern.arrows.get(name) if self.pattern else None
        if arrow is Arrow.DOWN:
            return 1 / len(self.classes) if self.ceiling is None else self.ceiling
        if arrow is Arrow.UP and self.old and "D_r" in self.old.sets:
            return self.old.sets["D_r"].value - self.margin
        return None

    def met(self, name: str) -> bool | None:
        """Say whether this set's arrow is met; None where there is no arrow or nothing to hold it against."""
        threshold = self.threshold(name)
        if threshold is None or name not in self.sets or self.pattern is None:
            return None
        value = self.sets[name].value
        return value >= threshold if self.pattern.arrows[name] is Arrow.UP else value <= threshold

    @property
    def all_met(self) -> bool:
        """Whether every arrow of the pattern is met."""
        return self.pattern is not None and all(self.met(name) for name in self.pattern.arrows)

    @property
    def any_missed(self) -> bool:
        """Whether an arrow was judged and found not met."""
        return any(self.met(name) is False for name in self.sets)

    def changes(self) -> dict[str, float]:
        """Return the change of each class's accuracy on D_r against the old model."""
        if self.old is None or "D_r" not in self.sets or "D_r" not in self.old.sets:
            return {}
        before = self.old.sets["D_r"].by_class
        return {name: v - before[name] for name, v in self.sets["D_r"].by_class.items() if name in before}

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain words and numbers, for JSON."""
        rows = {}
        for name, accuracy in self.sets.items():
            arrow = self.pattern.arrows.get(name) if self.pattern else None
            rows[name] = {
                "accuracy": accuracy.value,
                "n": accuracy.n,
                "interval": list(accuracy.interval),
                "class_mean": accuracy.class_mean,
                "by_class": dict(accuracy.by_class),
                "arrow": {Arrow.UP: "up", Arrow.DOWN: "down"}.get(arrow) if arrow else None,
                "threshold": self.threshold(name),
                "met": self.met(name),
                "old": self.old.sets[name].value if self.old and name in self.old.sets else None,
            }
        return {
            "pattern": self.pattern.name if self.pattern else None,
            "score": self.score,
            "all_met": self.all_met,
            "margin": self.margin,
            "sets": rows,
            "changes_on_D_r": self.changes(),
            "softmax_D_f": list(self.softmax_D_f),
        }

    def table(self) -> "Table":
        """Return Table 1's row for this model, the old one above it, with arrows and ticks."""
        from rich.table import Table

        title = f"Pattern {self.pattern.name}: forget {self.pattern.forgets}" if self.pattern else None
        table = Table(title=title, title_justify="left", title_style="bold")
        table.add_column("accuracy")
        for name in self.sets:
            arrow = self.pattern.arrows.get(name, "") if self.pattern else ""
            table.add_column(f"{PRINTED[name]} {arrow}".rstrip(), justify="right")
        table.add_column("least", justify="right")
        if self.old:
            known = self.pattern and self.pattern.arrows.keys() <= self.old.sets.keys()
            old_score = self.pattern.score(self.old.accuracies()) if self.pattern and known else None
            table.add_row("before", *(self.old._cell(name) for name in self.sets), _figure(old_score))
        now = [f"{self._cell(name)}{_TICKS[self.met(name)]}" for name in self.sets]
        table.add_row(
            "after" if self.old else "now", *now, _figure(self.score), style="bold", end_section=True
        )
        table.add_row(
            "95 %", *("..".join(f"{end:.3f}" for end in a.interval) for a in self.sets.values()), ""
        )
        table.add_row("n", *(f"{a.n:,}" for a in self.sets.values()), "")
        if self.pattern and self.old:
            table.add_row("asked", *(self._asked(name) for name in self.sets), "")
        return table

    def class_table(self) -> "Table":
        """Return, by class, accuracy on D_r and its change, and what the model answers to D_f on average."""
        from rich.table import Table
        from rich.text import Text

        table = Table("class", "D_r", "change", "mean softmax on D_f")
        remembered = self.sets["D_r"].by_class if "D_r" in self.sets else {}
        for label, name in enumerate(self.classes[:ROWS]):
            change = self.changes().get(name)
            answered = self.softmax_D_f[label] if self.softmax_D_f else None
            moved = "" if change is None else f"{change:+.3f}"
            # As text and not as markup: class names come from files.
            table.add_row(Text(name), _figure(remembered.get(name)), moved, _figure(answered))
        if len(self.classes) > ROWS:
            table.add_row(f"and {len(self.classes) - ROWS} more", "", "", "")
        return table

    def __str__(self) -> str:
        from rich.console import Console

        console = Console(width=110, color_system=None)
        with console.capture() as capture:
            console.print(self.table())
        return capture.get().rstrip()

    def _cell(self, name: str) -> str:
        # A truncated model cannot answer the class it lost: the paper prints a dash there.
        if name not in self.sets or (name == "D_f" and self.truncated is not None):
            return "--"
        return _figure(self.sets[name].value)

    def _asked(self, name: str) -> str:
        threshold = self.threshold(name)
        if threshold is None or self.pattern is None:
            return ""
        return f"{'>=' if self.pattern.arrows[name] is Arrow.UP else '<='} {threshold:.3f}"


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"
