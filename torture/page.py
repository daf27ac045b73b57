"""The scorecard: all families' results as one table."""

from pathlib import Path
from typing import Any

from torture.run import FAMILIES
from unsee import store

_HEAD = """# Scorecard

What is done to unsee, how often, and how often the promise held. Written by `make torture`
(`python -m torture`, on one core; a family alone: `python -m torture death`); the figures are those of the
`.json` files beside this page. The rows are those of [docs/reliability.md](../../docs/reliability.md).

| row | what is done | the promise | n | held | worst, and counts |
|---|---|---|--:|--:|---|
"""


def write_page(out: Path) -> None:
    """Write the page of the families that there are results of."""
    text = _HEAD
    for family in FAMILIES:
        if (out / f"{family}.json").exists():
            words = store.read_json(out / f"{family}.json")
            text += f"| | **{family}** (`{words['command']}`, {words['date']}) | | | | |\n"
            text += "".join(_line(row) for row in words["ordeals"])
    store.write_bytes(out / "README.md", text.encode())


def _line(row: dict[str, Any]) -> str:
    measures = "; ".join(f"{name.lstrip('+')}: {value:g}" for name, value in row["measures"].items())
    held = f"{row['held']:,}" if row["held"] == row["n"] else f"**{row['held']:,}**"
    return f"| {row['rows']} | {row['what']} | {row['promise']} | {row['n']:,} | {held} | {measures} |\n"
