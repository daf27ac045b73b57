"""Archives from anywhere: read as streams, listed members only, never unpacked to the disk.

A member's path is never used as a path, links and devices are passed over, and each size is checked
against what is really there before memory is taken for it.
"""

import gzip
import lzma
import math
import os
import tarfile
import zipfile
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np

from unsee.errors import HostileError, InputError, StoreError, UnseeError

MOST_STREAMED = 192 << 20  # the largest we know of, unpacked CIFAR-10, has 185 million bytes
MOST_MEMBERS, MOST_MEMBER = 20_000, 64 << 20
MOST_ZIPPED = 4 << 30
MOST_FOLDED, ANYWAY = 200, 64 << 20  # images fold to a half, masks to a hundredth; so many bytes pass anyway
_NPY_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


class Limited:
    """A stream that ends in an error after 192 MB, and tells how many bytes each reading gave."""

    def __init__(self, stream: Any, tell: Callable[[int], None] = lambda _: None) -> None:
        self._stream, self._tell, self._left = stream, tell, MOST_STREAMED

    def read(self, size: int) -> bytes:
        """Return the next bytes, `size` at most."""
        data = self._stream.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise HostileError(f"at most {MOST_STREAMED:,} bytes in an archive", "more", "do not use it")
        self._tell(len(data))
        return data


def tar_members(unpacked: Any, names: Collection[str]) -> dict[str, bytes]:
    """Return the regular files of a tar whose last names are among `names`."""
    files = {}
    for path, file in _regular(unpacked):
        name = path.rpartition("/")[2]
        if name in names and name not in files:
            files[name] = file.read()
    if missing := set(names) - files.keys():
        raise ValueError(f"no {', '.join(sorted(missing))} in the archive")
    return files


def tar_files(unpacked: Any) -> Iterator[tuple[str, str, bytes]]:
    """Yield the regular files of a tar, each by the last name of its folder, its own name and its bytes."""
    for path, file in _regular(unpacked):
        folder, _, name = path.rpartition("/")
        yield folder.rpartition("/")[2], name, file.read()


def _regular(unpacked: Any) -> Iterator[tuple[str, BinaryIO]]:
    """Yield the regular files of a tar with their paths, once their number and size are bounded."""
    with tarfile.open(fileobj=cast(Any, Limited(unpacked)), mode="r|") as archive:
        for count, member in enumerate(archive, 1):
            # A sparse file has the size that it claims, and need not be there at all.
            if count > MOST_MEMBERS or member.size > MOST_MEMBER:
                expected = f"at most {MOST_MEMBERS:,} files of at most {MOST_MEMBER:,} bytes in an archive"
                raise HostileError(expected, "more", "do not use it")
            if member.isreg():
                yield member.name, cast(BinaryIO, archive.extractfile(member))


def zip_members(file: BinaryIO, names: Collection[str]) -> dict[str, bytes]:
    """Return the members of a zip, such as a wheel, that have these very names; nothing of it is run."""
    with zipfile.ZipFile(file) as archive:
        members = {member.filename: member for member in archive.infolist() if member.filename in names}
        if missing := set(names) - members.keys():
            raise ValueError(f"no {', '.join(sorted(missing))} in the archive")
        if sum(member.file_size for member in members.values()) > MOST_STREAMED:
            raise HostileError(f"at most {MOST_STREAMED:,} bytes in an archive", "more", "do not use it")
        return {name: archive.read(member) for name, member in members.items()}


def deb_contents(deb: BinaryIO) -> Any:
    """Return the tar in a .deb, unpacked as it is read: `ar` puts 60 bytes of header before each member."""
    if deb.read(8) != b"!<arch>\n":
        raise ValueError("no .deb")
    while len(header := deb.read(60)) == 60 and header[48:58].strip().isdigit():
        name, size = header[:16].strip(), int(header[48:58])
        if name in _UNPACKERS:
            return _UNPACKERS[name](deb)
        deb.seek(size + size % 2, os.SEEK_CUR)
    raise ValueError("a .deb without data.tar.xz or data.tar.gz")


_UNPACKERS = {b"data.tar.xz": lzma.open, b"data.tar.gz": gzip.open}


def npz_arrays(path: Path, names: Collection[str]) -> dict[str, np.ndarray]:
    """Return the arrays of an .npz file that are among `names`; those that need pickle are refused."""
    if not path.is_file():
        raise InputError(f"an .npz file at {path}", "none", "check the path")
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            most = min(MOST_ZIPPED, max(ANYWAY, MOST_FOLDED * path.stat().st_size))
            if sum(member.file_size for member in members) > most:
                raise HostileError(f"at most {most:,} bytes in {path}", "more", "do not use it")
            if len({member.filename for member in members}) < len(members):
                raise HostileError(f"each name once in {path}", "one twice", "do not use it")
            wanted = [(member.filename.removesuffix(".npy"), member) for member in members]
            return {name: _npy(archive, m, f"{name} in {path}") for name, m in wanted if name in names}
    except UnseeError:
        raise
    except Exception as error:  # zipfile and numpy, given arbitrary bytes, raise about anything
        found = str(error).partition("\n")[0] or type(error).__name__
        raise StoreError(f"a whole .npz file at {path}", found, "restore it or make it anew") from None


def _npy(archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str) -> np.ndarray:
    with archive.open(member) as stream:
        version = np.lib.format.read_magic(stream)
        if version not in _NPY_HEADERS:
            raise ValueError(f"{name} in version {version} of its format")
        shape, _, dtype = _NPY_HEADERS[version](stream)
        if dtype.hasobject:
            raise HostileError(f"numbers as {name}", "objects, which could run code", "save them as numbers")
        promised = stream.tell() + math.prod(shape) * dtype.itemsize
        if promised != member.file_size:
            raise HostileError(
                f"{promised:,} bytes as {name}, by its header", f"{member.file_size:,}", "do not use it"
            )
        stream.seek(0)
        return np.lib.format.read_array(stream, allow_pickle=False)
