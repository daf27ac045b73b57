import hashlib
import os

import pytest

from unsee.errors import InputError
from unsee.origin import Origin
from unsee.report.words import Words


def again(origin):
    return Origin.read(Words(origin.to_dict(), "run.json"))


def test_the_words_of_a_command_lead_back_from_the_runs_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.npz").touch()
    origin = Origin.of_words(
        "runs/new", "models/old.safetensors", T="tile", data="data.npz", label=3, share=0.5
    )
    assert (origin.folder, origin.model, origin.label) == ("../..", "models/old.safetensors", "3")
    assert again(origin) == origin
    assert origin.at("runs/new", origin.model) == tmp_path / "models" / "old.safetensors"
    assert origin.at("runs/new", origin.data) == tmp_path / "data.npz"


def test_it_names_nothing_from_the_root_on(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sets = {"D_f": str(tmp_path / "bad"), "D_r": "good"}
    origin = Origin.of_words(tmp_path / "run", tmp_path / "old.safetensors", data="bundled", sets=sets)
    assert origin.data == "bundled"
    assert origin.sets == {"D_f": "bad", "D_r": "good"}
    assert not any(os.path.isabs(text) for text in (origin.folder, origin.model, *origin.sets.values()))


def test_a_case_is_known_by_its_file_and_hash(tmp_path):
    (tmp_path / "shop").mkdir()
    file = tmp_path / "shop" / "case.yaml"
    file.write_text("pattern: B")
    origin = Origin.of_case(tmp_path / "runs" / "new", file)
    digest = hashlib.sha256(b"pattern: B").hexdigest()
    assert origin.to_dict() == {"folder": "../../shop", "case": "case.yaml", "sha256": digest}
    assert origin.at(tmp_path / "runs" / "new", "case.yaml") == file
    assert again(origin) == origin


@pytest.mark.parametrize(
    "words",
    [
        {},
        {"folder": 3},
        {"folder": "."} | {"model": "x" * 5000},
        {"folder": "a\0b"},
        {"folder": ".", "sets": {"D_x": "a"}},
        {"folder": ".", "sets": ["a"]},
        {"folder": ".", "share": 3},
        {"folder": ".", "T": {"line": 1}},
    ],
)
def test_what_no_run_wrote_is_refused(words):
    with pytest.raises(InputError):
        Origin.read(Words(words, "run.json"))
