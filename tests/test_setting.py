import warnings
from dataclasses import replace

import pytest

from unsee import networks
from unsee.errors import UnseeWarning
from unsee.forgetting import forget
from unsee.formulation import FourDatasets
from unsee.memory import remember
from unsee.recipe import RECIPES
from unsee.setting import leaned_on
from unsee.transforms import tile

SHORT = replace(RECIPES["unsee"], epochs=1, floor=None)


@pytest.fixture(scope="module")
def recalling(model, four):
    return remember(model, four.pretraining, sketch=32)


def setting(model, four, memory, recipe=SHORT):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnseeWarning)
        return forget(model, four.request("B"), memory, recipe).setting


def test_what_a_memory_holds(model, four, recalling):
    assert leaned_on(None) == "none"
    assert leaned_on(recalling) == "Fisher and sketch"
    assert leaned_on(replace(recalling, sketch=None)) == "Fisher"


def test_it_says_what_it_is_weaker_for(model, four, recalling):
    assert setting(model, four, recalling)["weaker"] is None
    assert setting(model, four, replace(recalling, sketch=None))["weaker"] is None
    assert setting(model, four, None)["weaker"].startswith("without a memory stand-ins")
    bare = replace(SHORT, lambda_s=0.0)
    assert setting(model, four, None, bare)["weaker"].startswith("without a memory nothing holds D_r")


def test_a_sketch_that_is_passed_over_is_said(model, four):
    stranger = networks.fresh(model, 0)  # knows nothing: neither D_r nor samples that have its moments
    found = setting(stranger, four, replace(remember(stranger, four.pretraining, sketch=32), loss=0.0))
    assert (found["memory"], found["replayed"]) == ("Fisher and sketch", "stand-ins")
    assert "stand-ins took their place" in found["weaker"]


def test_samples_passed_are_those_of_the_descent(model, four, recalling):
    found = setting(model, four, recalling)
    n = len(four.train.D_f)
    # Of D_f, of D_f,clean, replayed without T and with it; more than one pass where theta is averaged.
    assert found["samples passed"] >= 4 * n
    assert found["samples passed"] % 4 == 0


def test_what_the_recipe_came_to(model, four, recalling):
    plan = setting(model, four, recalling)["plan"]  # of 60 samples: small
    assert plan["average"] is True
    assert SHORT.lambda_kl < plan["lambda_kl"] < 10 * SHORT.lambda_kl  # of few weights: decision 41
    assert plan["lambda_h"] == SHORT.lambda_h  # of one class
    assert plan["lr"] < SHORT.lr
    assert (plan["batch_size"], plan["steps_per_epoch"]) == (8, 37)
    whole = setting(model, four, recalling, replace(SHORT, average=False))["plan"]
    assert (whole["average"], whole["lambda_kl"]) == (False, pytest.approx(plan["lambda_kl"] / 10))
    bare = setting(model, four, None, replace(SHORT, average=False, lambda_h=0.0))["plan"]
    assert (bare["lambda_kl"], bare["lambda_h"]) == (0.0, 0.0)


def test_what_the_recipe_came_to_where_D_f_clean_is_of_all_classes(model, data, recalling):
    four = FourDatasets.of_poison(data, range(0, len(data.train), 7), tile(), 0)
    plan = setting(model, four, recalling)["plan"]
    assert plan["lambda_h"] == pytest.approx(10 * SHORT.lambda_h)
    assert plan["lambda_kl"] == pytest.approx(0.3 * SHORT.lambda_kl)
