"""What a checkpoint would do when it is opened, found out without opening it.

torch.save writes a zip with `data.pkl`, a pickle that says which tensors there are, and their numbers in
`data/0`, `data/1` and so on. Before 2020 it wrote five pickles and then the numbers. A pickle is a program;
here its operations are read and none is carried out. Only the operations and names of a state dict pass.
Lists of what is forbidden instead have been got around many times.
"""

import io
import pickletools
import re
from typing import BinaryIO

from unsee.errors import HostileError, InputError, StoreError, UnseeError
from unsee.weights import zips

MOST_PICKLED = 16 << 20  # bytes; a thousand layers with their optimiser's state take less than one million
MOST_OPERATIONS = 2_000_000

_LEGACY = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
_STATE_DICT = "save model.state_dict() with torch.save instead"

_OPERATIONS = {
    "PROTO", "STOP", "MARK", "GLOBAL", "REDUCE", "NEWOBJ", "BUILD", "BINPERSID",
    "NONE", "NEWTRUE", "NEWFALSE", "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE",
    "SHORT_BINSTRING", "EMPTY_TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "TUPLE", "EMPTY_LIST", "APPEND",
    "APPENDS", "EMPTY_DICT", "SETITEM", "SETITEMS", "BINGET", "LONG_BINGET", "BINPUT", "LONG_BINPUT",
}  # fmt: skip
_KINDS = ("Float", "Half", "BFloat16", "Double", "Byte", "Char", "Short", "Int", "Long", "Bool")
_NAMES = {
    *(f"torch {kind}Storage" for kind in _KINDS),
    *(f"torch._utils _rebuild_{what}" for what in ("tensor", "tensor_v2", "parameter")),
    *("collections OrderedDict", "collections Counter", "torch Size"),
}
# Refused like all others, but for what it is and not as an attack.
_HARMLESS = re.compile(
    r"torch(\.storage|\.serialization)? (\w+Storage|u?int\d+|b?float\w+|complex\w+|bool|q\w+|per_\w+)"
    r"|torch\._utils _rebuild_(\w*tensor\w*|parameter_with_state|wrapper_subclass)|torch\._tensor _rebuild\w+"
    r"|torch device|torch\.serialization _get_layout|_codecs encode"
    r"|(__builtin__|builtins) (set|bytearray|complex)"
)


def scan(file: BinaryIO, name: str) -> int:
    """Refuse what is no checkpoint of tensors and plain values; return how many bytes of numbers it holds.

    `name` is what messages call the file.
    """
    size = file.seek(0, io.SEEK_END)
    file.seek(0)
    head = file.read(1024)
    if head.startswith(b"PK\3\4"):
        return _scan_zip(file, size, name)
    if head.startswith(_LEGACY):
        file.seek(0)
        pickles = io.BytesIO(file.read(MOST_PICKLED))
        for _ in range(5):  # a magic number, a version, the machine, what was saved, the order of the numbers
            _check_pickle(pickles, name)
        return size - pickles.tell()
    raise _neither(head, name)


def shown(text: object, most: int = 120) -> str:
    r"""Return text from a file for a message: not too long, and unable to steer a terminal.

    >>> print(shown("\x1b[2Jclear"))
    '\x1b[2Jclear'
    """
    text = str(text)
    text = text if len(text) <= most else text[:most] + "..."
    return text if text.isprintable() else ascii(text)


def _scan_zip(file: BinaryIO, size: int, name: str) -> int:
    listed = zips.listing(file, size, name)
    if any(path.startswith("code/") or path == "constants.pkl" for path in listed.entries):
        raise HostileError(f"a state dict in {name}", "TorchScript, which is code", _STATE_DICT)
    if "data.pkl" not in listed.entries:
        raise InputError(f"a checkpoint in {name}", "a zip that torch.save did not write", _STATE_DICT)
    if listed.entries["data.pkl"].size > MOST_PICKLED:
        expected = f"a pickle of at most {MOST_PICKLED:,} bytes in {name}"
        raise HostileError(expected, f"{listed.entries['data.pkl'].size:,}", _STATE_DICT)
    entries = zips.checked(file, listed, name)
    _check_pickle(io.BytesIO(zips.read(file, entries["data.pkl"])), name)
    return sum(entry.size for path, entry in entries.items() if path.startswith("data/"))


def _check_pickle(stream: io.BytesIO, name: str) -> None:
    """Go through the operations of the next pickle in a stream."""
    strange = set()
    try:
        for count, (operation, argument, _) in enumerate(pickletools.genops(stream)):
            if operation.name not in _OPERATIONS:
                found = f"a pickle that uses {operation.name}, which torch.save does not write by default"
                raise HostileError(f"tensors and plain values in {name}", found, _STATE_DICT)
            if count >= MOST_OPERATIONS:
                expected = f"a pickle of at most {MOST_OPERATIONS:,} operations in {name}"
                raise HostileError(expected, "more", _STATE_DICT)
            if operation.name == "GLOBAL" and argument not in _NAMES:
                strange.add(str(argument))
    except ValueError as error:
        found = f"a broken pickle ({shown(error)})"
        raise StoreError(f"a whole checkpoint in {name}", found, "restore it or save it again") from None
    if strange:
        raise _refused(strange, name)


def _refused(strange: set[str], name: str) -> UnseeError:
    hostile = sorted(word for word in strange if not _HARMLESS.fullmatch(word))
    words = shown(", ".join(word.replace(" ", ".") for word in hostile[:3] or sorted(strange)[:3]))
    if not hostile:
        expected = f"dense tensors of float and int types, and plain values, in {name}"
        return InputError(expected, words, "convert it, or save the state dict alone")
    if any(word.startswith("torch.nn.") for word in hostile):
        return HostileError(
            f"a state dict in {name}", f"a pickled module ({words}), which is code", _STATE_DICT
        )
    found = f"a pickle that would call {words}"
    return HostileError(f"tensors and plain values in {name}", found, f"do not open it, or {_STATE_DICT}")


def _neither(head: bytes, name: str) -> UnseeError:
    """Tell a pickle that torch.save did not write from what is no pickle at all."""
    if head[8:9] == b"{":
        return InputError(f"a checkpoint by torch.save in {name}", "safetensors", "name it .safetensors")
    operations = set()
    try:
        for operation, _, _ in pickletools.genops(head):
            operations.add(operation.name)
    except ValueError:
        pass
    if operations & {"PROTO", "GLOBAL", "INST", "STACK_GLOBAL", "REDUCE", "OBJ", "NEWOBJ"}:
        found = "a bare pickle, which may run code when it is opened"
        return HostileError(
            f"a checkpoint by torch.save in {name}", found, f"do not open it, or {_STATE_DICT}"
        )
    found = "nothing" if not head else "something else"
    return StoreError(f"a checkpoint by torch.save in {name}", found, "restore it or save it again")
