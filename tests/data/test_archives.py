import gzip
import io
import lzma
import os
import tarfile
import zipfile

import numpy as np
import pytest

from odd_archives import END, LIES, X, ar, deb, folded, npy, sparse, tar, zipped
from unsee.data import archives
from unsee.data.archives import deb_contents, npz_arrays, tar_files, tar_members, zip_members
from unsee.errors import HostileError, StoreError


def contents(data):
    return tar_members(deb_contents(io.BytesIO(data)), ["a"])


def test_the_data_of_a_deb_is_found_behind_its_other_members():
    inside = tar(("./usr/share/a", b"the file"), ("./usr/share/b", b"another"))
    assert contents(deb(lzma.compress(inside))) == {"a": b"the file"}
    assert contents(deb(gzip.compress(inside), "data.tar.gz")) == {"a": b"the file"}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"PK\3\4",
        b"!<arch>\n",
        deb(b"", "data.tar.zst"),
        deb(b"", "data.tar.xz"),
        deb(b"no xz at all"),
        deb(lzma.compress(tar(("a", b"x" * 5000)))[:-60]),
        deb(lzma.compress(tar(("b", b"only")))),
        ar(("debian-binary", b"2.0\n")).replace(b"4         `", b"-64       `"),
        ar(("debian-binary", b"2.0\n")).replace(b"4         `", b"9999999999`"),
    ],
    ids=range(10),
)
def test_a_broken_deb_ends_in_an_error_and_not_in_a_loop(data):
    with pytest.raises((ValueError, EOFError, OSError, lzma.LZMAError, tarfile.TarError)):
        contents(data)


def test_only_regular_files_are_read_and_none_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    kinds = (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.DIRTYPE)
    hostile = [(name, kind, str(secret)) for kind in kinds for name in ("a", "../a", "/etc/a", "x/../../a")]
    with pytest.raises(ValueError, match="no a in the archive"):
        tar_members(io.BytesIO(tar(*hostile)), ["a"])
    mixed = tar(*hostile, ("../../a", b"data"), ("a", b"later"))
    assert tar_members(io.BytesIO(mixed), ["a"]) == {"a": b"data"}
    assert os.listdir(tmp_path) == ["secret"]


def test_a_bomb_ends_at_the_limit(monkeypatch):
    monkeypatch.setattr(archives, "MOST_STREAMED", 1 << 20)
    for member in (("a", bytes(1 << 21)), ("b", bytes(1 << 21))):
        with pytest.raises(HostileError, match="at most 1,048,576 bytes"):
            tar_members(gzip.GzipFile(fileobj=io.BytesIO(gzip.compress(tar(member)))), ["a"])


def test_the_number_of_files_and_their_sizes_are_bounded(monkeypatch):
    monkeypatch.setattr(archives, "MOST_MEMBERS", 3)
    monkeypatch.setattr(archives, "MOST_MEMBER", 1000)
    few = tar(("b", b""), ("c", b""), ("a", b"x" * 1000))
    assert len(tar_members(io.BytesIO(few), ["a"])["a"]) == 1000
    assert [name for _, name, _ in tar_files(io.BytesIO(few))] == ["b", "c", "a"]
    large, many = tar(("a", b"x" * 1001)), tar(("b", b""), ("c", b""), ("d", b""), ("a", b""))
    for data in (large, many, sparse(2000) + END):
        with pytest.raises(HostileError, match="at most 3 files of at most 1,000 bytes"):
            tar_members(io.BytesIO(data), ["a"])
        with pytest.raises(HostileError, match="at most 3 files of at most 1,000 bytes"):
            list(tar_files(io.BytesIO(data)))


def test_what_folds_to_nothing_is_a_bomb_from_some_size_on(tmp_path, monkeypatch):
    folded(tmp_path / "a.npz", 2 << 20)
    assert npz_arrays(tmp_path / "a.npz", {"x"})["x"].shape == (2 << 20,)
    monkeypatch.setattr(archives, "ANYWAY", 1 << 20)
    with pytest.raises(HostileError, match="at most 1,048,576 bytes"):
        npz_arrays(tmp_path / "a.npz", {"x"})


def test_the_arrays_asked_for_come_back(tmp_path):
    np.savez(tmp_path / "a.npz", x=X, y=np.asfortranarray(X), other=np.array([None], object))
    arrays = npz_arrays(tmp_path / "a.npz", {"x", "y", "classes"})
    assert arrays.keys() == {"x", "y"}
    assert all(np.array_equal(array, X) for array in arrays.values())


@pytest.mark.parametrize("case", LIES)
def test_an_npz_that_is_not_what_it_says_is_refused(tmp_path, case):
    error, make = LIES[case]
    make(tmp_path / "a.npz")
    with pytest.raises(error, match=r"a\.npz") as caught:
        npz_arrays(tmp_path / "a.npz", {"x", "y"})
    assert str(caught.value).isprintable()


def test_a_flipped_bit_in_a_zipped_array_is_noticed(tmp_path):
    path = zipped(tmp_path / "a.npz", ("x.npy", npy(X)), method=zipfile.ZIP_STORED)
    data = bytearray(path.read_bytes())
    data[data.index(X.tobytes())] ^= 1
    path.write_bytes(data)
    with pytest.raises(StoreError, match="CRC"):
        npz_arrays(path, {"x"})


def test_a_zip_bomb_is_refused_by_its_directory(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "MOST_ZIPPED", 1 << 20)
    zipped(tmp_path / "a.npz", ("x.npy", npy(X)), ("ignored.bin", bytes(1 << 21)))
    with pytest.raises(HostileError, match="at most 1,048,576 bytes"):
        npz_arrays(tmp_path / "a.npz", {"x"})


def test_members_of_a_zip_are_read_by_their_very_names(monkeypatch):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in ("data/a", "other/a", "data/setup.py"):
            archive.writestr(name, name)
    assert zip_members(buffer, ["data/a"]) == {"data/a": b"data/a"}
    with pytest.raises(ValueError, match="no data/b in the archive"):
        zip_members(buffer, ["data/a", "data/b"])
    with pytest.raises(zipfile.BadZipFile):
        zip_members(io.BytesIO(b"no zip"), ["a"])
    monkeypatch.setattr(archives, "MOST_STREAMED", 5)
    with pytest.raises(HostileError, match="at most 5 bytes"):
        zip_members(buffer, ["data/a"])
