"""The page of all results: for each benchmark its command, limits, tables and picture."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from unsee import store
from unsee.bench import drawing, fisher, footprint, forgetting, growth, startup
from unsee.bench.result import Limit, Result, Row
from unsee.errors import UsageError
from unsee.report.figures import save

BENCHES: dict[str, Callable[..., Result]] = {
    "fisher": fisher.run,
    "forget": forgetting.run,
    "growth": growth.run,
    "memory": footprint.run,
    "startup": startup.run,
}
TITLES = {
    "fisher": "The Fisher pass",
    "forget": "The forgetting step",
    "growth": "How cost grows",
    "memory": "Memory",
    "startup": "Start-up",
}
QUICK = "**A quick run on tiny subjects: its figures say that the code runs, no more.**"


def chosen(names: Sequence[str]) -> list[str]:
    """Return the benchmarks that are meant, in their order; `all` is all of them.

    >>> chosen(["startup", "fisher"])
    ['fisher', 'startup']
    """
    for name in names:
        if name not in (*BENCHES, "all"):
            raise UsageError(f"one of {', '.join(BENCHES)} or all", f"{name!r}", "choose one of those")
    return [name for name in BENCHES if name in names or "all" in names]


def write(folder: Path) -> Path:
    """Write the page from the results in `folder`, and the picture of each."""
    parts = ["# Benchmarks", _heading()]
    for name in BENCHES:
        path = folder / "results" / f"{name}.json"
        if path.exists():
            result = Result.load(path)
            save(drawing.draw(result), folder / f"{name}.png")
            parts += [f"## {TITLES[name]}", *section(result)]
    peers = folder / "results" / "peers.json"
    if peers.exists():
        parts += ["## Beside other libraries", *_peers(store.read_json(peers))]
    page = folder / "README.md"
    store.write_bytes(page, ("\n\n".join(parts) + "\n").encode())
    return page


def section(result: Result) -> list[str]:
    """Return the paragraphs of one result."""
    here = ", ".join(f"{name} {value}" for name, value in result.machine.items())
    parts = [
        f"    {result.command}",
        f"Written to [`results/{result.name}.json`](results/{result.name}.json). {here}.",
    ]
    parts += [QUICK] if result.quick else []
    parts.append(table([limit_row(limit) for limit in result.limits]))
    parts.append(f"![{TITLES[result.name]}]({result.name}.png)")
    for title, rows in result.tables.items():
        parts += [f"{title.replace('|', chr(92) + '|')}:", table(rows)]
    return parts


def limit_row(limit: Limit) -> dict[str, Any]:
    """Return a limit as a row of a table."""
    return {"limit": limit.what, "found": limit.found, "at most": limit.most, "": "✓" if limit.met else "✗"}


def table(rows: Sequence[Row]) -> str:
    """Return rows as a Markdown table."""
    lines = [" | ".join(map(_cell, rows[0])), " | ".join("---" for _ in rows[0])]
    lines += [" | ".join(map(_cell, row.values())) for row in rows]
    return "\n".join(f"| {line} |" for line in lines)


def _cell(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value).replace("|", "\\|")


def _heading() -> str:
    return (
        "Ratios within one run: what is compared takes turns, and a ratio is the median of each turn's, of "
        "processor time where one thread runs. `load before` is the machine's load average before the run: "
        "above 0.5 or so, others were at work too, and the figures are rough. What they mean: "
        "[docs/speed.md](../docs/speed.md)."
    )


def _peers(words: dict[str, Any]) -> list[str]:
    return [f"    {words['command']}", words["note"], *([table(words["rows"])] if words["rows"] else [])]
