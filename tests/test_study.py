import contextlib
import os
import random
import signal
import sqlite3
import time
import traceback

import pytest
import sqlalchemy
from optuna.distributions import FloatDistribution
from optuna.trial import TrialState

from unsee.errors import InputError, StoreError, UnseeWarning
from unsee.study import Study

SPACE = {"x": FloatDistribution(-5, 5), "y": FloatDistribution(1e-3, 1e3, log=True)}
FIRST = {"x": 1.0, "y": 2.0}


def value(trial):
    return -((trial.params["x"] - 2) ** 2) - abs(trial.params["y"] - 1)


def work(folder, most, seconds=0.0):
    """What one process does until all trials are finished or taken."""
    study = Study.open(folder, {"question": 1}, seed=3)
    while len(study.finished()) < most:
        with study.trial(most, SPACE, FIRST) as trial:
            if trial is None:
                time.sleep(0.02)
                continue
            trial.set_user_attr("by", os.getpid())
            time.sleep(seconds)
            if trial.number % 5 == 4:
                study.tell(trial, None, TrialState.PRUNED)
            else:
                study.tell(trial, value(trial))
    return study


def finished(study):
    return [(t.params, t.value, t.state) for t in study.finished()]


def in_child(*args):
    child = os.fork()
    if child == 0:
        try:
            work(*args)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return child


def test_it_finds_better_values_and_begins_with_the_warm_start(tmp_path):
    study = work(tmp_path, 40)
    trials = study.finished()
    assert trials[0].params == FIRST
    assert study.study.best_value > value(trials[0])
    assert len(list(tmp_path.glob("trial-*.lock"))) == 0


def test_one_process_killed_again_and_again_finishes_the_same_trials(tmp_path):
    def plain(study):
        return [(t.params, t.value) for t in study.finished() if t.state is TrialState.COMPLETE]

    def run(folder):
        study = Study.open(folder, {"question": 1}, seed=3)
        while len(study.finished()) < 15:
            with study.trial(15, SPACE, FIRST) as trial:
                time.sleep(0.05)
                study.tell(trial, value(trial))
        return study

    expected = plain(run(tmp_path / "whole"))
    moments = random.Random(0)
    for _ in range(5):
        child = os.fork()
        if child == 0:
            try:
                run(tmp_path / "killed")
            finally:
                os._exit(0)
        time.sleep(moments.uniform(0.0, 0.2))
        while not list((tmp_path / "killed").glob("trial-*.lock")):
            time.sleep(0.001)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    study = run(tmp_path / "killed")
    assert plain(study) == expected
    assert study.study.get_trials(states=(TrialState.FAIL,))  # some died at work


def test_eight_processes_of_25_trials_with_kills_lose_and_double_nothing(tmp_path):
    most, moments = 8 * 25, random.Random(1)
    Study.open(tmp_path, {"question": 1}, seed=3)
    idle = in_child(tmp_path, most, 600.0)
    while not list(tmp_path.glob("trial-*.lock")):
        time.sleep(0.01)
    os.kill(idle, signal.SIGKILL)  # at work for certain: its trial is drawn anew
    os.waitpid(idle, 0)
    children = [in_child(tmp_path, most, 0.3) for _ in range(8)]
    for place in [0, 3, 5, 1, 7, 2]:
        time.sleep(moments.uniform(0.2, 0.6))
        os.kill(children[place], signal.SIGKILL)
        os.waitpid(children[place], 0)
        children[place] = in_child(tmp_path, most, 0.3)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 8  # none of them crashed
    study = Study.open(tmp_path, {"question": 1}, seed=3)
    by = [t.user_attrs["by"] for t in study.finished()]
    assert os.getpid() not in by
    assert min(by.count(child) for child in children) > 0  # all had a part in it
    numbers = [t.number for t in study.finished()]
    assert len(numbers) == len(set(numbers)) == most
    assert len({tuple(t.params.values()) for t in study.finished()}) == most
    assert sorted(t.user_attrs["draw"] for t in study.finished()) == list(range(most))
    assert not study.study.get_trials(states=(TrialState.RUNNING,))
    assert study.study.get_trials(states=(TrialState.FAIL,))


def test_another_question_is_refused_by_its_field(tmp_path):
    Study.open(tmp_path, {"model": "a", "recipe": {"epochs": 3}}, 0)
    with pytest.raises(InputError, match=r"recipe\.epochs = 3"):
        Study.open(tmp_path, {"model": "a", "recipe": {"epochs": 4}}, 0)


