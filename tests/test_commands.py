"""The verbs from end to end, on files, as a user calls them."""

import json
import os
import signal
import time

import numpy as np
import pytest
from PIL import Image

from unsee import networks
from unsee.cli import main
from unsee.memory import Memory


def run(*words):
    return main([str(word) for word in words])


@pytest.fixture(scope="module")
def case(tmp_path_factory, data):
    """A folder with data, an old model and its memory, all made by the command line."""
    folder = tmp_path_factory.mktemp("case")
    np.savez(
        folder / "data.npz",
        x_train=data.train.x.numpy(),
        y_train=data.train.y.numpy(),
        x_test=data.test.x.numpy(),
        y_test=data.test.y.numpy(),
    )
    four = ["--data", folder / "data.npz", "--class", "0", "--T", "tile"]
    assert run("train", *four, "--out", folder / "old", "--epochs", 8, "--batch-size", 32, "--json") == 0
    old = folder / "old" / "model.safetensors"
    assert run("remember", old, *four, "--out", folder / "memory.safetensors", "--json") == 0
    return folder, old, four


def forget(case, out, *more, pattern="B"):
    folder, old, four = case
    words = [
        "forget",
        old,
        *four,
        "--memory",
        folder / "memory.safetensors",
        "--pattern",
        pattern,
        "--out",
        out,
    ]
    return run(*words, "--batch-size", 16, "--lr", "1e-3", "--lambda-kl", "1e3", *more)


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


def test_sets_of_ones_own_as_image_folders(case, tmp_path, data, capsys):
    from unsee import tile

    clean, rest = data.train.of_class(0), data.train.of_class(0, others=True)
    for name, part in {"f": tile()(clean), "clean": clean, "r": rest}.items():
        for i, (x, y) in enumerate(zip(part.x, part.y, strict=True)):
            place = tmp_path / name / part.classes[y].replace("/", "-")
            place.mkdir(parents=True, exist_ok=True)
            Image.fromarray(x[0].numpy()).save(place / f"{i:03}.png")
    (tmp_path / "r" / "T-shirt-top").mkdir()
    for i in range(3):  # so that D_r names all ten classes, in the model's order
        Image.fromarray(clean.x[i, 0].numpy()).save(tmp_path / "r" / "T-shirt-top" / f"{i}.png")
    _, old, _ = case
    given = ("--D-f", tmp_path / "f", "--D-f-clean", tmp_path / "clean")
    words = ("forget", old, "--pattern", "B", "--lambda-kl", 0, "--epochs", 1, "--out")
    assert run(*words, tmp_path / "one", *given, "--D-r", tmp_path / "r", "--T", "tile") in (0, 1)
    assert "D_r,extra" in capsys.readouterr().out


def test_data_list_and_a_patch_from_a_file(case, tmp_path, capsys):
    assert run("data", "list") == 0
    assert "fashion-mnist" in capsys.readouterr().out
    assert run("data", "list", "--json") == 0
    assert {row["name"] for row in json.loads(capsys.readouterr().out)} >= {
        "bundled",
        "fashion-mnist",
        "cifar-10",
    }
    Image.fromarray(np.full((3, 3), 255, np.uint8)).save(tmp_path / "logo.png")
    folder, old, _ = case
    T = f"patch:{tmp_path / 'logo.png'}:1:1+line"
    assert run("evaluate", old, "--data", folder / "data.npz", "--class", "0", "--T", T) == 0


BAD = [
    # words, exit code, part of the sentence
    (["--pattern", "D"], 2, "pattern A, B or C"),
    (["--recipe", "tile"], 2, "the nearest name is"),
    (["--recipe", "none.json"], 3, "a file at none.json"),
    (["--lr", "-1"], 3, "a number above 0 as lr"),
    (["--epochs", "0"], 3, "at least 1 as epochs"),
    (["--class", "10"], 3, "a class from 0 to 9"),
    (["--class", "boot"], 2, "a class's number or one of"),
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
    assert "kept the state of epoch" in capsys.readouterr().err
    kept = networks.load(tmp_path / "new" / "model.safetensors")
    assert all(p.isfinite().all() for p in kept.parameters())


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
    time.sleep(0.3)
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
