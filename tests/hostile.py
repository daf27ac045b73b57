"""Files that want to run code, lie about their sizes or are broken, built from bytes: nothing here is run.

Each maker takes the path of the canary, a file that the hostile ones would make, and returns bytes. `SCANNED`
are refused before torch is there, `LOADED` only once torch has read them; with the error that each deserves.
"""

import io
import json
import os
import pickle
import struct
import zipfile
from collections.abc import Callable

import numpy as np
import torch
from torch import nn

from unsee.errors import HostileError, InputError, StoreError

Case = tuple[type[Exception], Callable[[str], bytes]]


def text(words: str) -> bytes:
    return b"X" + struct.pack("<I", len(words.encode())) + words.encode()


def whole(number: int) -> bytes:
    long = number.to_bytes(number.bit_length() // 8 + 1, "little", signed=True)
    return b"\x8a" + bytes([len(long)]) + long


def numbers(*values: int) -> bytes:
    return b"(" + b"".join(map(whole, values)) + b"t"


def tensor(size, stride, *, offset=0, declared=12, key="0", kind="Float", last=b"") -> bytes:
    """What torch.save pickles for a tensor, of any size and stride; `last` is for files of before 2020."""
    storage = b"(" + text("storage") + f"ctorch\n{kind}Storage\n".encode() + text(key) + text("cpu")
    return (
        b"ctorch._utils\n_rebuild_tensor_v2\n("
        + (storage + whole(declared) + last + b"tQ" + whole(offset) + numbers(*size) + numbers(*stride))
        + b"\x89ccollections\nOrderedDict\n)RtR"
    )


def saved(value: bytes, protocol: int = 2) -> bytes:
    """A pickle of {"w": value}."""
    return b"\x80" + bytes([protocol]) + b"}" + text("w") + value + b"s."


def zipped(pickled: bytes, *more: tuple[str, bytes], root="archive", method=zipfile.ZIP_STORED) -> bytes:
    """A zip as torch.save writes it, around any pickle, with 12 floats in data/0 and with `more` entries."""
    entries = [("data.pkl", pickled), ("byteorder", b"little"), ("data/0", bytes(48)), ("version", b"3\n")]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for path, data in [*((f"{root}/{path}", data) for path, data in entries), *more]:
            archive.writestr(path, data)
    return buffer.getvalue()


MAGIC = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."


def legacy(
    pickled: bytes, keys: bytes = b"\x80\x02].", data: bytes = b"", info: bytes = b"\x80\x02}."
) -> bytes:
    """A file as torch.save wrote it before 2020."""
    return MAGIC + b"\x80\x02M\xe9\x03." + info + pickled + keys + data


KEYS = b"\x80\x02]" + text("0") + b"a."
FLOATS = struct.pack("<q12f", 12, *range(12))
GOOD = zipped(saved(tensor([12], [1])))


def call(name: str, *arguments: str, protocol: int = 2) -> bytes:
    """A pickle that calls the named function when it is opened as pickles are."""
    module, _, function = name.rpartition(".")
    return saved(f"c{module}\n{function}\n(".encode() + b"".join(map(text, arguments)) + b"tR", protocol)


class Bomb:
    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def touch(canary: str) -> str:
    return f"touch {canary}"


def code(canary: str) -> str:
    return f"open({canary!r}, 'w')"


CALLS = {
    "os.system": touch,
    "posix.system": touch,
    "nt.system": touch,
    "subprocess.getoutput": touch,
    "subprocess.Popen": touch,
    "builtins.eval": code,
    "__builtin__.eval": code,
    "builtins.exec": code,
    "builtins.getattr": code,
    "builtins.__import__": code,
    "builtins.compile": code,
    "importlib.import_module": code,
    "pkgutil.resolve_name": lambda canary: "os:system",
    "runpy.run_path": lambda canary: canary,
    "timeit.timeit": code,
    "pty.spawn": touch,
    "code.interact": code,
    "marshal.loads": code,
    "types.CodeType": code,
    "operator.attrgetter": code,
    "functools.partial": code,
    "webbrowser.open": lambda canary: f"file://{canary}",
    "ctypes.CDLL": lambda canary: canary,
    "shutil.rmtree": lambda canary: canary,
    "torch.load": lambda canary: canary,
    "torch.hub.load": lambda canary: canary,
    "torch.storage._load_from_bytes": lambda canary: canary,
    "torch.jit.load": lambda canary: canary,
    "torch._utils._import_dotted_name": lambda canary: "os.system",
    "torch.serialization.load": lambda canary: canary,
    "numpy.load": lambda canary: canary,
    "numpy.core.multiarray._reconstruct": code,
    "argparse.Namespace": code,
    "collections.OrderedDict.fromkeys": code,
}


def module(kind: str = "zip") -> bytes:
    buffer = io.BytesIO()
    torch.save(nn.Sequential(nn.Linear(2, 2)), buffer, _use_new_zipfile_serialization=kind == "zip")
    return buffer.getvalue()


def torch_saved(value, **options) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer, **options)
    return buffer.getvalue()