@pytest.mark.parametrize("left", [None, 0, 1, 100, 4096, 5000, -100])
def test_a_broken_file_gives_way_to_its_copy(tmp_path, left):
    """Cut to so many bytes, by a power loss; None: gone."""
    work(tmp_path, 6)
    path = tmp_path / "study.db"
    if left is None:
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:left])
    with pytest.warns(UnseeWarning, match="going on from its last copy"):
        study = Study.open(tmp_path, {"question": 1}, seed=3)
    assert len(study.finished()) == 6
    assert len(work(tmp_path, 8).finished()) == 8


@pytest.mark.parametrize("dies_in", ["link", "write_bytes"])
def test_a_mending_that_dies_is_done_again(tmp_path, monkeypatch, dies_in):
    work(tmp_path, 6)
    (tmp_path / "study.db").write_bytes(b"torn")

    def die(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr({"link": "os.link", "write_bytes": "unsee.study.store.write_bytes"}[dies_in], die)
        with pytest.raises(KeyboardInterrupt):
            Study.open(tmp_path, {"question": 1}, seed=3)
    with pytest.warns(UnseeWarning, match="going on from its last copy"):
        assert len(Study.open(tmp_path, {"question": 1}, seed=3).finished()) == 6
    assert (tmp_path / "study.broken").read_bytes() == b"torn"


def test_a_file_replaced_under_a_process_at_work_is_said_and_not_waited_for(tmp_path):
    """The copy does not know the trial that is under way, and its number would be given out again."""
    work(tmp_path, 3)
    child = in_child(tmp_path, 4, 600.0)
    # All that it writes: a journal that it has open would be taken for one of the file that is put there.
    while not written_by(child, tmp_path / "study.db"):
        time.sleep(0.01)
    try:
        (tmp_path / "study.db").unlink()
        with pytest.raises(StoreError, match="end that process"):
            Study.open(tmp_path, {"question": 1}, seed=3)
        # Whoever opened the study before, and finds the number taken.
        (tmp_path / "study.db").write_bytes((tmp_path / "study.backup.db").read_bytes())
        study = Study.open(tmp_path, {"question": 1}, seed=3)
        with pytest.raises(StoreError, match="end that process"), study.trial(4, SPACE, FIRST):
            pass
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert len(work(tmp_path, 4).finished()) == 4


def written_by(process, path):
    with contextlib.closing(sqlite3.connect(path, timeout=60)) as database:
        found = database.execute("SELECT value_json FROM trial_user_attributes WHERE key = 'by'")
        return (str(process),) in found.fetchall()


def test_a_study_whose_file_fails_while_it_is_opened_says_so(tmp_path, monkeypatch):
    """As where another process has replaced it a moment ago, and left a journal beside it."""
    work(tmp_path, 3)

    def failing(*args, **kwargs):
        raise sqlalchemy.exc.OperationalError("SELECT", None, sqlite3.OperationalError("disk I/O error"))

    monkeypatch.setattr("optuna.storages.RDBStorage", failing)
    with pytest.raises(StoreError, match="disk I/O error"):
        Study.open(tmp_path, {"question": 1}, seed=3)


def test_a_study_whose_copy_is_broken_too_says_so(tmp_path):
    work(tmp_path, 3)
    for name in ("study.db", "study.backup.db"):
        (tmp_path / name).write_bytes(b"torn")
    with pytest.raises(StoreError, match="does not read either"):
        Study.open(tmp_path, {"question": 1}, seed=3)


def test_a_file_that_another_holds_is_not_taken_for_broken(tmp_path, monkeypatch):
    monkeypatch.setattr("unsee.study.PATIENCE", 0.1)
    work(tmp_path, 3)
    with contextlib.closing(sqlite3.connect(tmp_path / "study.db", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreError, match="held by another process"):
            Study.open(tmp_path, {"question": 1}, seed=3)
        other.execute("ROLLBACK")
    assert len(Study.open(tmp_path, {"question": 1}, seed=3).finished()) == 3


def test_a_broken_file_without_a_copy_says_so(tmp_path):
    Study.open(tmp_path, {"question": 1}, seed=3)
    (tmp_path / "study.db").write_bytes(b"SQLite format 3\x00 but no more")
    with pytest.raises(StoreError, match="no copy"):
        Study.open(tmp_path, {"question": 1}, seed=3)
