import copy
import json
from dataclasses import replace

import pytest

from report.made import HASH, made_facts, made_words
from unsee import evaluate, forget, store
from unsee.errors import InputError
from unsee.formulation import Arrow
from unsee.report.rates import Rate
from unsee.report.run import Judged, read_run, read_words
from unsee.runs import write_run

NAMES = ("cat", "dog", "owl")


def test_what_write_run_wrote_is_read(tmp_path, model, forgotten, four, facts):
    scores = evaluate(forgotten.model, four, "B", old=model)
    write_run(tmp_path / "mine", forgotten, scores)
    store.write_json(tmp_path / "mine" / "facts.json", facts.to_dict())
    run = read_run(tmp_path / "mine")
    assert (run.name, run.pattern.name, run.T, run.seed) == ("mine", "B", "tile", 0)
    assert run.facts == facts
    assert run.classes == four.test.D_r.classes
    for name, one in run.sets.items():
        assert one.after == Rate(scores.sets[name].correct, scores.sets[name].n)
        assert one.before.value == pytest.approx(scores.old.sets[name].value)
        assert one.met == scores.met(name)
        assert one.after.interval == pytest.approx(scores.sets[name].interval)
    assert run.moved == forgotten.lineage[-1].moved
    assert run.lineage == forgotten.lineage
    assert len(run.trajectory) == len(forgotten.trajectory)
    assert dict(run.hashes)["model after"] == facts.model_after
    assert run.recipe["name"] == "unsee"
    assert run.setting["memory"] == "Fisher"


def test_the_committed_run_of_the_demo_is_read():
    from pathlib import Path

    run = read_run(Path(__file__).parents[2] / "results" / "demo")
    assert run.facts is None
    assert "no facts.json" in run.without_facts
    assert run.sets["D_r_extra"].before.right == 1


def test_a_run_that_trained_nothing_and_was_not_judged(tmp_path, model, four):
    result = forget(model, four.request("A"), recipe="truncation")
    write_run(tmp_path, result, None)
    run = read_run(tmp_path)
    assert run.truncated
    assert run.sets == {}
    assert run.trajectory == ()


def test_facts_of_another_model_are_not_shown_as_this_ones(tmp_path):
    store.write_json(tmp_path / "run.json", {**made_words(NAMES), "model": HASH})
    store.write_json(tmp_path / "facts.json", made_facts(NAMES).to_dict())
    run = read_run(tmp_path)
    assert run.facts is None
    assert "of another model" in run.without_facts
    store.write_json(tmp_path / "run.json", made_words(NAMES))
    assert read_run(tmp_path).facts == made_facts(NAMES)


def test_only_pattern_inputs_and_recipe_must_be_there():
    inputs = {"pattern": "C", "recipe": {}, "seed": 3}
    run = read_words("x", {"inputs": inputs, "later": "words of later versions"})
    assert (run.pattern.name, run.seed, run.T, run.back_to, run.case) == ("C", 3, None, None, ())
    for part in inputs:
        with pytest.raises(InputError):
            read_words("x", {"inputs": {key: value for key, value in inputs.items() if key != part}})


def test_a_run_of_training_is_refused_in_words():
    with pytest.raises(InputError, match=r"pattern .A, B or C. of a run of `unsee forget`"):
        read_words("x", {"inputs": {"data": HASH}, "model": HASH, "trajectory": []})


def test_an_arrow_is_judged_by_its_figures_and_not_by_what_the_file_says_of_it():
    def judged(value, arrow, threshold):
        return Judged("D_r", Rate(value, 100), None, arrow, threshold, {})

    assert judged(80, Arrow.UP, 0.8).met
    assert judged(79, Arrow.UP, 0.8).met is False
    assert judged(10, Arrow.DOWN, 0.1).met
    assert judged(11, Arrow.DOWN, 0.1).met is False
    assert judged(80, None, None).met is None
    assert judged(80, Arrow.UP, None).met is None
    assert judged(79, Arrow.UP, 0.8).close
    assert not judged(50, Arrow.UP, 0.8).close
    words = made_words(NAMES)
    words["scores"]["sets"]["D_f_clean"]["met"] = True
    assert read_words("x", words).sets["D_f_clean"].met is False


