"""What lies in the folder: its runs by an opaque id, to be looked up and never to be joined to a path."""

import hashlib
import os
import stat
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unsee import store
from unsee.errors import InputError, UnseeError
from unsee.formulation import SETS
from unsee.report.run import LARGEST, Run, read_words
from unsee.report.verdict import Verdict, verdict

DEEPEST = 6  # folders below the one that is served
MOST_RUNS, MOST_FOLDERS = 2000, 5000
FRESH = 2.0  # seconds for which a look need not be repeated
COLUMNS = ("name", "outcome", "pattern", "recipe", *SETS, "date")


@dataclass(frozen=True, eq=False)
class Found:
    """A run in its folder: what run.json says, what became of it, when that was written."""

    id: str
    name: str
    folder: Path
    run: Run
    verdict: Verdict
    date: float
    words: Any

    def value(self, column: str) -> Any:
        """Return what a column of the table sorts by; None where there is nothing."""
        if column in SETS:
            return self.run.sets[column].after.value if column in self.run.sets else None
        if column == "outcome":
            judged = self.verdict.judged
            return self.verdict.met / judged if judged and not self.verdict.unchanged else None
        values = {"pattern": self.run.pattern.name, "recipe": self.recipe.casefold(), "date": self.date}
        return values.get(column, self.name.casefold())

    @property
    def recipe(self) -> str:
        """The recipe's name."""
        return self.run.recipe.get("name", "unnamed")

    @property
    def said(self) -> str:
        """All that a filter looks through."""
        run = self.run
        parts = (self.name, f"pattern {run.pattern.name}", run.pattern.forgets, self.recipe, run.T or "")
        return " ".join((*parts, self.verdict.said)).casefold()


@dataclass(frozen=True, eq=False)
class Looked:
    """The runs of a folder by their ids, and what could not be read, by name and with the reason."""

    runs: dict[str, Found]
    unread: tuple[tuple[str, str], ...]
    more: str = ""
    """Why there may be more than are shown."""


@dataclass(eq=False)
class Shelf:
    """A folder whose runs are read when they are asked for, each once as long as its file stays the same."""

    folder: Path
    _read: dict[Path, tuple[tuple[int, int], Found | str | None]] = field(default_factory=dict)
    _last: tuple[float, Looked] | None = None

    def look(self) -> Looked:
        """Return what lies in the folder now."""
        if self._last and time.monotonic() - self._last[0] < FRESH:
            return self._last[1]
        runs, unread, more = {}, [], ""
        for visited, (folder, run) in enumerate(_folders(self.folder)):
            if visited >= MOST_FOLDERS:
                more = f"only the first {MOST_FOLDERS:,} folders are looked into"
                break
            if len(runs) + len(unread) >= MOST_RUNS:
                more = f"only the first {MOST_RUNS:,} are read"
                break
            found = self._found(folder) if run else None
            if isinstance(found, Found):
                runs[found.id] = found
            elif found:
                unread.append((self._name(folder), found))
        looked = Looked(runs, tuple(unread), more)
        self._last = time.monotonic(), looked
        return looked

    def find(self, id: str) -> Found | None:
        """Return a run as it is now; once it is known, only its own file is looked at."""
        known = self._last[1].runs.get(id) if self._last else None
        if known is None:
            return self.look().runs.get(id)
        found = self._found(known.folder)
        return found if isinstance(found, Found) else None

    def _found(self, folder: Path) -> Found | str | None:
        """Return a folder's run, why it cannot be read, or None where it is no run of forgetting."""
        file = folder / "run.json"
        try:
            state = file.lstat()
        except OSError as error:
            return f"{error.strerror}."
        if not stat.S_ISREG(state.st_mode):
            return "run.json is no file."
        stamp = (state.st_mtime_ns, state.st_size)
        if self._read.get(folder, (None,))[0] != stamp:
            self._read[folder] = stamp, self._opened(folder, state)
        return self._read[folder][1]

    def _opened(self, folder: Path, state: os.stat_result) -> Found | str | None:
        name = self._name(folder)
        try:
            if state.st_size > LARGEST:
                found = f"{state.st_size:,}"
                raise InputError(f"at most {LARGEST:,} bytes in run.json", found, "check what wrote it")
            words = store.read_json(folder / "run.json")
            if not _forgets(words):
                return None
            run = read_words(folder.resolve().name, words)
        except UnseeError as error:
            return str(error)
        kept = {key: words.get(key) for key in ("inputs", "model", "origin")}
        id = identity(self._inner(folder))
        return Found(id, name, folder, run, verdict(run), state.st_mtime, kept)

    def _name(self, folder: Path) -> str:
        inner = self._inner(folder)
        return self.folder.resolve().name if inner == "." else inner

    def _inner(self, folder: Path) -> str:
        return folder.relative_to(self.folder).as_posix()


def identity(inner: str) -> str:
    """Return the id by which addresses speak of the run at a path within the folder: it does not tell it.

    >>> identity("demo")
    '2a97516c354b68848cdb'
    """
    return hashlib.sha256(os.fsencode(inner)).hexdigest()[:20]


def arranged(looked: Looked, sort: str, *, down: bool, words: str) -> list[Found]:
    """Return the runs that hold all words of a filter, sorted; those without a value are last."""
    wanted = words.casefold().split()
    shown = [found for found in looked.runs.values() if all(word in found.said for word in wanted)]
    shown.sort(key=lambda found: found.name.casefold())
    known = [found for found in shown if found.value(sort) is not None]
    known.sort(key=lambda found: found.value(sort), reverse=down)
    return known + [found for found in shown if found.value(sort) is None]


def chosen(shelf: Shelf, ids: Sequence[str]) -> list[Found]:
    """Return the runs of these ids, each once, in their order; unknown ids are left out."""
    return [found for id in dict.fromkeys(ids) if (found := shelf.find(id))]


def _folders(root: Path) -> Iterator[tuple[Path, bool]]:
    """Yield all folders, this one and the nearest first, and whether each has a run.json.

    No link is followed, nothing hidden opened.
    """
    level = [root]
    for _ in range(DEEPEST + 1):
        below: list[Path] = []
        for folder in level:
            try:
                entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
            except OSError:
                entries = []
            yield folder, any(entry.name == "run.json" and not entry.is_symlink() for entry in entries)
            inner = (entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
            below += [folder / name for name in inner if not name.startswith(".")]
        level = below


def _forgets(words: Any) -> bool:
    """Say whether a run.json is one of forgetting: `unsee train` leaves one too."""
    inputs = words.get("inputs") if isinstance(words, dict) else None
    return not isinstance(inputs, dict) or "pattern" in inputs or "plan" not in inputs
