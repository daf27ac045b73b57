import json
import warnings
from dataclasses import replace

import pytest
import torch

from unsee import networks
from unsee.datasets import concatenate
from unsee.errors import InputError, UnseeWarning
from unsee.forgetting import forget
from unsee.formulation import Request
from unsee.lineage import Generation, beside, check, distance, drift, say_what_returns
from unsee.memory import Memory
from unsee.recipe import RECIPES
from unsee.runs import write_run


def test_a_second_request_keeps_the_lineage(model, twice):
    first, second, another = twice
    assert [g.pattern for g in second.lineage] == ["B", "A"]
    assert second.lineage[0] == first.lineage[0]
    assert second.lineage[0].model_before == networks.identity(model)
    assert second.lineage[1].model_before == networks.identity(first.model)
    assert second.lineage[1].model_after == networks.identity(second.model)
    assert second.lineage[1].moved == distance(second.model, first.model) > 0
    assert second.lineage[1].n == len(another.D_f)
    last = second.trajectory[-1 if second.back_to is None else second.back_to]["utility"]
    assert second.lineage[1].after == last


def test_a_lineage_of_another_model_is_refused(model, four, twice):
    first, second, _ = twice
    check((), model)
    check(second.lineage, second.model)
    with pytest.raises(InputError, match="a lineage that leads to this model"):
        forget(model, four.request("B"), lineage=first.lineage)
    with pytest.raises(InputError, match="a lineage that leads to this model"):
        check((second.lineage[1], second.lineage[1]), second.model)


def test_the_lineage_is_found_beside_the_model(model, twice, tmp_path):
    _, second, _ = twice
    write_run(tmp_path, second, None)
    path = tmp_path / "model.safetensors"
    assert beside(path, networks.load(path)) == second.lineage
    assert beside(path, model) == ()
    assert beside(tmp_path / "elsewhere" / "model.safetensors", model) == ()
    Memory.load(tmp_path / "memory-after.safetensors").check(networks.load(path))
    words = json.loads((tmp_path / "run.json").read_text())
    odd = {"lineage": [*words["lineage"][:-1], {**words["lineage"][-1], "gone": ["Dress"]}]}
    for wrong in ([], {"lineage": 3}, {"lineage": [3]}, {"lineage": [{"moved": 1}]}, odd):
        (tmp_path / "run.json").write_text(json.dumps(wrong))
        assert beside(path, second.model) == ()


def test_a_forgotten_class_that_would_be_learnt_again_is_named(four, twice):
    _, second, another = twice
    assert [g.gone for g in second.lineage] == [None, 3]
    recipe = replace(RECIPES["unsee"], epochs=1, floor=None)
    clean = concatenate([four.train.D_f_clean, another.D_f], "clean")
    request = Request("B", four.T(clean).with_(y=torch.zeros_like(clean.y)), clean, four.T)
    with pytest.warns(
        UnseeWarning, match="54 samples of Dress, which an earlier request made the model forget"
    ):
        forget(second.model, request, None, recipe, lineage=second.lineage, again=False)
    cut = forget(second.model, another, recipe="truncation", lineage=second.lineage)
    assert cut.lineage[-1].gone == 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        say_what_returns(second.lineage, four.train.D_f_clean)
        say_what_returns((), clean)


def test_words_of_a_later_version_are_left_out(twice):
    words = twice[1].lineage[0].to_dict()
    assert Generation.from_dict({**words, "later": 1}) == twice[1].lineage[0]


def test_drift_says_only_what_was_measured_alike(twice):
    generation = twice[1].lineage[0]
    other = replace(generation, measured="something else")
    assert generation.measured in drift([generation])
    assert generation.measured not in drift([generation, other])
    assert drift([replace(generation, measured=None)]).startswith("1 request since")
    one = replace(generation, before=0.9, after=0.8)
    assert drift([one, replace(one, before=0.7, after=0.6)]).endswith(" 0.900 → 0.800, then 0.700 → 0.600")


def test_distance():
    one, two = torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)
    with torch.no_grad():
        for p, value in ((one.weight, 3.0), (one.bias, 0.0), (two.weight, 3.3), (two.bias, 0.0)):
            p.fill_(value)
    assert distance(two, one) == pytest.approx(0.1)
    assert distance(one, one) == 0
