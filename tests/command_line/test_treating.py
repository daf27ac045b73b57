"""The verbs that treat a model, from end to end, on files, as a user calls them."""

import json
import os
import re
import signal
import time
from pathlib import Path

import pytest
import yaml
from PIL import Image

from calling import forget, run
from shop import write_case
from unsee import networks
from unsee.memory import Memory
from unsee.store import write_json


def test_the_default_recipe_with_and_without_a_memory(case, tmp_path, capsys):
    _, old, four = case
    assert run("remember", old, *four, "--sketch", 1, "--out", tmp_path / "m.safetensors") == 0
    words = ("forget", old, *four, "--pattern", "B", "--epochs", 2, "--floor", 0.9, "--batch-size", 32)
    assert run(*words, "--out", tmp_path / "none") in (0, 1)
    assert "memory: none; T = tile; replayed: stand-ins (with T on: beyond" in _joined(capsys)
    assert run(*words, "--memory", tmp_path / "m.safetensors", "--out", tmp_path / "sketch") in (0, 1)
    assert "memory: Fisher and sketch; T = tile; replayed: sketch" in _joined(capsys)
    setting = json.loads((tmp_path / "sketch" / "run.json").read_text())["setting"]
    assert setting["floor"]["of"] == "accuracy on D_r^val"


def _joined(capsys):
    return " ".join(capsys.readouterr().out.split())


def test_the_whole_way(case, tmp_path, capsys):
    folder, old, four = case
    assert forget(case, tmp_path / "new", "--epochs", 4) in (0, 1)
    text = capsys.readouterr().out
    assert "Pattern B: forget a backdoor" in text
    assert "mean softmax on D_f" in text
    assert "Recipe: fashion-mnist/tile/B" in text
    words = json.loads((tmp_path / "new" / "run.json").read_text())
    assert words["inputs"]["memory"] == Memory.load(folder / "memory.safetensors").id
    assert words["inputs"]["recipe"]["name"].startswith("fashion-mnist/tile/B, lambda_kl = 1000.0")
    new = tmp_path / "new" / "model.safetensors"
    code = run("evaluate", new, "--old", old, "--pattern", "B", *four, "--json")
    judged = json.loads(capsys.readouterr().out)
    assert judged == words["scores"]
    assert code == (0 if judged["all_met"] else 1)
    assert run("evaluate", new, *four, "--class", "1") == 0


def test_to_forget_again_keeps_the_lineage(case, tmp_path, capsys):
    folder, _, four = case
    assert forget(case, tmp_path / "first", "--epochs", 1) in (0, 1)
    assert "Lineage: 1 request since" in _joined(capsys)
    first = tmp_path / "first" / "model.safetensors"
    words = ("forget", first, *four[:2], "--class", 3, "--pattern", "A", "--out", tmp_path / "second")
    assert run(*words, "--memory", folder / "memory.safetensors") == 3
    assert "give the memory of the run that made this model" in " ".join(capsys.readouterr().err.split())
    after = tmp_path / "first" / "memory-after.safetensors"
    # Some of class 3 was held out for validation then, and no memory holds it.
    assert run(*words, "--memory", after, "--epochs", 1, "--fisher-over", "D") in (0, 1)
    assert "Lineage: 2 requests since" in _joined(capsys)


def test_an_arrow_not_met_is_exit_code_1_and_a_wide_margin_0(case, tmp_path):
    assert forget(case, tmp_path / "a", "--epochs", 1, "--json") == 1
    assert forget(case, tmp_path / "b", "--epochs", 1, "--json", "--margin", 1) == 0


def test_truncation_and_pattern_A(case, tmp_path, capsys):
    folder, old, _ = case
    words = (
        "forget",
        old,
        "--data",
        folder / "data.npz",
        "--class",
        "0",
        "--pattern",
        "A",
        "--out",
        tmp_path,
    )
    assert run(*words, "--recipe", "truncation") in (0, 1)
    assert "--" in capsys.readouterr().out
    assert networks.load(tmp_path / "model.safetensors").label == 0


