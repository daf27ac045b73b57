import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from unsee import descent
from unsee import plan as plan_module
from unsee.checkpoint import Checkpoints
from unsee.descent import Watch, descend
from unsee.errors import Diverged, Interrupted
from unsee.plan import Plan
from unsee.retreat import BACK_TO, TOO_FAR, WAY
from unsee.updating import Remembering, Update


def parabola(model, scale=1.0):
    def gradients(step):
        loss = scale * model.weight.square().sum()
        loss.backward()
        return {"L": loss.detach()}

    return gradients


def line():
    model = nn.Linear(3, 1, bias=False)
    nn.init.ones_(model.weight)
    return model


def test_it_is_sgd_with_momentum():
    model, twin = line(), line()
    plan = Plan(lr=0.05, momentum=0.9, epochs=2, n=10, batch_size=4)
    done = descend(model, parabola(model), plan)
    rows, exact = done.rows, done.exact
    velocity = torch.zeros_like(twin.weight)
    with torch.no_grad():
        for _ in range(plan.steps):
            velocity = 0.9 * velocity + 2 * twin.weight
            twin.weight -= 0.05 * velocity
    assert torch.allclose(model.weight, twin.weight, atol=1e-7)
    assert exact
    assert [row["epoch"] for row in rows] == [0, 1, 2]
    assert rows[1]["L"] > rows[2]["L"]


def test_the_evaluator_fills_the_rows():
    model = line()
    watch = Watch(evaluator=lambda m: {"D_r": m.weight.sum().item()})
    rows = descend(model, parabola(model), Plan(0.05, 0.0, 2, 4, 4), watch=watch).rows
    assert rows[0] == {"epoch": 0, "D_r": 3.0}
    assert rows[2]["D_r"] == model.weight.sum().item()


def test_divergence_goes_back_to_the_last_good_epoch():
    model = line()
    plan = Plan(lr=1e8, momentum=0.9, epochs=50, n=3, batch_size=1)
    with pytest.raises(Diverged, match="kept the state after step") as caught:
        descend(model, parabola(model), plan)
    assert torch.isfinite(model.weight).all()
    assert caught.value.exit_code == 6
    assert caught.value.rows[-1]["epoch"] >= 1
    assert "kept the state after step 0;" in str(caught.value)  # later ones were finite, but no longer good


def test_a_last_step_that_overflows_is_divergence_too(tmp_path):
    model, run = line(), Checkpoints(tmp_path, {}, seconds=0)
    plan = Plan(lr=3e38, momentum=0.9, epochs=1, n=1, batch_size=1)
    for _ in range(2):  # and so it is when the same call is made again
        with pytest.raises(Diverged, match="theta = nan"):
            descend(model, parabola(model), plan, checkpoints=run)
        assert model.weight.tolist() == [[1, 1, 1]]
    assert not (tmp_path / "checkpoint.safetensors").exists()


def test_a_weight_in_another_order_resumes_to_the_same_bits(tmp_path):
    def conv():
        torch.manual_seed(0)
        return nn.Conv2d(3, 4, 3, bias=False).to(memory_format=torch.channels_last)

    def uneven(model):
        scale = torch.arange(1.0, 109.0).view(4, 3, 3, 3)

        def gradients(_):
            loss = (scale * model.weight.square()).mean()
            loss.backward()
            return {"L": loss.detach()}

        return gradients

    plan, whole = Plan(0.05, 0.9, 2, 4, 1), conv()
    descend(whole, uneven(whole), plan)
    asked, broken = iter([False, False, True]), conv()
    run = Checkpoints(tmp_path, {}, seconds=1e9)
    with pytest.raises(Interrupted):
        descend(broken, uneven(broken), plan, watch=Watch(stop=lambda: next(asked)), checkpoints=run)
    resumed = conv()
    descend(resumed, uneven(resumed), plan, checkpoints=run)
    assert torch.equal(resumed.weight, whole.weight)


def test_figures_of_any_number_type_become_floats():
    model = line()
    rows = descend(
        model, parabola(model), Plan(0.1, 0, 1, 1, 1), watch=Watch(lambda m: {"x": torch.tensor(0.5)})
    ).rows
    assert rows[1]["x"] == 0.5
    assert type(rows[1]["x"]) is float


