from dataclasses import replace
from pathlib import Path

import pytest
import torch

import unsee
from unsee.data import published
from unsee.data.published import Published, cache_path, cached
from unsee.errors import HostileError, InputError, StoreError
from unsee.store import write_tensors

ONES = "4bf5122f344554c53bde2ebb8cd2b7e3d1600ad631c385a5d7cce23c7785459a"  # sha256 of one byte 1


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    monkeypatch.setenv("UNSEE_CACHE", str(tmp_path))
    return Published("tiny", "one pixel", (1, 1, 1), (1, 1), ("a", "b"), {"x_train": ONES, "y_train": ONES})


def arrays(x=1, y=1):
    return {"x_train": torch.tensor([x], dtype=torch.uint8), "y_train": torch.tensor([y], dtype=torch.uint8)}


def test_the_cache_is_where_the_user_says(monkeypatch, tiny, tmp_path):
    assert cache_path(tiny) == tmp_path / "tiny.safetensors"
    monkeypatch.delenv("UNSEE_CACHE")
    assert cache_path(tiny).parent == Path(published.platformdirs.user_cache_path("unsee"))


def test_a_set_of_the_package_lies_there_and_not_in_the_cache(tiny):
    assert tiny.path == cache_path(tiny)
    assert replace(tiny, file="tiny.npz").path == Path(unsee.__file__).parent / "bundled" / "tiny.npz"


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


def test_counts_and_shape_are_looked_at_too(tiny):
    for other in (replace(tiny, counts=(2, 1)), replace(tiny, shape=(1, 1, 2))):
        with pytest.raises(HostileError, match=r"numbers, .*found 1 in x_train"):
            other.check(arrays(), where="there", do="no", error=HostileError)
