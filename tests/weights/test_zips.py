import io
import struct
import zipfile

import numpy as np
import pytest
import torch

import hostile
from unsee.errors import HostileError, StoreError, UnseeError
from unsee.weights import zips


def checked(data):
    file = io.BytesIO(data)
    return zips.checked(file, zips.listing(file, len(data), "x.pth"), "x.pth")


def contents(data):
    return {path: zips.read(io.BytesIO(data), entry) for path, entry in checked(data).items()}


@pytest.fixture(scope="module")
def saved():
    return hostile.torch_saved({"a": torch.arange(7.0), "b": [torch.ones(3), torch.zeros(0)], "c": 1})


def test_what_torch_saves_is_found_where_it_lies(saved):
    found = contents(saved)
    with zipfile.ZipFile(io.BytesIO(saved)) as archive:
        assert found == {name.removeprefix("archive/"): archive.read(name) for name in archive.namelist()}
    assert found["data/0"] == torch.arange(7.0).numpy().tobytes()


def test_zips_by_others_are_read_if_they_are_as_plain():
    assert contents(hostile.GOOD)["data/0"] == bytes(48)
    assert contents(hostile.long_ended(hostile.GOOD)) == contents(hostile.GOOD)
    assert contents(hostile.saturated(hostile.long_ended(hostile.GOOD))) == contents(hostile.GOOD)
    assert list(contents(hostile.zipped(b"", root="modèle (1)"))) == list(contents(hostile.GOOD))


def long_entry(data, *fields, which=(20, 24)):
    """The last entry's lengths, at `which` places of its record, moved to a field of 64 bits."""
    at = data.rindex(b"PK\1\2")
    record = bytearray(data[at:-22])
    extra = struct.pack(f"<2H{len(fields)}Q", 1, 8 * len(fields), *fields)
    for place in which:
        record[place : place + 4] = b"\xff" * 4
    record[30:32] = len(extra).to_bytes(2, "little")
    ending = hostile.patched(
        data[-22:], 12, len(data) - 22 - data.index(b"PK\1\2") + len(extra), 4, b"PK\5\6"
    )
    return data[:at] + bytes(record) + extra + ending


def test_lengths_of_64_bits_are_read():
    data = hostile.GOOD
    start = data.index(b"archive/version") - 30
    assert contents(long_entry(data, 2, 2)) == contents(data)
    assert contents(long_entry(data, 2, 2, start, which=(20, 24, 42))) == contents(data)
    assert contents(long_entry(data, start, which=(42,))) == contents(data)
    for lie in ([2], [2, 3], [2**60, 2**60], [2, 2, 2]):
        with pytest.raises(HostileError):
            contents(long_entry(data, *lie))


def test_a_flipped_bit_in_any_entry_is_noticed(saved):
    random = np.random.default_rng(0)
    for path, entry in checked(saved).items():
        for bit in random.choice(8 * entry.size, min(8 * entry.size, 10), replace=False):
            broken = bytearray(saved)
            broken[entry.begin + bit // 8] ^= 1 << bit % 8
            with pytest.raises(StoreError, match=path.replace(".", r"\.")):
                contents(bytes(broken))


def test_no_bit_of_a_zip_makes_it_something_else(saved):
    """Whatever is flipped, in a header or the directory: it is refused, or means what it meant."""
    meant, refused = contents(saved), 0
    for bit in np.random.default_rng(1).choice(8 * len(saved), 2000, replace=False):
        broken = bytearray(saved)
        broken[bit // 8] ^= 1 << bit % 8
        try:
            assert contents(bytes(broken)) == meant
        except UnseeError:
            refused += 1
    assert refused > 1000


@pytest.mark.parametrize("data", [hostile.GOOD, hostile.long_ended(hostile.GOOD)], ids=["short", "long"])
def test_a_zip_cut_anywhere_is_refused(data):
    for length in range(len(data)):
        with pytest.raises((StoreError, HostileError)):
            contents(data[:length])


def test_a_zip_cannot_be_read_as_another_by_another_program():
    """What Python's zipfile finds in a file that passes here is what is found here."""
    passed = 0
    for name, (_, make) in {**hostile.SCANNED, **hostile.LOADED}.items():
        data = make("canary")
        try:
            found = contents(data)
        except UnseeError:
            continue
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            roots = {path.partition("/")[0] for path in archive.namelist()}
            assert {f"{root}/{path}": data for path, data in found.items() for root in roots} == {
                path: archive.read(path) for path in archive.namelist()
            }, name
        passed += 1
    assert passed > 30
