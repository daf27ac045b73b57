"""Cases from options and from answers."""

import json
from pathlib import Path

from calling import run
from unsee.cases import case as case_file


def test_init_writes_a_case_and_never_over_one(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ("init", "--weights", "m.pth", "--network", "resnet", "--classes", "a, b", "--pattern", "B")
    words += ("--forget", "bad", "--label", "a", "--clean", "clean", "--options", "{width: 4}")
    assert run(*words, "--preprocess", "{divide_by: 1}", "--json") == 0
    found = case_file.load("case.yaml")
    assert found.model.classes == ("a", "b")
    assert found.model.options == {"width": 4}
    assert (found.forget.label, found.preprocess.divide_by) == ("a", 1)
    assert run(*words) == 2
    assert "choose another name" in capsys.readouterr().err
    assert run("init", "other.yaml", *words[1:-1], "{width") == 2
    assert "as --options" in capsys.readouterr().err
    assert run("init", "--schema") == 0
    assert "properties" in json.loads(capsys.readouterr().out)
    assert run("init", "poor.yaml", "--json") == 2
    assert "no --weights, --pattern, --forget" in capsys.readouterr().err
    assert not Path("poor.yaml").exists()


def test_init_asks_where_there_is_someone_to_ask(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("m.pth", "ours.safetensors", "bad", "clean", "good"):
        (tmp_path / name).touch()
    model = ["", "m.ptx", "m.pth", "resnet", "{width", "{width: 4}", "cat,dog", ""]
    answers = iter([*model, "X", "B", "bda", "bad", "dgo", "dog", "clean", "", "good", ""])
    monkeypatch.setattr("rich.prompt.Prompt.ask", lambda *_, **__: next(answers))
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    assert run("init", "mine.yaml") == 0
    out = capsys.readouterr().out
    assert "nothing at m.ptx, seen from" in out
    assert "as options" in out
    assert "One of A, B and C." in out
    assert "did you mean dog?" in out
    found = case_file.load("mine.yaml")
    assert (found.model.network, found.model.classes) == ("resnet", ("cat", "dog"))
    assert (found.forget.path, found.forget.label) == ("bad", "dog")
    assert (found.clean.path, found.trigger, found.remember.path) == ("clean", None, "good")
    answers = iter(["ours.safetensors", "", "A", "bad", "", "", ""])
    assert run("init", "short.yaml") == 0
    assert case_file.load("short.yaml").model.network is None


def test_init_writes_paths_as_seen_from_the_case(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop" / "bad").mkdir(parents=True)
    (tmp_path / "shop" / "m.pth").touch()
    words = ("--weights", "shop/m.pth", "--pattern", "A", "--forget", "shop/bad", "--label", "a")
    assert run("init", "cases/mine.yaml", *words, "--json") == 0
    found = case_file.load("cases/mine.yaml")
    assert (found.model.weights, found.forget.path) == ("../shop/m.pth", "../shop/bad")
    assert run("init", "cases/other.yaml", *words, "--clean", "x", "--json") == 2
    assert not Path("cases/other.yaml").exists()


def test_init_takes_a_path_with_its_label_in_one(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad").mkdir()
    words = ("--weights", "m.pth", "--pattern", "A", "--forget", "{path: bad, label: a}", "--json")
    assert run("init", "one.yaml", *words) == 0
    assert (case_file.load("one.yaml").forget.path, case_file.load("one.yaml").forget.label) == ("bad", "a")
    assert run("init", "two.yaml", *words, "--label", "b") == 0
    assert case_file.load("two.yaml").forget.label == "b"
    assert run("init", "three.yaml", *words[:-2], "{path: bad", "--json") == 2
    assert "as --forget" in capsys.readouterr().err
    assert run("init", "four.yaml", *words[:-2], "{pth: bad}", "--label", "b", "--json") == 2
    assert "pth" in capsys.readouterr().err
