"""The report: one self-contained HTML page of one run, or of several side by side.

No script, no address, nothing from outside: a policy in the page says so too. Whatever came from a file is
escaped, spelt out where it is invisible, and never stands in an attribute.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from unsee import store
from unsee.errors import UsageError
from unsee.formulation import SETS
from unsee.report import charts, tables
from unsee.report.run import Run, read_run
from unsee.report.verdict import Verdict, meaning, subject, verdict
from unsee.report.words import Name, Symbol, visible

__all__ = ["Run", "read_run", "render", "write_report"]

FULL = 6  # runs up to which each has its whole part; more are compared only
LONGEST = 1000
_NOT_BASE64 = re.compile(r"[^A-Za-z0-9+/=]")
_TITLES = {
    "accuracies": "The four accuracies",
    "examples": "Examples, and where the models look",
    "classes": "By class",
    "confusion": "Confusion",
    "softmax": "Answers to the affected data",
    "epochs": "Accuracy per epoch",
    "layers": "How far each layer moved",
    "variations": "Variations of T",
    "lineage": "Lineage",
    "made": "How it was made",
}


@dataclass(frozen=True)
class Entry:
    """A run's part of the page."""

    id: str
    name: str
    run: Run
    verdict: Verdict
    contents: tuple[tuple[str, str], ...]
    missing: tuple[tuple[str, str], ...]


def render(runs: Sequence[Run]) -> str:
    """Return the page of one run, or of several side by side."""
    if not runs:
        raise UsageError("at least one run", "none", "name a run's folder")
    entries = _entries(runs)
    sets = [name for name in SETS if any(name in run.sets for run in runs)]
    page = templates().get_template("page.html")
    return page.render(
        entries=entries,
        single=len(entries) == 1,
        full=len(entries) <= FULL,
        sets=sets,
        comparable=tables.comparable(runs),
        few=tables.FEW_CLASSES,
        most=tables.MOST_CLASSES,
    ).lstrip()


def write_report(folders: Sequence[Path | str], out: Path | str) -> None:
    """Read the runs in these folders and write their page to `out`, whole or not at all."""
    store.write_bytes(out, render([read_run(folder) for folder in folders]).encode())


def _entries(runs: Sequence[Run]) -> list[Entry]:
    seen: dict[str, int] = {}
    entries = []
    for number, run in enumerate(runs, 1):
        seen[run.name] = seen.get(run.name, 0) + 1
        name = run.name if seen[run.name] == 1 else f"{run.name} ({seen[run.name]})"
        judged = verdict(run)
        entries.append(Entry(f"run-{number}", name, run, judged, _contents(run), tuple(tables.missing(run))))
    return entries


def _contents(run: Run) -> tuple[tuple[str, str], ...]:
    """Return the parts that this run has something to show for."""
    facts = run.facts
    has = {
        "accuracies": run.sets,
        "examples": facts and facts.examples,
        "classes": tables.classes_of(run),
        "confusion": facts and facts.confusion,
        "softmax": tables.softmax_of(run)[0],
        "epochs": charts.trajectory(run),
        "layers": facts and facts.layers,
        "variations": facts and facts.variations,
        "lineage": run.lineage,
        "made": True,
    }
    return tuple((key, title) for key, title in _TITLES.items() if has[key])


@lru_cache(maxsize=2)
def templates(folder: Path = Path(__file__).parent) -> Environment:
    """Return what makes pages of the templates in a folder, and of the report's own drawings."""
    environment = Environment(
        loader=FileSystemLoader([folder, Path(__file__).parent]),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Callable[..., Any]] = {
        "f2": lambda value: f"{value:.2f}",
        "f3": lambda value: f"{value:.3f}",
        "signed": _signed,
        "count": lambda value: f"{value:,}",
        "percent": lambda value: f"{100 * value:,.2f}\u00a0%",
        "along": lambda value: round(6 + 188 * min(1.0, max(0.0, value)), 1),
        "cut": visible,
        "png": lambda text: Markup(_NOT_BASE64.sub("", text)),
        "meaning": meaning,
        "classes_of": tables.classes_of,
        "shortened": tables.shortened,
        "reach": tables.reach,
        "subject": subject,
        "confused": tables.confused,
        "softmax_of": tables.softmax_of,
        "layers_of": tables.layers_of,
        "matrix": charts.matrix,
        "trajectory": charts.trajectory,
    }
    environment.filters.update(filters)
    kinds: dict[str, Any] = {"symbol": Symbol, "name": Name}
    environment.tests.update({key: partial(_is, kind) for key, kind in kinds.items()})
    return environment


def _is(kind: type, part: Any) -> bool:
    return isinstance(part, kind)


def _signed(value: float) -> str:
    return f"{value:+.3f}".replace("-", "−") if abs(value) >= 0.0005 else "0.000"


def _shown(value: Any) -> Any:
    """Return what goes into the page, before it is escaped: no text is invisible or without end."""
    return value if isinstance(value, Markup) or not isinstance(value, str) else visible(value, LONGEST)
