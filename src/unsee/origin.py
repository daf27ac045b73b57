"""Where a run began: the old model, T and the data in words, so that both models can be tried again.

Paths in it start from `folder`, which is itself seen from the run's folder: what is moved together stays
together. Whoever reads it checks by the hashes in run.json that what lies there is still the same.
"""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from unsee.errors import InputError
from unsee.formulation import SETS
from unsee.report.words import Words

LONGEST = 4096  # characters of a path


@dataclass(frozen=True)
class Origin:
    """The words of a run: its case file, or its old model, T, and a class of data or sets of its own."""

    folder: str
    case: str | None = None
    sha256: str | None = None
    model: str | None = None
    T: str | None = None
    data: str | None = None
    label: str | None = None
    share: float | None = None
    sets: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_case(cls, out: Path | str, file: Path | str) -> Self:
        """Return the words of a run of a case, with the hash of the case's file."""
        file = Path(file)
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        return cls(_seen(file.parent, out), file.name, digest)

    @classmethod
    def of_words(
        cls,
        out: Path | str,
        model: Path | str,
        *,
        T: str | None = None,
        data: str | None = None,
        label: str | int | None = None,
        share: float | None = None,
        sets: Mapping[str, str] | None = None,
        here: Path | str = ".",
    ) -> Self:
        """Return the words of a run of a model; its paths are those of a command that is given `here`."""
        return cls(
            _seen(here, out),
            model=_seen(model, here),
            T=T,
            data=_seen(data, here) if data and Path(data).exists() else data,
            label=None if label is None else str(label),
            share=share,
            sets={name: _seen(path, here) for name, path in (sets or {}).items()},
        )

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain words for a JSON file, without what is not known."""
        return {key: value for key, value in vars(self).items() if value is not None and value != {}}

    @classmethod
    def read(cls, words: Words) -> Self:
        """Read what `to_dict` wrote."""
        sets = words.perhaps("sets")
        named = {name: _text(part) for name, part in sets.items(len(SETS))} if sets else {}
        if sets and not set(named) <= set(SETS):
            raise sets.refused(f"paths of {', '.join(SETS)}")
        given = {
            key: _text(found)
            for key in ("case", "sha256", "model", "T", "data", "label")
            if (found := words.perhaps(key))
        }
        share = words.perhaps("share")
        return cls(
            _text(words.at("folder")), **given, share=share.number(0, 1) if share else None, sets=named
        )

    def at(self, run: Path | str, path: str) -> Path:
        """Return where a path of these words leads to, seen from a run's folder."""
        return Path(os.path.normpath(Path(run).resolve() / self.folder / path))


def _seen(path: Path | str, start: Path | str) -> str:
    try:
        return Path(os.path.relpath(Path(path).resolve(), Path(start).resolve())).as_posix()
    except ValueError:  # another drive has no way from here
        return str(Path(path).resolve())


def _text(words: Words) -> str:
    text = words.text()
    if len(text) > LONGEST or "\0" in text:
        found = "a longer one" if len(text) > LONGEST else "a NUL in it"
        raise InputError(f"a text of at most {LONGEST:,} characters at {words.place}", found, "run it anew")
    return text