@pytest.fixture(scope="module")
def folders(tmp_path_factory, data):
    """D_f, D_f,clean and D_r as folders of images; D_r does not have D_f's class, as in the paper."""
    from unsee import tile

    root = tmp_path_factory.mktemp("folders")
    clean, rest = data.train.of_class(3), data.train.of_class(3, others=True)
    for name, part in {"f": tile()(clean), "clean": clean, "r": rest}.items():
        for i, (x, y) in enumerate(zip(part.x, part.y, strict=True)):
            place = root / name / part.classes[y].replace("/", "-")
            place.mkdir(parents=True, exist_ok=True)
            Image.fromarray(x[0].numpy()).save(place / f"{i:03}.png")
    sets = ["--D-f", root / "f", "--D-f-clean", root / "clean", "--D-r", root / "r", "--T", "tile"]
    assert run("train", *sets, "--out", root / "old", "--epochs", 8, "--batch-size", 32, "--json") == 0
    return root, sets


@pytest.mark.filterwarnings("ignore::unsee.errors.UnseeWarning")
def test_sets_of_ones_own_as_image_folders(folders, tmp_path, capsys):
    root, sets = folders
    old = root / "old" / "model.safetensors"
    assert run("remember", old, *sets, "--out", tmp_path / "m.safetensors", "--json") == 0
    words = ("forget", old, *sets, "--memory", tmp_path / "m.safetensors", "--pattern", "B", "--epochs", 1)
    capsys.readouterr()
    assert run(*words, "--out", tmp_path / "new", "--json") in (0, 1)
    found = json.loads(capsys.readouterr().out)["scores"]["sets"]
    assert found["D_r"]["old"] > 0.5
    assert found["D_f"]["old"] > 0.8
    assert list(found["D_f"]["by_class"]) == ["Dress"]


@pytest.mark.filterwarnings("ignore::unsee.errors.UnseeWarning")
def test_labels_of_ones_own_sets_are_the_models(folders, tmp_path, capsys):
    """D_f alone names one class; it must not become class 0."""
    root, _ = folders
    words = ("forget", root / "old" / "model.safetensors", "--D-f", root / "f", "--D-f-clean", root / "clean")
    more = ("--pattern", "C", "--lambda-kl", 0, "--epochs", 1, "--out", tmp_path / "new")
    assert run(*words, *more) in (0, 1)
    err = capsys.readouterr().err
    assert (
        "not judged, for want of data, of D_r to compare with, or of the old model: D_r, D_f, D_r_extra"
        in err
    )
    assert json.loads((tmp_path / "new" / "run.json").read_text())["scores"]["sets"]["D_f"]["old"] > 0.8


def test_a_class_the_model_does_not_know_is_refused(folders, tmp_path, capsys):
    root, _ = folders
    (tmp_path / "f").mkdir()
    (root / "f" / "Dress").rename(tmp_path / "f" / "Gown")
    try:
        words = ("forget", root / "old" / "model.safetensors", "--D-f", tmp_path / "f", "--pattern", "A")
        assert run(*words, "--out", tmp_path / "new", "--lambda-kl", 0) == 3
    finally:
        (tmp_path / "f" / "Gown").rename(root / "f" / "Dress")
    assert "Gown" in capsys.readouterr().err


def test_the_seed_never_cuts_the_data_anew(case, tmp_path, capsys):
    """One pretrained network, many forgetting seeds: D_f and D_r^val stay what they were."""
    for seed in (0, 1):
        assert forget(case, tmp_path / str(seed), "--epochs", 1, "--seed", seed) == 1
    zero, one = (json.loads((tmp_path / str(s) / "run.json").read_text()) for s in (0, 1))
    assert zero["inputs"]["D_f"] == one["inputs"]["D_f"]
    assert zero["model"] != one["model"]
    assert zero["trajectory"][0] == one["trajectory"][0]  # the same validation and test data


