"""Fashion-MNIST (Xiao, Rasul, Vollgraf 2017): four gzipped IDX files, which are a header and the bytes."""

import contextlib
import gzip
import io
import math
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from unsee.data.archives import deb_contents, tar_members
from unsee.data.bringing import client, download, package
from unsee.data.published import Arrays, Published
from unsee.errors import HostileError

ADDRESS = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"
FILES = {
    "x_train": ("train-images-idx3-ubyte.gz", (60_000, 28, 28)),
    "y_train": ("train-labels-idx1-ubyte.gz", (60_000,)),
    "x_test": ("t10k-images-idx3-ubyte.gz", (10_000, 28, 28)),
    "y_test": ("t10k-labels-idx1-ubyte.gz", (10_000,)),
}


def _from_idx(opened: Callable[[str], contextlib.AbstractContextManager[Any]]) -> Arrays:
    arrays = {}
    for array, (name, shape) in FILES.items():
        with opened(name) as file:
            arrays[array] = idx(file, name, shape)
    return arrays


def idx(file: Any, name: str, shape: tuple[int, ...]) -> Tensor:
    """Read a file whose header we know already: it has no say in how much is read."""
    header = struct.pack(f">HBB{len(shape)}I", 0, 8, len(shape), *shape)
    size = len(header) + math.prod(shape)
    data = bytearray(gzip.GzipFile(fileobj=file).read(size + 1))
    if len(data) != size or not data.startswith(header):
        raise HostileError(f"{size:,} bytes of IDX in {name}", "something else", "do not use it")
    return torch.frombuffer(data, dtype=torch.uint8, offset=len(header)).reshape(shape)


def _published(progress: bool) -> Arrays:
    return _from_idx(lambda name: download(f"{ADDRESS}/{name}", progress))


def _installed(_progress: bool) -> Arrays:
    listed = client("dpkg", "-L", "dataset-fashion-mnist").splitlines()
    files = {Path(line).name: line for line in listed}
    return _from_idx(lambda name: open(files[name], "rb"))


def _packaged(progress: bool) -> Arrays:
    with package(progress, "apt-get", "download", "dataset-fashion-mnist") as deb:
        files = tar_members(deb_contents(deb), [name for name, _ in FILES.values()])
    return _from_idx(lambda name: io.BytesIO(files[name]))


FASHION_MNIST = Published(
    name="fashion-mnist",
    what="70,000 grey pictures of clothes, 28x28 (Xiao, Rasul, Vollgraf 2017)",
    shape=(1, 28, 28),
    counts=(60_000, 10_000),
    classes=(
        "T-shirt/top",
        "Trouser",
        "Pullover",
        "Dress",
        "Coat",
        "Sandal",
        "Shirt",
        "Sneaker",
        "Bag",
        "Ankle boot",
    ),
    sha256={
        "x_train": "2e487a6c89124f78f2d7521542223cafe96f7123c3ca13d447772ac6ecbb3012",
        "y_train": "657fbd221bfc9f4198cc14b5619cc33ec57c58dd0e47af4d99d6650759e869a7",
        "x_test": "c867c93ff95360594e8ec3287995350b824dd110b11595c0e13d5423f621867a",
        "y_test": "3d0e6c6ea990b53b6f8f500a41cac93881d981b315f84578b7d915342ade01e9",
    },
    ways={
        "the publisher": _published,
        "the installed package dataset-fashion-mnist": _installed,
        "apt-get download dataset-fashion-mnist": _packaged,
    },
)
BUNDLED = Published(
    name="bundled",
    what="the first 600 + 100 pictures of each class of Fashion-MNIST, in the package",
    shape=FASHION_MNIST.shape,
    counts=(6_000, 1_000),
    classes=FASHION_MNIST.classes,
    sha256={
        "x_train": "2b17438af55637db62c122a92490b5b4275bed5719a838b5b0486ea2193a98a4",
        "y_train": "f16e201ddc15b401c509545575d23793b230f5735ae378c1ced3a6156cb72251",
        "x_test": "3d7f6d64869a3f2d1afe64ae33ffb9b20670a91b31e3bbf0657e3999ec7b35cf",
        "y_test": "6b25654537ff83dd6c40fe0a122c7778d8219b2a88ff02c36dbdd21152fdb075",
    },
    file="fashion-mnist-7000.npz",
)