def test_a_request_to_stop_saves_and_the_same_call_goes_on(tmp_path):
    plan = Plan(lr=0.01, momentum=0.9, epochs=4, n=10, batch_size=3)
    whole, broken = line(), line()
    expected = descend(whole, parabola(whole), plan).rows
    asked = iter([False] * 6 + [True])
    run = Checkpoints(tmp_path, {"seed": 0}, seconds=1e9)
    with pytest.raises(Interrupted, match="a request to stop after 7"):
        descend(broken, parabola(broken), plan, watch=Watch(stop=lambda: next(asked)), checkpoints=run)
    again = line()
    done = descend(again, parabola(again), plan, checkpoints=Checkpoints(tmp_path, {"seed": 0}))
    rows, exact = done.rows, done.exact
    assert torch.equal(again.weight, whole.weight)
    assert rows == expected
    assert exact
    finished = line()
    assert descend(finished, None, plan, checkpoints=Checkpoints(tmp_path, {"seed": 0})) == done
    assert torch.equal(finished.weight, whole.weight)


def test_stopping_without_a_folder_says_so():
    model = line()
    with pytest.raises(Interrupted, match="nothing saved, as no folder was given"):
        descend(model, parabola(model), Plan(0.01, 0.9, 4, 10, 3), watch=Watch(stop=lambda: True))


def test_a_state_on_the_way_to_infinity_is_not_a_good_one():
    model = line()
    plan = Plan(lr=1.5, momentum=0.0, epochs=400, n=1, batch_size=1)  # theta doubles with every step
    with pytest.raises(Diverged) as caught:
        descend(model, parabola(model), plan)
    assert float(model.weight.detach().abs().max()) <= 8
    assert len(caught.value.rows) > 30


# ---- settling -----------------------------------------------------------------------------------