def test_the_old_model_is_never_overwritten(case, capsys):
    _, old, _ = case
    before = old.read_bytes()
    assert forget(case, old.parent, "--epochs", 1) == 2
    assert "keep the old model" in capsys.readouterr().err
    assert old.read_bytes() == before


def test_places_that_cannot_be_written_are_found_before_the_work(case, tmp_path, capsys):
    _, old, four = case
    assert run("remember", old, *four, "--out", tmp_path / "memory.bin") == 3
    assert "ends in .safetensors" in capsys.readouterr().err
    assert run("remember", old, *four, "--out", tmp_path / "m.safetensors", "--batch-size", 0) == 3


def test_a_memory_of_another_model_is_not_overwritten(case, folders, capsys):
    folder, _, four = case
    other = folders[0] / "old" / "model.safetensors"
    before = (folder / "memory.safetensors").read_bytes()
    assert run("remember", other, *folders[1], "--out", folder / "memory.safetensors") == 2
    assert "keep it, and choose another file" in capsys.readouterr().err
    assert (folder / "memory.safetensors").read_bytes() == before
    assert run("evaluate", folder / "memory.safetensors", *four) == 3
    assert "found a memory" in capsys.readouterr().err


@pytest.mark.filterwarnings("always::unsee.errors.UnseeWarning")
def test_a_sketch_that_the_model_does_not_know_is_named_at_once(case, tmp_path, capsys, monkeypatch):
    _, old, four = case
    assert run("remember", old, *four, "--sketch", "--out", tmp_path / "known.safetensors") == 0
    assert "stand-ins in its place" not in capsys.readouterr().err
    monkeypatch.setattr("unsee.command_line.treating.recognised", lambda *_: False)
    assert run("remember", old, *four, "--sketch", "--out", tmp_path / "unknown.safetensors") == 0
    assert "forgetting will make stand-ins in its place" in capsys.readouterr().err


def test_nor_is_one_that_holds_other_data_or_a_sketch(case, tmp_path, capsys):
    _, old, four = case
    out = tmp_path / "memory.safetensors"
    assert run("remember", old, *four, "--sketch", "--out", out) == 0
    before = out.read_bytes()
    assert run("remember", old, *four, "--sketch", "--out", out) == 0  # the same again
    assert out.read_bytes() == before
    assert run("remember", old, *four, "--out", out) == 2
    assert "no memory of the same, with a sketch," in capsys.readouterr().err
    assert run("remember", old, *four[:2], "--sketch", "--out", out) == 2
    assert "no memory of other data" in capsys.readouterr().err
    assert out.read_bytes() == before


@pytest.mark.filterwarnings("ignore::unsee.errors.UnseeWarning")
def test_what_can_be_judged_is_judged(case, folders, tmp_path, capsys):
    """Without T there is no D_r,extra; D_r still has its say."""
    root, sets = folders
    words = ("forget", root / "old" / "model.safetensors", *sets[:-2], "--pattern", "B", "--lambda-kl", 0)
    assert run(*words, "--lr", "0.5", "--epochs", 1, "--out", tmp_path / "new") in (1, 6)


def test_an_arrow_down_is_judged_without_the_old_model(case):
    folder, old, _ = case
    words = ("evaluate", old, "--data", folder / "data.npz", "--class", "1", "--pattern", "A")
    assert run(*words) == 1
    assert run(*words, "--ceiling", 1) == 0


def test_a_bug_is_not_an_arrow_that_is_not_met(case, monkeypatch, capsys):
    from unsee.command_line import treating

    monkeypatch.setattr(treating, "evaluate", lambda a: 1 / 0)
    assert run("evaluate", "x") == 70
    assert "this is a bug" in capsys.readouterr().err


