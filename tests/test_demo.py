import json

import pytest
from rich.console import Console

from unsee import demo as module
from unsee import networks, sources
from unsee.errors import StoreError
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
