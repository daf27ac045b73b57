import gzip
import struct
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from odd_archives import deb, tar
from unsee import sources
from unsee.data.fetching import fetch
from unsee.data.known import fashion_mnist
from unsee.data.known.fashion_mnist import FASHION_MNIST
from unsee.errors import HostileError, StoreError
from unsee.store import read_tensors

FILES = {array: name for array, (name, _) in fashion_mnist.FILES.items()}


@pytest.fixture(autouse=True)
def publisher(machine):
    machine.publishes(fashion_mnist)


def idx(array, compresslevel=0):
    """A gzipped IDX file of an array's bytes."""
    array = array.reshape(len(array), 28, 28) if array.ndim > 1 else array
    header = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
    return gzip.compress(header + array.tobytes(), compresslevel=compresslevel)


def blank(images=(60_000, 10_000)):
    """Fashion-MNIST in all but its pixels and labels."""
    parts = zip(("train", "test"), images, strict=True)
    return {
        f"{array}_{part}": np.zeros((n, 28, 28) if array == "x" else n, np.uint8)
        for part, n in parts
        for array in "xy"
    }


@pytest.mark.data
@pytest.mark.parametrize("real", [FASHION_MNIST], indirect=True)
def test_fashion_mnist_comes_from_the_publisher_once(real, machine):
    for array, name in FILES.items():
        (machine.publisher / name).write_bytes(idx(real[array]))
    path = fetch("fashion-mnist", progress=True)
    assert path == machine.cache / "fashion-mnist.safetensors"
    assert read_tensors(path)[1]["way"] == "the publisher"
    assert np.array_equal(sources.fashion_mnist().train.x, real["x_train"])
    for name in FILES.values():
        (machine.publisher / name).unlink()
    assert fetch("fashion-mnist") == path


@pytest.mark.data
@pytest.mark.parametrize("real", [FASHION_MNIST], indirect=True)
def test_four_who_fetch_at_once_download_once(real, machine):
    files = [(f"./usr/share/{name}", idx(real[array])) for array, name in FILES.items()]
    (machine.publisher / "a.deb").write_bytes(deb(gzip.compress(tar(*files), 0), "data.tar.gz"))
    machine.install("apt-get", f"/bin/cp {machine.publisher}/a.deb .")
    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(fetch, ["fashion-mnist"] * 4))) == 1
    assert machine.runs == 1
    assert machine.left_behind == ["fashion-mnist.safetensors"]


def test_other_bytes_are_refused_wherever_they_come_from(machine):
    for name, array in zip(FILES.values(), blank().values(), strict=True):
        (machine.publisher / name).write_bytes(idx(array, 1))
    with pytest.raises(
        HostileError, match=r"other bytes from the publisher \(x_test, x_train, y_test, y_train\)"
    ):
        fetch("fashion-mnist")
    installed = machine.publisher.rename(machine.publisher.with_name("installed"))
    machine.install("dpkg", f"for file in {installed}/*; do echo $file; done")
    with pytest.raises(HostileError, match="other bytes from the installed package"):
        fetch("fashion-mnist")
    assert machine.left_behind == []


@pytest.mark.parametrize("images", [(60_000, 9_999), (3, 2), (60_001, 10_000)])
def test_another_number_of_images_is_refused_by_the_header(machine, images):
    members = [
        (name, idx(array, 1)) for name, array in zip(FILES.values(), blank(images).values(), strict=True)
    ]
    (machine.publisher / "a.deb").write_bytes(deb(gzip.compress(tar(*members)), "data.tar.gz"))
    machine.install("apt-get", f"/bin/cp {machine.publisher}/a.deb .")
    with pytest.raises(HostileError, match="bytes of IDX in t"):
        fetch("fashion-mnist")
    assert machine.left_behind == []


def test_a_download_that_breaks_off_is_no_source(machine):
    for name, array in zip(FILES.values(), blank().values(), strict=True):
        (machine.publisher / name).write_bytes(idx(array, 1)[:-20])
    with pytest.raises(StoreError, match="Compressed file ended before"):
        fetch("fashion-mnist")
