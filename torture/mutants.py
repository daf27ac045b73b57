"""Mutants: files that were good once, with something changed."""

import copy
import random
from typing import Any

TOKENS = (
    b"\0", b"\xff", b"\0\0\0\0", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\0\0\0\x80",
    b"\xff" * 8, b"\0" * 8, b"PK\1\2", b"PK\3\4", b"PK\5\6", b"{", b"}", b'"', b"[", b"]", b",", b"\n", b"-1",
    b"1e999", b"99999999999999999999", b"NaN", b"../", b"\x1b[2J", "\u202e".encode(), b"\xed\xa0\x80", b"(",
    b"R", b"c", b"q\0", b"!!int ", b"!!float ", b"!!bool ", b"!!timestamp ", b"<<: ",
)  # fmt: skip
JUNK: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63), 10**30, 0.5, -0.5, 1e308, 1e-320, "", "x",
    "x" * 5000, "../../etc/passwd", "\x1b[2J", "\u202e", "\ud800", "0" * 64, "nan", "<script>", [], {}, [[]],
    [None] * 50, {"": ""}, {"x": {"x": {}}}, [0] * 300,
)  # fmt: skip


def mutated(data: bytes, chance: random.Random) -> bytes:
    """Return bytes with one to eight changes: flipped, set, cut, doubled, moved, or something put in."""
    data = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
        at = chance.randrange(len(data) + 1)
        length = chance.choice((1, 1, 2, 4, 8, 64, 512))
        how = chance.randrange(8)
        if how == 0 and data:
            data[at % len(data)] ^= 1 << chance.randrange(8)
        elif how == 1 and data:
            data[at % len(data)] = chance.randrange(256)
        elif how == 2:
            del data[at : at + length]
        elif how == 3:
            data[at:at] = data[at : at + length]
        elif how == 4:
            token = chance.choice(TOKENS)
            data[at : at + len(token)] = token
        elif how == 5:
            data[at:at] = chance.choice(TOKENS)
        elif how == 6:
            source = chance.randrange(len(data) + 1)
            data[at : at + length] = data[source : source + length]
        elif chance.random() < 0.3:
            del data[at:]
    return bytes(data)


def reworded(value: Any, chance: random.Random) -> Any:
    """Return words, as JSON has them, of which one or more are something else, gone or there twice."""
    value = copy.deepcopy(value)
    for _ in range(chance.choice((1, 1, 2, 4))):
        places = list(_places(value))
        if not places:
            return chance.choice(JUNK)
        holder, key = chance.choice(places)
        how = chance.randrange(5)
        if how == 0 and isinstance(holder, dict):
            del holder[key]
        elif how == 1 and isinstance(holder, dict):
            holder[chance.choice(("", "x", "format", "n", "\x1b", "__proto__"))] = holder[key]
        elif how == 2 and isinstance(holder, list):
            holder.insert(key, copy.deepcopy(holder[key]))
        else:
            holder[key] = copy.deepcopy(chance.choice(JUNK))
    return value


def _places(value: Any) -> Any:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield value, key
        yield from _places(inner)
