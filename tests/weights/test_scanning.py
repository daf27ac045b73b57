import io
import os
import tracemalloc

import pytest
import torch
from torch import nn

import hostile
from unsee.errors import HostileError, InputError, StoreError, UnseeError
from unsee.weights.scanning import MOST_PICKLED, scan, shown


def test_there_are_enough_of_them():
    assert len(hostile.SCANNED) + len(hostile.LOADED) > 150


@pytest.mark.parametrize("case", hostile.SCANNED)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_hostile_and_broken_files_are_refused_unopened(tmp_path, case):
    error, make = hostile.SCANNED[case]
    canary = tmp_path / "canary"
    with pytest.raises(UnseeError, match=r"in x\.pth") as caught:
        scan(io.BytesIO(make(str(canary))), "x.pth")
    assert type(caught.value) is error
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 400
    assert not canary.exists()


@pytest.mark.parametrize("case", hostile.LOADED)
def test_the_files_for_torch_do_get_there(case):
    scan(io.BytesIO(hostile.LOADED[case][1]("canary")), "x.pth")


def checkpoint():
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)).half()
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.zeros(1, 1, 4, 4).half()).sum().backward()
    optimizer.step()
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [3, 5])
    return {
        "state_dict": model.state_dict(),
        "parameters": dict(model.named_parameters()),
        "optimizer": optimizer.state_dict(),
        "scheduler": scheduler.state_dict(),
        "shape": torch.Size([1, 2]),
        "types": [torch.zeros(1, dtype=t) for t in (torch.bfloat16, torch.float64, torch.bool, torch.uint8)],
        "best": float("-inf"),
    }


@pytest.mark.parametrize("zipped", [True, False])
def test_what_people_save_passes(zipped):
    data = hostile.torch_saved(checkpoint(), _use_new_zipfile_serialization=zipped)
    storages = 0
    for value in _tensors(torch.load(io.BytesIO(data))):
        storages += value.untyped_storage().nbytes()
    numbers = scan(io.BytesIO(data), "x.pth")
    assert numbers >= storages - 100  # parameters are there twice, but stored once
    assert numbers < len(data)


def _tensors(value):
    if isinstance(value, torch.Tensor) and not isinstance(value, nn.Parameter):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _tensors(inner)


def test_a_pickled_module_is_told_what_to_do():
    with pytest.raises(
        HostileError, match=r"pickled module \(torch\.nn.*: save model\.state_dict\(\) with torch"
    ):
        scan(io.BytesIO(hostile.module()), "x.pth")


def test_the_name_that_would_be_called_is_shown():
    with pytest.raises(HostileError, match=r"would call os\.system"):
        scan(io.BytesIO(hostile.zipped(hostile.call("os.system", "true"))), "x.pth")


def test_names_that_steer_the_terminal_are_not():
    evil = hostile.zipped(hostile.saved(b"cos\nsys\x1b[2Jtem\n)R"))
    with pytest.raises(HostileError) as caught:
        scan(io.BytesIO(evil), "x.pth")
    assert str(caught.value).isprintable()
    assert "\\x1b" in str(caught.value)


def test_every_truncation_is_detected():
    for data in (hostile.torch_saved(checkpoint()), hostile.torch_saved({"a": torch.zeros(3)})):
        for length in range(0, len(data), 1 + len(data) // 200):
            with pytest.raises((StoreError, HostileError)):
                scan(io.BytesIO(data[:length]), "x.pth")


def sparse(path, *parts):
    """A file of a few bytes at a few places, and holes between them."""
    with open(path, "wb") as file:
        for place, data in parts:
            file.seek(place)
            file.write(data)
    return path


def test_neither_memory_nor_time_is_taken_by_what_a_file_says(tmp_path):
    gigabyte = 1 << 30
    files = [
        # a string of a gigabyte, which is really there
        (tmp_path / "a", [(0, hostile.legacy(b"\x80\x02X\0\0\0\x40", keys=b"")), (gigabyte, b".")]),
        # a gigabyte of zeros between the beginning and the end of a zip
        (tmp_path / "b", [(0, hostile.GOOD[:100]), (gigabyte, hostile.GOOD[-300:])]),
        # a gigabyte that is no checkpoint at all
        (tmp_path / "c", [(gigabyte, b"x")]),
        # a directory of a gigabyte
        (
            tmp_path / "d",
            [(0, b"PK\3\4"), (gigabyte, hostile.patched(hostile.GOOD[-22:], 12, gigabyte, 4, b"PK\5\6"))],
        ),
    ]
    tracemalloc.start()
    try:
        for path, parts in files:
            with open(sparse(path, *parts), "rb") as file, pytest.raises(UnseeError):
                scan(file, "x.pth")
        assert tracemalloc.get_traced_memory()[1] < 3 * MOST_PICKLED
    finally:
        tracemalloc.stop()
    assert all(os.stat(path).st_size > gigabyte for path, _ in files)


def test_safetensors_by_another_name_is_told_so():
    with pytest.raises(InputError, match=r"found safetensors: name it \.safetensors"):
        scan(io.BytesIO((8).to_bytes(8, "little") + b"{}      "), "x.pth")


def test_text_is_shown_short_and_harmless():
    assert shown("model.fc.weight") == "model.fc.weight"
    assert shown("x" * 1000) == "x" * 120 + "..."
    assert shown("a\nb") == "'a\\nb'"
