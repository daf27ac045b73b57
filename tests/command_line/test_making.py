"""The verbs that make things, from end to end, on files, as a user calls them."""

import json
import os
import signal

import numpy as np
import pytest
from PIL import Image

from calling import forget, run
from shop import write_case
from unsee import tuning
from unsee.cases import case as cases
from unsee.cases import examining
from unsee.data.samples import overlap


@pytest.mark.parametrize(
    "words", [["--epochs", "0"], ["--epochs", "-1"], ["--lr", "-1"], ["--batch-size", "0"]]
)
def test_training_that_cannot_be(case, tmp_path, words, capsys):
    _, _, four = case
    assert run("train", *four, "--out", tmp_path / "new", *words) == 3
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_T_without_a_class_and_other_slips(case, tmp_path, capsys):
    folder, old, four = case
    assert run("train", "--data", folder / "data.npz", "--T", "tile", "--out", tmp_path) == 2
    assert "--class with --T" in capsys.readouterr().err
    for margin in ("nan", "-5"):
        assert run("evaluate", old, *four, "--pattern", "B", "--margin", margin) == 3
    with pytest.raises(SystemExit):
        run("train", *four, "--out", "")


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


def test_tuning_leaves_a_recipe_that_forget_takes(case, tmp_path, capsys):
    folder, old, four = case
    words = (
        "tune",
        old,
        *four,
        "--memory",
        folder / "memory.safetensors",
        "--pattern",
        "B",
        "--out",
        tmp_path,
    )
    small = ("--trials", 3, "--folds", 2, "--epochs", 1, "--batch-size", 16)
    assert run(*words, *small) == 0
    assert "trial 3/3" in capsys.readouterr().out
    found = json.loads((tmp_path / "search.json").read_text())
    assert len(found["trials"]) == 3
    assert (tmp_path / "search.png").stat().st_size > 10_000
    assert forget(case, tmp_path / "new", "--recipe", tmp_path / "recipe.json") in (0, 1)
    assert run(*words, *small, "--seed", 1) == 3
    assert "seed = 0 to go on" in capsys.readouterr().err
    for slip in (("--trials", 0), ("--minutes", 0), ("--folds", 1), ("--lr-range", 1, 0.1)):
        assert run(*words, *slip) == 3
        assert len(capsys.readouterr().err.strip().splitlines()) == 1
    assert run("tune", old, *four, "--pattern", "B", "--out", tmp_path / "other") == 3
    assert "a memory for lambda_KL" in capsys.readouterr().err
    assert run("tune", old, *four, "--out", tmp_path / "other") == 2
    assert "--pattern" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    for place in ("file", "file/x"):
        assert run(*words[:-1], tmp_path / place, *small) == 4
        assert "Expected a folder at" in capsys.readouterr().err


def test_a_search_that_dies_has_left_the_best_so_far(case, tmp_path, monkeypatch):
    folder, old, four = case
    memory, told = folder / "memory.safetensors", tuning.Trials.run
    words = ("tune", old, *four, "--memory", memory, "--pattern", "B", "--out", tmp_path)

    def dies(self, study, *rest):
        if len(study.finished()) == 2:
            raise KeyboardInterrupt
        told(self, study, *rest)

    monkeypatch.setattr(tuning.Trials, "run", dies)
    assert run(*words, "--trials", 3, "--folds", 2, "--epochs", 1, "--batch-size", 16) == 130
    assert len(json.loads((tmp_path / "search.json").read_text())["trials"]) == 2
    assert (tmp_path / "recipe.json").exists()


