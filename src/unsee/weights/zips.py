"""A zip as torch.save writes it, and no other: stored entries in one folder, one behind the other.

Scanners are fooled by files that two programs read in two ways: two directories, names that differ by case,
entries that overlap or that no directory lists. So nothing is accepted here that could be read in two ways:
each byte belongs to one entry, to what describes it, or to the one directory at the end.
No memory is taken by what the file says, only by how long it really is.
"""

import re
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import BinaryIO

from unsee.errors import HostileError, StoreError

MOST_DIRECTORY = 16 << 20  # bytes, for about 200,000 entries

_END, _ENTRY, _LOCAL = struct.Struct("<4s4H2LH"), struct.Struct("<4s6H3L5H2L"), struct.Struct("<4s5H3L2H")
_END_64, _LOCATOR = struct.Struct("<4sQ2H2L4Q"), struct.Struct("<4sLQL")
_ENDS = _END_64.size + _LOCATOR.size + _END.size
_SHORT, _LONG = 0xFFFF, 0xFFFFFFFF  # a number that did not fit and stands in a longer field elsewhere
_DESCRIBED, _UTF_8 = 1 << 3, 1 << 11  # flags: sizes follow the data, as torch.save has it; names are UTF-8
_DESCRIPTOR = 24
_CHUNK = 1 << 20

_PATH = re.compile(r"(/(?!\.\.?(/|$))[A-Za-z0-9_.-]+)+")


@dataclass(frozen=True)
class Entry:
    """What the directory says of an entry; `begin` is where its data begins."""

    name: bytes
    flags: int
    method: int
    check: int
    size: int
    start: int
    begin: int = 0


@dataclass(frozen=True)
class Listing:
    """The entries by their paths in the zip's one folder, and where the directory that lists them starts."""

    entries: dict[str, Entry]
    start: int


def listing(file: BinaryIO, size: int, name: str) -> Listing:
    """Return what the directory of a zip lists; `name` is what messages call the file."""
    listed, start = _directory(file, size, name)
    root = listed[0].name.partition(b"/")[0]
    entries = {_path(entry, root, name): entry for entry in listed}
    # torch finds an entry whatever the case of its name.
    if len({path.lower() for path in entries}) < len(listed):
        raise _trick("each name once", "one twice", name)
    return Listing(entries, start)


def checked(file: BinaryIO, listed: Listing, name: str) -> dict[str, Entry]:
    """Return the entries with their places, once all are whole and lie one behind the other.

    The checksums are compared, which torch leaves out.
    """
    paths = {entry.name: path for path, entry in listed.entries.items()}
    laid_out = list(_laid_out(file, listed, name))
    for entry in laid_out:
        if _checksum(file, entry) != entry.check:
            do = "restore it or save it again with torch.save"
            raise StoreError(f"{paths[entry.name]} in {name} as it was written", "other bytes", do)
    return {paths[entry.name]: entry for entry in laid_out}


def read(file: BinaryIO, entry: Entry) -> bytes:
    """Return the data of an entry."""
    return _at(file, entry.begin, entry.size)


def _directory(file: BinaryIO, size: int, name: str) -> tuple[list[Entry], int]:
    """Return the entries that the directory lists, and where it starts."""
    tail = _at(file, max(size - _ENDS, 0), _ENDS)
    magic, disk, disk_too, here, count, length, start, comment = _END.unpack(tail[-_END.size :].rjust(22))
    if magic != b"PK\5\6" or comment:
        raise StoreError(f"a whole zip in {name}", "one without its end", "restore it or save it again")
    end, short = size - _END.size, (here, count, length, start)
    if len(tail) == _ENDS and tail[-42:-38] == b"PK\6\7":
        end, (_, _, at, _) = size - _ENDS, _LOCATOR.unpack(tail[-42:-22])
        magic, _, _, _, disk, disk_too, here, count, length, start = _END_64.unpack(tail[: _END_64.size])
        both = zip(short, (here, count, length, start), (_SHORT, _SHORT, _LONG, _LONG), strict=True)
        if magic != b"PK\6\6" or at != end or not all(s in (long, most) for s, long, most in both):
            raise _trick("one end of the directory", "two that differ", name)
    if disk or disk_too or here != count or length > MOST_DIRECTORY or start + length != end:
        raise _trick(f"a directory of at most {MOST_DIRECTORY:,} bytes just before its end", "another", name)
    try:
        listed = list(_listed(_at(file, start, length)))
    except (struct.error, ValueError):
        raise _trick("a directory that can be read in one way", "another", name) from None
    if not listed or len(listed) != count:
        raise _trick(f"{count or 'some'} entries", f"{len(listed)}", name)
    return listed, start


