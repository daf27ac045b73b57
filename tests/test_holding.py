import contextlib
import errno
import fcntl
import os
import re
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from unsee import holding
from unsee.errors import StoreError
from unsee.holding import HOLDER, alone
from unsee.store import write_json


def holder(folder, seconds=60):
    """A process that holds a folder until it dies."""
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException), alone(folder):
            time.sleep(seconds)
        os._exit(0)
    while not (folder / HOLDER).exists():
        time.sleep(0.01)
    return child


def ended(child):
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def test_the_second_is_told_who_is_there_and_the_kernel_frees_what_the_dead_held(tmp_path):
    child = holder(tmp_path)
    try:
        host, time = re.escape(socket.gethostname()), r"\d{4}-\d\d-\d\dT[\d:+-]+"
        said = f"process {child} on {host} since {time}: wait for it"
        with pytest.raises(StoreError, match=said), alone(tmp_path):
            pass
    finally:
        ended(child)
    assert (tmp_path / HOLDER).exists()
    with alone(tmp_path):
        assert f'"pid": {os.getpid()}' in (tmp_path / HOLDER).read_text()
    assert os.listdir(tmp_path) == []


def test_it_is_free_again_after_an_error(tmp_path):
    for _ in range(2):
        with pytest.raises(KeyError), alone(tmp_path):
            raise KeyError


def test_who_waits_gets_it_in_the_end(tmp_path):
    inside = []

    def work(number):
        with alone(tmp_path, wait=True):
            inside.append(number)
            assert len(inside) == 1
            time.sleep(0.01)
            inside.remove(number)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(8)))


WORDS = [
    None,
    {},
    [],
    7,
    {"pid": "x", "host": None, "since": 0},
    {"pid": 2**70, "host": socket.gethostname(), "since": 0},
    {"pid": 2**22 + 1, "host": socket.gethostname(), "since": "a holder that died"},
]


@pytest.mark.parametrize("words", WORDS, ids=str)
def test_a_name_that_is_not_the_holders_is_not_told(tmp_path, monkeypatch, words):
    monkeypatch.setattr(holding, "_MOMENT", 0.05)
    child = holder(tmp_path)
    try:
        (tmp_path / HOLDER).unlink()
        if words is not None:
            write_json(tmp_path / HOLDER, words)
        with pytest.raises(StoreError, match=r"found (another process|process x on None)"), alone(tmp_path):
            pass
    finally:
        ended(child)


def test_a_holder_on_another_machine_is_named(tmp_path):
    child = holder(tmp_path)
    try:
        write_json(tmp_path / HOLDER, {"pid": 1, "host": "elsewhere", "since": "noon"})
        with pytest.raises(StoreError, match="process 1 on elsewhere since noon"), alone(tmp_path):
            pass
    finally:
        ended(child)


def test_a_folder_that_cannot_be(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"a folder at .*: choose another folder"), alone(tmp_path / "file"):
        pass
    with (
        pytest.raises(StoreError, match="name it elsewhere"),
        alone(tmp_path / "file", do="name it elsewhere"),
    ):
        pass


def test_where_there_are_no_locks_it_goes_on(tmp_path, monkeypatch):
    def none(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", none)
    with alone(tmp_path), alone(tmp_path):
        pass


def test_a_lock_that_was_removed_and_made_anew_meanwhile_is_taken_as_it_is_now(tmp_path):
    """Who waits opened the file before its holder removed it: what it then holds is nobody's any more."""
    path = tmp_path / "a.lock"
    first = holding.grabbed(path)
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(holding.grabbed, path)
        time.sleep(0.2)
        path.unlink()
        os.close(first)
        second = waiting.result(timeout=10)
    assert os.path.samestat(os.fstat(second), path.stat())
    with pytest.raises(BlockingIOError):
        holding.grabbed(path, wait=False)
    os.close(second)
