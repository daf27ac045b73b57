import io
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import torch

import hostile
from unsee import store
from unsee.errors import HostileError, InputError, StoreError, UnseeError
from unsee.weights import opening
from unsee.weights.opening import opened

HERE = str(Path(__file__).parent.parent)


@pytest.fixture
def refused(tmp_path, monkeypatch):
    """Open bytes in the process of their own; return the error, after a look at the canary."""
    canary, temporary = tmp_path / "canary", tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))

    def refused(make):
        (tmp_path / "x.pth").write_bytes(make(str(canary)))
        with open(tmp_path / "x.pth", "rb") as file, pytest.raises(UnseeError) as caught:
            opened(file, "x.pth")
        assert not canary.exists()
        assert os.listdir(temporary) == []
        return caught.value

    return refused


@pytest.fixture
def torch_leaves_a_mark(tmp_path, monkeypatch):
    """Let something else stand in for torch in the process, and tell where it leaves its mark."""
    (tmp_path / "first").mkdir()
    (tmp_path / "first" / "torch.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'w')")
    monkeypatch.syspath_prepend(tmp_path / "first")
    return tmp_path / "imported"


# One in three; all of them, without the process, in test_scanning.
@pytest.mark.parametrize("case", list(hostile.SCANNED)[::3])
def test_hostile_files_are_refused_before_torch_is_there(refused, torch_leaves_a_mark, case):
    error, make = hostile.SCANNED[case]
    found = refused(make)
    assert type(found) is error
    assert "in x.pth" in str(found)
    assert not torch_leaves_a_mark.exists()


def test_torch_comes_for_a_file_that_has_been_scanned(refused, torch_leaves_a_mark):
    refused(lambda canary: hostile.GOOD)
    assert torch_leaves_a_mark.exists()


# What the process of its own does, for many files in one: importing torch takes more than a second.
MANY = """
import json, resource, sys, warnings
sys.path.insert(0, sys.argv[1])
import hostile
from unsee.weights import opening
from unsee.errors import UnseeError
from unsee.weights.scanning import scan
warnings.simplefilter("ignore")
opening._limit(resource.RLIMIT_AS, opening._taken() + opening.MEMORY)
answers = {}
for case, (_, make) in hostile.LOADED.items():
    with open(sys.argv[2], "w+b") as file:
        file.write(make(sys.argv[3]))
        file.flush()
        try:
            opening.contents(file, "x.pth", scan(file, "x.pth"))
            answers[case] = "passed", ""
        except UnseeError as error:
            answers[case] = type(error).__name__, str(error)
print(json.dumps(answers))
"""


def test_hostile_files_that_torch_reads_are_refused_then(tmp_path):
    words = [HERE, str(tmp_path / "x.pth"), str(tmp_path / "canary")]
    done = subprocess.run([sys.executable, "-c", MANY, *words], capture_output=True, check=True, cwd=tmp_path)
    answers = json.loads(done.stdout)
    expected = {case: error.__name__ for case, (error, _) in hostile.LOADED.items()}
    expected["half a character"] = "passed"  # it is refused as a name, in test_weights
    assert {case: kind for case, (kind, _) in answers.items()} == expected
    for case, (_, sentence) in answers.items():
        assert sentence.isprintable(), case
        assert "restricted" in sentence or "weights_only" not in sentence, case
    assert not (tmp_path / "canary").exists()


@pytest.mark.parametrize("case", ["stride 0", "legacy, 4 GB declared"])
def test_what_torch_believes_is_refused_from_the_process_too(refused, case):
    error, make = hostile.LOADED[case]
    assert type(refused(make)) is error


