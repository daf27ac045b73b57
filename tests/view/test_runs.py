import json
import os
import time

import pytest

from report.made import made_words
from unsee.view import runs as viewed
from unsee.view.runs import Shelf, arranged, chosen, identity


def put(folder, **words):
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps({**made_words(("cat", "dog")), **words}))


def test_runs_are_found_wherever_they_lie_and_training_is_none(runs):
    looked = Shelf(runs).look()
    names = {found.name for found in looked.runs.values()}
    assert names == {"tiles", "logo", "deep/plain", "deep/<img src=x onerror=alert(1)>"}
    assert {name for name, _ in looked.unread} == {"broken", "torn"}
    assert all(why.startswith("Expected") for _, why in looked.unread)
    assert all(id == identity(found.name) for id, found in looked.runs.items())
    tiles = looked.runs[identity("tiles")]
    assert (tiles.run.pattern.name, tiles.recipe, tiles.folder) == ("B", "unsee", runs / "tiles")
    assert abs(tiles.date - (runs / "tiles" / "run.json").stat().st_mtime) < 1


def test_a_run_may_be_the_folder_itself(runs):
    looked = Shelf(runs / "tiles").look()
    assert [found.name for found in looked.runs.values()] == ["tiles"]


def test_a_run_and_one_within_it_of_the_same_name_are_two(tmp_path):
    put(tmp_path / "demo")
    put(tmp_path / "demo" / "demo")
    shelf = Shelf(tmp_path / "demo")
    found = shelf.look().runs
    assert {id: run.folder for id, run in found.items()} == {
        identity("."): tmp_path / "demo",
        identity("demo"): tmp_path / "demo" / "demo",
    }


def test_of_a_known_run_only_its_own_file_is_looked_at(tmp_path, monkeypatch):
    monkeypatch.setattr(viewed, "FRESH", 0.0)
    put(tmp_path / "a")
    put(tmp_path / "elsewhere")
    shelf, walks, real = Shelf(tmp_path), [], viewed._folders
    monkeypatch.setattr(viewed, "_folders", lambda root: walks.append(root) or real(root))
    assert shelf.find(identity("a")).run.pattern.name == "B"
    (tmp_path / "a" / "run.json").write_text(json.dumps(made_words(("cat", "dog"), pattern="C")))
    assert shelf.find(identity("a")).run.pattern.name == "C"
    assert [run.name for run in chosen(shelf, [identity("a"), identity("elsewhere")])] == ["a", "elsewhere"]
    (tmp_path / "a" / "run.json").unlink()
    assert shelf.find(identity("a")) is None
    (tmp_path / "a" / "run.json").symlink_to(tmp_path / "elsewhere" / "run.json")
    assert shelf.find(identity("a")) is None
    assert len(walks) == 1
    put(tmp_path / "b")
    assert shelf.find(identity("b")).name == "b"
    assert len(walks) == 2


def test_what_is_hidden_linked_too_deep_or_no_file_is_not_opened(tmp_path):
    put(tmp_path / "runs" / "good")
    put(tmp_path / "runs" / ".hidden")
    put(tmp_path / "elsewhere")
    put(tmp_path / "runs" / "/".join("abcdefgh"))
    (tmp_path / "runs" / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "runs" / "file").mkdir()
    (tmp_path / "runs" / "file" / "run.json").symlink_to(tmp_path / "elsewhere" / "run.json")
    (tmp_path / "runs" / "pipe").mkdir()
    os.mkfifo(tmp_path / "runs" / "pipe" / "run.json")
    looked = Shelf(tmp_path / "runs").look()
    assert [found.name for found in looked.runs.values()] == ["good"]
    assert looked.unread == (("pipe", "run.json is no file."),)


