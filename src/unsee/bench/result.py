"""Result: what one benchmark found, as it is written down and read again."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from unsee import store
from unsee.errors import InputError

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Limit:
    """What a figure may be at the most.

    >>> Limit("Fisher to plain", 1.04, 1.1).met, Limit("start", 3.5, 3.0).met
    (True, False)
    """

    what: str
    found: float
    most: float

    @property
    def met(self) -> bool:
        """Whether it is so."""
        return self.found <= self.most


@dataclass(frozen=True)
class Result:
    """The figures of one benchmark: tables by title, limits, the command and the machine behind them."""

    name: str
    command: str
    machine: Row
    limits: Sequence[Limit]
    tables: Mapping[str, Sequence[Row]]
    quick: bool = False
    """Whether the subjects were tiny: the figures then say that the code runs, no more."""

    def save(self, folder: Path) -> Path:
        """Write it into a folder of results."""
        path = folder / f"{self.name}.json"
        limits = [asdict(limit) | {"met": limit.met} for limit in self.limits]
        store.write_json(path, asdict(self) | {"limits": limits})
        return path

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Read what `save` wrote."""
        words: Any = store.read_json(path)
        try:
            limits = [Limit(limit["what"], limit["found"], limit["most"]) for limit in words.pop("limits")]
            return cls(limits=limits, **words)
        except (KeyError, TypeError, AttributeError):
            raise InputError(
                f"a benchmark's result at {path}", "something else", "run `unsee bench`"
            ) from None
