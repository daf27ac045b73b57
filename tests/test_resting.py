import os

import pytest
import torch

from unsee.errors import StoreError
from unsee.resting import Resting, give_back


def test_what_rested_comes_back(tmp_path):
    tensors = {
        "a": torch.randn(3, 4, dtype=torch.float64),
        "b": torch.tensor(2),
        "none": torch.empty(0, 3),
        "turned": torch.randn(4, 3).T,
    }
    resting = Resting(tensors, tmp_path / "new")
    for _ in range(2):
        found = resting.back()
        assert list(found) == list(tensors)
        assert all(torch.equal(found[name], tensor) for name, tensor in tensors.items())
        assert all(found[name].dtype == tensor.dtype for name, tensor in tensors.items())
    found["a"].zero_()
    assert torch.equal(resting.back()["a"], tensors["a"])


def test_no_file_is_left_behind(tmp_path):
    resting = Resting({"a": torch.ones(1000)}, tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert resting.back()["a"].sum() == 1000


def test_no_room(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="room for 4,000 bytes"):
        Resting({"a": torch.ones(1000)}, tmp_path / "file")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no full disk here")
def test_a_disk_that_is_full(monkeypatch, tmp_path):
    full = open("/dev/full", "r+b", buffering=0)  # noqa: SIM115
    monkeypatch.setattr("tempfile.TemporaryFile", lambda **_: full)
    with pytest.raises(StoreError, match="No space left"):
        Resting({"a": torch.ones(100_000)}, tmp_path)


def test_giving_back_is_no_matter_where_it_cannot_be_done(monkeypatch):
    give_back()
    monkeypatch.setattr("ctypes.CDLL", lambda _: object())
    give_back()
