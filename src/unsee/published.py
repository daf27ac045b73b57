"""Data sets as published: pinned by their content, read from the user's cache or the package.

What is pinned is the SHA-256 of the pixels and of the labels, not of the archive around them: the
publisher's file and somebody's package of it differ in their wrapping and hold the same images.
"""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import platformdirs
from torch import Tensor

from unsee.errors import InputError, StoreError, UnseeError
from unsee.store import raw, read_tensors

Arrays = dict[str, Tensor]


@dataclass(frozen=True)
class Published:
    """What a published data set is: its classes, its measures, and the hash of each of its arrays."""

    name: str
    what: str
    shape: tuple[int, int, int]
    counts: tuple[int, int]
    classes: tuple[str, ...]
    sha256: Mapping[str, str]

    def check(self, arrays: Mapping[str, Tensor], *, where: str, do: str, error: type[UnseeError]) -> Arrays:
        """Return x_train, y_train, x_test and y_test in their shapes, if every byte is as published."""
        found = {name: hashlib.sha256(raw(array)).hexdigest() for name, array in arrays.items()}
        if wrong := sorted(name for name, _ in found.items() ^ self.sha256.items()):
            raise error(
                f"{self.name} as published", f"other bytes {where} ({', '.join(dict.fromkeys(wrong))})", do
            )
        shape = {"x": (-1, *self.shape), "y": (-1,)}
        return {name: array.reshape(shape[name[0]]) for name, array in arrays.items()}


def cache_path(published: Published) -> Path:
    """Return where a fetched data set is kept; the environment variable UNSEE_CACHE names another folder."""
    chosen = os.environ.get("UNSEE_CACHE")
    folder = Path(chosen).expanduser() if chosen else platformdirs.user_cache_path("unsee")
    return folder / f"{published.name}.safetensors"


def cached(published: Published) -> Arrays:
    """Return the arrays of a data set that was fetched before, every byte checked."""
    path, command = cache_path(published), f"with `unsee data fetch {published.name}`"
    if not path.is_file():
        raise InputError(f"{published.name} in {path.parent}", "no such file", f"fetch it {command}")
    try:
        arrays, _ = read_tensors(path)
    except UnseeError as error:
        raise StoreError(error.expected, error.found, f"fetch it again {command}") from None
    return published.check(arrays, where=f"in {path}", do=f"fetch it again {command}", error=StoreError)


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
)
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
)
