"""The only writer of bytes: atomic, hashed, and nothing in a file is ever executed.

A file is written beside its final place, flushed to the disk and renamed over it, so that a reader
sees the old file or the new one and never a part. A tensor file is safetensors and carries the
SHA-256 of its own contents and metadata, checked on every read, because neither zip nor
safetensors notices a flipped bit.
"""

import contextlib
import errno
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from unsee.errors import HostileError, InputError, StoreError, UnseeError
from unsee.layout import in_order, in_parts, raw

FORMAT = 1
MOST_HEADER, MOST_TENSORS = 4 << 20, 20_000  # of a safetensors file: a large model has a twentieth of it
LEFT = 3600.0  # seconds after which nobody can still be writing it
_PART = ".part"
_PICKLES = {b"PK", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"}
_PICKLED = {".pth", ".pt", ".bin", ".pkl", ".pickle", ".ckpt", ".joblib"}


def write_bytes(path: Path | str, data: bytes) -> None:
    """Put `data` at `path`, whole or not at all; folders on the way are made."""
    _write(Path(path), [memoryview(data)])


def _write(path: Path, parts: Sequence[memoryview]) -> None:
    """Put the parts at `path`, one after the other, without ever holding them in one piece."""
    size = sum(map(len, parts))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        sweep(path, LEFT)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=_PART)
    except OSError as error:
        raise _unwritable(path, size, error) from None
    try:
        with os.fdopen(handle, "wb") as file:
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
        _sync_folder(path.parent)
    except OSError as error:
        raise _unwritable(path, size, error) from None
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


def sweep(path: Path, older: float = 0.0) -> None:
    """Remove what kills in the middle of a write of `path` have left, so many seconds ago or more."""
    before = time.time() - older
    for entry in os.scandir(path.parent) if path.parent.is_dir() else ():
        if entry.name.startswith(f".{path.name}.") and entry.name.endswith(_PART):
            with contextlib.suppress(OSError):
                if entry.stat(follow_symlinks=False).st_mtime <= before:
                    os.unlink(entry.path)


def rename(old: Path, new: Path) -> None:
    """Give a file another name, over whatever has that name."""
    try:
        os.replace(old, new)
    except OSError as error:
        raise _unwritable(new, old.stat().st_size, error) from None


