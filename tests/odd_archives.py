"""Archives that are odd, lie about their sizes or want to be elsewhere, built from bytes."""

import gzip
import io
import os
import tarfile
import zipfile

import numpy as np

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


def declared(path, size, array=None):
    """Make the directory of a zip claim that its one member unpacks to `size` bytes."""
    data = bytearray(zipped(path, ("x.npy", array or npy(X))).read_bytes())
    at = data.index(b"PK\1\2") + 24
    data[at : at + 4] = size.to_bytes(4, "little")
    path.write_bytes(data)


def doubled(path):
    """A zip with two members of one name."""
    data = zipped(path, ("x.npy", npy(X)), ("y.npy", npy(X))).read_bytes()
    path.write_bytes(data.replace(b"y.npy", b"x.npy"))


LIES = {
    "objects": (HostileError, lambda p: np.savez(p, x=np.array([{}], object))),
    "objects in fields": (HostileError, lambda p: np.savez(p, x=np.zeros(2, [("a", "O")]))),
    "shape too large": (HostileError, lambda p: zipped(p, ("x.npy", npy(X, shape=(10**9, 10**9))))),
    "shape too small": (HostileError, lambda p: zipped(p, ("x.npy", npy(X, shape=(1, 4))))),
    "negative shape": (HostileError, lambda p: zipped(p, ("x.npy", npy(X, shape=(-3, 4))))),
    "twice negative": (StoreError, lambda p: zipped(p, ("x.npy", npy(X, shape=(-3, -4))))),
    "other type": (HostileError, lambda p: zipped(p, ("x.npy", npy(X, descr="<f8")))),
    "one name twice": (HostileError, doubled),
    "declared 4 GB": (HostileError, lambda p: declared(p, 2**32 - 2)),
    "declared 1 GB, by both": (HostileError, lambda p: declared(p, 128 + 10**9, npy(X, shape=(10**9,)))),
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


def header(name, size=0, kind=b"0", link="", **lies):
    """512 bytes of tar, in which anything may be said."""
    info = tarfile.TarInfo(name)
    info.size, info.type, info.linkname = size, kind, link
    data = bytearray(info.tobuf(tarfile.GNU_FORMAT)[-512:])
    for place, value in lies.values():
        data[place : place + len(value)] = value
    data[148:156] = b" " * 8
    data[148:156] = f"{sum(data):06o}\0 ".encode()
    return bytes(data)


def padded(data):
    return data + bytes(-len(data) % 512)


def pax(kind=b"x", **words):
    """An extended header of tar, which overrules the one that follows it."""
    lines = b""
    for key, value in words.items():
        body = f" {key.replace('__', '.')}={value}\n".encode()
        length = len(body) + 1
        while len(str(length)) + len(body) != length:
            length = len(str(length)) + len(body)
        lines += str(length).encode() + body
    return header("pax", len(lines), kind) + padded(lines)


END = bytes(1024)
A = header("a", 4) + padded(b"data")


def long_way():
    """Folders and links so deep that the path they resolve to has no room (CVE-2025-4517)."""
    members, path = [], ""
    for letter in "abcdefghijklmnop":
        members += [
            (path + letter * 247, tarfile.DIRTYPE, ""),
            (path + letter, tarfile.SYMTYPE, letter * 247),
        ]
        path += letter * 247 + "/"
    link = "/".join("abcdefghijklmnop") + "/" + "l" * 254
    members += [(link, tarfile.SYMTYPE, "../" * 16), ("escape", tarfile.SYMTYPE, link + "/../../etc")]
    return tar(*members, ("escape/a", tarfile.SYMTYPE, "/etc/passwd"))


def sparse(real):
    """A GNU sparse file that is nothing but a hole of that size."""
    told = {"real": (483, f"{real:011o} ".encode()), "map": (386, b"00000000000 00000000000 ")}
    return header("a", 0, b"S", **told)


def nested(levels):
    data = bytes(10 << 20)
    for _ in range(levels):
        data = gzip.compress(data)
    return data


LINKS = {
    f"{what} as {name}": tar((name, kind, target))
    for what, kind, target in (
        ("a link", tarfile.SYMTYPE, "/etc/passwd"),
        ("a hard link", tarfile.LNKTYPE, "/etc/passwd"),
        ("a pipe", tarfile.FIFOTYPE, ""),
        ("a character device", tarfile.CHRTYPE, ""),
        ("a block device", tarfile.BLKTYPE, ""),
        ("a folder", tarfile.DIRTYPE, ""),
    )
    for name in ("a", "../a", "/tmp/a")
}
# Tars that hold no file `a` as it should be, and must end in one of our errors.
TARS = {
    **{name: lambda data=data: data for name, data in LINKS.items()},
    "a link to a link": lambda: tar(("b", tarfile.SYMTYPE, "/etc"), ("a", tarfile.SYMTYPE, "b/passwd")),
    "a way too long": long_way,
    "a hole of 8 GB": lambda: sparse(2**33 - 1) + END,
    "a petabyte by its extended header": lambda: pax(size=10**15) + A + END,
    "a negative size": lambda: header("a", told=(124, b"\xff" * 12)) + END,
    "a size that is no number": lambda: header("a", told=(124, b"much\0")) + END,
    "another name by its extended header": lambda: pax(path="b") + A + END,
    "a link by its extended header": lambda: pax(linkpath="/etc/passwd") + header("a", kind=b"2") + END,
    "a name of a gigabyte": lambda: header("././@LongLink", 2**30, b"L") + bytes(300 << 20),
    "an extended header of a gigabyte": lambda: header("pax", 2**30, b"x") + bytes(300 << 20),
    "extended headers without end": lambda: pax(b"g", comment="x" * 400) * 200_000,
    "extended headers of no number": lambda: header("pax", 20, b"x") + padded(b"99999999999 path=a\n") + A,
    "a million files": lambda: header("b") * 300_000 + END,
    "200 MB as `a`": lambda: header("a", 200 << 20) + bytes(200 << 20) + END,
    "300 MB before `a`": lambda: (header("b", 60 << 20) + bytes(60 << 20)) * 5 + A + END,
    "cut in `a`": lambda: header("a", 4000) + bytes(1000),
    "a wrong checksum": lambda: A[:148] + b"0000000\0" + A[156:],
    "two ends": lambda: END + A + END,
    "nothing": lambda: b"",
    "zeros": lambda: bytes(10_000),
    "random": lambda: np.random.default_rng(0).bytes(100_000),
}
# As they come over the line: packed.
PACKED = {
    **{f"tar: {name}": lambda make=make: gzip.compress(make(), 1) for name, make in TARS.items()},
    "gzip in gzip in gzip": lambda: nested(6),
    "gzip of zeros": lambda: gzip.compress(bytes(300 << 20), 1),
    "gzip without end": lambda: gzip.compress(A + END)[:-9],
    "gzip of another sum": lambda: gzip.compress(A + END)[:-8] + bytes(8),
    "no gzip": lambda: A + END,
}


def folded(path, size, claimed=None):
    """An .npz of zeros that fold to nothing, and say so."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("x.npy", "w") as stream:
        np.lib.format.write_array_header_1_0(
            stream, {"descr": "|u1", "fortran_order": False, "shape": (claimed or size,)}
        )
        for _ in range(size >> 20):
            stream.write(bytes(1 << 20))


def quoted(path):
    """A zip in which ten entries share their bytes."""
    data = zipped(path, ("x.npy", npy(X)), ("y.npy", npy(X)), method=zipfile.ZIP_STORED).read_bytes()
    at = data.rindex(b"PK\1\2") + 42
    path.write_bytes(data[:at] + bytes(4) + data[at + 4 :])


def patched(path, offset, value):
    """A zip with two bytes of its first entry's record changed."""
    data = bytearray(zipped(path, ("x.npy", npy(X))).read_bytes())
    at = data.index(b"PK\1\2") + offset
    data[at : at + 2] = value.to_bytes(2, "little")
    path.write_bytes(data)


ZIPS = {
    **LIES,
    "zeros that fold to a thousandth": (HostileError, lambda p: folded(p, 300 << 20)),
    "entries that share their bytes": (StoreError, quoted),
    "encrypted": (StoreError, lambda p: patched(p, 8, 1)),
    "an unknown compression": (StoreError, lambda p: patched(p, 10, 99)),
    "a disk that is not there": (StoreError, lambda p: p.write_bytes(b"PK\5\6" + b"\xff" * 18)),
}