def scripted() -> bytes:
    """What a TorchScript archive looks like from outside."""
    return zipped(saved(b"N"), ("archive/code/__torch__.py", b"x = 1"), ("archive/constants.pkl", b"."))


def replaced(data: bytes, old: bytes, new: bytes, which: int = -1) -> bytes:
    """The bytes with one occurrence of some replaced: the last, where the directory of a zip is."""
    parts = data.split(old)
    assert len(parts) > 1
    which %= len(parts) - 1
    return old.join(parts[: which + 1]) + new + old.join(parts[which + 1 :])


def patched(data: bytes, offset: int, value: int, length: int, record: bytes) -> bytes:
    """A zip with one field of its last such record changed."""
    at = data.rindex(record) + offset
    return data[:at] + value.to_bytes(length, "little") + data[at + length :]


def long_ended(data: bytes, **lies: int) -> bytes:
    """A zip with the end that torch.save writes, in 64 bits, which may lie."""
    *_, count, length, start, _ = struct.unpack("<4s4H2LH", data[-22:])
    told = {"count": count, "length": length, "start": start, "at": len(data) - 22, **lies}
    record = struct.pack(
        "<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, told["count"], told["count"], told["length"], told["start"]
    )
    return data[:-22] + record + struct.pack("<4sLQL", b"PK\6\7", 0, told["at"], 1) + data[-22:]


def saturated(data: bytes) -> bytes:
    """A zip whose end says that its numbers stand in the end of 64 bits."""
    return data[:-14] + b"\xff" * 12 + data[-2:]


def quoting() -> bytes:
    """An entry in the data of another, as in the zip bombs of which each byte counts many times."""
    inner = zipped(b"")
    local = inner[
        inner.index(b"archive/data/0") - 30 : inner.index(b"PK\3\4", inner.index(b"archive/data/0"))
    ]
    data = zipped(saved(b"N"), ("archive/data/2", local.replace(b"data/0", b"data/1")))
    twin = zipped(
        saved(b"N"), ("archive/data/2", local.replace(b"data/0", b"data/1")), ("archive/data/1", bytes(48))
    )
    entry = twin[twin.rindex(b"PK\1\2") : -22]
    start = data.index(local.replace(b"data/0", b"data/1"))
    entry = entry[:42] + start.to_bytes(4, "little") + entry[46:]
    data = data[:-22] + entry + data[-22:]
    for offset in (8, 10):
        data = patched(data, offset, 6, 2, b"PK\5\6")
    return patched(data, 12, len(data) - 22 - data.index(b"PK\1\2"), 4, b"PK\5\6")


def overlapping() -> bytes:
    """Two entries of a directory with the same data."""
    data = zipped(saved(tensor([12], [1])), ("archive/data/1", bytes(48)))
    first = data.rindex(b"PK\1\2", 0, data.rindex(b"archive/data/1"))
    at = data.index(b"archive/data/0") - 30
    return data[: first + 42] + at.to_bytes(4, "little") + data[first + 46 :]


def hidden() -> bytes:
    """An entry that lies in the file, but not in its directory."""
    data = zipped(saved(tensor([12], [1])), ("archive/x", b"hidden"))
    start = data.rindex(b"PK\1\2")
    shorter = data[:start] + data[-22:]
    shorter = patched(shorter, 8, 4, 2, b"PK\5\6")
    shorter = patched(shorter, 10, 4, 2, b"PK\5\6")
    length = start - data.index(b"PK\1\2")
    return patched(shorter, 12, length, 4, b"PK\5\6")


def appended(data: bytes, first: bytes = b"", last: bytes = b"", comment: bytes = b"") -> bytes:
    return first + data[:-2] + len(comment).to_bytes(2, "little") + comment + last


