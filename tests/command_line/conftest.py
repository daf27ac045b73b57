import numpy as np
import pytest

from calling import run


@pytest.fixture(scope="session")
def case(tmp_path_factory, data):
    """A folder with data, an old model and its memory, all made by the command line."""
    folder = tmp_path_factory.mktemp("case")
    np.savez(
        folder / "data.npz",
        x_train=data.train.x.numpy(),
        y_train=data.train.y.numpy(),
        x_test=data.test.x.numpy(),
        y_test=data.test.y.numpy(),
    )
    four = ["--data", folder / "data.npz", "--class", "0", "--T", "tile"]
    assert run("train", *four, "--out", folder / "old", "--epochs", 8, "--batch-size", 32, "--json") == 0
    old = folder / "old" / "model.safetensors"
    assert run("remember", old, *four, "--out", folder / "memory.safetensors", "--json") == 0
    return folder, old, four