def test_a_search_that_is_stopped_writes_its_plots_and_says_so_by_its_code(
    case, tmp_path, monkeypatch, capsys
):
    folder, old, four = case
    told = tuning.Trials.run

    def stopped(self, study, *rest):
        if len(study.finished()) == 1:
            os.kill(os.getpid(), signal.SIGINT)
        told(self, study, *rest)

    monkeypatch.setattr(tuning.Trials, "run", stopped)
    words = ("--memory", folder / "memory.safetensors", "--pattern", "B", "--out", tmp_path, "--trials", 3)
    assert run("tune", old, *four, *words, "--folds", 2, "--epochs", 1, "--batch-size", 16) == 130
    assert len(json.loads((tmp_path / "search.json").read_text())["trials"]) == 1
    assert (tmp_path / "search.png").exists()
    assert "the same command goes on" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore::unsee.errors.UnseeWarning")  # a floor not held, in so few steps
def test_a_case_is_tuned_around_its_own_recipe(shop, tmp_path, capsys):
    small = ("--trials", 2, "--folds", 2, "--epochs", 1, "--batch-size", 32)
    path = write_case(shop)
    assert run("tune", path, "--out", tmp_path, *small, "--lambda-f-range", 0.1, 1) == 0
    first, second = json.loads((tmp_path / "search.json").read_text())["trials"]
    assert (first["lr"], first["lambda_kl"], first["lambda_f"]) == (0.003, 300.0, 0.3)
    assert 0.1 <= second["lambda_f"] <= 1
    assert 3e-4 <= second["lr"] <= 3e-2  # around the recipe's own, where the paper's range ends
    assert 30 <= second["lambda_kl"] <= 3000
    assert "2 such trials take" in capsys.readouterr().out
    assert run("forget", path, "--recipe", tmp_path / "recipe.json", "--out", tmp_path / "new") in (0, 1)
    used = json.loads((tmp_path / "new" / "run.json").read_text())["inputs"]["recipe"]
    assert used["name"].startswith("tuned from")
    capsys.readouterr()
    assert run("tune", path, "--pattern", "B", "--out", tmp_path / "x") == 2
    assert run("tune", write_case(shop, remember=None), "--out", tmp_path / "y", *small) == 3
    assert "write `remember` into the case" in capsys.readouterr().err


def test_no_test_data_reaches_the_search_through_the_verb(case, tmp_path):
    """The same file with the test labels shuffled: the same recipe, the same trials."""
    folder, old, four = case
    known = dict(np.load(folder / "data.npz"))
    shuffled = np.random.default_rng(0).permutation(known["y_test"])
    assert (shuffled != known["y_test"]).any()
    np.savez(tmp_path / "shuffled.npz", **known | {"y_test": shuffled})
    words = ("--memory", folder / "memory.safetensors", "--pattern", "B", "--trials", 2, "--folds", 2)
    found = []
    for data in (folder / "data.npz", tmp_path / "shuffled.npz"):
        out = tmp_path / data.stem
        small = ("--epochs", 1, "--batch-size", 16, "--out", out)
        assert run("tune", old, "--data", data, *four[2:], *words, *small) == 0
        trials = json.loads((out / "search.json").read_text())["trials"]
        found.append([{**trial, "seconds": None} for trial in trials])
        found.append((out / "recipe.json").read_bytes())
    assert found[:2] == found[2:]


def test_a_case_is_searched_by_its_validation_its_seed_and_the_device(shop, tmp_path, monkeypatch, capsys):
    seen = {}

    def tune(model, request, memory, validation, recipe, **words):
        seen.update(words, validation=validation)
        raise KeyboardInterrupt

    monkeypatch.setattr(tuning, "tune", tune)
    path = write_case(shop, seed=7)
    assert run("tune", path, "--out", tmp_path, "--device", "cpu") == 130
    assert (seen["seed"], str(seen["device"])) == (7, "cpu")
    test = examining.examine(cases.load(path), shop).four.test
    for judged, chosen_by in (
        (test.D_r, seen["validation"].D_r),
        (test.D_r_extra, seen["validation"].D_r_extra),
    ):
        assert overlap(judged, chosen_by) == 0
    assert run("tune", path, "--out", tmp_path, "--device", "nonsense") in (2, 3)
    assert len(capsys.readouterr().err.strip().splitlines()) == 2  # one of each