def doubled() -> bytes:
    """The same name twice, once each with another pickle."""
    return zipped(saved(b"N"), ("archive/data.PKL", call("os.system", "x"))).replace(b"data.PKL", b"data.pkl")


NAMES = {
    "absolute": "/etc/passwd",
    "parent": "archive/../../x",
    "parent at the end": "archive/..",
    "here": "archive/./x",
    "backslash": "archive\\x",
    "backslashes": "archive/..\\x",
    "control": "archive/\x1b[2J",
    "a folder": "archive/x/",
    "two slashes": "archive//x",
    "another root": "other/data.pkl",
    "no root": "data.pkl",
    "other case": "archive/DATA.PKL",
    "long s": "archive/ver\u017fion",
    "bidi": "archive/\u202ex",
}

SCANNED: dict[str, Case] = {
    **{
        f"{name} in a zip": (HostileError, lambda c, name=name, word=word: zipped(call(name, word(c))))
        for name, word in CALLS.items()
    },
    **{
        f"os.system, protocol {p}, {where}": (
            HostileError,
            lambda c, p=p, wrap=wrap: wrap(pickle.dumps(Bomb(os.system, touch(c)), p)),
        )
        for p in range(6)
        for where, wrap in {"bare": bytes, "zip": zipped, "legacy": legacy}.items()
    },
    "legacy, in the magic number's place": (HostileError, lambda c: call("os.system", touch(c))),
    "legacy, in the machine's place": (
        HostileError,
        lambda c: legacy(saved(b"N"), info=call("os.system", touch(c))),
    ),
    "legacy, in the keys' place": (HostileError, lambda c: legacy(saved(b"N"), call("os.system", touch(c)))),
    "INST": (HostileError, lambda c: zipped(b"(S'touch " + c.encode() + b"'\nios\nsystem\n.")),
    "OBJ": (HostileError, lambda c: zipped(b"(cos\nsystem\n" + text(touch(c)) + b"o.")),
    "EXT1": (HostileError, lambda c: zipped(saved(b"\x82\x01"))),
    "PERSID": (HostileError, lambda c: zipped(saved(b"Pos.system\n"))),
    "STACK_GLOBAL": (
        HostileError,
        lambda c: zipped(b"\x80\x04" + text("os") + text("system") + b"\x93" + text(touch(c)) + b"\x85R."),
    ),
    "called after the rest": (
        HostileError,
        lambda c: zipped(saved(tensor([12], [1]))[:-1] + b"cos\nsystem\n" + text(touch(c)) + b"\x85R0."),
    ),
    "built": (HostileError, lambda c: zipped(saved(b"cos\nsystem\n" + text(touch(c)) + b"b"))),
    "newly made": (HostileError, lambda c: zipped(saved(b"cos\nsystem\n" + text(touch(c)) + b"\x85\x81"))),
    "a name with spaces": (HostileError, lambda c: zipped(saved(b"ctorch Size\n\n)R"))),
    "protocol 255": (HostileError, lambda c: zipped(b"\x80\xff" + pickle.dumps(Bomb(eval, code(c)), 4)[2:])),
    "a pickled module": (HostileError, lambda c: module()),
    "a pickled module, legacy": (HostileError, lambda c: module("legacy")),
    "TorchScript": (HostileError, lambda c: scripted()),
    "deflated": (HostileError, lambda c: zipped(saved(tensor([12], [1])), method=zipfile.ZIP_DEFLATED)),
    "bzip2": (HostileError, lambda c: zipped(saved(tensor([12], [1])), method=zipfile.ZIP_BZIP2)),
    "lzma": (HostileError, lambda c: zipped(saved(tensor([12], [1])), method=zipfile.ZIP_LZMA)),
    "a bomb": (
        HostileError,
        lambda c: zipped(saved(b"N"), ("archive/data/1", bytes(10 << 20)), method=zipfile.ZIP_DEFLATED),
    ),
    "encrypted": (HostileError, lambda c: patched(GOOD, 8, 1, 2, b"PK\1\2")),
    "one name twice": (HostileError, lambda c: doubled()),
    **{
        f"a name: {what}": (HostileError, lambda c, path=path: zipped(saved(tensor([12], [1])), (path, b"x")))
        for what, path in NAMES.items()
    },
    "a name with a zero": (HostileError, lambda c: GOOD.replace(b"archive/version", b"archive/versio\0")),
    "a name that only the directory has": (HostileError, lambda c: replaced(GOOD, b"version", b"Version")),
    "4 GB declared": (HostileError, lambda c: patched(GOOD, 24, 2**32 - 2, 4, b"PK\1\2")),
    "2^60 bytes declared": (HostileError, lambda c: saturated(long_ended(GOOD, length=2**60))),
    "a directory elsewhere": (HostileError, lambda c: patched(GOOD, 16, 0, 4, b"PK\5\6")),
    "one entry too many": (
        HostileError,
        lambda c: patched(patched(GOOD, 8, 9, 2, b"PK\5\6"), 10, 9, 2, b"PK\5\6"),
    ),
    "no entries": (HostileError, lambda c: b"PK\3\4" + b"PK\5\6" + bytes(18)),
    "two ends that differ": (HostileError, lambda c: long_ended(GOOD, count=3)),
    "an end elsewhere": (HostileError, lambda c: long_ended(GOOD, at=0)),
    "entries that overlap": (HostileError, lambda c: overlapping()),
    "an entry within another": (HostileError, lambda c: quoting()),
    "an entry that is hidden": (HostileError, lambda c: hidden()),
    "a zip behind a zip": (HostileError, lambda c: GOOD + GOOD),
    "bytes before it": (HostileError, lambda c: appended(GOOD, first=b"PK\3\4")),
    "a comment": (StoreError, lambda c: appended(GOOD, comment=b"hello")),
    "bytes behind it": (StoreError, lambda c: appended(GOOD, last=b"hello")),
    "a flipped bit": (StoreError, lambda c: GOOD.replace(bytes(48), bytes(47) + b"\1")),
    "two million operations": (HostileError, lambda c: zipped(b"\x80\x02" + b"N" * 2_000_001 + b".")),
    "17 million bytes": (HostileError, lambda c: zipped(saved(text("x" * (17 << 20))))),
    "a string of 4 GB": (StoreError, lambda c: zipped(b"\x80\x02X\xff\xff\xff\xffhello.")),
    "a string of 4 GB, legacy": (StoreError, lambda c: legacy(b"\x80\x02X\xff\xff\xff\xffhello.")),
    "a pickle without end": (StoreError, lambda c: zipped(saved(b"N")[:-1])),
    "an empty pickle": (StoreError, lambda c: zipped(b"")),
    "three pickles": (StoreError, lambda c: legacy(saved(b"N"), keys=b"")[:-1]),
    "no pickle": (InputError, lambda c: zipped(b"").replace(b"data.pkl", b"data.pk1")),
    "sparse": (InputError, lambda c: torch_saved({"w": torch.eye(3).to_sparse()})),
    "meta": (InputError, lambda c: torch_saved({"w": torch.empty(3, device="meta")})),
    "complex": (InputError, lambda c: torch_saved({"w": torch.zeros(3, dtype=torch.complex64)})),
    "float8": (InputError, lambda c: torch_saved({"w": torch.zeros(3).to(torch.float8_e4m3fn)})),
    "bytes beside it": (InputError, lambda c: torch_saved({"w": torch.zeros(3), "key": b"\xff"})),
    "a set beside it": (InputError, lambda c: torch_saved({"w": torch.zeros(3), "key": {1, 2}})),
    "protocol 5 of torch.save": (
        HostileError,
        lambda c: torch_saved({"w": torch.zeros(3)}, pickle_protocol=5),
    ),
    "empty": (StoreError, lambda c: b""),
    "one byte": (StoreError, lambda c: b"P"),
    "zeros": (StoreError, lambda c: bytes(10_000)),
    "random": (StoreError, lambda c: bytes(range(255, -1, -1)) * 20),
    "HTML": (StoreError, lambda c: b"<!doctype html><title>404</title>"),
    "safetensors": (InputError, lambda c: (8).to_bytes(8, "little") + b"{}      "),
}


