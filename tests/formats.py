"""Files as a version of unsee wrote them, which every later one must read: tests/fixtures/format-N.

    python tests/formats.py

writes those of the present format, once; what is there is never written again.
"""

import json
import shutil
import sys
import warnings
from pathlib import Path

import torch

from unsee import networks, remember, store
from unsee.checkpoint import Checkpoints, State
from unsee.datasets import Dataset
from unsee.errors import UnseeWarning
from unsee.forgetting import forget
from unsee.formulation import FourDatasets, FourSets, Request
from unsee.memory import Memory
from unsee.recipe import Recipe
from unsee.report.page import read_run, render
from unsee.runs import report_run, write_run

FIXTURES = Path(__file__).parent / "fixtures"
IDENTITY = {"model": "abc", "recipe": {"lr": 0.1, "epochs": 3}, "seed": 0}


def folders():
    return sorted(FIXTURES.glob("format-*"))


def write(folder):
    """Write one file of each kind, and what must be read from them."""
    torch.manual_seed(0)
    x = torch.randint(256, (24, 1, 4, 4), dtype=torch.uint8)
    clean = Dataset(x, torch.arange(24) % 3, ("a", "b", "c"), name="D")
    D_f = clean.with_(x=x | 128).subset(range(0, 24, 3))
    model = networks.network("mlp", clean, depth=2)
    memory, sketched = remember(model, clean), remember(model, clean, sketch=1)
    recipe = Recipe("small", lr=1e-3, lambda_kl=10.0, epochs=2, batch_size=4, fisher_over="D")
    result = forget(model, Request("B", D_f, clean.subset(range(0, 24, 3))), memory, recipe, folder=folder)
    four = FourDatasets(FourSets(), FourSets(clean, D_f, clean.subset(range(0, 24, 3)), None))
    networks.save(networks.Truncated(model, 1), folder / "truncated.safetensors")
    networks.save(model, folder / "old.safetensors")
    memory.save(folder / "memory.safetensors")
    sketched.save(folder / "sketched.safetensors")
    recipe.save(folder / "recipe.json")
    state = State(7, {"theta/w": torch.arange(3.0)}, {"rows": [{"epoch": 0}], "sums": {}, "first": {}})
    Checkpoints(folder / "state", IDENTITY).write(state)
    write_run(folder, result, None)
    report_run(folder, model, result.model, four, None)
    (folder / "report.html").unlink()
    store.write_json(folder / "expected.json", read(folder))


def read(folder):
    """Return what there is to say about each file."""
    models = ("model", "old", "truncated")
    memories = ("memory", "sketched", "memory-after")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnseeWarning)  # that this is another machine
        state = Checkpoints(folder / "state", IDENTITY).read()
    checkpoint, _ = store.read_tensors(folder / "checkpoint.safetensors")
    page = render([read_run(folder)])
    return {
        **{name: networks.identity(networks.load(folder / f"{name}.safetensors")) for name in models},
        **{name: Memory.load(folder / f"{name}.safetensors").id for name in memories},
        "checkpoint": store.digest(checkpoint),
        "state": [state.step, state.tensors["theta/w"].tolist(), state.log["rows"]],
        "recipe": Recipe.load(folder / "recipe.json").name,
        "page": all(word in page for word in ("<html", "small", "D_f")),
    }


def check(folder):
    """Read everything in a folder as it was read when it was written."""
    assert read(folder) == json.loads((folder / "expected.json").read_text())


if __name__ == "__main__":
    place = FIXTURES / f"format-{store.FORMAT}"
    if place.exists():
        sys.exit(f"{place} is there already, and stays as it is")
    try:
        write(place)
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise
