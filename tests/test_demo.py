import json

import pytest
from rich.console import Console

from unsee import checkpoint, networks, sources
from unsee import demo as module
from unsee.errors import Interrupted, StoreError, UnseeWarning
from unsee.memory import Memory


@pytest.fixture
def small(monkeypatch, data):
    monkeypatch.setattr(sources, "bundled", lambda: data)


def test_the_demo_leaves_everything_in_its_folder(tmp_path, small):
    console = Console(record=True, width=100)
    scores = module.demo(tmp_path, console=console)
    text = console.export_text()
    for part in ("1. Train", "2. Remember", "3. Forget", "before", "after", "What to try next"):
        assert part in text
    assert (tmp_path / "picture.png").stat().st_size > 10_000
    old, new = (networks.load(tmp_path / p / "model.safetensors") for p in ("old", ""))
    Memory.load(tmp_path / "memory.safetensors").check(old)
    words = json.loads((tmp_path / "run.json").read_text())
    assert words["inputs"]["model"] == networks.identity(old)
    assert words["model"] == networks.identity(new)
    assert words["scores"] == scores.to_dict()
    assert words["setting"]["replayed"] == "sketch"
    assert scores.old.sets["D_f_clean"].value < scores.sets["D_f_clean"].value


def test_a_place_that_cannot_be_is_found_before_the_work(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="choose another folder"):
        module.demo(tmp_path / "file")


@pytest.fixture
def other_threads(monkeypatch):
    """Pretend to have them: with two threads on a busy machine this would take minutes."""
    here = checkpoint._environment("cpu")
    return lambda: monkeypatch.setattr(checkpoint, "_environment", lambda _: here | {"threads": 77})


def test_a_demo_repeated_with_other_threads_stays_as_it_was(tmp_path, small, monkeypatch, other_threads):
    monkeypatch.setattr(module, "report_run", lambda *_, **__: None)
    first = module.demo(tmp_path)
    words = json.loads((tmp_path / "run.json").read_text())
    monkeypatch.setattr(module, "remember_at", None)  # for which there is no need
    other_threads()
    assert module.demo(tmp_path).to_dict() == first.to_dict()
    again = json.loads((tmp_path / "run.json").read_text())
    assert (again["model"], again["bit_exact"]) == (words["model"], True)


def test_a_demo_gone_on_with_by_other_threads_has_its_mark(tmp_path, small, monkeypatch, other_threads):
    monkeypatch.setattr(module, "report_run", lambda *_, **__: None)
    asked = iter([False] * 3 + [True])
    with pytest.raises(Interrupted):
        module.demo(tmp_path, stop=lambda: next(asked))
    other_threads()
    with pytest.warns(UnseeWarning, match="not bit-exact: threads was 1, is 77"):
        module.demo(tmp_path)
    assert json.loads((tmp_path / "run.json").read_text())["bit_exact"] is False
