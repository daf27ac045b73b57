import numpy as np
import pytest
from optuna.distributions import FloatDistribution

from unsee.answers import accuracy
from unsee.errors import InputError
from unsee.forgetting import forget
from unsee.study import Study
from unsee.trials import DIVERGED, Budget, best
from unsee.tuning import tune


def test_the_default_recipe_is_searched_with_T_and_judged_by_what_it_returns(
    four, model, memory, tmp_path, monkeypatch
):
    from unsee import trials

    results, requests = [], []

    def spied(model, request, *rest, **more):
        requests.append(request)
        results.append(forget(model, request, *rest, **more))
        return results[-1]

    monkeypatch.setattr(trials, "forget", spied)
    budget = Budget(trials=1, folds=2, epochs=1)
    request = four.request("B")
    found = tune(model, request, None, four.validation, "unsee", folder=tmp_path, budget=budget)
    assert {r.T.name for r in requests} == {"tile"}
    val = four.validation
    scores = [
        min(accuracy(result.model, data) for data in (val.D_r, val.D_r_extra, request.D_f_clean.subset(held)))
        for result, held in zip(results, request.D_f.folds(2, 0), strict=True)
    ]
    assert found.score == pytest.approx(np.mean(scores))
    assert found.samples == sum(result.setting["samples passed"] for result in results)  # replayed ones too


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
