"""A folder of runs as they come to be, and a viewer of it that listens on a port of its own."""

import json
import shutil
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
import torch
import uvicorn
import yaml

from report.made import made_words
from report.payloads import PAYLOADS
from shop import write_case
from unsee import evaluate, forget, networks, store
from unsee.cases import case
from unsee.cases.repairing import repair
from unsee.formulation import TABLE_1
from unsee.origin import Origin
from unsee.recipe import OURS, recipe_of
from unsee.runs import report_run, write_run
from unsee.view.server import Viewer, configured, listen
from view.asking import Address


@pytest.fixture(scope="session")
def forgot(tmp_path_factory, data, four, model):
    """A run of a network of ours, with its old model and its data beside it."""
    home = tmp_path_factory.mktemp("forgot")
    parts = {f"{n}_{p}": getattr(getattr(data, p), n).numpy() for p in ("train", "test") for n in ("x", "y")}
    np.savez(home / "data.npz", **parts, classes=np.array(data.train.classes))
    networks.save(model, home / "old" / "model.safetensors")
    result = forget(model, four.request("B"), None, replace(recipe_of(None, TABLE_1["B"], OURS), epochs=2))
    words = {"T": "tile", "data": "data.npz", "label": 0, "here": home}
    origin = Origin.of_words(home / "run", home / "old" / "model.safetensors", **words)
    write_run(home / "run", result, evaluate(result.model, four, "B", old=model), origin=origin)
    report_run(home / "run", model, result.model, four, TABLE_1["B"])
    return home


def shop_case(folder, **words):
    """Write the case of the run below, with these words over the plain ones."""
    plain = yaml.safe_load(write_case(folder).read_text())
    model = {**plain["model"], "weights": "model.safetensors"}
    return write_case(folder, **{"model": model, "recipe": "quick.json", **words})


@pytest.fixture(scope="session")
def repaired(tmp_path_factory, shop):
    """A run of a case, beside a copy of the shop, whose weights open without a process of their own."""
    home = tmp_path_factory.mktemp("repaired")
    shutil.copytree(shop, home / "shop")
    weights = torch.load(home / "shop" / "model.pth", weights_only=True)["state_dict"]
    store.write_foreign(home / "shop" / "model.safetensors", weights, {})
    quick = {"forgetting": "delete", "lambda_c": 1.0, "lambda_kl": 0.0, "epochs": 2, "floor": None}
    store.write_json(home / "shop" / "quick.json", quick)
    file = shop_case(home / "shop")
    repair(case.load(file), file.parent, home / "run", file=file)
    return home


@pytest.fixture(scope="session")
def runs(tmp_path_factory, forgot, repaired):
    """All kinds of folders: two good runs, one deeper with names that would do harm, three that are none."""
    home = tmp_path_factory.mktemp("served")
    folder = home / "runs"
    shutil.copytree(forgot / "run", folder / "tiles")
    shutil.copytree(forgot / "old", home / "old")
    shutil.copy(forgot / "data.npz", home)
    shutil.copytree(repaired / "run", folder / "logo")
    shutil.copytree(repaired / "shop", home / "shop")
    origins = {"tiles": "../..", "logo": "../../shop"}
    for name, start in origins.items():
        words = json.loads((folder / name / "run.json").read_text())
        words["origin"]["folder"] = start
        (folder / name / "run.json").write_text(json.dumps(words))
    hostile = [f"{text}{i}" for i, text in enumerate(PAYLOADS[:40])]
    for name, words in {
        "deep/<img src=x onerror=alert(1)>": made_words(hostile, text=PAYLOADS[0]),
        "deep/plain": made_words(("cat", "dog", "owl"), pattern="A"),
        "old": {"inputs": {"model": "x", "plan": {}, "seed": 0}},
        "broken": {"inputs": {"pattern": "Z"}},
    }.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "run.json").write_text(json.dumps(words))
    (folder / "torn").mkdir()
    (folder / "torn" / "run.json").write_text('{"inputs": ')
    return folder


@pytest.fixture(scope="session")
def served(runs):
    """The address of a viewer that runs in a thread."""
    with serving(runs) as address:
        yield address


class serving:
    """A viewer of a folder for as long as the block lasts."""

    def __init__(self, folder):
        self.listener = listen(0)
        port = self.listener.getsockname()[1]
        self.viewer = Viewer(folder)
        self.server = uvicorn.Server(configured(self.viewer, port))
        self.address = Address(port, self.viewer)
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.listener]})

    def __enter__(self):
        self.thread.start()
        while not self.server.started:
            time.sleep(0.01)
        return self.address

    def __exit__(self, *_):
        self.server.should_exit = True
        self.thread.join(20)
        self.viewer.benches.close()
        self.listener.close()
        assert not self.thread.is_alive()