def rates_of(plan, losses):
    """The learning rate of each step of a descent whose loss is given by the epoch."""
    model, rates = line(), []

    def gradients(step):
        model.weight.grad = torch.zeros_like(model.weight)
        return {"L": torch.tensor(float(losses[min(step // plan.steps_per_epoch, len(losses) - 1)]))}

    class Noted(Update):
        def __call__(self, lr):
            rates.append(lr)
            return super().__call__(lr)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(descent, "Update", Noted)
        return rates, descend(model, gradients, plan)


def test_it_ends_two_epochs_after_the_loss_stalls():
    plan = Plan(lr=0.1, momentum=0.9, epochs=50, n=20, batch_size=2, settle=0.1)
    rates, done = rates_of(plan, [8, 4, 2, 1.9, 1.0])
    assert [row["epoch"] for row in done.rows] == [0, 1, 2, 3, 4, 5, 6]  # 1.9 stalls, and two more follow
    assert len(rates) == 60
    assert done.back_to is None


def test_a_loss_that_rises_has_stalled_too_and_so_has_a_negative_one():
    plan = Plan(lr=0.1, momentum=0.9, epochs=50, n=20, batch_size=2, settle=0.1)
    assert len(rates_of(plan, [1, 2])[1].rows) == 5
    falling = [{"epoch": epoch, "L": -float(2**epoch)} for epoch in range(1, 5)]
    assert plan.end(falling) == plan.steps
    assert plan.end([*falling, {"epoch": 5, "L": -16.5}]) == 7 * plan.steps_per_epoch


def test_rates_warm_up_and_fall_to_nothing_in_the_last_two_epochs():
    plan = Plan(lr=0.1, momentum=0.9, epochs=4, n=40, batch_size=2, settle=0.01)
    rates, _ = rates_of(plan, [8, 4, 2, 1])
    assert len(rates) == 80
    assert rates[:10] == pytest.approx([0.01 * step for step in range(1, 11)])
    assert set(rates[10:41]) == {0.1}
    assert rates[40:] == pytest.approx([0.1 * left / 40 for left in range(40, 0, -1)])
    assert 0 < rates[-1] < 0.003


def test_without_settle_the_rate_is_what_it_is():
    plan = Plan(lr=0.1, momentum=0.9, epochs=4, n=40, batch_size=2)
    rates, done = rates_of(plan, [8, 8, 8, 8])
    assert rates == [0.1] * 80
    assert len(done.rows) == 5


def test_a_run_shorter_than_its_warm_up_still_settles():
    plan = Plan(lr=0.1, momentum=0.9, epochs=1, n=4, batch_size=1, settle=0.5)
    rates, _ = rates_of(plan, [1])
    assert rates == pytest.approx([0.01, 0.02, 0.025, 0.0125])
    assert plan.end([]) == plan.end([{"epoch": 0}]) == plan.steps


def test_the_epochs_are_the_most_even_where_the_last_one_stalls():
    plan = Plan(lr=0.1, momentum=0.9, epochs=2, n=4, batch_size=1, settle=0.5)
    assert len(rates_of(plan, [1, 1])[1].rows) == 3


def test_R_is_a_loss_like_the_others_and_may_diverge():
    model, before = line(), line().weight.detach().clone()
    plan = Plan(lr=0.1, momentum=0.0, epochs=2, n=2, batch_size=1)
    far = [before - 1]
    done = descend(model, parabola(model), plan, R=Remembering(far, [torch.full_like(before, 0.1)], 1.0))
    assert [("R" in row) for row in done.rows] == [False, True, True]
    assert done.rows[1]["R"] > 0
    model = line()
    with pytest.raises(Diverged, match="R = inf at step 0: kept the state after step 0"):
        descend(model, parabola(model), plan, R=Remembering(far, [torch.full_like(before, math.inf)], 1.0))
    assert torch.equal(model.weight, before)


@pytest.mark.parametrize("steps", [1, 20])
def test_a_resumed_run_that_diverges_keeps_what_it_would_have_kept(tmp_path, steps):
    """Without a floor too, a state on the way to infinity is not good because it was written down."""
    plan, asked = Plan(1.5, 0.0, epochs=400, n=steps, batch_size=1), iter([False] * 30 + [True])
    whole, again = line(), line()
    with pytest.raises(Diverged, match="kept the state after step") as expected:
        descend(whole, parabola(whole), plan)
    watch = Watch(stop=lambda: next(asked))
    with pytest.raises(Interrupted):
        descend(again, parabola(again), plan, watch=watch, checkpoints=Checkpoints(tmp_path, {}))
    again = line()
    with pytest.raises(Diverged) as found:
        descend(again, parabola(again), plan, checkpoints=Checkpoints(tmp_path, {}))
    assert str(found.value) == str(expected.value)
    assert torch.equal(again.weight, whole.weight)
    assert whole.weight.abs().max() < 2**30  # which is where it was stopped


# ---- the floor ----------------------------------------------------------------------------------


def descent_of(figures, plan, **more):
    """A descent along the parabola, whose utility is given epoch by epoch, and on the way back then."""
    model, epoch = line(), iter(figures)
    watch = Watch(utility=lambda m: next(epoch, 0.0), floor=0.8)
    return model, descend(model, parabola(model), plan, watch=watch, **more)


PLAN = Plan(lr=0.02, momentum=0.9, epochs=4, n=6, batch_size=2)


def after_epochs(n):
    model = line()
    if n:
        descend(model, parabola(model), Plan(0.02, 0.9, n, 6, 2))
    return model.weight


def test_above_the_floor_nothing_is_taken_back():
    model, done = descent_of([0.9, 0.85, 0.8, 0.9, 0.8], PLAN)
    assert done.back_to is None
    assert torch.equal(model.weight, after_epochs(4))
    assert [row["utility"] for row in done.rows] == [0.9, 0.85, 0.8, 0.9, 0.8]


def test_an_end_below_the_floor_goes_back_to_the_last_epoch_above():
    model, done = descent_of([0.9, 0.85, 0.75, 0.82, 0.79], PLAN)
    assert done.back_to == 3
    assert torch.equal(model.weight, after_epochs(3))
    assert len(done.rows) == 5  # a dip has a way back up, so the run is not cut short
    model, done = descent_of([0.9, 0.75, 0.75, 0.75, 0.75], PLAN)
    assert done.back_to == 0
    assert torch.equal(model.weight, after_epochs(0))


@pytest.mark.parametrize(("tried", "share"), [([0.81], 0.95), ([0.79, 0.8], 0.9), ([0.0] * 6 + [0.9], 0.5)])
def test_an_end_below_the_floor_keeps_as_much_of_the_way_as_it_can(tried, share):
    model, done = descent_of([0.9, 0.85, 0.7, 0.75, 0.79, *tried, 0.84], PLAN)
    first, last = after_epochs(1), after_epochs(4)
    assert done.back_to is None
    torch.testing.assert_close(model.weight, first + share * (last - first))
    end = done.rows[-1]
    assert (end[WAY], end[BACK_TO], end[TOO_FAR], end["utility"]) == (share, 1, 0.79, 0.84)


def test_the_last_touch_is_put_to_what_is_kept():
    """It is undone if it breaks the floor, and what was kept of the way stays."""
    for after, back in ((0.82, -1.0), (0.7, None)):
        model, epoch = line(), iter([0.9, 0.75, 0.75, 0.75, 0.75, 0.81, 0.81, after])
        watch = Watch(utility=lambda m, epoch=epoch: next(epoch), floor=0.8)

        def touch(model=model):
            with torch.no_grad():
                model.weight -= 1
            return {"shift": -1.0}

        done = descend(model, parabola(model), PLAN, watch=watch, last_touch=touch)
        kept = after_epochs(0) + 0.95 * (after_epochs(4) - after_epochs(0))
        torch.testing.assert_close(model.weight, kept + (back or 0.0))
        assert (done.back_to, done.rows[-1].get("shift"), done.rows[-1][WAY]) == (None, back, 0.95)


def test_a_dip_that_recovers_is_none():
    model, done = descent_of([0.9, 0.75, 0.71, 0.75, 0.9], PLAN)
    assert done.back_to is None
    assert torch.equal(model.weight, after_epochs(4))


def test_a_collapse_ends_the_run():
    """Three epochs deep below the floor are one; a single deep dip at the beginning is none."""
    model, done = descent_of([0.9, 0.69, 0.6, 0.69], PLAN)
    assert done.back_to == 0
    assert len(done.rows) == 4
    assert torch.equal(model.weight, after_epochs(0))
    model, done = descent_of([0.9, 0.3, 0.6, 0.85, 0.9], PLAN)
    assert done.back_to is None
    assert torch.equal(model.weight, after_epochs(4))


@pytest.mark.parametrize("average", [False, True])
def test_what_a_retreat_keeps_of_a_collapsed_run_is_where_it_ends(average):
    plan = replace(PLAN, epochs=8, average=average)
    model, done = descent_of([0.9, 0.6, 0.6, 0.6, 0.85, 0.85], plan)
    assert len(done.rows) == 4
    assert (done.back_to, done.rows[-1][WAY], done.rows[-1][BACK_TO]) == (None, 0.95, 0)
    if not average:
        first = after_epochs(0)
        torch.testing.assert_close(model.weight, first + 0.95 * (after_epochs(3) - first))


def test_a_utility_of_nan_is_below_every_floor():
    model, done = descent_of([0.9, math.nan, math.nan, math.nan, math.nan], PLAN)
    assert done.back_to == 0
    assert torch.equal(model.weight, after_epochs(0))


def test_a_model_below_the_floor_from_the_start_stays_as_it_is():
    model, done = descent_of([0.1, 0.1, 0.1], PLAN)
    assert done.back_to == 0
    assert torch.equal(model.weight, after_epochs(0))
    assert len(done.rows) == 3


def test_without_a_floor_a_utility_is_only_written_down():
    model = line()
    done = descend(model, parabola(model), PLAN, watch=Watch(utility=lambda m: -1e9))
    assert done.back_to is None
    assert done.rows[-1]["utility"] == -1e9


@pytest.mark.parametrize("settle", [None, 0.99])
@pytest.mark.parametrize(
    "figures", [[0.9, 0.85, 0.75, 0.74, 0.79], [0.9, 0.85, 0.6, 0.0, 0.0], [0.9, 0.7, 0.7, 0.85, 0.9]]
)
@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("between", [0.0, 0.81])
def test_stopped_anywhere_it_ends_in_the_same_bits_and_goes_back_alike(
    tmp_path, figures, settle, average, between
):
    plan = Plan(0.02, 0.9, 6 if average and settle else 4, 6, 2, settle, average)
    first = line()
    states = [first.weight.detach().clone()]
    descend(first, parabola(first), plan, watch=Watch(lambda m: states.append(m.weight.clone()) or {}))
    known = dict(zip((str(w.tolist()) for w in states[1:]), figures, strict=False))
    watch = Watch(utility=lambda m: known.get(str(m.weight.tolist()), between), floor=0.8)
    whole = line()
    expected = descend(whole, parabola(whole), plan, watch=watch)
    steps = 3 * (len(expected.rows) - 1)
    held = figures[len(expected.rows) - 1] >= 0.8
    assert (expected.back_to is None) == (held or between >= 0.8)
    assert (WAY in expected.rows[-1]) == (not held and between >= 0.8)
    for after in range(1, steps):
        folder = tmp_path / str(after)
        asked = iter([False] * (after - 1) + [True])
        broken = line()
        stopping = Watch(utility=watch.utility, floor=0.8, stop=lambda asked=asked: next(asked))
        run = Checkpoints(folder, {}, seconds=1e9)
        with pytest.raises(Interrupted):
            descend(broken, parabola(broken), plan, watch=stopping, checkpoints=run)
        again = line()
        found = descend(again, parabola(again), plan, watch=watch, checkpoints=Checkpoints(folder, {}))
        assert found == expected
        assert torch.equal(again.weight, whole.weight)
        finished = line()
        assert descend(finished, None, plan, watch=watch, checkpoints=Checkpoints(folder, {})) == expected
        assert torch.equal(finished.weight, whole.weight)


def test_a_killed_run_goes_on_from_its_last_checkpoint_with_its_good_state(tmp_path):
    """Killed in the middle of a step below the floor: nobody had the time to save anything more."""
    figures = iter([0.9, 0.85, 0.75])
    model = line()

    def dying(step):
        if step == 7:
            raise KeyboardInterrupt
        return parabola(model)(step)

    watch = Watch(utility=lambda m: next(figures), floor=0.8)
    with pytest.raises(KeyboardInterrupt):
        descend(model, dying, PLAN, watch=watch, checkpoints=Checkpoints(tmp_path, {}, seconds=0))
    again, rest = line(), iter([0.76, 0.77])
    watch = Watch(utility=lambda m: next(rest, 0.0), floor=0.8)
    done = descend(again, parabola(again), PLAN, watch=watch, checkpoints=Checkpoints(tmp_path, {}))
    assert done.back_to == 1
    assert torch.equal(again.weight, after_epochs(1))
    assert [row["utility"] for row in done.rows] == [0.9, 0.85, 0.75, 0.76, 0.77]


# ---- less is asked for --------------------------------------------------------------------------


def eased_run(plan, *, floor=1.0, **words):
    """A descent along the parabola, a hundredth of it once less is asked for; theta is its use."""
    model, scale = line(), [1.0]
    watch = Watch(
        stop=words.pop("stop", None),
        utility=lambda m: float(m.weight.detach().min()),
        floor=floor,
        ease=lambda: scale.append(0.01),
    )

    def gradients(step):
        return parabola(model, scale[-1])(step)

    return model, descend(model, gradients, plan, watch=watch, **words), scale


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("settle", [None, 0.05, 0.9])
def test_three_epochs_below_the_floor_begin_anew_from_the_last_good_state_and_ask_for_less(average, settle):
    plan = Plan(0.05, 0.9, 9, 24, 2, settle, average)
    model, done, scale = eased_run(plan, floor=0.4)
    assert (done.eased, scale) == (3, [1.0, 0.01])
    assert [row["utility"] >= 0.4 for row in done.rows[:5]] == [True, False, False, False, True]
    anew = line()
    expected = descend(anew, parabola(anew, 0.01), replace(plan, epochs=6)).rows
    assert torch.equal(model.weight, anew.weight)
    assert [row["L"] for row in done.rows[4:]] == [row["L"] for row in expected[1:]]


def test_a_dip_asks_for_nothing_less_nor_does_anybody_without_a_way_to():
    for figures, eased in (
        ([0.9, 0.7, 0.85, 0.7, 0.9, 0.9], None),
        ([0.9, 0.7, 0.7, 0.85, 0.9, 0.9], None),
        ([0.9, 0.85, 0.7, 0.7, 0.7, 0.9], 4),
        ([0.9, math.nan, math.nan, 0.7, 0.7, 0.7], 3),  # once
        ([0.9, 0.85, 0.85, 0.7, 0.7, 0.7], None),  # too late
    ):
        epoch, calls = iter(figures), []
        watch = Watch(utility=lambda m, e=epoch: next(e, 0.0), floor=0.8, ease=lambda c=calls: c.append(1))
        model = line()
        done = descend(model, parabola(model), replace(PLAN, epochs=5), watch=watch)
        assert (done.eased, len(calls)) == (eased, int(eased is not None))
    assert descent_of([0.9, 0.7, 0.7, 0.7, 0.9], PLAN)[1].eased is None


def test_a_run_of_before_that_was_not_eased_is_not_said_to_have_been(tmp_path):
    epoch = iter([0.9, 0.7, 0.7, 0.85, 0.9])
    for ease in (None, int):
        watch = Watch(utility=lambda m: next(epoch), floor=0.8, ease=ease)
        model = line()
        done = descend(model, parabola(model), PLAN, watch=watch, checkpoints=Checkpoints(tmp_path, {}))
        assert done.eased is None
        assert torch.equal(model.weight, after_epochs(4))


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("settle", [None, 0.5])
def test_stopped_before_or_after_it_asks_for_less_it_ends_in_the_same_bits(tmp_path, average, settle):
    plan = Plan(0.05, 0.9, 6, 6, 2, settle, average)
    whole, expected, _ = eased_run(plan)
    assert expected.eased == 3
    for after in range(1, 3 * (len(expected.rows) - 1)):
        asked = iter([False] * (after - 1) + [True])
        run = Checkpoints(tmp_path / str(after), {}, seconds=1e9)
        with pytest.raises(Interrupted):
            eased_run(plan, stop=lambda asked=asked: next(asked), checkpoints=run)
        again, found, scale = eased_run(plan, checkpoints=Checkpoints(tmp_path / str(after), {}))
        assert (found, scale) == (expected, [1.0, 0.01])
        assert torch.equal(again.weight, whole.weight)


# ---- the mean over the way ----------------------------------------------------------------------


def test_what_is_looked_at_and_what_it_ends_with_is_the_mean_and_the_way_itself_goes_on():
    plan = Plan(lr=0.02, momentum=0.9, epochs=3, n=6, batch_size=2, average=True)
    way, seen, model = [], [], line()

    def noted(step):
        way.append(model.weight.detach().clone())
        return parabola(model)(step)

    watch = Watch(evaluator=lambda m: seen.append(m.weight.detach().clone()) or {})
    descend(model, noted, plan, watch=watch)
    steps = [after_steps(step) for step in range(1, plan.steps + 1)]
    assert torch.equal(torch.stack(way[1:]), torch.stack(steps[:-1]))
    mean = steps[0].double()
    for step, theta in enumerate(steps, 1):
        mean += 4 / (step + 3) * (theta.double() - mean)
        if step % 3 == 0:
            assert torch.allclose(seen[step // 3].double(), mean, atol=1e-6)
    assert torch.equal(model.weight, seen[-1])
    assert not torch.allclose(model.weight, steps[-1])


def after_steps(steps):
    """Return theta after so many steps without a mean."""
    model = line()
    descend(model, parabola(model), Plan(lr=0.02, momentum=0.9, epochs=1, n=steps, batch_size=1))
    return model.weight.detach().clone()


@pytest.mark.parametrize("kept", ["nowhere", "in a folder", "in a folder, stopped as an epoch ended"])
def test_a_way_that_diverges_goes_back_to_the_last_good_mean(tmp_path, kept):
    model, seen = line(), []
    words = {"checkpoints": Checkpoints(tmp_path, {}, seconds=0)} if "folder" in kept else {}

    def diverging(step):
        losses = parabola(model)(step)
        return losses if step < 7 else {"L": torch.tensor(math.nan)}

    watch = Watch(evaluator=lambda m: seen.append(m.weight.detach().clone()) or {})
    plan = Plan(lr=0.02, momentum=0.9, epochs=3, n=6, batch_size=2, average=True)
    if "stopped" in kept:
        asked = iter([False] * 5 + [True])
        with pytest.raises(Interrupted):
            descend(model, diverging, plan, watch=replace(watch, stop=lambda: next(asked)), **words)
        model = line()
    with pytest.raises(Diverged, match="kept the state after step 6"):
        descend(model, diverging, plan, watch=watch, **words)
    assert torch.equal(model.weight, seen[2])
    assert not torch.allclose(model.weight, after_steps(6))


# ---- the last touch -----------------------------------------------------------------------------


def test_the_last_touch_comes_after_the_last_step_and_its_row_is_of_what_it_leaves():
    model, plan, seen = line(), Plan(lr=0.01, momentum=0.9, epochs=3, n=4, batch_size=2), []

    def touch():
        seen.append(float(model.weight.detach().sum()))
        with torch.no_grad():
            model.weight += 1
        return {"shift": 1.0}

    watch = Watch(lambda m: {"weight": float(m.weight.detach().sum())})
    untouched = line()
    expected = descend(untouched, parabola(untouched), plan, watch=watch).rows
    rows = descend(model, parabola(model), plan, watch=watch, last_touch=touch).rows
    assert seen == [float(untouched.weight.detach().sum())]
    assert rows[:-1] == expected[:-1]
    assert rows[-1] == {**expected[-1], "shift": 1.0, "weight": float(model.weight.detach().sum())}
    assert float(model.weight.detach().sum()) == pytest.approx(seen[0] + 3)


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("kept_in_a_folder", [False, True])
def test_a_last_touch_that_costs_too_much_is_undone_and_leaves_no_trace(tmp_path, average, kept_in_a_folder):
    model, plan = line(), Plan(lr=0.01, momentum=0.9, epochs=3, n=4, batch_size=2, average=average)
    words = {"checkpoints": Checkpoints(tmp_path, {})} if kept_in_a_folder else {}
    untouched, watch = line(), Watch(utility=lambda m: -float(m.weight.detach().abs().max()), floor=-50.0)
    expected = descend(untouched, parabola(untouched), plan, watch=watch)

    def touch():
        with torch.no_grad():
            model.weight += 100
        return {"shift": 100.0}

    assert descend(model, parabola(model), plan, watch=watch, last_touch=touch, **words) == expected
    assert torch.equal(model.weight, untouched.weight)


def test_a_run_that_has_ended_stays_so_whatever_would_end_it_today(tmp_path, monkeypatch):
    plan = Plan(lr=0.01, momentum=0.9, epochs=9, n=4, batch_size=2, settle=0.5)
    words, model = {"checkpoints": Checkpoints(tmp_path, {"seed": 0})}, line()

    def gradients(step):
        model.weight.grad = torch.ones_like(model.weight)
        return {"L": torch.tensor(1.0)}

    done = descend(model, gradients, plan, **words)
    assert len(done.rows) == 5
    monkeypatch.setattr(plan_module, "WIND_DOWN", 4)
    assert descend(line(), None, plan, checkpoints=Checkpoints(tmp_path, {"seed": 0})) == done


def test_below_the_floor_there_is_none():
    model, plan = line(), Plan(lr=0.01, momentum=0.9, epochs=3, n=4, batch_size=2)
    watch = Watch(utility=lambda m: -1.0, floor=0.0)
    assert descend(model, parabola(model), plan, watch=watch, last_touch=lambda: 1 / 0).back_to == 0
