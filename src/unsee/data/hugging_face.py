"""Hugging Face data sets on the disk, as `save_to_disk` leaves them: JSON, and columns in Arrow's format.

Read by pyarrow and not by `datasets`, whose `load_from_disk` follows whatever paths and addresses the
folder's own files name, and calls what they name as a format. A stranger's columns may lie about where
their values are, or blow up when unpacked: each batch is validated first, and packed ones are refused.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from unsee.data.columnar import Table, features_of, inner, listing_of, load_pyarrow, whole
from unsee.data.listings import Listing, few, inside, is_file
from unsee.data.pictures import shown
from unsee.errors import InputError
from unsee.store import read_json

MOST_WORDS = 16 << 20  # bytes of JSON in a data set


def read_saved(folder: Path, *, labelled: bool = True) -> Listing:
    """Return what a data set that was saved with `save_to_disk` holds, the file of each part in turn."""
    pyarrow = load_pyarrow()
    state = _words(folder, "state.json")
    if state.get("_indices_data_files"):
        do = "call flatten_indices() and save it again"
        raise InputError(f"all rows in place in {shown(folder)}", "a list of indices beside them", do)
    given = state.get("_data_files")
    files = [inner(entry, "filename") for entry in given] if isinstance(given, list) else []
    if not files or not all(isinstance(file, str) for file in files):
        raise InputError(
            f"the names of data files in {shown(folder / 'state.json')}", "none", "save it again"
        )
    parts = [inside(folder, file, shown(folder / "state.json"))[1] for file in files]
    if missing := [file for file, part in zip(files, parts, strict=True) if not is_file(part)]:
        raise InputError(f"all parts of {shown(folder)}", f"no file {few(missing)}", "copy it whole")
    with whole(parts[0]), pyarrow.memory_map(str(parts[0])) as source:
        schema = pyarrow.ipc.read_schema(source)

    def batches(name: str) -> Iterator[Any]:
        for part in parts:
            yield from _unpacked(pyarrow, part, schema, name)

    features = features_of(_words(folder, "dataset_info.json"))
    return listing_of(Table(folder, folder, schema, features, batches), labelled)


def is_saved(folder: Path) -> bool:
    """Whether a folder is a data set, or several as one, saved by Hugging Face's datasets."""
    alone = all(is_file(folder / name) for name in ("state.json", "dataset_info.json"))
    return alone or is_file(folder / "dataset_dict.json")


def split_of(folder: Path, name: str | None) -> Path:
    """Return the folder of that split, or of the only one; a data set without splits is its own folder."""
    if not (folder / "dataset_dict.json").is_file():
        if name:
            raise InputError(f"splits in {shown(folder)}", "a data set without", f"leave out {name!a}")
        return folder
    splits = _words(folder, "dataset_dict.json").get("splits")
    splits = [split for split in splits if isinstance(split, str)] if isinstance(splits, list) else []
    if name is None and len(splits) == 1:
        name = splits[0]
    if name not in splits:
        found = f"{name!a}, of {few(splits, 10)}" if name else few(splits, 10) or "none"
        raise InputError(f"one split of {shown(folder)}", found, "end the path with :train, say")
    return inside(folder, name, shown(folder / "dataset_dict.json"))[1]


def _unpacked(pyarrow: Any, path: Path, schema: Any, name: str) -> Iterator[Any]:
    """Yield the batches of a stream of columns as they lie in the file, none of them packed."""
    with whole(path), pyarrow.memory_map(str(path)) as source:
        messages = iter(pyarrow.ipc.MessageReader.open_stream(source))
        if not pyarrow.ipc.read_schema(next(messages)).equals(schema):
            raise InputError(f"columns in {shown(path)} as in the first file", "others", "save it again")
        for message in messages:
            if message.type != "record batch" or _is_packed(message.metadata):
                found = "packed ones" if message.type == "record batch" else f"a {message.type}"
                raise InputError(f"plain columns in {shown(path)}", found, "save it again with datasets")
            yield pyarrow.ipc.read_record_batch(message, schema).select([name])


def _is_packed(message: Any) -> bool:
    """Whether a batch names a compression, by which a small file would take up all memory when read.

    pyarrow does not tell, so the flatbuffer is followed by hand: Message.header, RecordBatch.compression.
    """
    data = memoryview(message)

    def number(place: int, size: int, signed: bool = False) -> int:
        return int.from_bytes(data[place : place + size], "little", signed=signed)

    def slot(table: int, which: int) -> int:
        directory = table - number(table, 4, signed=True)
        place = 4 + 2 * which
        return (
            table + offset if place < number(directory, 2) and (offset := number(directory + place, 2)) else 0
        )

    header = slot(number(0, 4), 2)
    return slot(header + number(header, 4), 3) != 0


def _words(folder: Path, name: str) -> Mapping[str, Any]:
    _, path = inside(folder, name, shown(folder))
    if not path.is_file() or path.stat().st_size > MOST_WORDS:
        found = f"{path.stat().st_size:,}" if path.is_file() else "none"
        raise InputError(f"{name} of at most {MOST_WORDS:,} bytes in {shown(folder)}", found, "save it again")
    words = read_json(path)
    if not isinstance(words, dict):
        raise InputError(f"named values in {shown(path)}", f"a {type(words).__name__}", "save it again")
    return words
