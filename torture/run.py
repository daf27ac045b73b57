"""Running families of ordeals, one after the other; stopped, the same call goes on."""

import importlib
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

import unsee
from torture.ordeal import Ordeal, Result
from unsee import store
from unsee.errors import UnseeError

FAMILIES = ("death", "storage", "hostile", "data", "fuzz")
SAVE_EVERY = 5.0  # seconds


def ordeals(family: str) -> Sequence[Ordeal]:
    """Return the ordeals of a family."""
    return importlib.import_module(f"torture.{family}").ORDEALS


def run_family(family: str, out: Path, work: Path, *, quick: bool = False) -> dict[str, Any]:
    """Make all attempts of a family and write what came of them; what was made before is not made again."""
    progress = work / f"{family}{'-quick' if quick else ''}.json"
    done: dict[str, Any] = {}
    with suppress(UnseeError):
        done = store.read_json(progress)
    for ordeal in ordeals(family):
        result = Result(**done.get(ordeal.name, {}))
        if result.done < len(ordeal.numbers(quick)):
            _endure(ordeal, result, quick, lambda r, name=ordeal.name: _save(progress, done, name, r))
        done[ordeal.name] = asdict(result)
        _say(f"{family}: {ordeal.name}: {result.held} of {result.done} held\n")
    words = {
        "command": f"python -m torture {family}{' --quick' if quick else ''}",
        "unsee": unsee.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "date": time.strftime("%Y-%m-%d"),
        "ordeals": [_row(ordeal, Result(**done[ordeal.name])) for ordeal in ordeals(family)],
    }
    store.write_json(out / f"{family}.json", words)
    progress.unlink(missing_ok=True)
    return words


def endure(ordeal: Ordeal, quick: bool) -> Result:
    """Make the attempts of one ordeal."""
    result = Result()
    _endure(ordeal, result, quick, lambda _: None)
    return result


def _endure(ordeal: Ordeal, result: Result, quick: bool, save: Any) -> None:
    if not (numbers := ordeal.numbers(quick)):
        return
    folder = Path(tempfile.mkdtemp(prefix="torture-"))
    try:
        attempt, last = ordeal.prepare(folder), time.monotonic()
        for number in numbers[result.done :]:
            result.make(attempt, number)
            if time.monotonic() - last > SAVE_EVERY:
                save(result)
                last = time.monotonic()
                _say(f"{ordeal.name}: {result.done} of {len(numbers)}, {result.held} held")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _save(progress: Path, done: dict[str, Any], name: str, result: Result) -> None:
    store.write_json(progress, {**done, name: asdict(result)})


def _row(ordeal: Ordeal, result: Result) -> dict[str, Any]:
    return {
        "name": ordeal.name,
        "rows": ordeal.rows,
        "what": ordeal.what,
        "promise": ordeal.promise,
        "n": result.done * ordeal.each,
        "held": result.held * ordeal.each,
        "seconds": round(result.seconds, 1),
        "measures": {name: round(value, 4) for name, value in result.measures.items()},
        "failed": result.failed,
    }


def _say(text: str) -> None:
    end = "" if sys.stderr.isatty() and not text.endswith("\n") else "\n"
    sys.stderr.write(f"\r\x1b[K{text.rstrip()}{end}" if sys.stderr.isatty() else f"{text.rstrip()}\n")
    sys.stderr.flush()
