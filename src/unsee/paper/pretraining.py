"""A unit's network: pretrained once for each (data, T), and its memory taken once."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from unsee import networks, store
from unsee.datasets import Dataset
from unsee.formulation import FourDatasets
from unsee.memory import Memory, remember
from unsee.paper.cells import Unit
from unsee.paper.growing import grown, halved
from unsee.paper.scale import Scale
from unsee.sources import TrainTest
from unsee.training import train

Parts = tuple[tuple[int, float], ...]


@dataclass(frozen=True, eq=False)
class Pretrained:
    """A unit ready to forget: its data, its network, its memory."""

    unit: Unit
    four: FourDatasets
    model: nn.Module
    memory: Memory
    id: str


def pretrained(
    unit: Unit,
    scale: Scale,
    work: Path,
    *,
    data: TrainTest | None = None,
    progress: bool = False,
    stop: Any = None,
) -> Pretrained:
    """Return the unit's network and memory from `work`, or make them: once for each (data, T).

    A finished network is taken as it is, wherever it was made: on another kind of processor the same training
    would begin at other last bits (docs/decisions/0029).
    """
    four = FourDatasets.of_class(data or scale.data(unit.data), 0, unit.transform())
    folder, of = work / unit.name, _training(unit, scale, four.pretraining)
    model = _finished(folder, of)
    if model is None:
        model = trained(unit, four.pretraining, scale, folder, progress=progress, stop=stop)
        networks.save(model, folder / "model.safetensors")
        store.write_json(folder / "made.json", of | {"network": networks.identity(model)})
    path = folder / "memory.safetensors"
    memory = Memory.load(path) if path.exists() else None
    if memory is None or memory.model != networks.identity(model):
        memory = remember(model, four.pretraining, progress=progress)
        memory.save(path)
    return Pretrained(unit, four, model, memory, networks.identity(model))


def _schedule(unit: Unit, scale: Scale) -> tuple[Parts, Parts]:
    """Return epochs and learning rates, at half the size and whole."""
    if scale.pretraining_epochs:
        return (), ((scale.pretraining_epochs, 0.01),)
    return unit.at_half, unit.pretraining


def _training(unit: Unit, scale: Scale, D: Dataset) -> dict[str, Any]:
    """Return what a finished network is known by."""
    at_half, whole = ([list(part) for part in parts] for parts in _schedule(unit, scale))
    schedule = {"at half the size": at_half, "whole": whole}
    return {"D": D.fingerprint, "printed": scale.printed, "schedule": schedule}


def _finished(folder: Path, of: dict[str, Any]) -> nn.Module | None:
    """Return the network in a folder, if it was trained to the end, and in this way."""
    path = folder / "made.json"
    made = store.read_json(path) if path.exists() else None
    if not isinstance(made, dict) or not (folder / "model.safetensors").exists():
        return None
    model = networks.load(folder / "model.safetensors")
    return model if made == of | {"network": networks.identity(model)} else None


def trained(
    unit: Unit,
    D: Dataset,
    scale: Scale,
    folder: Path,
    *,
    at_half: Iterable[tuple[int, float]] = (),
    **words: Any,
) -> nn.Module:
    """Train the unit's network on D from scratch, as the unit is pretrained; goes on where it was stopped.

    `at_half` are other epochs and learning rates for what is done at half the size.
    """
    first, whole = _schedule(unit, scale)
    if not first:
        return in_parts(mlp(D, scale), D, whole, folder, words)
    half = halved(D)
    small = in_parts(mlp(half, scale), half, at_half or first, folder / "half", words)
    return in_parts(grown(small, D), D, whole, folder, words)


def mlp(D: Dataset, scale: Scale) -> networks.Network:
    """Return the paper's network for this data, untrained."""
    return networks.network("mlp", D, printed=scale.printed)


def in_parts(
    model: nn.Module, D: Dataset, parts: Iterable[tuple[int, float]], folder: Path, words: dict[str, Any]
) -> nn.Module:
    """Train for some epochs at one learning rate, then for some at the next, each in a folder of its own."""
    for i, (epochs, lr) in enumerate(parts):
        part = folder / f"part-{i + 1}" if i else folder
        model = train(model, D, epochs=epochs, lr=lr, folder=part, **words).model
    return model
