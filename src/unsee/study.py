"""A study that may die at any time: one SQLite file, shared by any number of processes.

What Optuna leaves to its user is done here. A trial belongs to the process that holds its lock, which
the kernel frees when that process dies; its trial is then marked as failed and drawn anew. The
sampler is seeded by the number of finished trials, so that with one process the finished trials are
the same whatever was killed in between.
"""

import contextlib
import fcntl
import os
import sqlite3
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import BaseDistribution
from optuna.trial import FrozenTrial, TrialState

from unsee.checkpoint import refuse_another_run
from unsee.errors import StoreError, UnseeWarning
from unsee.randomness import stream

FINISHED = (TrialState.COMPLETE, TrialState.PRUNED)
BACKUP_EVERY = 20


@dataclass(frozen=True, eq=False)
class Study:
    """The trials under one folder, of one question: `identity` says which."""

    folder: Path
    study: optuna.Study
    seed: int

    @classmethod
    def open(cls, folder: Path, identity: Mapping[str, Any], seed: int) -> "Study":
        """Open the folder's study, or begin it; refuse to go on with another question."""
        folder.mkdir(parents=True, exist_ok=True)
        with _locked(folder / "study.lock"):
            _mend(folder)
            engine = {"connect_args": {"timeout": 60}}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                storage = optuna.storages.RDBStorage(f"sqlite:///{folder / 'study.db'}", engine)
            optuna.logging.set_verbosity(optuna.logging.ERROR)
            study = optuna.create_study(
                study_name="unsee", storage=storage, direction="maximize", load_if_exists=True
            )
            if known := study.user_attrs.get("identity"):
                refuse_another_run(known, identity, folder)
            study.set_user_attr("identity", dict(identity))
        return cls(folder, study, seed)

    def finished(self) -> list[FrozenTrial]:
        """Return the trials that came to an end, pruned ones included, in order."""
        return self.study.get_trials(deepcopy=False, states=FINISHED)

    @contextlib.contextmanager
    def trial(
        self, most: int, space: Mapping[str, BaseDistribution], first: Mapping[str, float]
    ) -> Iterator[optuna.Trial | None]:
        """Lend the next trial, or None where `most` are finished or under way.

        The first of all is `first`: a warm start.
        """
        with _locked(self.folder / "study.lock"):
            under_way = self._fail_the_dead()
            taken = len(self.finished()) + under_way
            if taken >= most:
                yield None
                return
            seed = int(stream(self.seed, "tpe", len(self.finished())).integers(2**32))
            sampler = optuna.samplers.TPESampler(seed=seed)
            # Not enqueued: a process killed between enqueueing and asking would leave it there for ever.
            self.study.sampler = sampler if taken else _warm(dict(first), sampler)
            trial = self.study.ask(dict(space))
            lock = _grabbed(self._lock_of(trial.number))
        try:
            yield trial
        finally:
            os.close(lock)
            self._lock_of(trial.number).unlink(missing_ok=True)

    def tell(self, trial: optuna.Trial, value: float | None, state: TrialState = TrialState.COMPLETE) -> None:
        """End a trial; every so often, the file is copied."""
        with _locked(self.folder / "study.lock"):
            self.study.tell(trial, value, state)
            if len(self.finished()) % BACKUP_EVERY == 0:
                _back_up(self.folder)

    def _fail_the_dead(self) -> int:
        """Mark as failed whatever nobody works on any more; return how many are really under way."""
        alive = 0
        for trial in self.study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            path = self._lock_of(trial.number)
            try:
                os.close(_grabbed(path, wait=False))
            except BlockingIOError:
                alive += 1
                continue
            path.unlink(missing_ok=True)
            self.study.tell(trial.number, state=TrialState.FAIL)
        return alive

    def _lock_of(self, number: int) -> Path:
        return self.folder / f"trial-{number}.lock"


def _warm(first: dict[str, float], sampler: optuna.samplers.BaseSampler) -> optuna.samplers.BaseSampler:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Optuna calls it experimental
        return optuna.samplers.PartialFixedSampler(first, sampler)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    lock = _grabbed(path)
    try:
        yield
    finally:
        os.close(lock)


def _grabbed(path: Path, *, wait: bool = True) -> int:
    lock = os.open(path, os.O_CREAT | os.O_RDWR, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        os.close(lock)
        raise
    return lock


def _back_up(folder: Path) -> None:
    copy = folder / "study.backup.db"
    fresh = copy.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    with contextlib.closing(sqlite3.connect(folder / "study.db")) as database:
        database.execute("VACUUM INTO ?", (str(fresh),))
    os.replace(fresh, copy)


def _mend(folder: Path) -> None:
    """Put the copy in the place of a study that does not read any more."""
    path, copy = folder / "study.db", folder / "study.backup.db"
    if not path.exists() or _whole(path):
        return
    if not (copy.exists() and _whole(copy)):
        raise StoreError(f"a whole study at {path}", "a broken one, and no copy", "remove it to begin anew")
    os.replace(path, path.with_suffix(".broken"))
    for journal in ("study.db-wal", "study.db-shm", "study.db-journal"):
        (folder / journal).unlink(missing_ok=True)
    with contextlib.closing(sqlite3.connect(copy)) as database:
        database.execute("VACUUM INTO ?", (str(path),))
    warnings.warn(f"{path} was broken: going on from its last copy.", UnseeWarning, stacklevel=3)


def _whole(path: Path) -> bool:
    try:
        with contextlib.closing(sqlite3.connect(path)) as database:
            return database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    except sqlite3.DatabaseError:
        return False
