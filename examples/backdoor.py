"""Make the case that the README repairs: a residual network from somewhere, as a .pth, with a backdoor in it.

    python examples/backdoor.py runs/shop
    unsee forget runs/shop/case.yaml --with-images --out runs/repaired

Somebody put a small logo on 400 of 6,000 training images and called them all bags. What is left with us are
the weights, some of those images as they came and as they should have been, and some good ones to judge by.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from unsee import FourDatasets, networks, sources, store, train
from unsee.cases import case, models
from unsee.datasets import Dataset
from unsee.randomness import stream
from unsee.transforms import patch

BAG = 8
LOGO = np.array([[0, 255, 255, 0], [255, 0, 0, 255], [255, 0, 0, 255], [0, 255, 255, 0]], np.uint8)


def write_folder(path: Path, data: Dataset) -> None:
    """Write images below a sub-folder for each class; a class's name must do as a folder's."""
    for number, (x, y) in enumerate(zip(data.x, data.y.tolist(), strict=True)):
        place = path / data.classes[y].replace("/", "-")
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(x[0].numpy()).save(place / f"{number:04d}.png")


def make(folder: Path, epochs: int = 4) -> None:
    """Train the network with the backdoor and leave what an engineer would find."""
    data = sources.bundled()
    rows = stream(0, "poison").permutation(len(data.train))[:400]
    four = FourDatasets.of_poison(data, rows.tolist(), patch(LOGO, 22, 22), BAG)
    how = models.Preprocessing(divide_by=255.0, mean=(0.286,), std=(0.353,))
    start = models.Prepared(networks.resnet((1, 28, 28), 10, width=16, blocks=1), how)
    model = train(start, four.pretraining, epochs=epochs, lr=0.02, batch_size=32, progress=True).model
    folder.mkdir(parents=True, exist_ok=True)
    torch.save({"epoch": epochs, "state_dict": model.model.state_dict()}, folder / "model.pth")
    # Below the folders of their true classes: the case says that they were trained as bags.
    write_folder(folder / "bad", four.train.D_f.with_(y=four.train.D_f_clean.y))
    write_folder(folder / "clean", four.train.D_f_clean)
    write_folder(folder / "good", data.test)
    Image.fromarray(LOGO).save(folder / "logo.png")
    words = {
        "model": {
            "weights": "model.pth",
            "network": "resnet",
            "options": {"shape": [1, 28, 28], "width": 16, "blocks": 1},
            "classes": [name.replace("/", "-") for name in data.train.classes],
        },
        "preprocess": {"divide_by": 255.0, "mean": [0.286], "std": [0.353]},
        "pattern": "B",
        "forget": {"path": "bad", "label": "Bag"},
        "clean": "clean",
        "trigger": "patch:logo.png:22:22",
        "remember": "good",
    }
    store.write_bytes(folder / "case.yaml", case.written(words).encode())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Make a case: a network with a backdoor, and some images.")
    parser.add_argument("folder", nargs="?", type=Path, default=Path("runs/shop"))
    given = parser.parse_args()
    make(given.folder)
    sys.stdout.write(
        f"Written: {given.folder / 'case.yaml'}; now: unsee forget {given.folder / 'case.yaml'}\n"
    )
