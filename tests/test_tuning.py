import os
import signal
import time
from dataclasses import fields, replace

import numpy as np
import pytest
import torch

from unsee.answers import accuracy
from unsee.errors import InputError
from unsee.forgetting import forget
from unsee.formulation import FourSets, Request, Validation
from unsee.recipe import Recipe
from unsee.tuning import SPACE, Budget, Found, tune

BASE = Recipe("base", batch_size=4, lr=1e-3, lambda_kl=1e3, lambda_f=1.0)
SMALL = Budget(trials=5, folds=2, epochs=3)


def search(four, model, memory, folder, budget=SMALL, **more) -> Found:
    return tune(model, four.request("B"), memory, four.validation, BASE, folder=folder, budget=budget, **more)


def without_seconds(found):
    return [{k: v for k, v in trial.items() if k != "seconds"} for trial in found.trials]


def test_it_starts_warm_keeps_the_best_and_counts_what_it_passed(four, model, memory, tmp_path):
    seen = []
    found = search(four, model, memory, tmp_path, on_trial=seen.append)
    assert len(found.trials) == len(seen) == 5
    first = found.trials[0]
    assert {name: first[name] for name in SPACE} == {name: getattr(BASE, name) for name in SPACE}
    complete = [t["score"] for t in found.trials if t["state"] == "complete"]
    assert found.score == max(complete) >= first["score"]
    assert first["samples"] == 2 * 3 * 60  # two folds of three epochs, each over 30 images and 30 twins
    assert found.samples == sum(t["samples"] for t in found.trials)
    assert found.recipe.fisher_over == BASE.fisher_over
    assert found.recipe.epochs == 3


def test_test_data_never_decides(four, model, memory, tmp_path):
    """Randomise the test labels: the search ends in the same recipe; what it receives holds none."""
    chance = np.random.default_rng(0)
    noisy = replace(
        four,
        test=FourSets(
            **{
                k: d.with_(y=torch.as_tensor(chance.integers(10, size=len(d))))
                for k, d in four.test.present().items()
            }
        ),
    )
    assert all(
        (a.y != b.y).any() for a, b in zip(*(f.test.present().values() for f in (four, noisy)), strict=True)
    )
    one, two = (search(f, model, memory, tmp_path / str(i)) for i, f in enumerate((four, noisy)))
    assert one.recipe == two.recipe
    assert without_seconds(one) == without_seconds(two)
    names = {field.name for kind in (Request, Validation) for field in fields(kind)}
    assert not any("test" in name for name in names)


def test_giving_up_early_saves_samples(four, model, memory, tmp_path):
    patient = search(four, model, memory, tmp_path / "a", replace(SMALL, prune=None))
    hasty = search(four, model, memory, tmp_path / "b", replace(SMALL, prune=0.0))
    assert {t["state"] for t in patient.trials} == {"complete"}
    assert hasty.samples < patient.samples
    assert "pruned" in {t["state"] for t in hasty.trials}


def test_a_killed_search_finishes_the_same_trials(four, model, memory, tmp_path):
    whole = search(four, model, memory, tmp_path / "whole")
    for moment in (0.4, 0.9):
        child = os.fork()
        if child == 0:
            try:
                search(four, model, memory, tmp_path / "killed")
            finally:
                os._exit(0)
        time.sleep(moment)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert without_seconds(search(four, model, memory, tmp_path / "killed")) == without_seconds(whole)


def test_a_budget_in_minutes_and_a_stop(four, model, memory, tmp_path):
    found = search(four, model, memory, tmp_path / "a", replace(SMALL, trials=999, minutes=0.03))
    assert 1 <= len(found.trials) < 999
    asked = iter([False, False, True])
    assert len(search(four, model, memory, tmp_path / "b", stop=lambda: next(asked)).trials) == 2


def test_pattern_A_needs_no_twins(four, model, memory, tmp_path):
    request = Request("A", four.train.D_f)
    found = tune(model, request, memory, Validation(four.validation.D_r), BASE, folder=tmp_path, budget=SMALL)
    assert found.score > 0


def test_divergence_counts_as_the_least_score(four, model, memory, tmp_path, monkeypatch):
    from unsee import tuning
    from unsee.errors import Diverged

    def wild(*_, **__):
        raise Diverged("finite losses", "nan", "x")

    monkeypatch.setattr(tuning, "forget", wild)
    found = search(four, model, memory, tmp_path, replace(SMALL, trials=2))
    assert [t["score"] for t in found.trials] == [0.0, 0.0]
    assert [t["state"] for t in found.trials] == ["diverged", "diverged"]


def test_a_space_of_ones_own_holds_the_start_and_leaves_out_what_is_off(four, model, memory, tmp_path):
    base, own = replace(BASE, lr=0.02, lambda_f=0.0), {"lr": (1e-3, 1e-2), "lambda_f": (0.1, 1.0)}
    request = four.request("B")
    found = tune(
        model,
        request,
        memory,
        four.validation,
        base,
        folder=tmp_path,
        budget=replace(SMALL, trials=3),
        space=own,
    )
    assert found.trials[0]["lr"] == 0.02  # where it starts, though the range ended below
    assert all(1e-3 <= trial["lr"] <= 0.2 for trial in found.trials)
    assert not {"lambda_f", "lambda_kl"} & found.trials[0].keys()
    for wrong in ({"lr": (1.0, 0.1)}, {"lr": (0.0, 0.1)}, {"momentum": (0.1, 0.9)}):
        with pytest.raises(InputError):
            tune(model, request, memory, four.validation, base, folder=tmp_path / "x", space=wrong)


def test_the_default_recipe_is_searched_with_T_and_judged_by_what_it_returns(
    four, model, memory, tmp_path, monkeypatch
):
    from unsee import tuning

    results, requests = [], []

    def spied(model, request, *rest, **more):
        requests.append(request)
        results.append(forget(model, request, *rest, **more))
        return results[-1]

    monkeypatch.setattr(tuning, "forget", spied)
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


@pytest.mark.parametrize(
    "wrong", [{"trials": 0}, {"folds": 1}, {"epochs": 0}, {"minutes": 0.0}, {"minutes": -1.0}]
)
def test_a_budget_that_cannot_be(wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        Budget(**wrong)


def test_refusals(four, model, memory, tmp_path):
    with pytest.raises(InputError, match=r"D_r,extra\^val"):
        tune(model, four.request("B"), memory, Validation(four.validation.D_r), BASE, folder=tmp_path)
    lone = Request("B", four.train.D_f, four.train.D_f_clean.subset(np.arange(9)))
    with pytest.raises(InputError, match="pair them up"):
        tune(model, lone, memory, four.validation, BASE, folder=tmp_path)
    search(four, model, memory, tmp_path / "x")
    with pytest.raises(InputError, match="seed = 0"):
        search(four, model, memory, tmp_path / "x", seed=1)
