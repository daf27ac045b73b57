import os
import signal
import threading
import time
from dataclasses import replace

import numpy as np
import optuna
import pytest
import torch

from unsee import networks
from unsee.errors import InputError, Interrupted, UnseeWarning
from unsee.formulation import FourDatasets, Request, Validation
from unsee.recipe import Recipe
from unsee.sources import TrainTest
from unsee.transforms import tile
from unsee.trials import Budget
from unsee.tuning import SPACE, Found, tune, write

BASE = Recipe("base", batch_size=4, lr=1e-3, lambda_kl=1e3, lambda_f=1.0)
SMALL = Budget(trials=5, folds=2, epochs=3)


def study_of(folder):
    return {"study_name": "unsee", "storage": f"sqlite:///{folder / 'study.db'}"}


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


def test_test_data_never_decides(data, model, memory, tmp_path):
    """Randomise the test labels before anything is cut: the search ends in the same recipe."""
    chance = np.random.default_rng(0)
    y = torch.as_tensor(chance.integers(10, size=len(data.test)))
    noisy = TrainTest(data.train, data.test.with_(y=y))
    assert (y != data.test.y).any()
    one, two = (
        search(FourDatasets.of_class(source, 0, tile()), model, memory, tmp_path / str(i))
        for i, source in enumerate((data, noisy))
    )
    assert one.recipe == two.recipe
    assert without_seconds(one) == without_seconds(two)


def test_what_is_written_names_all_that_went_in(four, model, memory, tmp_path):
    words = write(search(four, model, memory, tmp_path, replace(SMALL, trials=1)), tmp_path)
    assert words["of"]["model"] == networks.identity(model)
    assert words["of"]["memory"] == memory.id
    assert words["of"]["D_r_val"] == four.validation.D_r.fingerprint
    assert words["of"]["space"]["lr"] == [1e-6, 1e-3]
    assert {"seed", "folds", "recipe", "threads", "torch"} <= words["of"].keys()
    assert words["seconds"] > 0


def test_epochs_are_the_recipes_own_where_none_are_asked(four, model, memory, tmp_path):
    found = search(four, model, memory, tmp_path, Budget(trials=1, folds=2))
    assert found.recipe.epochs == BASE.epochs == 10
    assert found.trials[0]["samples"] == 2 * 10 * 60


def test_giving_up_early_saves_samples(four, model, memory, tmp_path):
    patient = search(four, model, memory, tmp_path / "a", replace(SMALL, prune=None))
    hasty = search(four, model, memory, tmp_path / "b", replace(SMALL, prune=0.0, grace=0))
    graceful = search(four, model, memory, tmp_path / "c", replace(SMALL, prune=0.0, grace=3))
    assert {t["state"] for t in patient.trials} == {"complete"}
    assert hasty.samples < patient.samples
    assert min(t["samples"] for t in hasty.trials if t["state"] == "pruned") < 3 * 60
    assert min(t["samples"] for t in graceful.trials) >= 3 * 60  # the first fold, whole


def test_a_killed_search_finishes_the_same_trials(four, model, memory, tmp_path):
    whole = search(four, model, memory, tmp_path / "whole")
    for number in (0, 1, 3):  # the trial at which it dies; the second is the first, drawn anew
        child = os.fork()
        if child == 0:
            try:
                search(four, model, memory, tmp_path / "killed")
            finally:
                os._exit(1)
        while not (tmp_path / "killed" / f"trial-{number}.lock").exists():
            time.sleep(0.001)
        os.kill(child, signal.SIGKILL)
        assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL  # alive until then
    assert without_seconds(search(four, model, memory, tmp_path / "killed")) == without_seconds(whole)
    states = [trial.state.name for trial in optuna.load_study(**study_of(tmp_path / "killed")).trials]
    assert states.count("FAIL") == 3


def test_who_finds_all_trials_taken_waits_and_takes_over_what_the_dead_leave(four, model, memory, tmp_path):
    one = replace(SMALL, trials=1)
    child = os.fork()
    if child == 0:
        try:
            search(four, model, memory, tmp_path, one, on_trial=None, stop=lambda: bool(time.sleep(0.2)))
        finally:
            os._exit(1)
    while not (tmp_path / "trial-0.lock").exists():
        time.sleep(0.001)
    killer = threading.Timer(1.0, os.kill, (child, signal.SIGKILL))
    killer.start()
    assert len(search(four, model, memory, tmp_path, one).trials) == 1
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL


