import argparse

import pytest
import torch

from unsee import networks, sources
from unsee.command_line.options import four_from, origin_from, recipe_from
from unsee.errors import UsageError
from unsee.recipe import PAPERS


def words(**given):
    names = (
        "T",
        "D_r",
        "D_f",
        "D_f_clean",
        "D_r_extra",
        "label",
        "share",
        "recipe",
        "lr",
        "epochs",
        "forgetting",
    )
    return argparse.Namespace(**{"data": "bundled", "pattern": "B", **dict.fromkeys(names), **given})


def test_a_class_by_number_or_name_and_T():
    by_name, by_number = (four_from(words(label=label, T="line+tile")) for label in ("Bag", "8"))
    assert by_name.train.D_f.fingerprint == by_number.train.D_f.fingerprint
    assert by_name.T.name == "line + tile"


def test_a_class_is_the_models_whatever_order_the_data_has_them_in():
    model = networks.network("mlp", sources.bundled().train)
    model.labels = tuple(reversed(model.labels))
    four, plain = (four_from(words(label="Bag"), known) for known in (model, None))
    assert torch.equal(four.train.D_f.x, plain.train.D_f.x)
    assert four.train.D_f.y.unique().tolist() == [1]
    truncated = four_from(words(label="Bag"), networks.Truncated(model, 1))
    assert truncated.train.D_f.fingerprint == four.train.D_f.fingerprint


def test_the_words_of_the_options_are_kept(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    paths = {"model": "old.safetensors", "out": "runs/new"}
    by_class = origin_from(words(label="Bag", T="tile", share=0.5, **paths)).to_dict()
    start = {"folder": "../..", "model": "old.safetensors"}
    assert by_class == {**start, "T": "tile", "data": "bundled", "label": "Bag", "share": 0.5}
    by_sets = origin_from(words(D_f="bad", D_f_clean="clean", **paths)).to_dict()
    assert by_sets == {**start, "sets": {"D_f": "bad", "D_f_clean": "clean"}}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "--class, or --D-f and the other sets"),
        ({"label": "0", "D_f": "x"}, "--class or sets of your own"),
        ({"label": "boots"}, "a class from 0 to 9, or one of"),
        ({"label": "0", "T": "tiles"}, "T as line, tile"),
    ],
)
def test_options_that_do_not_fit(given, message):
    with pytest.raises(UsageError, match=message):
        four_from(words(**given))


def test_what_is_changed_in_a_recipe_is_in_its_name():
    recipe = recipe_from(words(lr=0.5, epochs=3))
    assert (recipe.lr, recipe.epochs, recipe.lambda_f) == (0.5, 3, 0.3)
    assert recipe.name == "unsee, lr = 0.5, epochs = 3"
    assert recipe_from(words()).name == "unsee"
    assert recipe_from(words(), PAPERS).name == "fashion-mnist/tile/B"
