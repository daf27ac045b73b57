import copy
import re
import warnings
from dataclasses import replace

import pytest
import torch
from torch import nn

from unsee import networks
from unsee.answers import accuracy, answers, guesses
from unsee.datasets import Dataset, sample_hashes
from unsee.descent import Descent
from unsee.errors import InputError, Interrupted, UnseeWarning
from unsee.floor import STAND_INS, STAND_INS_MAY_LOSE, Floor, _least
from unsee.forgetting import forget
from unsee.loss import Loss
from unsee.memory import remember
from unsee.randomness import stream
from unsee.recipe import RECIPES, Recipe
from unsee.replay import replay_of

OURS = replace(RECIPES["unsee"], epochs=2, settle=None)
FREE = replace(OURS, stride=None)  # to go wrong with steps of any length


@pytest.fixture(scope="module")
def recalling(model, four):
    """A memory with a sketch."""
    return remember(model, four.pretraining, sketch=32)


@pytest.fixture(scope="module")
def replays(model, four, recalling):
    request = four.request("B")
    return {
        "sketch": replay_of(model, request, recalling.sketch),
        "stand-ins": replay_of(model, request, None),
    }


def silent(model):
    """A model of the same shape that always says the same."""
    quiet = networks.fresh(model, 0)
    for p in quiet.parameters():
        nn.init.zeros_(p)
    return quiet


def test_on_validation_it_is_the_accuracy_on_D_r(model, four, replays):
    for replay in (None, *replays.values()):  # whatever else there is
        floor = Floor.of(model, Recipe(floor=0.05), replay, four.validation, 0)
        assert floor.name == "accuracy on D_r^val"
        before = accuracy(model, four.validation.D_r)
        assert floor.utility(model) == before
        assert floor.least == before - 0.05
        assert floor.utility(silent(model)) == pytest.approx(0, abs=0.2)
        assert floor.held_by(model)
        assert not floor.held_by(silent(model))


def test_on_a_sketch_it_is_the_accuracy_on_its_samples(model, replays):
    floor = Floor.of(model, Recipe(floor=0.02), replays["sketch"], None, 0)
    assert floor.name == "accuracy on samples of the sketch"
    assert floor.utility(model) > 0.7
    assert floor.least == pytest.approx(floor.utility(model) - 0.02)
    assert floor.utility(silent(model)) < 0.2


def test_a_class_that_the_sketch_knows_by_T_alone_is_left_out(model, four, recalling, replays):
    """What it loses with T is what shall be lost; without T, it would gain what others then lose unseen."""
    bared = replay_of(model, four.request("B"), recalling.sketch, T=four.T)
    assert bared.worn.classes.tolist() == [0]
    by_others = networks.Truncated(copy.deepcopy(model), 0)  # knows all but class 0
    floor = Floor.of(model, OURS, bared, None, 0)
    assert floor.utility(by_others) >= floor.utility(model)
    whole = Floor.of(model, OURS, replays["sketch"], None, 0)
    assert whole.utility(by_others) < whole.least  # one of ten classes, where T is not known
    assert floor.utility(silent(model)) < floor.least


def test_on_stand_ins_it_is_the_share_answered_as_before(model, replays):
    floor = Floor.of(model, Recipe(floor=0.02), replays["stand-ins"], None, 0)
    assert floor.name == "the share of stand-ins answered as before"
    assert floor.utility(model) == 1
    assert floor.least == pytest.approx(1 - STAND_INS_MAY_LOSE)
    assert floor.utility(silent(model)) < 0.5


@pytest.mark.parametrize("kind", ["sketch", "stand-ins"])
def test_it_looks_at_the_same_samples_each_time_and_at_others_with_another_seed(model, replays, kind):
    other = networks.fresh(model, 3)
    found = [
        Floor.of(model, Recipe(floor=0.02), replays[kind], None, seed).utility(other) for seed in (0, 0, 1)
    ]
    assert found[0] == found[1] != found[2]


def test_without_one_in_the_recipe_or_anything_to_measure_there_is_none(model, four, replays):
    with pytest.warns(UnseeWarning, match="the floor is not watched"):
        unseen = Floor.of(model, Recipe(floor=0.02), None, None, 0)
    for floor in (unseen, Floor.of(model, Recipe(floor=None), replays["sketch"], four.validation, 0)):
        assert (floor.name, floor.utility) == ("", None)
        assert floor.utility is None


