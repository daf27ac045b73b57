"""The results so far: one file a cell, one entry a seed, keyed by the pretrained network and the recipe."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unsee import store
from unsee.errors import InputError
from unsee.holding import alone
from unsee.paper.cells import Cell, Unit
from unsee.recipe import Recipe


@dataclass(frozen=True)
class Rows:
    """What is known of the cells, under one folder."""

    folder: Path

    def path(self, cell: Cell) -> Path:
        """Return the cell's file."""
        return self.folder / f"{cell.name}.json"

    def network(self, unit: Unit) -> str | None:
        """Return the hash of the network that a unit's rows are of, as far as there are any."""
        return self._pretrained(unit).get("network")

    def pretraining(self, unit: Unit) -> float | None:
        """Return how many seconds it took to make that network, where it was written down."""
        return self._pretrained(unit).get("seconds")

    def _pretrained(self, unit: Unit) -> dict[str, Any]:
        path = self.folder / f"{unit.name}-pretrained.json"
        return store.read_json(path) if path.exists() else {}

    def read(self, cell: Cell) -> dict[int, dict[str, Any]]:
        """Return the finished runs by seed."""
        known = store.read_json(self.path(cell)) if self.path(cell).exists() else {"seeds": {}}
        return {int(seed): run for seed, run in known["seeds"].items()}

    def under(self, cell: Cell, key: Mapping[str, Any]) -> dict[int, dict[str, Any]]:
        """Return the finished runs by seed; refuse those of another network or recipe.

        They cannot be averaged with these, and are hours of somebody's machine: nothing replaces them.
        """
        path = self.path(cell)
        old, new = _whole(store.read_json(path)["key"]) if path.exists() else {}, _whole(key)
        for name in old:
            if old[name] != new[name]:
                found = f"runs with {old[name]}"
                raise InputError(
                    f"{name} = {new[name]} of the runs in {path}", found, "choose another folder"
                )
        return self.read(cell)

    def add(self, cell: Cell, key: Mapping[str, Any], seed: int, run: dict[str, Any]) -> None:
        """Write one more run down."""
        with alone(self.folder, wait=True):
            seeds = self.under(cell, key) | {seed: run}
            words = {"cell": cell.name, "key": dict(key), "seeds": {str(s): seeds[s] for s in sorted(seeds)}}
            store.write_json(self.path(cell), words)


def _whole(key: Mapping[str, Any]) -> dict[str, Any]:
    """Return a key's network and recipe: a field that came later has its default in rows from before."""
    recipe = Recipe.from_dict({name: key[name] for name in key if name != "network"})
    return {"network": key["network"], **asdict(recipe)}


def curve(runs: dict[int, dict[str, Any]], name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return epochs, mean and standard deviation over the seeds of one of the four accuracies.

    Where a run diverged, the curve ends with it.
    """
    length = min(len(run["trajectory"]) for run in runs.values())
    values = np.array([[row[name] for row in run["trajectory"][:length]] for run in runs.values()])
    epochs = np.array([row["epoch"] for row in next(iter(runs.values()))["trajectory"][:length]])
    return epochs, values.mean(0), values.std(0, ddof=1 if len(values) > 1 else 0)


def summary(
    runs: dict[int, dict[str, Any]], name: str, kind: str = "accuracy"
) -> tuple[float, float | None, int]:
    """Return mean, standard deviation (None of one run) and number of runs of a final accuracy.

    `kind` may be `class_mean`.
    """
    values = np.array([run["scores"][name][kind] for run in runs.values()])
    return float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else None, len(values)