def test_a_checkpoint_comes_out_with_all_that_is_plain(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    monkeypatch.setenv("PYTHONSTARTUP", str(tmp_path / "torch.py"))
    # In the folder of the one who asks lies code by the names that the process imports.
    for name in ("torch.py", "json.py", "unsee.py", "sitecustomize.py"):
        (tmp_path / name).write_text(f"open({str(tmp_path / 'canary')!r}, 'w')")
    weight = torch.arange(6.0)
    value = {
        "a": weight,
        "b": [weight, 1, (None, float("inf"))],
        "c": torch.ones(2, 3, dtype=torch.bfloat16).T,
    }
    torch.save(value, tmp_path / "x.pth")
    with open(tmp_path / "x.pth", "rb") as file:
        back = opened(file, "x.pth")
    assert torch.equal(back["a"], weight)
    assert back["b"][0] is back["a"]
    assert back["b"][1:] == [1, (None, float("inf"))]
    assert torch.equal(back["c"], value["c"])
    assert back["c"].dtype is torch.bfloat16
    assert not (tmp_path / "canary").exists()


LIMITS = """
import json, os, resource, sys
from unsee.weights import opening
from unsee.errors import StoreError
names = ("CORE", "CPU", "FSIZE", "AS", "NPROC")
seen = []
def look():
    seen.append({name: resource.getrlimit(getattr(resource, "RLIMIT_" + name)) for name in names})
    seen[-1]["torch"] = "torch" in sys.modules
    seen[-1]["taken"] = opening._taken()
def scan(file, name):
    look()
    return 0
def contents(file, name, numbers):
    look()
    raise StoreError("limits", json.dumps(seen), "look at them")
opening.scan, opening.contents = scan, contents
os._exit(opening.main())
"""


def test_the_process_is_limited(tmp_path):
    (tmp_path / "x.pth").write_bytes(bytes(1000))
    with open(tmp_path / "x.pth", "rb") as file:
        done = subprocess.run(
            [sys.executable, "-c", LIMITS, "out", "x.pth"], stdin=file, capture_output=True, check=False
        )
    assert done.returncode == StoreError.exit_code
    scanning, loading = json.loads(json.loads(done.stdout)[1])
    for limits in scanning, loading:
        assert limits["CORE"] == [0, 0]
        assert limits["CPU"] == [opening.SECONDS] * 2
        assert limits["FSIZE"] == [1000 + opening.MEMORY] * 2
    assert not scanning["torch"]
    assert scanning["AS"][0] <= scanning["taken"] + opening.MEMORY
    assert loading["torch"]
    assert loading["AS"][0] == loading["AS"][1] <= loading["taken"] + opening.MEMORY + 6 * 1000
    assert loading["NPROC"] == [0, 0]


def test_a_limit_is_never_raised():
    code = (
        "import resource; from unsee.weights.opening import _limit\n"
        "_limit(resource.RLIMIT_CPU, 50); _limit(resource.RLIMIT_CPU, 100)\n"
        "_limit(resource.RLIMIT_CPU, resource.RLIM_INFINITY, for_good=False)\n"
        "print(resource.getrlimit(resource.RLIMIT_CPU))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout == b"(50, 50)\n"


def test_the_process_learns_nothing_but_where_modules_are(monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "x")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/lib")
    monkeypatch.setattr(sys, "path", ["", "relative", "/opt/site"])
    environment = opening._environment()
    assert environment["PYTHONPATH"] == "/opt/site"
    assert environment["LD_LIBRARY_PATH"] == "/opt/lib"
    assert {name for name in environment if not name.endswith("_NUM_THREADS")} == {
        "PYTHONPATH",
        "LD_LIBRARY_PATH",
        "TORCH_DEVICE_BACKEND_AUTOLOAD",
    }


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """Let a script stand in for the process, to see what is made of its end."""

    def stand_in(script):
        program = tmp_path / "python"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(program))
        with pytest.raises(UnseeError) as caught, open(program, "rb") as file:
            opened(file, "x.pth")
        assert str(caught.value).isprintable()
        return caught.value

    return stand_in


# $6 is -m, $7 the module, $8 the place for what it leaves.
@pytest.mark.parametrize(
    ("script", "error", "words"),
    [
        ("kill -SEGV $$", HostileError, "ended .Segmentation fault"),
        ("kill -KILL $$", HostileError, "ended .Killed"),
        ('echo \'["a", "b", "c"]\'; exit 5', HostileError, "Expected a, found b: c."),
        ('echo \'["a", "b", "c"]\'; exit 3', InputError, "Expected a, found b: c."),
        ('echo \'["a", "\\u001b[2J", "c"]\'; exit 4', StoreError, r"found '\\x1b\[2J'"),
        ("echo '[1]'; exit 5", StoreError, "exit code 5"),
        ("head -c 100000 /dev/zero; exit 5", StoreError, "exit code 5"),
        ("echo 'ImportError: no torch' >&2; exit 1", StoreError, "exit code 1 and ImportError: no torch"),
        ("exit 0", HostileError, "left something else"),
        ("echo rubbish > $8", HostileError, "left something else"),
    ],
    ids=range(10),
)
def test_however_it_ends_it_is_one_sentence(stand_in, script, error, words):
    found = stand_in(script)
    assert type(found) is error
    with pytest.raises(error, match=words):
        raise found


@pytest.mark.parametrize("about", [{}, {"value": {"tensor": "7"}}, {"value": {"dict": [1]}}, {"value": {}}])
def test_what_it_leaves_is_not_believed(stand_in, tmp_path, about):
    store.write_tensors(tmp_path / "left", {"0": torch.zeros(1)}, about)
    assert "left something else" in str(stand_in(f"cp {tmp_path / 'left'} $8"))


def test_one_that_does_not_end_is_ended(stand_in, monkeypatch):
    monkeypatch.setattr(opening, "PATIENCE", 0.01)
    found = stand_in("exec sleep 60")
    assert type(found) is HostileError
    assert "in time" in str(found)


def test_elsewhere_than_on_linux_it_is_refused(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(InputError, match="darwin: save it as safetensors"):
        opened(io.BytesIO(), "x.pth")


def test_no_room_for_temporary_files_is_told(monkeypatch, tmp_path):
    def full(**_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(opening.tempfile, "TemporaryDirectory", full)
    (tmp_path / "x.pth").write_bytes(hostile.GOOD)
    with open(tmp_path / "x.pth", "rb") as file, pytest.raises(StoreError, match="set TMPDIR"):
        opened(file, "x.pth")
