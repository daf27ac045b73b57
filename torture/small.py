"""Real components, as small as they come: Fashion-MNIST at 7 x 7 pixels, the paper's MLP of three layers."""

from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from torch import nn

from unsee import FourDatasets, Memory, networks, remember, sources, tile, train
from unsee.datasets import Dataset
from unsee.forgetting import Forgotten, forget
from unsee.recipe import RECIPES, Recipe
from unsee.sources import TrainTest

# The paper's, and ours with all that it has: pairs, replayed samples, a floor, an end that it finds itself.
RECIPES_HERE: tuple[Recipe, Recipe] = (
    replace(RECIPES["fashion-mnist/tile/B"], epochs=5, batch_size=8, lr=1e-3, lambda_kl=1e3),
    replace(RECIPES["unsee"], epochs=2, batch_size=12),
)


@dataclass(frozen=True, eq=False)
class Small:
    """A model, its four data sets, and its memory without a sketch and with one."""

    model: nn.Module
    four: FourDatasets
    plain: Memory
    sketched: Memory

    def forget(self, which: int, **how) -> Forgotten:
        """Forget the tiles by one of the two recipes, the same way every time."""
        memory, recipe = (self.plain, self.sketched)[which], RECIPES_HERE[which]
        return forget(
            self.model, self.four.request("B"), memory, recipe, validation=self.four.validation, **how
        )


@lru_cache(maxsize=1)
def small() -> Small:
    """Make them, once."""
    torch.set_num_threads(1)
    whole = sources.bundled()
    four = FourDatasets.of_class(TrainTest(_shrunk(whole.train, 40), _shrunk(whole.test, 10)), 0, tile())
    start = networks.network("mlp", four.pretraining, depth=3)
    model = train(start, four.pretraining, epochs=12, lr=0.02, batch_size=32).model
    return Small(model, four, remember(model, four.pretraining), remember(model, four.pretraining, sketch=2))


def _shrunk(data: Dataset, each: int) -> Dataset:
    rows = torch.cat([torch.nonzero(data.y == c).flatten()[:each] for c in range(len(data.classes))])
    x = torch.nn.functional.avg_pool2d(data.x[rows].float(), 4).round().to(torch.uint8)
    return data.with_(x=x, y=data.y[rows])
