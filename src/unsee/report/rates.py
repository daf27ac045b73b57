"""Rates and shifts: a share of right answers, how it changed from one model to the other, and how sure."""

from dataclasses import dataclass

from torch import Tensor

from unsee.report.words import Words

Z = 1.959963984540054  # of the normal distribution, 95 % lies within


@dataclass(frozen=True)
class Rate:
    """Right answers among n."""

    right: int
    n: int

    @property
    def value(self) -> float:
        """The share of right answers."""
        return self.right / self.n

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of Wilson (1927).

        >>> tuple(round(end, 3) for end in Rate(80, 100).interval)
        (0.711, 0.867)
        """
        n, p = self.n, self.value
        middle, spread = p + Z * Z / (2 * n), Z * (p * (1 - p) / n + Z * Z / (4 * n * n)) ** 0.5
        scale = 1 + Z * Z / n
        return max(0.0, (middle - spread) / scale), min(1.0, (middle + spread) / scale)


@dataclass(frozen=True)
class Shift:
    """Of n samples: answered right by both models (kept), by the new one alone (gained), the old one (lost).

    >>> shift = Shift(100, 70, 5, 12)
    >>> shift.before.value, shift.after.value, round(shift.change, 2)
    (0.82, 0.75, -0.07)
    """

    n: int
    kept: int
    gained: int
    lost: int

    def __add__(self, other: "Shift") -> "Shift":
        return Shift(
            self.n + other.n, self.kept + other.kept, self.gained + other.gained, self.lost + other.lost
        )

    @property
    def before(self) -> Rate:
        """How the old model does."""
        return Rate(self.kept + self.lost, self.n)

    @property
    def after(self) -> Rate:
        """How the new model does."""
        return Rate(self.kept + self.gained, self.n)

    @property
    def change(self) -> float:
        """The new model's rate less the old one's."""
        return (self.gained - self.lost) / self.n

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the change, both models having answered the same samples (Agresti, Min 2005).

        >>> tuple(round(end, 3) for end in Shift(100, 70, 5, 12).interval)
        (-0.149, 0.012)
        """
        n, gained, lost = self.n + 2, self.gained + 0.5, self.lost + 0.5
        middle, spread = (gained - lost) / n, Z * (gained + lost - (gained - lost) ** 2 / n) ** 0.5 / n
        return max(-1.0, middle - spread), min(1.0, middle + spread)

    @property
    def clear(self) -> bool:
        """Whether the interval of the change leaves 0 out."""
        low, high = self.interval
        return low > 0 or high < 0


def rate_of(value: float, n: int) -> Rate:
    """Return the rate that has this value: accuracies in files are shares of whole numbers."""
    return Rate(round(value * n), n)


def shift_of(y: Tensor, before: Tensor, after: Tensor) -> Shift:
    """Return the shift of two models' answers to samples with these labels."""
    was, now = before == y, after == y
    kept, gained, lost = (int(x.sum()) for x in (was & now, ~was & now, was & ~now))
    return Shift(len(y), kept, gained, lost)


def shift_read(words: Words, n: int, kept: int, gained: int, lost: int) -> Shift:
    """Return the shift of these counts, which a file gave, if they can be one."""
    if n < 1 or kept + gained + lost > n:
        raise words.refused("counts that make up at most n, which is at least 1,")
    return Shift(n, kept, gained, lost)
