"""How far to go: what a plan refuses, when it ends, and what a small D_f makes of it."""

from dataclasses import replace

import pytest

from unsee.errors import InputError
from unsee.plan import ENOUGH, MEAN_SMALLEST, MEAN_STEPS, SMALL, Plan, plan_of
from unsee.recipe import RECIPES


@pytest.mark.parametrize(
    "words", [{"lr": 0}, {"lr": -1}, {"momentum": 1}, {"epochs": 0}, {"n": 0}, {"batch_size": 0}]
)
def test_plans_that_cannot_be(words):
    with pytest.raises(InputError):
        Plan(**{"lr": 0.1, "momentum": 0.9, "epochs": 1, "n": 1, "batch_size": 1} | words)


def test_a_mean_needs_no_epochs_after_the_loss_has_stalled_and_no_smaller_steps():
    plan = Plan(lr=0.1, momentum=0.9, epochs=9, n=20, batch_size=1, settle=0.1, average=True)
    stalled = [{"epoch": 0}, {"epoch": 1, "L": 2.0}, {"epoch": 2, "L": 1.9}]
    assert plan.end(stalled[:2]) == plan.steps
    assert plan.end(stalled) == ENOUGH * plan.steps_per_epoch
    falling = [{"epoch": epoch, "L": 2.0**-epoch} for epoch in range(ENOUGH + 1)]
    assert plan.end(falling) == plan.steps
    assert plan.end([*falling, {"epoch": 5, "L": 1.0}]) == 5 * plan.steps_per_epoch
    rates = [plan.lr_at(step, plan.end(stalled)) for step in range(40)]
    assert rates == pytest.approx([0.01 * step for step in range(1, 11)] + [0.1] * 30)


@pytest.mark.parametrize("n", [1, 5, 16, 50, 600, 2000, 4607])
def test_a_small_D_f_takes_small_batches_and_is_averaged(n):
    recipe = RECIPES["unsee"]
    plan = plan_of(recipe, n)
    assert plan.average
    assert plan.steps_per_epoch == MEAN_STEPS
    assert min(n, MEAN_SMALLEST) <= plan.batch_size <= min(n, recipe.batch_size)
    assert plan.lr == recipe.lr * (plan.batch_size / recipe.batch_size) ** 0.4
    assert plan.settle > recipe.settle


def test_a_large_D_f_takes_whole_passes_and_settles():
    recipe = RECIPES["unsee"]
    n = SMALL * recipe.batch_size
    assert plan_of(recipe, n) == Plan(recipe.lr, 0.9, recipe.epochs, n, recipe.batch_size, recipe.settle)


def test_a_recipe_that_does_not_average_settles_however_small_D_f_is():
    recipe = replace(RECIPES["unsee"], average=False)
    plan = plan_of(recipe, 600)
    assert (plan.batch_size, plan.n, plan.average, plan.settle) == (30, 600, False, recipe.settle)
    assert plan.lr == recipe.lr * (30 / recipe.batch_size) ** 0.5


def test_the_papers_recipes_take_their_epochs_and_batches_as_they_are():
    recipe = RECIPES["fashion-mnist/tile/B"]
    assert plan_of(recipe, 600) == Plan(recipe.lr, recipe.momentum, recipe.epochs, 600, recipe.batch_size)