def test_what_was_taken_for_a_class_that_goes_is_not_measured(model, replays):
    x, _ = replays["stand-ins"].draw(2000, stream(0, "floor"))
    taken = guesses(answers(model, Dataset(x, torch.zeros(len(x)).long())))
    common = int(taken.bincount(minlength=10).argmax())
    floor = Floor.of(model, OURS, replays["stand-ins"], None, 0, gone=torch.tensor([common]))
    assert floor.least == pytest.approx(1.0 - STAND_INS_MAY_LOSE)
    assert floor.utility(networks.Truncated(copy.deepcopy(model), common)) == 1.0
    whole = Floor.of(model, OURS, replays["stand-ins"], None, 0)
    assert whole.utility(networks.Truncated(copy.deepcopy(model), common)) < 1.0


def test_a_class_that_goes_is_not_measured_on_a_sketch_that_knows_it(model, replays):
    """As it does where only a part of the class is in D_f, or R is over D."""
    floor = Floor.of(model, OURS, replays["sketch"], None, 0, gone=torch.tensor([3]))
    assert floor.utility(networks.Truncated(copy.deepcopy(model), 3)) >= floor.least
    whole = Floor.of(model, OURS, replays["sketch"], None, 0)
    assert whole.utility(networks.Truncated(copy.deepcopy(model), 3)) < whole.least


def test_a_lower_floor_is_lower_on_stand_ins_too(model, replays):
    leasts = [
        Floor.of(model, Recipe(floor=floor), replays["stand-ins"], None, 0).least
        for floor in (0, 0.01, 0.02, 0.1)
    ]
    assert leasts == pytest.approx([1.0, 0.7**0.5, 0.7, 0.7**5])


def test_looking_changes_nothing(model, replays):
    before = networks.identity(model)
    for replay in replays.values():
        floor = Floor.of(model, Recipe(floor=0.02), replay, None, 0)
        floor.utility(model)
    assert networks.identity(model) == before
    assert all(p.grad is None for p in model.parameters())


def test_what_is_said():
    floor = Floor("accuracy on D_r^val", lambda model: 0.0, 0.8)
    rows = ({"epoch": 0, "utility": 0.9}, {"epoch": 1, "utility": 0.4567})
    assert floor.said(Descent(rows, back_to=3)) == (
        "accuracy on D_r^val came to 0.457, and 0.800 are asked: the state after epoch 3 is kept; "
        "if D_r may lose so much, give 0.45 as floor."
    )
    assert "the old model is kept; " in floor.said(Descent(rows, back_to=0))
    assert ", try 0." in floor.said(Descent(rows, back_to=0, eased=2))
    gone = ({"epoch": 0, "utility": 0.9}, {"epoch": 1, "utility": 0.44})
    assert floor.said(Descent(gone, back_to=0)).endswith("the old model is kept.")
    assert floor.said(Descent(rows)) == ""


def test_what_is_said_of_a_part_of_the_way():
    floor = Floor("accuracy on D_r^val", lambda model: 0.0, 0.8)
    end = {"epoch": 2, "utility": 0.81, "of the way": 0.7, "back to": 0, "went too far to": 0.755}
    assert floor.said(Descent(({"epoch": 0, "utility": 0.9}, end))) == (
        "accuracy on D_r^val came to 0.755, and 0.800 are asked: 70 % of the way from the old model is kept; "
        "if D_r may lose so much, give 0.15 as floor."
    )
    later = floor.said(Descent(({"epoch": 0, "utility": 0.9}, end | {"back to": 1})))
    assert "70 % of the way from the state after epoch 1 is kept" in later


@pytest.mark.parametrize("name", ["accuracy on D_r^val", STAND_INS])
def test_the_floor_that_would_do_is_the_least_of_all_hundredths(name):
    for found in (0.85, 0.8499, 0.8501, 0.7):
        wide = Floor(name, None, 0.9).wide_enough(0.9, found)
        assert found >= _least(0.9, wide, name)
        assert found < _least(0.9, wide - 0.01, name)


