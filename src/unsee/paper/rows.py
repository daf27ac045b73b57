"""The results so far: one file a cell, one entry a seed, keyed by the pretrained network's hash."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unsee import store
from unsee.paper.cells import Cell


@dataclass(frozen=True)
class Rows:
    """What is known of the cells, under one folder."""

    folder: Path

    def path(self, cell: Cell) -> Path:
        """Return the cell's file."""
        return self.folder / f"{cell.name}.json"

    def read(self, cell: Cell, network: str | None = None) -> dict[int, dict[str, Any]]:
        """Return the finished runs by seed, of that pretrained network only; of any, where none is named."""
        if not self.path(cell).exists():
            return {}
        known = store.read_json(self.path(cell))
        if network is not None and known["network"] != network:
            return {}
        return {int(seed): run for seed, run in known["seeds"].items()}

    def add(self, cell: Cell, network: str, seed: int, run: dict[str, Any]) -> None:
        """Write one more run down; runs of another network give way, as they cannot be averaged with it."""
        seeds = self.read(cell, network) | {seed: run}
        words = {"cell": cell.name, "network": network, "seeds": {str(s): seeds[s] for s in sorted(seeds)}}
        store.write_json(self.path(cell), words)


def curve(runs: dict[int, dict[str, Any]], name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return epochs, mean and standard deviation over the seeds of one of the four accuracies."""
    values = np.array([[row[name] for row in run["trajectory"]] for run in runs.values()])
    epochs = np.array([row["epoch"] for row in next(iter(runs.values()))["trajectory"]])
    return epochs, values.mean(0), values.std(0, ddof=1 if len(values) > 1 else 0)


def summary(runs: dict[int, dict[str, Any]], name: str, kind: str = "accuracy") -> tuple[float, float, int]:
    """Return mean, standard deviation and number of runs of a final accuracy (or `class_mean`)."""
    values = np.array([run["scores"][name][kind] for run in runs.values()])
    return float(values.mean()), float(values.std(ddof=1 if len(values) > 1 else 0)), len(values)
