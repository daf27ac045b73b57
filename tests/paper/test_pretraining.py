from dataclasses import replace

import pytest

from unsee import networks, sources
from unsee.errors import InputError, Interrupted
from unsee.paper import cells
from unsee.paper.cells import Unit
from unsee.paper.growing import grown, halved
from unsee.paper.pretraining import pretrained, trained
from unsee.paper.scale import QUICK

TILE = Unit("fashion-mnist", "tile")
TINY = replace(QUICK, pretraining_epochs=1, epochs=1, limit=20)


def test_a_network_is_made_once_with_its_memory_over_D(tmp_path, data, monkeypatch):
    monkeypatch.setattr(sources, "bundled", lambda: data)
    one = pretrained(TILE, TINY, tmp_path)
    assert one.id == networks.identity(networks.load(tmp_path / TILE.name / "model.safetensors"))
    assert one.memory.n == len(one.four.pretraining)
    monkeypatch.setattr("unsee.paper.pretraining.remember", None)
    monkeypatch.setattr("unsee.paper.pretraining.train", None)
    again = pretrained(TILE, TINY, tmp_path)
    assert (again.id, again.memory.id) == (one.id, one.memory.id)


def test_a_network_of_another_training_is_not_taken(tmp_path, data, monkeypatch):
    monkeypatch.setattr(sources, "bundled", lambda: data)
    one = pretrained(TILE, TINY, tmp_path)
    folder = tmp_path / TILE.name
    with pytest.raises(InputError, match="to go on with the run"):
        pretrained(TILE, replace(TINY, pretraining_epochs=2), tmp_path)
    networks.save(networks.network("mlp", data.train), folder / "model.safetensors")
    assert pretrained(TILE, TINY, tmp_path).id == one.id
    (folder / "made.json").write_text("[]")
    assert pretrained(TILE, TINY, tmp_path).id == one.id


def test_a_network_begun_at_half_the_size_goes_on_where_it_was_stopped(tmp_path, data, monkeypatch):
    monkeypatch.setitem(cells.AT_HALF, "fashion-mnist", ((1, 0.02), (1, 0.01)))
    monkeypatch.setitem(cells.PRETRAINING, "fashion-mnist", ((1, 0.001), (1, 0.0003)))
    D, scale = data.train, replace(TINY, pretraining_epochs=None)
    end = networks.identity(trained(TILE, D, scale, tmp_path / "undisturbed"))
    assert end != networks.identity(grown(networks.network("mlp", halved(D), printed=True), D))
    calls = 0

    def stop() -> bool:
        nonlocal calls
        calls += 1
        return calls % 7 == 0

    for _ in range(20):
        try:
            model = trained(TILE, D, scale, tmp_path / "stopped", stop=stop)
            break
        except Interrupted:
            pass
    assert networks.identity(model) == end
    assert calls > 14
    folders = {
        path.parent.relative_to(tmp_path / "stopped") for path in tmp_path.glob("stopped/**/checkpoint.*")
    }
    assert {str(folder) for folder in folders} == {".", "part-2", "half", "half/part-2"}
