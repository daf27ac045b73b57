"""One tree of errors. Each says what was expected, what was found, and what to do.

UnseeError
├── UsageError      2    the call's words are off
├── InputError      3    data, model, memory or recipe cannot be used as given
├── StoreError      4    a file cannot be read whole or written
├── HostileError    5    a file that could run code, or lies about its size, is refused
├── Diverged        6    a loss stopped being finite; the last good state is kept
└── Interrupted   130    stopped on request; what was computed is saved

The number is the exit code of the command line. 0 is done, 1 is done but an arrow is not met, 70 is
a bug of ours.
"""

from __future__ import annotations

TYPE_CHECKING = False  # of typing, which takes long to open, and of which nothing is needed to run
if TYPE_CHECKING:
    from typing import Any

LONGEST = 1000  # characters of what was found


class UnseeError(Exception):
    """What every error of this package is: three parts that read as one sentence.

    >>> print(InputError("labels from 0 to 9", "-100 at index 3", "drop that sample"))
    Expected labels from 0 to 9, found -100 at index 3: drop that sample.
    """

    exit_code = 3

    def __init__(self, expected: str, found: str, do: str) -> None:
        self.expected, self.found, self.do = expected, found, do
        # What was found may be a file's, and as long as it likes.
        found = found if len(found) <= LONGEST else f"{found[:LONGEST]}..."
        super().__init__(f"Expected {expected}, found {found}: {do}.")


class UsageError(UnseeError):
    """The call's words are off: an unknown name, an option that does not fit the others."""

    exit_code = 2


class InputError(UnseeError):
    """Data, model, memory or recipe cannot be used as given."""

    exit_code = 3


class StoreError(UnseeError):
    """A file cannot be read whole, or cannot be written."""

    exit_code = 4


class HostileError(UnseeError):
    """A file that could run code, or that lies about its size, is refused unopened."""

    exit_code = 5


class Diverged(UnseeError):
    """A loss stopped being finite. `rows` is the trajectory so far, `last_good` the result up to then."""

    exit_code = 6
    rows: tuple[dict[str, Any], ...] = ()
    last_good: Any = None


class Interrupted(UnseeError):
    """Stopped on request, after the step under way; the same call goes on from there."""

    exit_code = 130


class UnseeWarning(UserWarning):
    """Something that works but is probably not what was meant."""