def write_json(path: Path | str, value: Any) -> None:
    """Write `value` as JSON that people can read and diff."""
    write_bytes(path, (json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode())


def read_json(path: Path | str) -> Any:
    """Read a JSON file; a key that stands there twice is an error, not a silent choice."""
    try:
        return json.loads(_read(path), object_pairs_hook=_without_duplicates)
    except UnseeError:
        raise
    except (ValueError, RecursionError) as error:
        raise InputError("JSON", f"{path} with {error}", "mend that file") from None


def read_text(path: Path | str) -> str:
    """Read a file of UTF-8 text."""
    try:
        return _read(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"UTF-8 text in {path}", f"other bytes at {error.start}", "save it as UTF-8"
        ) from None


def write_tensors(path: Path | str, tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> None:
    """Write tensors with what `about` says of them, and the hash of both, as one safetensors file."""
    tensors = _apart(tensors)
    text = json.dumps({**about, "format": FORMAT}, allow_nan=False)
    # One entry holds both, because the library writes several in any order, and equal files should be equal.
    sealed = json.dumps({"about": text, "sha256": _seal(tensors, text)})
    _write(Path(path), in_parts(tensors, {"unsee": sealed}))


def read_tensors(path: Path | str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what `write_tensors` wrote; whatever was changed since then is a StoreError."""
    tensors, metadata = _read_safetensors(Path(path), StoreError)
    try:
        sealed = json.loads(metadata["unsee"])
        text, digest_then = str(sealed["about"]), str(sealed["sha256"])
    except (KeyError, TypeError, ValueError, RecursionError):
        raise StoreError(
            f"a file written by unsee at {path}",
            "safetensors without its seal",
            "give one that unsee wrote; weights of your own network are named in a case file (unsee init)",
        ) from None
    if _seal(tensors, text) != digest_then:
        raise StoreError(
            f"the contents {path} was sealed with", "other bytes", "restore the file or make it anew"
        )
    try:
        about = json.loads(text)
        format = int(about.pop("format"))
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        # Anyone can seal a file.
        raise StoreError(f"a file written by unsee at {path}", "other words in it", "do not use it") from None
    if format > FORMAT:
        raise InputError(f"format {FORMAT} or older in {path}", f"format {format}", "update unsee")
    return tensors, about


def read_foreign(path: Path | str) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read the tensors and the metadata of anyone's safetensors file; if it has our seal, that is checked."""
    path = Path(path)
    tensors, metadata = _read_safetensors(path, HostileError)
    if "unsee" in metadata:
        read_tensors(path)
    return tensors, metadata


def write_foreign(path: Path | str, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write tensors with the metadata that `read_foreign` gave; if our seal was on it, it is made anew."""
    if "unsee" in metadata:
        write_tensors(path, tensors, json.loads(json.loads(metadata["unsee"])["about"]))
    else:
        write_bytes(path, in_order(save(_apart(tensors), dict(metadata) or None)))


def under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors whose names begin so, by the rest of their names."""
    return {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}


def digest(tensors: Mapping[str, Tensor]) -> str:
    """Return the SHA-256 of names, shapes, types and values: what a model or a memory *is*."""
    total = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        head = json.dumps([name, list(tensor.shape), str(tensor.dtype)])
        total.update(head.encode())
        total.update(raw(tensor))
    return total.hexdigest()


def _read_safetensors(path: Path, kind: type[UnseeError]) -> tuple[dict[str, Tensor], dict[str, str]]:
    try:
        _refuse_pickles(path)
        _refuse_long_header(path, kind)
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            return {name: file.get_tensor(name) for name in file.keys()}, metadata  # noqa: SIM118
    except FileNotFoundError:
        raise InputError(f"a file at {path}", "none", "check the path") from None
    except (SafetensorError, OSError, ValueError, RuntimeError) as error:
        raise StoreError(
            f"a whole safetensors file at {path}", f"{error}", "restore it or make it anew"
        ) from None


def _refuse_long_header(path: Path, kind: type[UnseeError]) -> None:
    """Refuse a header that takes many times its length in memory; one longer than the file is merely cut."""
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = file.read(min(length, MOST_HEADER))
    if MOST_HEADER < length <= path.stat().st_size or header.count(b'"data_offsets"') > MOST_TENSORS:
        expected = f"a header of at most {MOST_HEADER:,} bytes and {MOST_TENSORS:,} tensors in {path}"
        raise kind(expected, "more", "do not use it")


def _seal(tensors: Mapping[str, Tensor], about: str) -> str:
    return hashlib.sha256(f"{digest(tensors)}{about}".encode()).hexdigest()


def _read(path: Path | str) -> bytes:
    path = Path(path)
    try:
        if path.exists() and not path.is_file():  # a device or a pipe need not end
            found = "something else, such as a folder or a pipe"
            raise InputError(f"a file at {path}", found, "check the path")
        return path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"a file at {path}", "none", "check the path") from None
    except OSError as error:
        raise StoreError(f"a readable file at {path}", f"{error.strerror}", "check its permissions") from None


def check_place(path: Path | str) -> None:
    """Refuse a place where no tensor file can go, before the work that would fill it."""
    path = Path(path)
    if path.suffix != ".safetensors":
        raise InputError("a file name that ends in .safetensors", f"{path.name}", "rename it")
    made = [folder for folder in (path.parent, *path.parent.parents) if not folder.exists()]
    write_bytes(path.parent / f".{path.name}.check", b"")
    (path.parent / f".{path.name}.check").unlink()
    for folder in made:  # what is refused later leaves nothing behind
        with contextlib.suppress(OSError):
            folder.rmdir()


def _apart(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors as safetensors takes them; of tied ones, each its own copy."""
    seen, apart = set(), {}
    for name, tensor in tensors.items():
        tensor = tensor.detach().cpu().contiguous()
        place = tensor.untyped_storage().data_ptr()
        apart[name] = tensor.clone() if place in seen else tensor
        seen.add(place)
    return apart


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _refuse_pickles(path: Path) -> None:
    """Refuse by name and by content: a pickle runs code when it is opened."""
    if path.exists() and not path.is_file():
        raise InputError(f"a file at {path}", "something else, such as a folder or a pipe", "check the path")
    with open(path, "rb") as file:
        head = file.read(9)
    # The length of a safetensors header may happen to read as a pickle's first bytes; a brace follows it.
    # Cut before that, it is broken, and too short for a pickle to do anything.
    pickled = head[8:] not in (b"{", b"") and head[:2] in _PICKLES
    if path.suffix in _PICKLED or pickled:
        raise HostileError(
            "safetensors",
            f"{path}, which may be a pickle and run code when opened",
            "export it as safetensors",
        )


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    for key, value in pairs:
        if key in seen:
            raise InputError("each key once", f"{key!r} twice", "remove one of them")
        seen[key] = value
    return seen


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _unwritable(path: Path, size: int, error: OSError) -> StoreError:
    found = f"{error.strerror} (nothing at that place was changed)"
    if isinstance(error, FileExistsError | NotADirectoryError):
        return StoreError(f"a folder at {path.parent}", found, "choose another folder")
    if isinstance(error, IsADirectoryError | PermissionError) or error.errno == errno.EROFS:
        return StoreError(f"a file that may be written at {path}", found, "choose another place")
    return StoreError(f"room for {size:,} bytes at {path}", found, "free space or choose another folder")