def test_a_case_becomes_rows():
    words = {
        **made_words(NAMES),
        "case": {"a": {"b": [1, {"c": None}], "d": True}, "e": 0.25, "f": "x", "g": {}},
    }
    rows = [("a.b.0", "1"), ("a.b.1.c", "none"), ("a.d", "yes"), ("e", "0.25"), ("f", "x")]
    assert list(read_words("x", words).case) == rows


def deep(levels):
    return {"a": deep(levels - 1)} if levels else 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"inputs": None},
        {"inputs": []},
        {"inputs": {"pattern": "Z", "recipe": {}, "seed": 0}},
        {"inputs": {"pattern": ["A"], "recipe": {}, "seed": 0}},
        {"inputs": {"pattern": "A", "recipe": deep(20), "seed": 0}},
        {"inputs": {"pattern": "A", "recipe": {}, "seed": "0"}},
        {"unsee": 1},
        {"torch": {}},
        {"threads": "many"},
        {"bit_exact": "yes"},
        {"setting": []},
        {"setting": {"floor": {"of": "x"}}},
        {"setting": {"memory": 1}},
        {"setting": {"shift": "far"}},
        {"setting": {"retreat": {"of the way": 1.5, "from": 0}}},
        {"setting": {"retreat": {"of the way": 0.5}}},
        {"setting": {"shift": {"a": "far"}}},
        {"setting": {"samples passed": -1}},
        {"back_to": -1},
        {"back_to": "first"},
        {"lineage": {}},
        {"lineage": [{}]},
        {"lineage": ["x"]},
        {"trajectory": "x"},
        {"trajectory": [1]},
        {"trajectory": [{"D_r": 0.5}]},
        {"trajectory": [{"epoch": 0, "D_r": 5}]},
        {"trajectory": [{"epoch": 0, "L": "low"}]},
        {"trajectory": [{"epoch": 0, "L": float("inf")}]},
        {"scores": []},
        {"scores": {"sets": []}},
        {"scores": {"sets": {"D_q": {}}}},
        {"scores": {"sets": {"D_r": {"accuracy": 0.5}}}},
        {"scores": {"sets": {"D_r": {"accuracy": 2, "n": 10}}}},
        {"scores": {"sets": {"D_r": {"accuracy": 0.5, "n": 0}}}},
        {"scores": {"sets": {"D_r": {"accuracy": 0.5, "n": 10, "arrow": "sideways"}}}},
        {"scores": {"sets": {"D_r": {"accuracy": 0.5, "n": 10, "arrow": ["up"]}}}},
        {"scores": {"sets": {}, "softmax_D_f": ["x"]}},
        {"scores": {"sets": {}, "changes_on_D_r": {"cat": "much"}}},
        {"warnings": "x"},
        {"warnings": [1]},
        {"case": deep(20)},
        {"case": {str(i): i for i in range(600)}},
    ],
)
def test_broken_and_hostile_runs_are_refused(tmp_path, wrong):
    with pytest.raises(InputError):
        read_words("x", {**made_words(NAMES), **wrong})
    if "inf" not in str(wrong):
        store.write_json(tmp_path / "run.json", {**made_words(NAMES), **wrong})
        with pytest.raises(InputError):
            read_run(tmp_path)


@pytest.mark.parametrize(
    "text", ["", "{", "null", "[]", '{"inputs": 1, "inputs": 2}', "[" * 100_000, "1" * 5000]
)
@pytest.mark.parametrize("name", ["run.json", "facts.json"])
def test_files_that_are_no_such_json_are_refused(tmp_path, name, text):
    store.write_json(tmp_path / "run.json", made_words(NAMES))
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError):
        read_run(tmp_path)


def test_missing_and_overlong_files(tmp_path, monkeypatch):
    with pytest.raises(InputError, match="check the path"):
        read_run(tmp_path / "nowhere")
    store.write_json(tmp_path / "run.json", made_words(NAMES))
    monkeypatch.setattr("unsee.report.run.LARGEST", 100)
    with pytest.raises(InputError, match="at most 100 bytes"):
        read_run(tmp_path)


def test_reading_changes_nothing():
    words = made_words(NAMES)
    before = copy.deepcopy(words)
    run = read_words("x", words)
    assert words == before
    assert json.dumps(words)
    assert replace(run, name="y").sets == run.sets