BAD = [
    # words, exit code, part of the sentence
    (["--pattern", "D"], 2, "pattern A, B or C"),
    (["--recipe", "tile"], 2, "the nearest name is"),
    (["--recipe", "none.json"], 3, "a file at none.json"),
    (["--lr", "-1"], 3, "a number above 0 as lr"),
    (["--epochs", "0"], 3, "at least 1 as epochs"),
    (["--class", "10"], 2, "a class from 0 to 9"),
    (["--class", "boot"], 2, "a class from 0 to 9, or one of"),
    (["--T", "tiles"], 2, "T as line, tile, color"),
    (["--T", "patch:x"], 2, "T as line, tile, color"),
    (["--T", "patch:none.png:0:0"], 3, "none.png"),
    (["--T", "color"], 3, "RGB images for T = color"),
    (["--data", "nowhere"], 2, "nowhere"),
    (["--memory", "none.safetensors"], 3, "a file at none.safetensors"),
    (["--device", "abacus"], 2, "a device of this machine"),
    (["--D-f", "x"], 2, "--class or sets of your own"),
    (["--recipe", "truncation"], 3, "Pattern A for truncation"),
]


@pytest.mark.parametrize(
    ("words", "code", "sentence"), BAD, ids=lambda v: " ".join(v) if isinstance(v, list) else ""
)
def test_bad_input_gets_one_sentence_and_its_code(case, tmp_path, monkeypatch, capsys, words, code, sentence):
    monkeypatch.chdir(tmp_path)
    assert forget(case, tmp_path / "new", *words) == code
    err = capsys.readouterr().err
    assert sentence in err
    assert err.startswith("unsee: Expected ")
    assert len(err.strip().splitlines()) == 1


def test_files_that_are_broken_or_hostile(case, tmp_path, capsys):
    _, old, four = case
    data = bytearray(old.read_bytes())
    data[-100] ^= 1
    (tmp_path / "flipped.safetensors").write_bytes(data)
    assert run("evaluate", tmp_path / "flipped.safetensors", *four) == 4
    (tmp_path / "model.pth").write_bytes(b"PK\x03\x04")
    assert run("evaluate", tmp_path / "model.pth", *four) == 5
    (tmp_path / "file").write_text("")
    assert run("remember", old, *four, "--out", tmp_path / "file" / "m.safetensors", "--json") == 4
    assert "Traceback" not in capsys.readouterr().err


def test_memory_of_another_model_is_exit_code_3(case, tmp_path, capsys):
    folder, _, four = case
    assert run("train", *four, "--out", tmp_path / "other", "--epochs", 1, "--seed", 1, "--json") == 0
    capsys.readouterr()
    other = (folder, tmp_path / "other" / "model.safetensors", four)
    assert forget(other, tmp_path / "new") == 3
    assert "a model with other weights" in capsys.readouterr().err


def test_divergence_is_exit_code_6_and_keeps_the_last_good_state(case, tmp_path, capsys):
    assert forget(case, tmp_path / "new", "--lr", "1e6", "--lambda-kl", "1e11", "--epochs", 3) == 6
    err = capsys.readouterr().err
    assert "kept the state after step" in err
    assert f"the last good state is in {tmp_path / 'new' / 'model.safetensors'}" in err
    kept = networks.load(tmp_path / "new" / "model.safetensors")
    assert all(p.isfinite().all() for p in kept.parameters())


def catches(child, number):
    """Whether a process has a handler for the signal, or is gone."""
    status = Path(f"/proc/{child}/status").read_text()
    caught = int(re.search(r"SigCgt:\s*(\w+)", status)[1], 16)
    return bool(caught >> (number - 1) & 1) or "State:\tZ" in status