def _listed(directory: bytes) -> Iterator[Entry]:
    at = 0
    while at < len(directory):
        magic, _, _, flags, method, _, _, check, packed, size, named, extra, comment, disk, _, _, start = (
            _ENTRY.unpack_from(directory, at)
        )
        at += _ENTRY.size + named + extra
        if magic != b"PK\1\2" or comment or disk or at > len(directory):
            raise ValueError
        long = _long_numbers(directory[at - extra : at])
        size, packed, start = (long.pop(0) if n == _LONG and long else n for n in (size, packed, start))
        if long or (packed != size and not method):
            raise ValueError
        yield Entry(directory[at - extra - named : at - extra], flags, method, check, size, start)


def _long_numbers(extra: bytes) -> list[int]:
    """Return the numbers of 64 bits: the first field of kind 1, and there must be no second."""
    at, fields = 0, []
    while at < len(extra):
        kind, length = struct.unpack_from("<2H", extra, at)
        at += 4 + length
        fields += [extra[at - length : at]] if kind == 1 else []
    if at != len(extra) or len(fields) > 1:
        raise ValueError
    return [number for (number,) in struct.iter_unpack("<Q", b"".join(fields))]


def _laid_out(file: BinaryIO, listed: Listing, name: str) -> Iterator[Entry]:
    """Yield the entries in the order of the file, once each stands where the one before it ends."""
    at = gap = 0
    for entry in sorted(listed.entries.values(), key=lambda entry: entry.start):
        if entry.method or entry.flags & ~(_DESCRIBED | _UTF_8):
            raise _trick("entries that are stored as they are", "a compressed or encrypted one", name)
        local = _at(file, entry.start, _LOCAL.size + len(entry.name))
        magic, _, flags, method, *_, named, extra = _LOCAL.unpack(local[: _LOCAL.size].ljust(_LOCAL.size))
        told = (magic, flags, method, named, local[_LOCAL.size :])
        if told != (b"PK\3\4", entry.flags, 0, len(entry.name), entry.name):
            raise _trick("entries as the directory has them", "another", name)
        if not at <= entry.start <= at + gap:
            raise _trick("entries one behind the other", "a gap or an overlap", name)
        yield replace(entry, begin=entry.start + _LOCAL.size + named + extra)
        at = entry.start + _LOCAL.size + named + extra + entry.size
        gap = _DESCRIPTOR if entry.flags & _DESCRIBED else 0
    if not at <= listed.start <= at + gap:
        raise _trick("entries up to the directory", "a gap or an overlap", name)


def _path(entry: Entry, root: bytes, name: str) -> str:
    path = entry.name.removeprefix(root).decode("utf-8", "replace")
    if root in (b"", b".", b"..") or b"\\" in root or not entry.name.startswith(root + b"/"):
        raise _trick("one folder", "another path", name)
    if not _PATH.fullmatch(path):
        raise _trick("entries of plain names", ascii(path[:80]), name)
    return path[1:]


def _checksum(file: BinaryIO, entry: Entry) -> int:
    check, left = 0, entry.size
    file.seek(entry.begin)
    while left and (chunk := file.read(min(_CHUNK, left))):
        check, left = zlib.crc32(chunk, check), left - len(chunk)
    return check


def _at(file: BinaryIO, start: int, length: int) -> bytes:
    file.seek(start)
    return file.read(length)


def _trick(expected: str, found: str, name: str) -> HostileError:
    return HostileError(f"in {name} a zip as torch.save writes it, with {expected}", found, "do not use it")
