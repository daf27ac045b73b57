"""Columns of images and labels, such as .parquet files: read by pyarrow, a value at a time.

Images come as bytes to the door that image files come through. What is not covered: a .parquet whose
footer lies about sizes may take up much memory before it is refused.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from unsee.data.listings import (
    FILE_COLUMNS,
    LABEL_COLUMNS,
    MOST_PATH,
    MOST_ROWS,
    Listing,
    column,
    inside,
    of_files,
    row_of,
)
from unsee.data.pictures import class_name, shown
from unsee.datasets import MOST_CLASSES
from unsee.errors import InputError, StoreError, UnseeError

MOST_BATCH = 256 << 20  # bytes that a batch may grow to where one packed value is repeated all over it
_TEXT = {"string", "large_string", "string_view"}
_BYTES = {"binary", "large_binary", "binary_view"}
_WHOLE = {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}


@dataclass(frozen=True, eq=False)
class Table:
    """A table on the disk: its columns' names and types, what is said of them, the batches of one of them.

    Files that it names lie in `root`.
    """

    path: Path
    root: Path
    schema: Any
    features: Mapping[str, Any]
    batches: Callable[[str], Iterator[Any]]

    def values(self, name: str) -> Iterator[Any]:
        """Yield a column's values one at a time: copies of a whole batch may outgrow the memory."""
        row = 0
        for batch in self.batches(name):
            with whole(self.path):
                batch.validate(full=True)  # a stranger's offsets may point anywhere
            for scalar in batch.column(0):
                row += 1
                _check_rows(row, self.path)
                with whole(self.path):
                    value = scalar.as_py()
                yield value


def read_parquet(path: Path, *, labelled: bool = True) -> Listing:
    """Return what a .parquet lists: images as bytes, or the names of files beside it, and labels."""
    pyarrow = load_pyarrow()
    with whole(path), pyarrow.parquet.ParquetFile(pyarrow.OSFile(str(path))) as file:
        schema, footer = file.schema_arrow, file.metadata
        _check_rows(footer.num_rows, path)
        about = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
        groups = map(footer.row_group, range(footer.num_row_groups))
        largest = max((group.total_byte_size for group in groups), default=0)

    def batches(name: str) -> Iterator[Any]:
        rows = max(1, min(16, MOST_BATCH // max(largest, 1)))
        with whole(path), pyarrow.parquet.ParquetFile(pyarrow.OSFile(str(path))) as file:
            yield from file.iter_batches(rows, columns=[name])

    return listing_of(Table(path, path.parent, schema, features_of(inner(about, "info")), batches), labelled)


def listing_of(table: Table, labelled: bool) -> Listing:
    """Return what a table lists in its columns for the image and for the label."""
    with whole(table.path):  # even a column's name may be broken
        return _listing(table, labelled)


def _listing(table: Table, labelled: bool) -> Listing:
    names = table.schema.names
    labels, classes = None, ()
    if labelled:
        place = column(names, LABEL_COLUMNS, "label", table.path)
        labels = _labels(table, names[place], table.schema.types[place])
        classes = _classes(table.features.get(names[place]), table.path) if isinstance(labels[0], int) else ()
    held = [name for name, kind in zip(names, table.schema.types, strict=True) if _holds_bytes(kind)]
    known = [name for name in held if name.strip().casefold() in FILE_COLUMNS] or names
    name = known[column(known, FILE_COLUMNS, "image", table.path)]
    kind = table.schema.types[names.index(name)]
    if _holds_bytes(kind):
        return Listing(_images(table, name), labels, classes)
    if _plain(kind) not in _TEXT:
        expected = f"image files, or their names, as {name.strip()} in {shown(table.path)}"
        raise InputError(expected, ascii(str(kind))[:80], "save images as PNG, or name their files")
    files = [_short(value, table.path, row) for row, value in enumerate(table.values(name), 1)]
    return replace(of_files(table.path, table.root, files, labels), classes=classes)


def _labels(table: Table, name: str, kind: Any) -> list[str | int]:
    if _plain(kind) not in _TEXT | _WHOLE:
        expected = f"names or whole numbers as {name.strip()} in {shown(table.path)}"
        raise InputError(expected, ascii(str(kind))[:80], "convert that column")
    labels = [_short(value, table.path, row) for row, value in enumerate(table.values(name), 1)]
    if not labels:
        raise InputError(f"rows in {shown(table.path)}", "none", "add some")
    return labels


def _images(table: Table, name: str) -> Iterator[tuple[str | None, Path | bytes]]:
    for row, value in enumerate(table.values(name), 1):
        data, file = (value.get("bytes"), value.get("path")) if isinstance(value, dict) else (value, None)
        file = file if isinstance(file, str) and file else None
        if data is not None:
            yield file and file[-MOST_PATH:], data
        elif file:
            yield inside(table.root, file, row_of(table.path, row))
        else:
            raise InputError(f"an image in {row_of(table.path, row)}", "none", "remove that row")


def _short(value: Any, path: Path, row: int) -> Any:
    if value is None or (isinstance(value, str) and len(value) > MOST_PATH):
        found = "none" if value is None else f"{len(value):,} characters"
        raise InputError(f"a short text or a number in {row_of(path, row)}", found, "mend that row")
    return value.strip() if isinstance(value, str) else value


def _classes(feature: Any, path: Path) -> tuple[str, ...]:
    if inner(feature, "_type") != "ClassLabel" or (names := feature.get("names")) is None:
        return ()
    usable = isinstance(names, list) and all(isinstance(name, str) for name in names)
    if not usable or not 0 < len(set(names)) == len(names) <= MOST_CLASSES:
        raise InputError(
            f"class names, each once, in {shown(path)}", "something else", "name the classes anew"
        )
    return tuple(class_name(name) for name in names)


def features_of(words: Any) -> Mapping[str, Any]:
    """Return what Hugging Face's words about a data set say of its columns, if they are as expected."""
    features = inner(words, "features")
    return features if isinstance(features, dict) else {}


def inner(words: Any, name: str) -> Any:
    """Return one of the named values of a stranger's JSON, or none."""
    return words.get(name) if isinstance(words, dict) else None


def _holds_bytes(kind: Any) -> bool:
    if str(kind).startswith("struct<"):
        return any(part.name == "bytes" and str(part.type) in _BYTES for part in kind)
    return _plain(kind) in _BYTES


def _plain(kind: Any) -> str:
    return str(kind.value_type if str(kind).startswith("dictionary<") else kind)


def _check_rows(rows: int, path: Path) -> None:
    if rows > MOST_ROWS:
        raise InputError(f"at most {MOST_ROWS:,} rows in {shown(path)}", "more", "take fewer")


@contextmanager
def whole(path: Path) -> Iterator[None]:
    """Turn whatever goes wrong in reading a file into one kind of error."""
    try:
        yield
    except UnseeError:
        raise
    except Exception as error:  # pyarrow, given arbitrary bytes, raises about anything
        found = ascii(str(error).partition("\n")[0][:200] or type(error).__name__)
        raise StoreError(f"whole columns in {shown(path)}", found, "restore it or make it anew") from None


def load_pyarrow() -> Any:
    """Return pyarrow, an extra, with its readers of both kinds of file."""
    try:
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError:
        found, do = "no pyarrow", "install it: pip install 'unsee[data]'"
        raise InputError("pyarrow, which reads parquet and Hugging Face data sets", found, do) from None
    return pyarrow
