import gzip
import io
import lzma
import os
import tarfile
import zipfile

import numpy as np
import pytest

from unsee.data import archives
from unsee.data.archives import deb_contents, npz_arrays, tar_members
from unsee.errors import HostileError, InputError, StoreError


def tar(*members, mode="w"):
    """A tar of (name, bytes) or (name, type, target)."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:
        for name, *rest in members:
            info = tarfile.TarInfo(name)
            if len(rest) == 2:
                info.type, info.linkname = rest
            info.size = len(rest[0]) if len(rest) == 1 else 0
            archive.addfile(info, io.BytesIO(rest[0]) if len(rest) == 1 else None)
    return buffer.getvalue()


def ar(*members):
    """An `ar` archive of (name, bytes), as a .deb is."""
    packed = [
        f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n".encode()
        + data
        + b"\n" * (len(data) % 2)
        for name, data in members
    ]
    return b"!<arch>\n" + b"".join(packed)


def deb(data, name="data.tar.xz"):
    return ar(("debian-binary", b"2.0\n"), ("control.tar.xz", b"odd"), (name, data))


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


def npy(array, **changes):
    """The bytes of an .npy whose header may say something else than is true."""
    buffer = io.BytesIO()
    header = np.lib.format.header_data_from_array_1_0(array) | changes
    np.lib.format.write_array_header_1_0(buffer, header)
    return buffer.getvalue() + (b"" if array.dtype.hasobject else array.tobytes())


def zipped(path, *members, method=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return path


X = np.arange(12, dtype=np.uint8).reshape(3, 4)


def test_the_arrays_asked_for_come_back(tmp_path):
    np.savez(tmp_path / "a.npz", x=X, y=np.asfortranarray(X), other=np.array([None], object))
    arrays = npz_arrays(tmp_path / "a.npz", {"x", "y", "classes"})
    assert arrays.keys() == {"x", "y"}
    assert all(np.array_equal(array, X) for array in arrays.values())


def declared(path, size, array=None):
    """Make the directory of a zip claim that its one member unpacks to `size` bytes."""
    data = bytearray(zipped(path, ("x.npy", array or npy(X))).read_bytes())
    at = data.index(b"PK\1\2") + 24
    data[at : at + 4] = size.to_bytes(4, "little")
    path.write_bytes(data)


LIES = {
    "objects": (HostileError, lambda p: np.savez(p, x=np.array([{}], object))),
    "objects in fields": (HostileError, lambda p: np.savez(p, x=np.zeros(2, [("a", "O")]))),
    "shape too large": (HostileError, lambda p: zipped(p, ("x.npy", npy(X, shape=(10**9, 10**9))))),
    "shape too small": (HostileError, lambda p: zipped(p, ("x.npy", npy(X, shape=(1, 4))))),
    "negative shape": (HostileError, lambda p: zipped(p, ("x.npy", npy(X, shape=(-3, 4))))),
    "twice negative": (StoreError, lambda p: zipped(p, ("x.npy", npy(X, shape=(-3, -4))))),
    "other type": (HostileError, lambda p: zipped(p, ("x.npy", npy(X, descr="<f8")))),
    "one name twice": (HostileError, lambda p: zipped(p, ("x.npy", npy(X)), ("y.npy", npy(X)))),
    "declared 4 GB": (HostileError, lambda p: declared(p, 2**32 - 2)),
    "declared 1 GB, by both": (StoreError, lambda p: declared(p, 128 + 10**9, npy(X, shape=(10**9,)))),
    "declared less": (StoreError, lambda p: declared(p, 50)),
    "no type": (StoreError, lambda p: zipped(p, ("x.npy", npy(X, descr="|nonsense")))),
    "no shape": (StoreError, lambda p: zipped(p, ("x.npy", npy(X, shape="(3, 4)")))),
    "code as header": (
        StoreError,
        lambda p: zipped(p, ("x.npy", b"\x93NUMPY\1\0\x14\0__import__('os').abort")),
    ),
    "long header": (StoreError, lambda p: zipped(p, ("x.npy", b"\x93NUMPY\1\0\xff\xff" + b" " * 65_535))),
    "version 9": (StoreError, lambda p: zipped(p, ("x.npy", b"\x93NUMPY\x09\0" + npy(X)[8:]))),
    "no npy": (StoreError, lambda p: zipped(p, ("x.npy", b"hello"))),
    "pickle": (StoreError, lambda p: zipped(p, ("x.npy", b"\x80\x04K\x01."))),
    "empty": (StoreError, lambda p: p.write_bytes(b"")),
    "no zip": (StoreError, lambda p: p.write_bytes(b"x,y\n1,2\n")),
    "cut": (StoreError, lambda p: p.write_bytes(zipped(p, ("x.npy", npy(X))).read_bytes()[:-30])),
    "folder": (InputError, lambda p: p.mkdir()),
    "pipe": (InputError, os.mkfifo),
    "nothing": (InputError, lambda p: None),
}


@pytest.mark.parametrize("case", LIES)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_an_npz_that_is_not_what_it_says_is_refused(tmp_path, case):
    error, make = LIES[case]
    make(tmp_path / "a.npz")
    if case == "one name twice":
        data = (tmp_path / "a.npz").read_bytes()
        (tmp_path / "a.npz").write_bytes(data.replace(b"y.npy", b"x.npy"))
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
