"""How much of the paper to run: all of it, or a quick part that shows that the code runs."""

from dataclasses import dataclass, replace

import torch

from unsee import sources
from unsee.datasets import Dataset
from unsee.errors import InputError
from unsee.paper.cells import Cell
from unsee.paper.growing import halved
from unsee.recipe import Recipe
from unsee.sources import TrainTest

SEEDS = {"fashion-mnist": 10, "cifar-10": 3}


@dataclass(frozen=True)
class Scale:
    """How much of it to run. Trajectories use the first `limit` test images, the last epoch all.

    `seeds` are the forgetting runs of each line; unless told, ten as in the paper, and three on CIFAR-10.
    `printed` is the activation as printed: with the continuous one Table S1's values for Fashion-MNIST,
    tile, Pattern C lie beyond what SGD can hold (docs/decisions/0004).
    """

    seeds: int | None = None
    pretraining_epochs: int | None = None
    epochs: int | None = None
    batch_size: int | None = None
    limit: int = 2000
    quick: bool = False
    printed: bool = True

    def __post_init__(self) -> None:
        if self.seeds is not None and self.seeds < 1:
            raise InputError("at least one seed", f"{self.seeds}", "give more")

    def runs(self, data: str) -> int:
        """Return how many forgetting runs each line has."""
        return SEEDS[data] if self.seeds is None else self.seeds

    def recipe(self, cell: Cell) -> Recipe:
        """Return the cell's recipe at this scale."""
        paper = cell.recipe
        epochs, batch_size = self.epochs or paper.epochs, self.batch_size or paper.batch_size
        return replace(paper, epochs=epochs, batch_size=batch_size)

    def data(self, name: str) -> TrainTest:
        """Return a data set whole, or what stands for it in a quick run."""
        if not self.quick:
            return sources.open_source(name)
        return sources.bundled() if name == "fashion-mnist" else _slice(sources.open_source(name))


QUICK = Scale(seeds=1, pretraining_epochs=2, epochs=1, batch_size=64, limit=200, quick=True)


def _slice(data: TrainTest) -> TrainTest:
    """Return 1,500 + 500 images at half the size: the whole MLP of CIFAR-10 has 85 million parameters."""
    return TrainTest(_shrunk(data.train, 150), _shrunk(data.test, 50))


def _shrunk(data: Dataset, each: int) -> Dataset:
    rows = torch.cat([torch.nonzero(data.y == c).flatten()[:each] for c in range(len(data.classes))])
    return halved(data.subset(rows)).with_(name=f"{data.name}, a slice")