def nested(depth: int) -> bytes:
    return saved(b"]" * depth + b"a" * (depth - 1))


def laughs(levels: int) -> bytes:
    """A list of two lists of two lists..., of which each is there once."""
    inner = b"]q\0"
    for level in range(levels):
        inner += b"](h" + bytes([level]) + b"h" + bytes([level]) + b"eq" + bytes([level + 1])
    return b"\x80\x02" + inner + b"."


def overlapping_views() -> bytes:
    """Thirty tensors that have nearly all of their numbers in common, and would be thirty copies."""
    views = (tensor([4000 - i], [1], declared=4000, key="1") for i in range(30))
    return zipped(saved(b"](" + b"".join(views) + b"e"), ("archive/data/1", bytes(16_000)))


LOADED: dict[str, Case] = {
    "stride 0": (HostileError, lambda c: zipped(saved(tensor([10**11], [0])))),
    "stride 0 in two dimensions": (HostileError, lambda c: zipped(saved(tensor([10**6, 10**6], [0, 0])))),
    "2^80 numbers": (HostileError, lambda c: zipped(saved(tensor([2**40, 2**40], [0, 0])))),
    "more than there are": (HostileError, lambda c: zipped(saved(tensor([24], [1])))),
    "more than there are, twice said": (
        HostileError,
        lambda c: zipped(saved(tensor([24], [1], declared=24))),
    ),
    "fewer than there are": (HostileError, lambda c: zipped(saved(tensor([6], [1], declared=6)))),
    "4 TB declared": (HostileError, lambda c: zipped(saved(tensor([12], [1], declared=10**12)))),
    "a step too far": (HostileError, lambda c: zipped(saved(tensor([12], [10**6])))),
    "from before the start": (HostileError, lambda c: zipped(saved(tensor([3], [1], offset=-2)))),
    "backwards": (HostileError, lambda c: zipped(saved(tensor([12], [-1], offset=11)))),
    "of negative size": (HostileError, lambda c: zipped(saved(tensor([-1], [1])))),
    "of another type": (HostileError, lambda c: zipped(saved(tensor([12], [1], kind="Double")))),
    "numbers that are elsewhere": (
        HostileError,
        lambda c: zipped(saved(tensor([12], [1], key="../data.pkl"))),
    ),
    "numbers that are not there": (HostileError, lambda c: zipped(saved(tensor([12], [1], key="7")))),
    "views that overlap": (HostileError, lambda c: overlapping_views()),
    "legacy, 4 GB declared": (
        HostileError,
        lambda c: legacy(saved(tensor([12], [1], declared=10**9, last=b"N"))),
    ),
    "legacy, 4 TB declared": (
        HostileError,
        lambda c: legacy(saved(tensor([12], [1], declared=10**12, last=b"N"))),
    ),
    "legacy, numbers left out": (HostileError, lambda c: legacy(saved(tensor([12], [1], last=b"N")))),
    "legacy, numbers cut": (
        StoreError,
        lambda c: legacy(saved(tensor([12], [1], last=b"N")), KEYS, FLOATS[:-5]),
    ),
    "legacy, another length": (
        StoreError,
        lambda c: legacy(saved(tensor([12], [1], last=b"N")), KEYS, struct.pack("<q", 2**61) + FLOATS[8:]),
    ),
    "legacy, stride 0": (
        HostileError,
        lambda c: legacy(saved(tensor([10**11], [0], last=b"N")), KEYS, FLOATS),
    ),
    "100,000 lists deep": (HostileError, lambda c: zipped(nested(100_000))),
    "a list in itself": (HostileError, lambda c: zipped(saved(b"]q\0h\0a"))),
    "a billion laughs": (HostileError, lambda c: zipped(laughs(30))),
    "text that is called": (
        HostileError,
        lambda c: zipped(saved(text("os.system") + text(touch(c)) + b"\x85R")),
    ),
    "an empty stack": (HostileError, lambda c: zipped(b"\x80\x02.")),
    "a memory that is not there": (HostileError, lambda c: zipped(saved(b"h\x07"))),
    "a list as key": (HostileError, lambda c: zipped(b"\x80\x02}]Ns.")),
    "a long number as key": (InputError, lambda c: zipped(b"\x80\x02}" + whole(2**200) + b"Ns.")),
    "a tuple as key": (InputError, lambda c: zipped(b"\x80\x02}K\1K\2\x86Ns.")),
    "methods replaced": (
        InputError,
        lambda c: zipped(saved(b"ccollections\nOrderedDict\n)R}" + text("items") + b"Nsb")),
    ),
    "a class as value": (InputError, lambda c: zipped(saved(b"ccollections\nOrderedDict\n"))),
    "a storage as value": (
        InputError,
        lambda c: zipped(
            saved(
                b"("
                + text("storage")
                + b"ctorch\nFloatStorage\n"
                + text("0")
                + text("cpu")
                + whole(12)
                + b"tQ"
            )
        ),
    ),
    "another storage's type": (
        HostileError,
        lambda c: zipped(
            saved(
                b"("
                + text("storage")
                + b"ccollections\nOrderedDict\n"
                + text("0")
                + text("cpu")
                + whole(12)
                + b"tQ"
            )
        ),
    ),
    "half a character": (
        InputError,
        lambda c: zipped(b"\x80\x02}X\x03\0\0\0\xed\xa0\x80" + tensor([12], [1]) + b"s."),
    ),
}


