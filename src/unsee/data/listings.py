"""Listings: a .csv or .tsv with a column for each image's file and one for its label.

Files are named relative to the listing's own folder and lie in it: no absolute path, no `..`, no
address, no link that leads out.
"""

import csv
import os
import unicodedata
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PureWindowsPath

from unsee.data.pictures import shown
from unsee.errors import InputError, StoreError, UnseeWarning

FILE_COLUMNS = ("file", "path", "image", "img", "filename", "file_name")
LABEL_COLUMNS = ("label", "class", "target", "y")
MOST_ROWS = 1_000_000
MOST_LISTED = 64 << 20  # bytes of a .csv
MOST_PATH = 1_024
_BESIDE = "put the images beside the listing and name them relative to it"


@dataclass(frozen=True, eq=False)
class Listing:
    """What a listing says: each image, as a file or as bytes and by name where it has one; its label.

    `classes` are the listing's own names for labels that are numbers. `images` may be read only once.
    """

    images: Iterable[tuple[str | None, Path | bytes]]
    labels: Sequence[str | int] | None = None
    classes: tuple[str, ...] = ()


def read_csv(path: Path, *, labelled: bool = True) -> Listing:
    """Return what a .csv (columns by commas or semicolons) or .tsv lists; UTF-8, a header on top.

    Where `labelled` is false, labels are known from elsewhere and their column is not read.
    """
    if path.stat().st_size > MOST_LISTED:
        found = f"{path.stat().st_size:,} bytes in {shown(path)}"
        raise InputError(f"a listing of at most {MOST_LISTED:,} bytes", found, "list fewer files")
    try:
        rows = list(islice(_rows(path), MOST_ROWS + 2))
    except UnicodeDecodeError as error:
        found = f"byte {error.object[error.start]:#04x} that is none"
        raise InputError(f"UTF-8 text in {shown(path)}", found, "save it as UTF-8") from None
    except csv.Error as error:
        raise InputError(f"plain rows of text in {shown(path)}", f"{error}", "save it as .csv anew") from None
    except OSError as error:
        raise StoreError(
            f"a readable file at {shown(path)}", f"{error.strerror}", "check its permissions"
        ) from None
    if len(rows) > MOST_ROWS + 1:
        raise InputError(f"at most {MOST_ROWS:,} rows in {shown(path)}", "more", "list fewer files")
    header, rows = (rows[0], rows[1:]) if rows else ([], [])
    columns = [column(header, FILE_COLUMNS, "file", path)]
    columns += [column(header, LABEL_COLUMNS, "label", path)] if labelled else []
    for number, row in enumerate(rows, 1):
        if len(row) != len(header):
            raise InputError(
                f"{len(header)} columns in {row_of(path, number)}",
                f"{len(row)}",
                "quote what holds a separator",
            )
    files, *labels = ([row[place].strip() for row in rows] for place in columns)
    return of_files(path, path.parent, files, labels[0] if labelled else None)


def of_files(path: Path, root: Path, files: Sequence[str], labels: Sequence[str | int] | None) -> Listing:
    """Return the listing at `path` of these files in `root`, each once and each of them there."""
    if not files:
        raise InputError(f"rows in {shown(path)}", "none", "list some files")
    first: dict[str, int] = {}
    found: list[tuple[str, Path]] = []
    for row, text in enumerate(files):
        name, file = inside(root, text, row_of(path, row + 1))
        if name not in first:
            first[name] = row
            found.append((name, file))
        elif labels is not None and labels[first[name]] != labels[row]:
            both = f"{labels[first[name]]!a} and {labels[row]!a} for {name!a}"
            raise InputError(f"one label a file in {shown(path)}", both[:300], "remove one of these rows")
    missing = [name for name, file in found if not is_file(file)]
    if missing:
        where = f"no file {few(missing)} in {shown(root)}"
        raise InputError(f"the files that {shown(path)} lists", where, _BESIDE)
    if len(found) < len(files):
        text = f"{len(files) - len(found):,} rows of {shown(path)} name a file again and are left out."
        warnings.warn(text, UnseeWarning, stacklevel=4)
    kept = [labels[row] for row in first.values()] if labels is not None else None
    return Listing(found, kept)


def inside(root: Path, text: str, where: str) -> tuple[str, Path]:
    """Return a file's name below `root` and its path, if it lies there whatever its name tries.

    >>> inside(Path("."), "cat/./1.png", "row 1")[0]
    'cat/1.png'
    """
    if len(text) > MOST_PATH or not text.strip() or any(unicodedata.category(c) == "Cc" for c in text):
        found = f"{text[:80]!a} ({len(text):,} characters)"
        raise InputError(f"a file's name of 1 to {MOST_PATH:,} characters in {where}", found, "mend that row")
    given = PureWindowsPath(text)  # which knows both slashes, drives and shares
    if given.drive or given.root or ".." in given.parts or "://" in text:
        found = f"{text[:80]!a}, which leads elsewhere"
        raise InputError(f"a file in {shown(root)} in {where}", found, _BESIDE)
    path = root.joinpath(*given.parts)
    if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root)):
        found = f"{text[:80]!a}, a link out of it"
        raise InputError(f"a file in {shown(root)} in {where}", found, "copy the file")
    return given.as_posix(), path


def column(found: Sequence[str], wanted: Sequence[str], what: str, path: Path) -> int:
    """Return the place of the first of the wanted columns; a stranger's capitals and blanks do not matter."""
    plain = [name.strip().casefold() for name in found]
    for name in wanted:
        if plain.count(name) > 1:
            raise InputError(
                f"one column {name} in {shown(path)}", f"{plain.count(name)}", "rename the others"
            )
        if name in plain:
            return plain.index(name)
    raise InputError(
        f"a column for the {what} ({', '.join(wanted)}) in {shown(path)}",
        few([name.strip() for name in found], 10) if found else "no columns",
        "rename the one that you mean" if found else "add them",
    )


def row_of(path: Path, number: int) -> str:
    """Return the place in a listing, for a message."""
    return f"{shown(path)}, row {number:,}"


def few(names: Sequence[str], most: int = 3) -> str:
    """Return the first names for a message, each short and printable, and how many more there are.

    >>> few(["cat", "dog", "bird", "cow"])
    'cat, dog, bird and 1 more'
    """
    first = [name if name.isprintable() and len(name) <= 80 else f"{name[:80]!a}" for name in names[:most]]
    return ", ".join(first) + (f" and {len(names) - most:,} more" if len(names) > most else "")


def _rows(path: Path) -> Iterator[list[str]]:
    with open(path, encoding="utf-8-sig", newline="") as file:
        head = file.readline(MOST_PATH)
        file.seek(0)
        # Spreadsheets write semicolons where the comma is taken by decimals.
        separator = "\t" if path.suffix.lower() == ".tsv" else ";" if ";" in head and "," not in head else ","
        yield from filter(None, csv.reader(file, delimiter=separator, strict=True))


def is_file(path: Path) -> bool:
    """Whether there is a regular file, whatever the path is like."""
    try:
        return path.is_file()
    except OSError:  # a name too long for the file system, say
        return False
