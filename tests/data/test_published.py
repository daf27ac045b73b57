from pathlib import Path

import pytest
import torch

from unsee.data import published
from unsee.data.published import (
    ADULT,
    BUNDLED,
    BUNDLED_ADULT,
    BUNDLED_SPAM,
    CIFAR_10,
    FASHION_MNIST,
    SPAM,
    Published,
    cache_path,
    cached,
)
from unsee.errors import HostileError, InputError, StoreError
from unsee.store import write_tensors

ONES = "4bf5122f344554c53bde2ebb8cd2b7e3d1600ad631c385a5d7cce23c7785459a"  # sha256 of one byte 1


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    monkeypatch.setenv("UNSEE_CACHE", str(tmp_path))
    return Published("tiny", "one pixel", (1, 1, 1), (1, 1), ("a", "b"), {"x_train": ONES, "y_train": ONES})


def arrays(x=1, y=1):
    return {"x_train": torch.tensor([x], dtype=torch.uint8), "y_train": torch.tensor([y], dtype=torch.uint8)}


def test_every_array_of_every_data_set_is_pinned():
    arrays = {"x_train", "y_train", "x_test", "y_test"}
    for data in (BUNDLED, CIFAR_10, FASHION_MNIST):
        assert set(data.sha256) == arrays
        assert len(data.classes) == 10
    for data in (ADULT, BUNDLED_ADULT):
        assert set(data.sha256) == arrays
        assert len(data.columns) == 14
    for data in (SPAM, BUNDLED_SPAM):
        assert set(data.sha256) == {*arrays, "vocabulary"}
    for data in (BUNDLED, CIFAR_10, FASHION_MNIST, ADULT, BUNDLED_ADULT, SPAM, BUNDLED_SPAM):
        assert all(len(digest) == 64 for digest in data.sha256.values())


def test_the_cache_is_where_the_user_says(monkeypatch, tiny, tmp_path):
    assert cache_path(tiny) == tmp_path / "tiny.safetensors"
    monkeypatch.delenv("UNSEE_CACHE")
    assert cache_path(tiny).parent == Path(published.platformdirs.user_cache_path("unsee"))


def test_what_was_published_comes_back_in_shape(tiny):
    write_tensors(cache_path(tiny), arrays(), {})
    assert cached(tiny)["x_train"].shape == (1, 1, 1, 1)


def test_one_changed_byte_is_refused_even_under_a_right_seal(tiny):
    write_tensors(cache_path(tiny), arrays(x=2), {})
    with pytest.raises(
        StoreError, match=r"other bytes in .* \(x_train\): fetch it again with `unsee data fetch tiny`"
    ):
        cached(tiny)
    with pytest.raises(HostileError):
        tiny.check(arrays(y=0), where="there", do="no", error=HostileError)
    with pytest.raises(HostileError, match="y_train"):
        tiny.check({"x_train": arrays()["x_train"]}, where="there", do="no", error=HostileError)


def test_what_was_never_fetched_says_how(tiny):
    with pytest.raises(InputError, match="fetch it with `unsee data fetch tiny`"):
        cached(tiny)
