import json

import pytest
import torch
from rich.console import Console

from unsee import demo as module
from unsee import networks, sources
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


def test_a_demo_repeated_with_other_threads_stays_as_it_was(tmp_path, small, monkeypatch):
    first = module.demo(tmp_path)
    words = json.loads((tmp_path / "run.json").read_text())
    kept = Memory.load(tmp_path / "memory.safetensors").id
    monkeypatch.setattr(module, "remember_at", None)  # for which there is no need
    torch.set_num_threads(2)
    try:
        assert module.demo(tmp_path).to_dict() == first.to_dict()
    finally:
        torch.set_num_threads(1)
    again = json.loads((tmp_path / "run.json").read_text())
    assert (again["model"], again["bit_exact"]) == (words["model"], True)
    assert Memory.load(tmp_path / "memory.safetensors").id == kept


def test_a_demo_gone_on_with_by_other_threads_has_its_mark(tmp_path, small):
    asked = iter([False] * 3 + [True])
    with pytest.raises(Interrupted):
        module.demo(tmp_path, stop=lambda: next(asked))
    torch.set_num_threads(2)
    try:
        with pytest.warns(UnseeWarning, match="not bit-exact: threads was 1, is 2"):
            module.demo(tmp_path)
    finally:
        torch.set_num_threads(1)
    assert json.loads((tmp_path / "run.json").read_text())["bit_exact"] is False
