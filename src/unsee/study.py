"""A study that may die at any time: one SQLite file, shared by any number of processes.

What Optuna leaves to its user is done here. A trial belongs to the process that holds its lock, which
the kernel frees when that process dies; its trial is then marked as failed and drawn anew. The
sampler is seeded by the number of the draw, the first that no finished or living trial has: no two
processes draw the same, and with one the finished trials are the same whatever was killed in between.
"""

import contextlib
import os
import sqlite3
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import BaseDistribution
from optuna.exceptions import StorageInternalError
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy.exc import DBAPIError

from unsee import store
from unsee.checkpoint import refuse_another_run
from unsee.errors import StoreError, UnseeWarning
from unsee.holding import grabbed, locked
from unsee.randomness import stream

FINISHED = (TrialState.COMPLETE, TrialState.PRUNED)
DRAW = "draw"
COPY, BEGUN = "study.backup.db", "SELECT study_id FROM studies"
PATIENCE = 60  # seconds, for another process to let go of the file


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
        with locked(folder / "study.lock"):
            _mend(folder)
            study = _opened(folder / "study.db")
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
        with locked(self.folder / "study.lock"):
            living = self._fail_the_dead()
            taken = [*self.finished(), *living]
            if len(taken) >= most:
                yield None
                return
            used = {trial.user_attrs.get(DRAW, place) for place, trial in enumerate(taken)}
            draw = next(number for number in count() if number not in used)
            # Not enqueued: a process killed between enqueueing and asking would leave it there for ever.
            self.study.sampler = self._sampler(draw, {} if draw else first, bool(living))
            trial = self.study.ask(dict(space))
            trial.set_user_attr(DRAW, draw)
            lock = self._claimed(trial.number)
        try:
            yield trial
        finally:
            os.close(lock)
            self._lock_of(trial.number).unlink(missing_ok=True)

    def tell(self, trial: optuna.Trial, value: float | None, state: TrialState = TrialState.COMPLETE) -> None:
        """End a trial, and copy the file."""
        with locked(self.folder / "study.lock"):
            self.study.tell(trial, value, state)
            _back_up(self.folder)

    def _sampler(
        self, draw: int, fixed: Mapping[str, float], in_company: bool
    ) -> optuna.samplers.BaseSampler:
        """Return what draws: away from trials that others are at, with the fixed values where there are."""
        seed = int(stream(self.seed, "tpe", draw).integers(2**32))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Optuna calls both experimental
            sampler = optuna.samplers.TPESampler(seed=seed, constant_liar=in_company)
            return optuna.samplers.PartialFixedSampler(dict(fixed), sampler) if fixed else sampler

    def _fail_the_dead(self) -> list[FrozenTrial]:
        """Mark as failed whatever nobody works on any more; return those that are really under way."""
        living = []
        for trial in self.study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            path = self._lock_of(trial.number)
            try:
                os.close(grabbed(path, wait=False))
            except BlockingIOError:
                living.append(trial)
                continue
            path.unlink(missing_ok=True)
            self.study.tell(trial.number, state=TrialState.FAIL)
        return living

    def _claimed(self, number: int) -> int:
        # Never waited for: whoever holds it may wait for the study, which is held here.
        try:
            return grabbed(self._lock_of(number), wait=False)
        except BlockingIOError:
            raise _at_work(self.folder) from None

    def _lock_of(self, number: int) -> Path:
        return self.folder / f"trial-{number}.lock"


def _opened(path: Path) -> optuna.Study:
    """Open what was found whole a moment ago; another process may have replaced it since."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            engine = {"connect_args": {"timeout": PATIENCE}}
            storage = optuna.storages.RDBStorage(f"sqlite:///{path}", engine)
        return optuna.create_study(
            study_name="unsee", storage=storage, direction="maximize", load_if_exists=True
        )
    except (DBAPIError, StorageInternalError) as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        raise StoreError(
            f"a study that opens at {path}", f"{cause}", "end what else uses it, and try again"
        ) from None


def _back_up(folder: Path) -> None:
    with (
        contextlib.closing(sqlite3.connect(folder / "study.db", timeout=PATIENCE)) as database,
        contextlib.closing(sqlite3.connect(":memory:")) as copy,
    ):
        database.backup(copy)  # as of one moment, whatever others write meanwhile
        store.write_bytes(folder / COPY, copy.serialize())


def _mend(folder: Path) -> None:
    """Put the copy in the place of a study that is gone, empty or does not read any more."""
    path, copy = folder / "study.db", folder / COPY
    if not copy.exists():
        if path.exists() and not _whole(path):
            found = "a broken one, and no copy"
            raise StoreError(f"a whole study at {path}", found, "remove it to begin anew")
        return
    if path.exists() and _whole(path, begun=True):
        return
    if not _whole(copy, begun=True):
        found = "none, and a copy that does not read either"
        raise StoreError(f"a whole study at {path}", found, "remove both to begin anew")
    for lock in folder.glob("trial-*.lock"):
        try:
            os.close(grabbed(lock, wait=False))
        except BlockingIOError:
            raise _at_work(folder) from None
    if path.exists():
        broken = path.with_suffix(".broken")
        broken.unlink(missing_ok=True)
        os.link(path, broken)
    for journal in ("study.db-wal", "study.db-shm", "study.db-journal"):
        (folder / journal).unlink(missing_ok=True)
    store.write_bytes(path, copy.read_bytes())  # whoever dies before this finds the copy still to be taken
    warnings.warn(f"{path} was broken: going on from its last copy.", UnseeWarning, stacklevel=3)


def _at_work(folder: Path) -> StoreError:
    """Say that the file was replaced under a process, whose trial would go nowhere."""
    found = "a broken one, or another than a process that is still at a trial has open"
    return StoreError(f"a whole study at {folder / 'study.db'}", found, "end that process, and try again")


def _whole(path: Path, *, begun: bool = False) -> bool:
    """Whether a file reads; `begun`, it holds a study too: to SQLite an empty file is a whole one."""
    try:
        with contextlib.closing(sqlite3.connect(path, timeout=PATIENCE)) as database:
            tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master")]
            there = not begun or ("studies" in tables and bool(database.execute(BEGUN).fetchone()))
            return there and database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            held = f"held by another process for {PATIENCE} s"
            raise StoreError(f"the study at {path}", held, "end that process, or try again") from None
        return False
