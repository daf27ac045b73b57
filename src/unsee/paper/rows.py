"""The results so far: one file a cell, one entry a seed, keyed by the pretrained network and the recipe."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unsee import store
from unsee.paper.cells import Cell
from unsee.recipe import Recipe


@dataclass(frozen=True)
class Rows:
    """What is known of the cells, under one folder."""

    folder: Path

    def path(self, cell: Cell) -> Path:
        """Return the cell's file."""
        return self.folder / f"{cell.name}.json"

    def read(self, cell: Cell, key: Mapping[str, Any] | None = None) -> dict[int, dict[str, Any]]:
        """Return the finished runs by seed: those under this key (network, recipe), where one is given."""
        if not self.path(cell).exists():
            return {}
        known = store.read_json(self.path(cell))
        if key is not None and _whole(known["key"]) != _whole(key):
            return {}
        return {int(seed): run for seed, run in known["seeds"].items()}

    def add(self, cell: Cell, key: Mapping[str, Any], seed: int, run: dict[str, Any]) -> None:
        """Write one more run down; runs under another key give way, as they cannot be averaged with it."""
        seeds = self.read(cell, key) | {seed: run}
        words = {"cell": cell.name, "key": dict(key), "seeds": {str(s): seeds[s] for s in sorted(seeds)}}
        store.write_json(self.path(cell), words)


def _whole(key: Mapping[str, Any]) -> tuple[str, Recipe]:
    """Return a key's network and recipe: a field that came later has its default in rows from before."""
    return key["network"], Recipe.from_dict({name: key[name] for name in key if name != "network"})


def curve(runs: dict[int, dict[str, Any]], name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return epochs, mean and standard deviation over the seeds of one of the four accuracies.

    Where a run diverged, the curve ends with it.
    """
    length = min(len(run["trajectory"]) for run in runs.values())
    values = np.array([[row[name] for row in run["trajectory"][:length]] for run in runs.values()])
    epochs = np.array([row["epoch"] for row in next(iter(runs.values()))["trajectory"][:length]])
    return epochs, values.mean(0), values.std(0, ddof=1 if len(values) > 1 else 0)


def summary(runs: dict[int, dict[str, Any]], name: str, kind: str = "accuracy") -> tuple[float, float, int]:
    """Return mean, standard deviation and number of runs of a final accuracy (or `class_mean`)."""
    values = np.array([run["scores"][name][kind] for run in runs.values()])
    return float(values.mean()), float(values.std(ddof=1 if len(values) > 1 else 0)), len(values)
