import os
import signal
import time
from dataclasses import fields, replace

import numpy as np
import pytest

from unsee.errors import InputError
from unsee.formulation import FourSets, Request, Validation
from unsee.recipe import Recipe
from unsee.tuning import SPACE, Budget, Found, tune

BASE = Recipe("base", batch_size=4, lr=1e-3, lambda_kl=1e3, lambda_f=1.0)
SMALL = Budget(trials=5, folds=2, epochs=3)


def search(four, model, memory, folder, budget=SMALL, **more) -> Found:
    return tune(model, four.request("B"), memory, four.validation, BASE, folder=folder, budget=budget, **more)


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
    noisy = replace(
        four, test=FourSets(**{k: d.with_(y=d.y.roll(1)) for k, d in four.test.present().items()})
    )
    one, two = (search(f, model, memory, tmp_path / str(i)) for i, f in enumerate((four, noisy)))
    assert one.recipe == two.recipe
    assert one.trials == two.trials
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
    assert search(four, model, memory, tmp_path / "killed").trials == whole.trials


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


def test_refusals(four, model, memory, tmp_path):
    with pytest.raises(InputError, match=r"D_r,extra\^val"):
        tune(model, four.request("B"), memory, Validation(four.validation.D_r), BASE, folder=tmp_path)
    lone = Request("B", four.train.D_f, four.train.D_f_clean.subset(np.arange(9)))
    with pytest.raises(InputError, match="pair them up"):
        tune(model, lone, memory, four.validation, BASE, folder=tmp_path)
    search(four, model, memory, tmp_path / "x")
    with pytest.raises(InputError, match="seed = 0"):
        search(four, model, memory, tmp_path / "x", seed=1)