@pytest.mark.parametrize("kind", ["sketch", "stand-ins"])
def test_what_it_says_would_allow_the_run_does(model, replays, kind):
    """A floor as large as is said holds the last epoch; one of a hundredth less does not."""
    floor = Floor.of(model, Recipe(floor=0.02), replays[kind], None, 0)
    lame = copy.deepcopy(model)
    while floor.utility(lame) >= floor.least:
        with torch.no_grad():
            list(lame.parameters())[-1][0] += 1.0
    before, found = (floor.utility(m) for m in (model, lame))
    enough = floor.wide_enough(before, found)
    for allowed, holds in ((enough, True), (enough - 0.01, False)):
        least = Floor.of(model, Recipe(floor=allowed), replays[kind], None, 0).least
        assert (found >= least) == holds


def test_it_names_the_class_that_fell_most(model, four):
    floor = Floor.of(model, Recipe(floor=0.05), None, four.validation, 0, four.validation.D_r.classes)
    assert floor.fell(0.5) == ""
    lame = copy.deepcopy(model)
    with torch.no_grad():
        lame[-1].bias[9] = -1e6
    found = floor.utility(lame)
    floor.utility(model)  # as a retreat does, which is no part of how it ended
    assert floor.fell(found) == " (Ankle boot fell most, from 1.000 to 0.000)"


# ---- in forget() --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["D_r^val", "sketch", "stand-ins"])
def test_a_collapse_is_stopped_and_taken_back_and_said(model, four, recalling, kind):
    memory = recalling if kind == "sketch" else None
    validation = four.validation if kind == "D_r^val" else None
    wild = replace(FREE, lr=1.0, epochs=9)
    with pytest.warns(UnseeWarning, match=f"{re.escape(kind)}.* are asked.*: the old model is kept"):
        result = forget(model, four.request("B"), memory, wild, validation=validation)
    assert len(result.trajectory) == 7  # three, after which less is asked for, and three; not nine
    assert result.back_to == 0
    assert result.trajectory[-1]["utility"] < result.setting["floor"]["least"] - 0.1
    assert networks.identity(result.model) == networks.identity(model)
    assert kind in result.setting["floor"]["of"]


def test_where_layers_are_held_at_too_high_a_price_only_answers_are(model, four, recalling, monkeypatch):
    dear = replace(FREE, lambda_h=300.0, lr=1e-3, epochs=8)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnseeWarning)
        result = forget(model, four.request("B"), recalling, dear)
    assert (result.back_to, result.setting["eased"]) == (None, 3)
    assert (
        result.trajectory[-1]["utility"] >= result.setting["floor"]["least"] > result.trajectory[2]["utility"]
    )
    assert forget(model, four.request("B"), recalling, OURS).setting["eased"] is None
    with pytest.warns(UnseeWarning, match="the old model is kept"):  # no layers are compared
        bare = forget(model, four.request("B"), recalling, replace(dear, lambda_h=0.0, lr=1.0))
    assert bare.setting["eased"] is None
    monkeypatch.setattr(Loss, "ease", lambda _: None)
    with pytest.warns(UnseeWarning, match="the old model is kept"):
        forget(model, four.request("B"), recalling, dear)


def test_after_going_back_to_the_old_model_the_memory_is_that_of_before(model, four, recalling):
    wild = replace(FREE, lr=1.0, epochs=3)
    with pytest.warns(UnseeWarning, match="the old model is kept"):
        result = forget(model, four.request("B"), recalling, wild)
    assert result.memory.n == recalling.n
    for name, sums in recalling.sums.items():
        assert torch.allclose(result.memory.sums[name], sums, rtol=1e-9)
    assert torch.equal(result.memory.sketch.counts, recalling.sketch.counts)
    again = forget(result.model, four.request("B"), result.memory, OURS, lineage=result.lineage)
    assert again.back_to is None
    D_f = four.train.D_f
    assert not torch.isin(sample_hashes(D_f.x, D_f.y), again.memory.samples).any()
    assert again.memory.n == recalling.n - len(D_f) + len(four.train.D_f_clean)


