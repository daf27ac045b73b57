from dataclasses import replace

import numpy as np
import optuna
import pytest
from optuna.distributions import FloatDistribution

from unsee import networks
from unsee.answers import accuracy
from unsee.errors import InputError, UnseeWarning
from unsee.forgetting import forget
from unsee.memory import remember
from unsee.recipe import RECIPES
from unsee.study import Study
from unsee.trials import DIVERGED, Budget, Trials, best, passed
from unsee.tuning import tune


@pytest.mark.filterwarnings("ignore::unsee.errors.UnseeWarning")
def test_the_default_recipe_is_searched_with_T_and_judged_by_what_it_returns(
    four, model, memory, tmp_path, monkeypatch
):
    from unsee import trials

    results, requests, watched = [], [], []

    def spied(model, request, *rest, **more):
        requests.append(request)
        watched.append(more["validation"])
        results.append(forget(model, request, *rest, **more))
        return results[-1]

    monkeypatch.setattr(trials, "forget", spied)
    budget = Budget(trials=1, folds=2, epochs=1)
    request = four.request("B")
    found = tune(model, request, None, four.validation, "unsee", folder=tmp_path, budget=budget)
    assert {r.T.name for r in requests} == {"tile"}
    assert watched == [four.validation] * 2  # the floor is held by what it will be held by in the end
    val = four.validation
    scores = [
        min(accuracy(result.model, data) for data in (val.D_r, val.D_r_extra, request.D_f_clean.subset(held)))
        for result, held in zip(results, request.D_f.folds(2, 0), strict=True)
    ]
    assert found.score == pytest.approx(np.mean(scores))
    assert found.samples == sum(result.setting["samples passed"] for result in results)  # replayed ones too


def test_the_search_leans_on_the_sketch_too(four, model):
    """Else the recipe would be one for another procedure than the one that it is given to."""
    memory = remember(model, four.pretraining, sketch=1)
    words = (four.validation, RECIPES["unsee"], Budget(), {}, 0)
    trials = Trials(model, four.request("B"), memory, *words)
    assert trials.memory.sketch is not None
    assert trials.memory.n == len(four.train.D_r)
    assert trials.memory.sketch.counts.sum() == len(four.train.D_r)


@pytest.mark.filterwarnings("ignore::unsee.errors.UnseeWarning")
@pytest.mark.parametrize(("batch_size", "averaged"), [(50, False), (128, True)])
def test_a_fold_is_planned_as_all_of_D_f_is(four, model, tmp_path, monkeypatch, batch_size, averaged):
    """A lambda_KL that was found for averaged steps would be another's."""
    from unsee import trials

    monkeypatch.setattr("unsee.plan.SMALL", 1)
    plans, recipe = [], replace(RECIPES["unsee"], batch_size=batch_size)  # D_f has 60 samples, a fold 48

    def spied(*given, **more):
        plans.append(forget(*given, **more))
        return plans[-1]

    monkeypatch.setattr(trials, "forget", spied)
    budget = Budget(trials=1, folds=5, epochs=1)
    tune(model, four.request("B"), None, four.validation, recipe, folder=tmp_path, budget=budget)
    assert {result.setting["plan"]["average"] for result in plans} == {averaged}


@pytest.mark.filterwarnings("ignore::unsee.errors.UnseeWarning")
def test_each_epoch_of_each_fold_has_a_step_of_its_own(four, model, memory, tmp_path):
    """A last touch, or a state gone back to, is looked at once more than there are epochs."""
    recipe, budget = replace(RECIPES["unsee"], epochs=2), Budget(trials=1, folds=2, prune=None)
    tune(model, four.request("B"), memory, four.validation, recipe, folder=tmp_path, budget=budget)
    study = optuna.load_study(study_name="unsee", storage=f"sqlite:///{tmp_path / 'study.db'}")
    assert sorted(study.trials[0].intermediate_values) == [1, 2, 3, 4]


def test_a_memory_of_another_model_is_refused_as_such(four, model, memory, tmp_path):
    other = networks.network("mlp", four.pretraining, depth=3)
    with pytest.raises(InputError, match="a memory of this model"):
        tune(other, four.request("B"), memory, four.validation, folder=tmp_path)


def test_what_forgetting_says_is_said_once(four, model, memory, tmp_path):
    request = replace(four.request("B"), T=None)  # fitted to the pairs, which is said
    recipe = replace(RECIPES["unsee"], floor=None, epochs=1)
    budget = Budget(trials=2, folds=2, prune=None)
    with pytest.warns(UnseeWarning) as said:
        tune(model, request, memory, four.validation, recipe, folder=tmp_path, budget=budget)
    fitted = [warning for warning in said if "T was not given" in str(warning.message)]
    assert 1 <= len(fitted) <= 2  # of the first fold: when it is counted, and when it is forgotten
    with pytest.raises(InputError, match="T = None"):
        tune(model, four.request("B"), memory, four.validation, recipe, folder=tmp_path, budget=budget)


@pytest.mark.parametrize("T", [True, False])
@pytest.mark.parametrize(
    "recipe",
    [
        RECIPES["fashion-mnist/tile/B"],
        replace(RECIPES["fashion-mnist/tile/B"], lambda_f=0.0),
        RECIPES["unsee"],
        replace(RECIPES["unsee"], lambda_s=0.0),
        replace(RECIPES["unsee"], forgetting="rld", lambda_h=0.0),
    ],
    ids=lambda recipe: recipe.name,
)
@pytest.mark.filterwarnings("ignore::unsee.errors.UnseeWarning")
def test_what_an_epoch_passes_is_what_a_whole_run_says(four, model, memory, recipe, T):
    request = four.request("B") if T else replace(four.request("B"), T=None)
    recipe = replace(recipe, epochs=2, batch_size=32)
    result = forget(model, request, memory, recipe, again=False)
    epochs = result.trajectory[-1]["epoch"]
    assert epochs * passed(recipe, request) == result.setting["samples passed"]


@pytest.mark.parametrize(
    "wrong", [{"trials": 0}, {"folds": 1}, {"epochs": 0}, {"minutes": 0.0}, {"minutes": -1.0}, {"grace": -1}]
)
def test_a_budget_that_cannot_be(wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        Budget(**wrong)


def test_what_diverged_never_leads(tmp_path):
    study = Study.open(tmp_path, {"question": 1}, 0)
    for diverged in (True, False):
        assert best(study) is None
        with study.trial(2, {"lr": FloatDistribution(0.1, 1.0)}, {"lr": 0.5}) as trial:
            if diverged:
                trial.set_user_attr(DIVERGED, True)
            study.tell(trial, 0.0)
    assert best(study).number == 1