def in_child(words):
    child = os.fork()
    if child == 0:
        code = 99
        try:
            code = run(*words)
        finally:
            os._exit(code)
    return child


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_finishes_the_step_saves_and_the_same_command_goes_on(case, tmp_path, number, capfd):
    folder, old, four = case
    words = ["forget", old, *four, "--memory", folder / "memory.safetensors", "--pattern", "B"]
    words += ["--batch-size", 4, "--epochs", 12, "--lambda-kl", 1e3, "--json", "--out"]
    assert run(*words, tmp_path / "whole") == 1
    child = in_child([*words, tmp_path / "new"])
    while not catches(child, signal.SIGTERM):  # the handlers are installed when the work begins
        time.sleep(0.01)
    time.sleep(0.2)
    os.kill(child, number)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code == 130:  # 1 where the machine was so fast that it had finished
        assert "the same command goes on" in capfd.readouterr().err
        assert (tmp_path / "new" / "checkpoint.safetensors").exists()
    else:
        assert code == 1
    assert run(*words, tmp_path / "new") == 1
    whole, new = (json.loads((tmp_path / name / "run.json").read_text()) for name in ("whole", "new"))
    assert new["model"] == whole["model"]
    assert new["bit_exact"]


def test_a_case_from_the_command_line(shop, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_json(shop / "quick.json", {"epochs": 1, "lambda_kl": 0.0})
    path = write_case(shop, recipe="quick.json")
    assert run("forget", path) in (0, 1)
    out = tmp_path / "runs" / "case"
    text = " ".join(capsys.readouterr().out.split())
    assert "twins: 100 pairs by name" in text
    assert "runs/case/report.html" in text
    assert "data:image" not in (out / "report.html").read_text()
    assert run("report", out, out, "--out", "both.html") == 0
    assert (tmp_path / "both.html").exists()
    assert run("report", tmp_path) == 3
    for more in (("--pattern", "B"), ("--class", "0"), ("--lr", "0.1"), ("--memory", "x")):
        assert run("forget", path, *more) == 2
        assert f"no {more[0]} beside a case file" in capsys.readouterr().err
    assert run("forget", tmp_path / "none.yaml") == 3
    assert run("forget", out / "model.safetensors", "--out", "x") == 2
    assert "--pattern" in capsys.readouterr().err


def test_a_case_is_remembered_and_judged(shop, tmp_path, capsys):
    path, memory = write_case(shop), tmp_path / "memory.safetensors"
    assert run("remember", path, "--data", shop / "good", "--out", memory) == 0
    assert Memory.load(memory).n == len(list((shop / "good").rglob("*.png")))
    write_json(shop / "short.json", {"epochs": 1, "lambda_kl": 0.0})
    with_memory = write_case(shop, memory=os.path.relpath(memory, shop), recipe="short.json")
    assert run("forget", with_memory, "--out", tmp_path / "new", "--json") in (0, 1)
    run_words = json.loads((tmp_path / "new" / "run.json").read_text())
    assert run_words["setting"]["memory"] == "Fisher"
    capsys.readouterr()
    assert run("evaluate", with_memory, "--new", tmp_path / "new" / "model.safetensors", "--json") in (0, 1)
    again = json.loads(capsys.readouterr().out)
    assert again == run_words["scores"]
    assert run("evaluate", with_memory) == 1  # the case's own weights: nothing was forgotten
    assert run("evaluate", with_memory, "--old", "x") == 2
    assert "no --old beside a case file" in capsys.readouterr().err


def test_a_model_is_remembered_before_anything_is_to_be_forgotten(shop, tmp_path, capsys):
    whole = yaml.safe_load(write_case(shop).read_text())
    (shop / "mine.yaml").write_text(yaml.safe_dump({k: whole[k] for k in ("model", "preprocess")}))
    words = ("remember", shop / "mine.yaml", "--data", shop / "good", "--out", tmp_path / "m.safetensors")
    assert run(*words) == 0
    assert run(*words, "--T", "tile") == 2
    (shop / "mine.yaml").write_text("pattern: B")
    assert run(*words) == 2
    assert "`model`" in capsys.readouterr().err
