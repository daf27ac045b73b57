"""Words: what stands in a file that nobody vouches for, read with its place, and shown without tricks."""

import math
import unicodedata
from dataclasses import dataclass
from typing import Any

from unsee.errors import InputError

LONGEST = 160
_UNSEEN = {
    "Cc",
    "Cf",
    "Cs",
    "Co",
    "Cn",
    "Zl",
    "Zp",
}  # controls, bidi marks, halves of characters, private use
_MARKS = {"Mn", "Me"}
_PILED = 3  # marks on one letter that a language may need; a pile of them hides the lines around


def visible(text: str, most: int = LONGEST) -> str:
    r"""Return a name as a page may show it: what is unseen or steers its neighbours is spelt out.

    >>> visible("T-shirt"), visible("a\u202eb\x00"), visible("long " * 9, 12)
    ('T-shirt', 'a\\u202eb\\u0000', 'long long l…')
    """
    shown, piled = [], 0
    for letter in text[: most + 1]:
        kind = unicodedata.category(letter)
        piled = piled + 1 if kind in _MARKS else 0
        shown.append(f"\\u{ord(letter):04x}" if kind in _UNSEEN or piled > _PILED else letter)
    whole = "".join(shown)
    return whole if len(whole) <= most else whole[: most - 1] + "…"


class Name(str):
    """A part of a sentence that came from a file: shown cut short, and apart from its neighbours."""


class Symbol(str):
    """A part of a sentence that is one of the paper's symbols, such as D_r."""


Sentence = tuple[str, ...]


@dataclass(frozen=True)
class Words:
    """A value of a JSON file and the place where it stands; each question about it is answered or refused.

    >>> Words({"n": "many"}, "run.json").at("n").whole()
    Traceback (most recent call last):
    unsee.errors.InputError: Expected a whole number at n in run.json, found 'many': mend it or run anew.
    """

    value: Any
    file: str
    place: str = ""

    def refused(self, expected: str) -> InputError:
        """Return the error that says what should stand here, and what does."""
        where = f"at {self.place} in {self.file}" if self.place else f"in {self.file}"
        kinds = {dict: "an object", list: "a list"}
        found = kinds.get(type(self.value)) or ascii(self.value)[:80]
        return InputError(f"{expected} {where}", found, "mend it or run anew")

    def at(self, key: str) -> "Words":
        """Return what stands under a key."""
        found = self.perhaps(key)
        if found is None:
            raise Words(None, self.file, self._inner(key)).refused("a value")
        return found

    def perhaps(self, key: str) -> "Words | None":
        """Return what stands under a key, None where nothing does."""
        if not isinstance(self.value, dict):
            raise self.refused("an object")
        value = self.value.get(key)
        return None if value is None else Words(value, self.file, self._inner(key))

    def items(self, most: int = 100_000) -> list[tuple[str, "Words"]]:
        """Return all keys with what stands under them."""
        if not isinstance(self.value, dict) or len(self.value) > most:
            raise self.refused(f"an object of at most {most:,} keys")
        return [(key, Words(value, self.file, self._inner(key))) for key, value in self.value.items()]

    def each(self, most: int = 1_000_000) -> list["Words"]:
        """Return the entries of a list."""
        if not isinstance(self.value, list) or len(self.value) > most:
            raise self.refused(f"a list of at most {most:,} entries")
        return [Words(value, self.file, self._inner(str(i))) for i, value in enumerate(self.value)]

    def text(self) -> str:
        """Return a text."""
        if not isinstance(self.value, str):
            raise self.refused("a text")
        return self.value

    def truth(self) -> bool:
        """Return true or false."""
        if not isinstance(self.value, bool):
            raise self.refused("true or false")
        return self.value

    def number(self, low: float = -1e300, high: float = 1e300) -> float:
        """Return a finite number from low to high."""
        value = self.value
        fits = isinstance(value, int | float) and not isinstance(value, bool)
        # A whole number of a thousand digits is no float, and comparing is all that it allows.
        if not fits or (isinstance(value, float) and not math.isfinite(value)) or not low <= value <= high:
            limits = "" if (low, high) == (-1e300, 1e300) else f" from {low:g} to {high:g}"
            raise self.refused(f"a number{limits}")
        return float(value)

    def share(self) -> float:
        """Return a number from 0 to 1."""
        return self.number(0, 1)

    def whole(self, low: int = 0, high: int = 10**15) -> int:
        """Return a whole number from low to high."""
        if not isinstance(self.value, int) or isinstance(self.value, bool) or not low <= self.value <= high:
            least = "" if (low, high) == (0, 10**15) else f" from {low:,} to {high:,}"
            raise self.refused(f"a whole number{least}")
        return self.value

    def _inner(self, key: str) -> str:
        return f"{self.place}.{ascii(key)[1:-1][:40]}".lstrip(".")