def test_what_stays_above_it_is_kept_in_silence(model, four, recalling):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = forget(model, four.request("B"), recalling, OURS)
    assert result.back_to is None
    assert result.trajectory[-1]["utility"] >= result.setting["floor"]["least"]
    assert networks.identity(result.model) != networks.identity(model)


def test_going_back_gives_the_state_of_that_epoch(model, four, recalling):
    for lr in (0.01, 0.015, 0.02, 0.03):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnseeWarning)
            result = forget(model, four.request("B"), None, replace(FREE, lr=lr, epochs=4))
        if result.back_to:
            break
    assert result.back_to >= 1
    utilities = [row["utility"] for row in result.trajectory]
    assert utilities[result.back_to] >= 0.7 > utilities[-1]
    first = forget(model, four.request("B"), None, replace(FREE, lr=lr, epochs=result.back_to))
    assert networks.identity(first.model) == networks.identity(result.model)


def test_a_part_of_the_way_is_kept_where_all_of_it_is_too_far(model, four):
    for lr in (0.005, 0.0075, 0.01, 0.015, 0.02):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            result = forget(model, four.request("B"), None, replace(FREE, lr=lr, epochs=4))
        if result.setting["retreat"]:
            break
    share, epoch = result.setting["retreat"].values()
    assert 0.5 <= share < 1
    assert any(f"{100 * share:.0f} % of the way from" in str(w.message) for w in said)
    assert result.back_to is None
    assert result.trajectory[-1]["utility"] >= 0.7 > result.trajectory[-1]["went too far to"]
    assert result.lineage[-1].after == result.trajectory[-1]["utility"]
    assert epoch < 4


def test_without_a_floor_nothing_is_measured(model, four, recalling):
    result = forget(model, four.request("B"), recalling, replace(OURS, floor=None, epochs=1))
    assert "utility" not in result.trajectory[0]
    assert result.setting["floor"] is None


def test_an_interrupted_run_ends_in_the_same_bits_and_goes_back_alike(tmp_path, model, four):
    """Below the floor soon, and collapsed later: the good state has to survive the stop."""
    recipe = replace(FREE, lr=0.03, epochs=9, floor=0.2, batch_size=20)

    def run(folder, stop=None):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnseeWarning)
            return forget(
                model, four.request("B"), None, recipe, folder=folder, stop=stop, validation=four.validation
            )

    whole = run(tmp_path / "whole")
    assert whole.back_to is not None
    assert whole.back_to < len(whole.trajectory) - 1 < 9
    for after in range(1, 3 * (len(whole.trajectory) - 1)):
        asked = iter([False] * (after - 1) + [True])
        with pytest.raises(Interrupted, match=f"a request to stop after {after} "):
            run(tmp_path / str(after), lambda asked=asked: next(asked))
        again = run(tmp_path / str(after))
        assert networks.identity(again.model) == networks.identity(whole.model)
        assert (again.trajectory, again.back_to) == (whole.trajectory, whole.back_to)


def test_going_on_with_another_floor_is_refused(tmp_path, model, four):
    """Half of a run measured on D_r^val and half on stand-ins would be judged by neither."""
    asked, words = iter([False, True]), {"folder": tmp_path, "validation": four.validation}
    with pytest.raises(Interrupted):
        forget(model, four.request("B"), None, replace(OURS, epochs=4), stop=lambda: next(asked), **words)
    with pytest.raises(InputError, match="to go on with the run"):
        forget(model, four.request("B"), None, replace(OURS, epochs=4), folder=tmp_path)


def test_an_evaluator_cannot_unfreeze_batchnorm_for_it(four):
    """The statistics stay frozen, whatever mode an evaluator has left the model in."""
    net = networks.network("resnet", four.pretraining, width=4, blocks=1)
    recipe = replace(OURS, floor=0.9, epochs=1, lambda_kl=0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnseeWarning)
        plain = forget(net, four.request("B"), None, recipe)
        meddled = forget(
            net, four.request("B"), None, recipe, evaluator=lambda m: {"x": float(m.train() is m)}
        )
    assert all(torch.equal(a, b) for a, b in zip(net.buffers(), meddled.model.buffers(), strict=True))
    assert networks.identity(plain.model) == networks.identity(meddled.model)
