"""An ordeal: one row of the scorecard, many attempts, each of which holds or does not."""

import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unsee.errors import UnseeError

Attempt = Callable[[int], Mapping[str, float] | None]

SHOWN = 20  # failures that are kept in full


@dataclass(frozen=True)
class Ordeal:
    """What is done (`what`), to which rows, and what must hold; `n` attempts of `each` cases, or `quick`.

    `prepare(folder)` returns the attempt, a function of its number that raises if the promise does not
    hold. It may return measures: of those that begin with + the sum is kept, of the others the largest.
    """

    name: str
    rows: str
    what: str
    promise: str
    n: int
    quick: int
    prepare: Callable[[Path], Attempt]
    each: int = 1

    def numbers(self, quick: bool) -> list[int]:
        """Return the attempts to make: all, or some spread over them."""
        count = min(self.quick, self.n) if quick else self.n  # none, where the tests have a quick form of it
        return [k * self.n // count for k in range(count)]


@dataclass
class Result:
    """How an ordeal went so far."""

    done: int = 0
    held: int = 0
    seconds: float = 0.0
    measures: dict[str, float] = field(default_factory=dict)
    failed: list[dict[str, Any]] = field(default_factory=list)

    def make(self, attempt: Attempt, number: int) -> None:
        """Make one attempt and count it."""
        start = time.monotonic()
        try:
            measures = attempt(number) or {}
            self.held += 1
        except Exception as error:
            measures = {}
            if len(self.failed) < SHOWN:
                last = traceback.extract_tb(error.__traceback__)[-1]
                where = f"{Path(last.filename).name}:{last.lineno}"
                self.failed.append(
                    {"attempt": number, "why": f"{type(error).__name__}: {error}", "at": where}
                )
        self.done += 1
        self.seconds += time.monotonic() - start
        for name, value in measures.items():
            known = self.measures.get(name, 0.0)
            self.measures[name] = known + value if name.startswith("+") else max(known, value)


def refusal(kind: type[UnseeError], work: Callable[[], object]) -> str:
    """Return the one sentence with which work is refused, which must be an error of exactly that kind."""
    try:
        work()
    except UnseeError as error:
        text = str(error)
        if type(error) is kind and text.isprintable():
            return text
        raise AssertionError(f"{type(error).__name__} instead of {kind.__name__}: {text!a}") from None
    raise AssertionError(f"no {kind.__name__}")