def test_a_budget_in_minutes_and_a_stop(four, model, memory, tmp_path):
    found = search(four, model, memory, tmp_path / "a", replace(SMALL, trials=999, minutes=0.03))
    assert 1 <= len(found.trials) < 999
    found = search(four, model, memory, tmp_path / "b", replace(SMALL, minutes=1e-9))
    assert len(found.trials) == 1  # less than one is nothing


def test_a_stop_ends_within_a_trial_and_going_on_ends_in_the_same(four, model, memory, tmp_path):
    whole = search(four, model, memory, tmp_path / "whole")
    seen, asked = [], 0

    def stop():
        nonlocal asked
        asked += bool(seen)
        return asked > 5  # some steps into the second trial

    found = search(four, model, memory, tmp_path / "a", on_trial=seen.append, stop=stop)
    assert len(found.trials) == len(seen) == 1
    assert without_seconds(search(four, model, memory, tmp_path / "a")) == without_seconds(whole)


def test_a_stop_before_anything_is_finished_is_an_interruption(four, model, memory, tmp_path):
    asked = iter([False, False, True, True])
    with pytest.raises(Interrupted):
        search(four, model, memory, tmp_path, stop=lambda: next(asked))


def test_a_search_in_which_all_diverges_hands_no_recipe_out(four, model, memory, tmp_path):
    base, seen = replace(BASE, lr=2e30), []
    words = {"budget": replace(SMALL, trials=2), "space": {"lr": (1e30, 1e31)}, "on_trial": seen.append}
    with pytest.raises(InputError, match="2, all diverged"):
        tune(model, four.request("B"), memory, four.validation, base, folder=tmp_path, **words)
    assert [trial["score"] for trial in seen[-1].trials] == [0.0, 0.0]
    assert [trial["state"] for trial in seen[-1].trials] == ["diverged", "diverged"]
    assert not seen[-1].holds


def test_pattern_A_needs_no_twins(four, model, memory, tmp_path):
    request = Request("A", four.train.D_f)
    found = tune(model, request, memory, Validation(four.validation.D_r), BASE, folder=tmp_path, budget=SMALL)
    assert found.score > 0


def test_a_space_of_ones_own_holds_the_start_and_leaves_out_what_is_off(four, model, memory, tmp_path):
    base, own = replace(BASE, lr=0.02, lambda_f=0.0), {"lr": (1e-3, 1e-2), "lambda_f": (0.1, 1.0)}
    request = four.request("B")
    words = {"folder": tmp_path, "budget": replace(SMALL, trials=3), "space": own}
    with pytest.warns(UnseeWarning, match=r"lr = 0\.02: its range is widened to 0\.001 to 0\.02"):
        found = tune(model, request, memory, four.validation, base, **words)
    assert found.trials[0]["lr"] == 0.02  # where it starts, though the range ended below
    assert all(1e-3 <= trial["lr"] <= 0.02 for trial in found.trials)
    assert not {"lambda_f", "lambda_kl"} & found.trials[0].keys()
    for wrong in ({"lr": (1.0, 0.1)}, {"lr": (0.0, 0.1)}, {"momentum": (0.1, 0.9)}):
        with pytest.raises(InputError):
            tune(model, request, memory, four.validation, base, folder=tmp_path / "x", space=wrong)


def test_refusals(four, model, memory, tmp_path):
    with pytest.raises(InputError, match=r"D_r,extra\^val"):
        tune(model, four.request("B"), memory, Validation(four.validation.D_r), BASE, folder=tmp_path)
    lone = Request("B", four.train.D_f, four.train.D_f_clean.subset(np.arange(9)))
    with pytest.raises(InputError, match="pair them up"):
        tune(model, lone, memory, four.validation, BASE, folder=tmp_path)
    search(four, model, memory, tmp_path / "x")
    with pytest.raises(InputError, match="seed = 0"):
        search(four, model, memory, tmp_path / "x", seed=1)
