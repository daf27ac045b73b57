import json

import pytest
import torch
from torch import nn

from report.made import made_facts
from unsee import FourDatasets, evaluate, networks
from unsee.datasets import Dataset
from unsee.errors import InputError
from unsee.formulation import TABLE_1, FourSets
from unsee.report.facts import OTHER, Facts, facts_of
from unsee.report.rates import Rate
from unsee.transforms import tile


def test_the_facts_agree_with_the_scores(facts, model, forgotten, four):
    scores = evaluate(forgotten.model, four, "B", old=model)
    for name, accuracy in scores.sets.items():
        shift = facts.shift(name)
        assert shift.after == Rate(accuracy.correct, accuracy.n)
        assert shift.before.value == scores.old.sets[name].value
        by_class = {facts.classes[label]: s.after.value for label, s in facts.sets[name].items()}
        assert by_class == pytest.approx(dict(accuracy.by_class))
    assert [after for _, after in facts.softmax] == pytest.approx(scores.softmax_D_f, abs=1e-6)
    assert [before for before, _ in facts.softmax] == pytest.approx(scores.old.softmax_D_f, abs=1e-6)
    assert (facts.model_before, facts.model_after) == (
        networks.identity(model),
        networks.identity(forgotten.model),
    )


def test_the_confusion_counts_every_sample_once(facts, four):
    for name, rows in facts.confusion.items():
        data = getattr(four.test, name)
        assert sum(before for *_, before, _ in rows) == sum(after for *_, after in rows) == len(data)
        right = sum(after for true, answer, _, after in rows if true == answer)
        assert right == facts.shift(name).after.right
    assert set(facts.confusion) == {"D_r", "D_r_extra"}


def test_layers_tell_how_far_each_moved(model, forgotten, four):
    moved = facts_of(model, forgotten.model, four, TABLE_1["B"], examples=0).layers
    assert [(layer.name, layer.kind) for layer in moved] == [(n, "Linear") for n in ("2", "4", "6")]
    old, new = (torch.cat([m[2].weight.flatten(), m[2].bias]) for m in (model, forgotten.model))
    assert moved[0].moved == pytest.approx(((new - old).norm() / old.norm()).item(), rel=1e-5)
    assert moved[0].parameters == 196 * 197
    assert all(layer.moved == 0 for layer in facts_of(model, model, four, None, examples=0).layers)


def test_models_of_other_parameters_and_truncated_ones(model, four):
    other = nn.Sequential(nn.Flatten(), nn.Linear(196, 10))
    cut = networks.Truncated(model, 0)
    assert facts_of(model, other, four, TABLE_1["A"], examples=0).layers == ()
    found = facts_of(model, cut, four, TABLE_1["A"], examples=2)
    assert [layer.moved for layer in found.layers] == [0, 0, 0]
    assert found.shift("D_f").after.right == 0
    assert found.variations == ()
    assert found.looks is None


def test_answers_that_are_no_class_of_the_data_and_nan(four):
    class Odd(nn.Module):
        def forward(self, x):
            y = torch.zeros(len(x), 12)
            y[:, 11] = 1
            y[:5] = torch.nan
            return y

    found = facts_of(Odd(), Odd(), four, TABLE_1["B"], examples=1)
    assert {answer for _, answer, *_ in found.confusion["D_r"]} == {OTHER}
    assert found.softmax == ()
    assert found.shift("D_r").after.right == 0
    assert found.looks is None
    assert Facts.from_dict(json.loads(json.dumps(found.to_dict(), allow_nan=False))) == found


def test_T_that_was_not_given_is_fitted_to_the_pairs(model, forgotten, four):
    unknown = FourDatasets(four.train, four.test)
    found = facts_of(model, forgotten.model, unknown, TABLE_1["B"])
    assert len(found.variations) > 6
    assert all(len(example.views) == 2 for example in found.examples)
    shuffled = four.test.D_f_clean.subset(range(len(four.test.D_f_clean) - 1, -1, -1))
    nobody_knows = FourSets(four.test.D_r, four.test.D_f, shuffled, four.test.D_r_extra)
    found = facts_of(model, forgotten.model, FourDatasets(four.train, nobody_knows), TABLE_1["B"])
    assert found.variations == ()
    assert found.looks is None
    assert {example.of for example in found.examples} == {"D_r_extra", "D_f"}


