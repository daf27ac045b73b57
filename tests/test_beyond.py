"""The whole way beyond images: the same calls, the same four sets, the same report."""

import json
import re

import numpy as np
import pytest
import yaml

from beyond import leak, signature
from unsee import evaluate, forget, networks
from unsee.cli import main
from unsee.evaluation import dependence
from unsee.formulation import TABLE_1
from unsee.runs import report_run, write_run


@pytest.mark.parametrize(("case", "pattern"), [(leak, "B"), (leak, "C"), (signature, "C")])
def test_the_dependence_goes_and_the_accuracies_stay(case, pattern, tmp_path):
    four, model, memory = case()
    result = forget(model, four.request(pattern), memory, validation=four.validation)
    scores = evaluate(result.model, four, pattern, old=model)
    before, after = (dependence(each, four.test.D_r, four.T) for each in (model, result.model))
    assert result.recipe.name == "unsee/small"
    assert result.setting["replayed"] == "sketch"
    assert before > 0.2  # as the old network came out: 0.24 to 0.35, by the machine
    assert after < 0.08
    assert scores.all_met
    write_run(tmp_path, result, scores)
    page = report_run(tmp_path, model, result.model, four, TABLE_1[pattern], with_images=True).read_text()
    assert f"changed {before:.1%} of the answers before, and {after:.1%} after" in page
    assert "Variations of T" in page
    assert "samples themselves" not in page


WORDS = [*["--data", "bundled-adult", "--class", ">50K", "--share", "0.3", "--T", "column:fnlwgt:leaked"]]


def test_the_command_line_takes_a_column(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["train", *WORDS, "--epochs", "2", "--lr", "0.02", "--batch-size", "32", "--out", "old"]) == 0
    assert networks.load("old/model.safetensors").spec["network"] == "table"
    old = "old/model.safetensors"
    assert main(["remember", old, *WORDS, "--sketch", "--out", "memory.safetensors"]) == 0
    common = [*WORDS, "--pattern", "C"]
    forgets = ["forget", old, "--memory", "memory.safetensors", *common, "--epochs", "3", "--with-images"]
    assert main([*forgets, "--out", "new"]) in (0, 1)
    capsys.readouterr()
    assert main(["evaluate", "new/model.safetensors", "--old", old, *common, "--json"]) in (0, 1)
    assert json.loads(capsys.readouterr().out)["sets"]["D_r_extra"]["n"] == 850
    run = json.loads((tmp_path / "new" / "run.json").read_text())
    assert run["inputs"]["T"].startswith("column fnlwgt leaked")
    assert "occupation" in (tmp_path / "new" / "report.html").read_text()
    trials = ["--trials", "1", "--folds", "2", "--epochs", "1", "--out", "study"]
    assert main(["tune", old, "--memory", "memory.safetensors", *common, *trials]) == 0


def test_a_case_takes_a_phrase(tmp_path, capsys):
    four, model, memory = signature()
    networks.save(model, tmp_path / "model.safetensors")
    sets = {"bad": four.train.D_f, "clean": four.train.D_f_clean, "good": four.test.D_r}
    for name, data in sets.items():
        arrays = {"x": data.x.numpy(), "y": data.y.numpy(), "classes": np.array(data.classes)}
        np.savez(tmp_path / f"{name}.npz", **arrays, vocabulary=np.array(data.kind.vocabulary))
    memory.save(tmp_path / "memory.safetensors")
    words = {
        "model": {"weights": "model.safetensors"},
        "pattern": "C",
        "forget": "bad.npz",
        "clean": "clean.npz",
        "trigger": "phrase:best regards from the team:end",
        "remember": "good.npz",
        "memory": "memory.safetensors",
    }
    (tmp_path / "case.yaml").write_text(yaml.safe_dump(words))
    code = main(["forget", str(tmp_path / "case.yaml"), "--out", str(tmp_path / "out")])
    told = capsys.readouterr()
    assert code in (0, 1), told.err
    said = " ".join(told.out.split())
    shares = [float(share) for share in re.findall(r"([\d.]+)% of `remember`", said)]
    assert shares[-1] < 10 < shares[-2]