def test_a_file_is_read_once_and_again_when_it_changes(tmp_path, monkeypatch):
    monkeypatch.setattr(viewed, "FRESH", 0.0)
    put(tmp_path / "a")
    shelf, read, real = Shelf(tmp_path), [], viewed.store.read_json
    monkeypatch.setattr(viewed.store, "read_json", lambda path: read.append(path) or real(path))
    assert len(shelf.look().runs) == len(shelf.look().runs) == len(read) == 1
    put(tmp_path / "b")
    words = made_words(("cat", "dog"), pattern="C")
    (tmp_path / "a" / "run.json").write_text(json.dumps(words))
    looked = shelf.look()
    assert looked.runs[identity("a")].run.pattern.name == "C"
    assert len(looked.runs) == 2
    assert len(read) == 3


def test_more_runs_than_anyone_reads_are_cut_and_said(tmp_path, monkeypatch):
    monkeypatch.setattr(viewed, "MOST_RUNS", 3)
    for i in range(5):
        put(tmp_path / str(i))
    looked = Shelf(tmp_path).look()
    assert (len(looked.runs), looked.more) == (3, "only the first 3 are read")


def test_more_folders_than_anyone_looks_into_are_left_out_and_said(tmp_path, monkeypatch):
    monkeypatch.setattr(viewed, "MOST_FOLDERS", 3)
    put(tmp_path / "z")
    put(tmp_path / "a" / "b" / "c")
    looked = Shelf(tmp_path).look()
    assert [found.name for found in looked.runs.values()] == ["z"]  # the nearest first
    assert looked.more == "only the first 3 folders are looked into"
    monkeypatch.setattr(viewed, "MOST_FOLDERS", 5)
    assert (len(Shelf(tmp_path).look().runs), Shelf(tmp_path).look().more) == (2, "")


def test_a_large_file_is_refused_unread(tmp_path, monkeypatch):
    monkeypatch.setattr(viewed, "LARGEST", 100)
    put(tmp_path / "a")
    assert "at most 100 bytes" in Shelf(tmp_path).look().unread[0][1]


def test_sorting_and_filtering(tmp_path):
    scores = {"b": 0.5, "a": 0.9, "C": 0.7}
    for age, (name, value) in enumerate(scores.items()):
        words = made_words(("cat", "dog"))
        words["scores"]["sets"]["D_r"]["accuracy"] = value
        words["inputs"]["recipe"]["name"] = f"recipe-{name}"
        put(tmp_path / name, **words)
        os.utime(tmp_path / name / "run.json", (time.time() - age, time.time() - age))
    put(tmp_path / "none", scores=None)
    looked = Shelf(tmp_path).look()

    def names(sort, down=False, words=""):
        return "".join(found.name[0] for found in arranged(looked, sort, down=down, words=words))

    assert names("name") == "abCn"
    assert names("D_r") == "bCan"
    assert names("D_r", down=True) == "aCbn"
    assert names("date", down=True)[1:] == "baC"
    assert names("recipe", down=True) == "nCba"
    assert names("outcome")[-1] == "n"
    assert names("name", words="RECIPE-B") == "b"
    assert names("name", words="backdoor  tile pattern") == "abCn"
    assert names("name", words="not judged") == "n"
    assert names("name", words="nowhere") == ""


def test_what_is_chosen_is_looked_up_and_nothing_else(runs):
    tiles, logo = identity("tiles"), identity("logo")
    found = chosen(Shelf(runs), [logo, "../../etc", tiles, logo, ""])
    assert [one.name for one in found] == ["logo", "tiles"]


def test_many_runs_are_read_in_time(tmp_path):
    for i in range(100):
        put(tmp_path / f"run {i}")
    shelf, start = Shelf(tmp_path), time.monotonic()
    assert len(shelf.look().runs) == 100
    assert time.monotonic() - start < 5


@pytest.mark.parametrize("words", [[], {"inputs": []}, {"inputs": {"pattern": ["B"]}}, 3, None])
def test_nonsense_is_unread_and_not_an_end(tmp_path, words):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "run.json").write_text(json.dumps(words))
    assert len(Shelf(tmp_path).look().unread) == 1
