"""A case as an engineer has it: weights from somewhere, folders of images, a logo."""

import numpy as np
import torch
import yaml
from PIL import Image

from unsee import sources
from unsee.datasets import Dataset

CLASSES = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat")
LOGO = np.indices((4, 4)).sum(0) % 2 * 255


def clothes(each, start=0, part="train"):
    """Some images of five classes at 14 x 14 pixels."""
    data = getattr(sources.bundled(), part)
    rows = torch.cat([torch.nonzero(data.y == c).flatten()[start : start + each] for c in range(5)])
    x = torch.nn.functional.avg_pool2d(data.x[rows].float(), 2).round().to(torch.uint8)
    return Dataset(x, data.y[rows], CLASSES)


def marked(x):
    """The images with the logo in their corner."""
    x = x.clone()
    x[..., 9:13, 9:13] = torch.as_tensor(LOGO, dtype=x.dtype)
    return x


def write_folder(path, data, first=0):
    """Write images below a folder for each class, whose names have no slash."""
    for i, (x, y) in enumerate(zip(data.x, data.y.tolist(), strict=True)):
        place = path / CLASSES[y].replace("/", "-")
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(x[0].numpy()).save(place / f"{first + i:04d}.png")


def write_case(folder, **words):
    """Write case.yaml with these words over the plain ones."""
    names = [name.replace("/", "-") for name in CLASSES]
    plain = {
        "model": {
            "weights": "model.pth",
            "network": "mlp",
            "options": {"shape": [1, 14, 14], "depth": 3},
            "classes": names,
        },
        "preprocess": {"divide_by": 127.5, "mean": [1.0], "std": [1.0]},
        "pattern": "B",
        "forget": {"path": "bad", "label": "T-shirt-top"},
        "clean": "clean",
        "trigger": "patch:logo.png:9:9",
        "remember": "good",
    }
    given = {name: value for name, value in {**plain, **words}.items() if value is not None}
    (folder / "case.yaml").write_text(yaml.safe_dump(given))
    return folder / "case.yaml"