@pytest.mark.parametrize(
    "present", [["D_r"], ["D_f"], ["D_f_clean"], ["D_r_extra"], ["D_f", "D_f_clean"], []]
)
def test_sets_may_be_missing(model, forgotten, four, present):
    test = FourSets(**{name: getattr(four.test, name) for name in present})
    found = facts_of(model, forgotten.model, FourDatasets(four.train, test, None, tile()), TABLE_1["B"])
    assert list(found.sets) == present
    assert set(found.confusion) == {"D_r", "D_r_extra"} & set(present)
    assert bool(found.softmax) == ("D_f" in present)
    assert bool(found.variations) == ("D_r" in present)
    assert Facts.from_dict(json.loads(json.dumps(found.to_dict()))) == found


def test_numbers_and_a_residual_network_with_pictures(data):
    numbers = Dataset(torch.randn(30, 6), [0, 1, 2] * 10)
    sets = FourSets(numbers, numbers)
    found = facts_of(
        nn.Linear(6, 3), nn.Linear(6, 3), FourDatasets(sets, sets), TABLE_1["A"], with_images=True
    )
    assert found.examples[0].views[0].picture is None
    four = FourDatasets.of_class(data, 0, tile())
    nets = [networks.network("resnet", data.train, width=4, blocks=1, seed=seed) for seed in (0, 1)]
    found = facts_of(*nets, four, TABLE_1["B"], with_images=True)
    assert found.looks is not None
    assert all(view.looks_after for example in found.examples for view in example.views)


def test_facts_come_back_from_json_as_they_were(facts):
    assert Facts.from_dict(json.loads(json.dumps(facts.to_dict(), allow_nan=False))) == facts
    assert any(view.picture for example in facts.examples for view in example.views)
    assert "picture" in json.dumps(facts.to_dict())


def test_neither_inputs_nor_modes_change(model, forgotten, four):
    before, x = networks.identity(model), four.test.D_r.x.clone()
    model.train()
    facts_of(model, forgotten.model, four, TABLE_1["B"], with_images=True)
    assert model.training
    model.eval()
    assert networks.identity(model) == before
    assert torch.equal(four.test.D_r.x, x)


def places(value, path=()):
    """Every place in JSON, from the outermost in."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inner:
        yield from places(part, (*path, key))


def put(value, path, new):
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = put(copy[path[0]], path[1:], new)
    return copy


def test_whatever_else_stands_in_a_file_is_refused_or_harmless():
    """Each value of a facts.json replaced by each of some wrong ones: InputError, or facts nevertheless."""
    words = json.loads(json.dumps(made_facts(("cat", "dog", "owl")).to_dict()))
    refused = 0
    for path in places(words):
        for wrong in (None, "x", -1, 1e999, 10**30, True, [], {}, [[]], {"a": 1}):
            try:
                Facts.from_dict(put(words, path, wrong))
            except InputError as error:
                refused += "facts.json" in str(error)
    assert refused > 2000


@pytest.mark.parametrize(
    ("path", "wrong", "message"),
    [
        (("format",), 99, "from 1 to 1 at format"),
        (("sets", "D_r"), [[7, 1, 1, 0, 0]], "from 0 to 2"),
        (("sets",), {"D_q": []}, "one of D_r, D_f"),
        (("confusion", "D_r"), [[0, 9, 1, 1]], "from -1 to 2"),
        (("softmax",), [[0.5, 0.5]], "two shares for each class at softmax"),
        (("softmax", 0), [0.5], "rows of 2 numbers"),
        (("softmax", 0, 0), 1.5, "a number from 0 to 1 at softmax.0.0"),
        (("layers", 0, "moved"), float("nan"), "a number"),
        (("examples", 0, "of"), "D_x", "one of D_r"),
        (("variations", 0, "shift", "kept"), 99, "make up at most n"),
        (("looks", "area"), "much", "a number from 0 to 1 at looks.area"),
    ],
)
def test_a_refusal_names_the_place(path, wrong, message):
    words = json.loads(json.dumps(made_facts(("cat", "dog", "owl")).to_dict()))
    with pytest.raises(InputError, match=message):
        Facts.from_dict(put(words, path, wrong))


def test_what_is_no_object_at_all_is_refused():
    for value in (None, 3, "x", [], [{}], {}):
        with pytest.raises(InputError):
            Facts.from_dict(value)