def header(words, data=b"", length=None):
    text = words if isinstance(words, bytes) else json.dumps(words).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def one(**changes):
    return {"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], **changes}}


EIGHT = struct.pack("<2f", 1, 2)
SAFETENSORS = {
    "empty": (StoreError, b""),
    "seven bytes": (StoreError, bytes(7)),
    "zeros": (StoreError, bytes(100)),
    "random": (StoreError, np.random.default_rng(0).bytes(1000)),
    "a pickle": (HostileError, call("os.system", "true")),
    "a checkpoint": (HostileError, GOOD),
    "a bomb under a header's length": (HostileError, b"\x80\x04cos\nsystem\n."),
    "a length beyond the file": (StoreError, header(one(), EIGHT, length=10**6)),
    "a length of 2^63": (StoreError, header(one(), EIGHT, length=2**63)),
    "a length of all ones": (StoreError, header(one(), EIGHT, length=2**64 - 1)),
    "no header": (StoreError, header(b"", EIGHT)),
    "no JSON": (StoreError, header(b"{'w': 1}", EIGHT)),
    "JSON of something else": (StoreError, header([1, 2], EIGHT)),
    "100,000 lists deep": (StoreError, header(b"{" + b'"a":[' * 100_000, EIGHT)),
    "text that is no UTF-8": (StoreError, header(b'{"\xff": 1}', EIGHT)),
    "cut numbers": (StoreError, header(one(), EIGHT[:-1])),
    "more numbers": (StoreError, header(one(), EIGHT + b"x")),
    "a shape too large": (StoreError, header(one(shape=[10**11]), EIGHT)),
    "a shape that overflows": (StoreError, header(one(shape=[2**62, 2**62]), EIGHT)),
    "a negative shape": (StoreError, header(one(shape=[-2]), EIGHT)),
    "offsets too far": (StoreError, header(one(data_offsets=[0, 10**12]), EIGHT)),
    "offsets backwards": (StoreError, header(one(data_offsets=[8, 0]), EIGHT)),
    "a hole": (StoreError, header(one(data_offsets=[8, 16]), EIGHT * 2)),
    "tensors that overlap": (StoreError, header({**one(), "v": one()["w"]}, EIGHT)),
    "another type": (StoreError, header(one(dtype="F31"), EIGHT)),
    "one name twice": (
        StoreError,
        header(b'{"w":%s,"w":%s}' % ((json.dumps(one()["w"]).encode(),) * 2), EIGHT * 2),
    ),
    "metadata that is no text": (StoreError, header({"__metadata__": {"a": 1}, **one()}, EIGHT)),
    "a header of 11 million bytes": (
        HostileError,
        header(json.dumps(one()).encode() + b" " * (11 << 20), EIGHT),
    ),
    "30,000 tensors": (
        HostileError,
        header({f"w{i}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for i in range(30_000)}),
    ),
    "250,000 words": (
        InputError,
        header({"__metadata__": {str(i): "" for i in range(250_000)}}),
    ),
    "no tensors": (InputError, header({})),
    "complex numbers": (InputError, header(one(dtype="C64", shape=[1]), EIGHT)),
    "numbers of 8 bits": (InputError, header(one(dtype="F8_E4M3", shape=[8]), EIGHT)),
    "a NaN": (InputError, header(one(), struct.pack("<2f", 1, float("nan")))),
    "an Inf in half": (
        InputError,
        header(one(dtype="F16", shape=[4]), struct.pack("<4e", 1, 2, 3, float("inf"))),
    ),
    "a name that steers": (InputError, header({"\x1b[2J": one()["w"]}, EIGHT)),
    "a seal that is none": (StoreError, header({"__metadata__": {"unsee": "{}"}, **one()}, EIGHT)),
}
