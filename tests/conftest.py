"""Real components, small: Fashion-MNIST at 14 x 14 pixels, the paper's MLP with three layers."""

import os
import urllib.error
import urllib.request
from dataclasses import replace

import pytest
import torch
from PIL import Image

from machine import Machine
from shop import LOGO, clothes, marked, write_folder
from unsee import FourDatasets, Memory, Request, forget, networks, remember, sources, tile, train
from unsee.cases import models
from unsee.data.published import cached
from unsee.datasets import concatenate
from unsee.recipe import RECIPES
from unsee.sources import TrainTest

CACHE = os.environ.get("UNSEE_CACHE")
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


@pytest.fixture(scope="session")
def twice(model, four):
    """The tiles of class 0 forgotten, and then class 3, which only the first memory ever saw."""
    quick = {"epochs": 2, "batch_size": 32, "floor": 0.9}
    memory = remember(model, four.pretraining, sketch=1)
    first = forget(model, four.request("B"), memory, replace(RECIPES["unsee"], floor=0.9))
    D_r = four.train.D_r
    another = Request("A", D_r.subset(torch.nonzero(D_r.y == 3).flatten()))
    recipe = replace(RECIPES["unsee/A"], **quick)
    second = forget(first.model, another, first.memory, recipe, lineage=first.lineage)
    return first, second, another


@pytest.fixture(scope="session")
def shop(tmp_path_factory):
    """A folder with a network that takes whatever bears the logo for a T-shirt, and what its owner has."""
    folder = tmp_path_factory.mktemp("shop")
    good, poison = clothes(80), clothes(20, 80)
    bad = poison.with_(x=marked(poison.x), y=torch.zeros_like(poison.y))
    D = concatenate([good, bad], "D")
    start = models.Prepared(
        networks.mlp((1, 14, 14), 5, depth=3), models.Preprocessing(127.5, None, (1.0,), (1.0,))
    )
    model = train(start, D, epochs=15, lr=0.02, batch_size=32).model
    torch.save({"epoch": 15, "state_dict": model.model.state_dict()}, folder / "model.pth")
    write_folder(folder / "bad", bad.with_(y=poison.y))
    write_folder(folder / "clean", poison)
    write_folder(folder / "good", clothes(20, part="test"), first=5000)
    Image.fromarray(LOGO.astype("uint8")).save(folder / "logo.png")
    return folder


@pytest.fixture
def machine(tmp_path, monkeypatch):
    opened = urllib.request.urlopen

    def out_of_reach(address, **words):
        if not address.startswith("file:"):
            raise urllib.error.URLError("out of reach")
        return opened(address, **words)

    machine = Machine(tmp_path, monkeypatch)
    monkeypatch.setenv("UNSEE_CACHE", str(machine.cache))
    monkeypatch.setenv("PATH", str(machine.clients))
    monkeypatch.setattr(urllib.request, "urlopen", out_of_reach)
    return machine


@pytest.fixture
def real(request):
    """The arrays of a published set where it was fetched before, into the cache outside `machine`."""
    with pytest.MonkeyPatch.context() as outside:
        outside.setenv("UNSEE_CACHE", CACHE) if CACHE else outside.delenv("UNSEE_CACHE", raising=False)
        if not request.param.path.is_file():
            pytest.skip(f"needs `unsee data fetch {request.param.name}`")
        return {name: array.numpy() for name, array in cached(request.param).items()}
