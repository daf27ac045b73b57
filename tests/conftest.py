"""Real components, small: Fashion-MNIST at 14 x 14 pixels, the paper's MLP with three layers."""

import pytest
import torch

from unsee import FourDatasets, Memory, networks, remember, sources, tile, train
from unsee.sources import TrainTest

torch.set_num_threads(1)  # two workers share two cores


def shrunk(data, each):
    rows = torch.cat([torch.nonzero(data.y == c).flatten()[:each] for c in range(len(data.classes))])
    x = torch.nn.functional.avg_pool2d(data.x[rows].float(), 2).round().to(torch.uint8)
    return data.with_(x=x, y=data.y[rows])


@pytest.fixture(scope="session")
def data() -> TrainTest:
    whole = sources.bundled()
    return TrainTest(shrunk(whole.train, 60), shrunk(whole.test, 20))


@pytest.fixture(scope="session")
def four(data) -> FourDatasets:
    return FourDatasets.of_class(data, 0, tile())


@pytest.fixture(scope="session")
def model(four) -> torch.nn.Module:
    start = networks.network("mlp", four.pretraining, depth=3)
    return train(start, four.pretraining, epochs=12, lr=0.02, batch_size=32).model


@pytest.fixture(scope="session")
def memory(model, four) -> Memory:
    return remember(model, four.pretraining)
