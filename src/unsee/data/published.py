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

from unsee.data import adult, mails
from unsee.errors import InputError, StoreError, UnseeError
from unsee.kinds import Column, Kind
from unsee.store import raw, read_tensors

Arrays = dict[str, Tensor]


@dataclass(frozen=True)
class Published:
    """What a published data set is: its classes, its measures, and the hash of each of its arrays."""

    name: str
    what: str
    shape: tuple[int, ...]
    counts: tuple[int, int]
    classes: tuple[str, ...]
    sha256: Mapping[str, str]
    columns: tuple[Column, ...] = ()
    """What the columns are, where it is a table; of texts, the array `vocabulary` holds the words."""

    def check(self, arrays: Mapping[str, Tensor], *, where: str, do: str, error: type[UnseeError]) -> Arrays:
        """Return x_train, y_train, x_test, y_test (of texts, vocabulary) in shape, if every byte is right."""
        found = {name: hashlib.sha256(raw(array)).hexdigest() for name, array in arrays.items()}
        if wrong := sorted(name for name, _ in found.items() ^ self.sha256.items()):
            raise error(
                f"{self.name} as published", f"other bytes {where} ({', '.join(dict.fromkeys(wrong))})", do
            )
        shape = {"x": (-1, *self.shape)}
        return {name: array.reshape(shape.get(name[0], (-1,))) for name, array in arrays.items()}

    def kind(self, arrays: Mapping[str, Tensor]) -> Kind:
        """Return what the samples' numbers mean, where they are no pixels."""
        words = arrays.get("vocabulary")
        return Kind(
            self.columns, tuple(raw(words).tobytes().decode().split("\n")) if words is not None else ()
        )


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
ADULT = Published(
    name="adult",
    what="48,842 people of a census, and who earns over 50,000 dollars, 14 columns (Becker, Kohavi 1996)",
    shape=(14,),
    counts=(32_561, 16_281),
    classes=adult.CLASSES,
    sha256={
        "x_train": "d37300efb71334008c4c136ef7de76b379c9acb5616549831e9e1dbb2e1d7071",
        "y_train": "fc6f24803d0465014d0a618840423ad387d55f85b6d8f37ad8b95edba4c9e778",
        "x_test": "27d0d8249d63c9dafb7bcfc3bba87c3e43e671cebf65198205e01db174148e67",
        "y_test": "c4834b715ef2a7f9ffe84d0d0c06063b617700129b09199ac6fe62d338e4c49c",
    },
    columns=adult.COLUMNS,
)
BUNDLED_ADULT = Published(
    name="bundled-adult",
    what="the first 1,000 + 500 people of each class of Adult, in the package",
    shape=(14,),
    counts=(2_000, 1_000),
    classes=adult.CLASSES,
    sha256={
        "x_train": "469eb481069d8987154822fbf2182133b9e5696c62fb73e30bf198f7af9f76de",
        "y_train": "71fe52145e6423c3dc13c23d1abaf0a1c736ebdac4aabbf759eccce2cb3e40bd",
        "x_test": "e5f5b4bc21708be4074f091f1e37ffab66303dc06e6b5f0f2301a0223666f50c",
        "y_test": "1f65640c4b0b5725237789c1ae21279a2ee6220e142a7d25563ac2460f0696f4",
    },
    columns=adult.COLUMNS,
)
SPAM = Published(
    name="spam",
    what="5,825 mails, ham or spam, their first 128 words (SpamAssassin's public corpus, 2002 to 2005)",
    shape=(mails.LENGTH,),
    counts=(4_660, 1_165),
    classes=mails.CLASSES,
    sha256={
        "vocabulary": "c7d63b0afb38cf089cb6bdc9389fca1146b173c7e7de235dd4972cafca46b7c8",
        "x_train": "fc918fc0f76a65de921faffc8825db483987cd435d27f377172c8993e0969938",
        "y_train": "64b83ca143843b58b2505c79e593fe03904a11cc956b5e3b32fdb230a71fb6ec",
        "x_test": "33f46b0b74f59805a104863b916529ec54456fdf318cc2f9f53342fb48b25a0d",
        "y_test": "6ca2fbda9d8db53326814893bd621528460bfcf2a8b263b86122a1d53bcaf436",
    },
)
BUNDLED_SPAM = Published(
    name="bundled-spam",
    what="the first 800 + 200 mails of each class of spam, their first 64 words, in the package",
    shape=(64,),
    counts=(1_600, 400),
    classes=mails.CLASSES,
    sha256={
        "x_train": "192757bb75658d255f13bfd4fb5b2f5e6d4cfa1ede72180915b0bbfb4414a5af",
        "y_train": "3773fcd7fb77782748303c94b4e6102ec9b8c492f4cf187337272a0f24761101",
        "x_test": "ffa13821d269ecf2e622d0e4594acff8d916742a0f7971270b3da06403289343",
        "y_test": "db8b2b997ed55c978f9d8a63d83674a20eff0b98252ea5400a02f08f4bf7034c",
        "vocabulary": "21a49d76513cd02d102c6815efa93615ca089eabdcfecec7aa182ebfe3feeb4f",
    },
)
