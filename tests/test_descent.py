import pytest
import torch
from torch import nn

from unsee.checkpoint import Checkpoints
from unsee.descent import Plan, Watch, descend
from unsee.errors import Diverged, InputError, Interrupted


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


@pytest.mark.parametrize(
    "words", [{"lr": 0}, {"lr": -1}, {"momentum": 1}, {"epochs": 0}, {"n": 0}, {"batch_size": 0}]
)
def test_plans_that_cannot_be(words):
    with pytest.raises(InputError):
        Plan(**{"lr": 0.1, "momentum": 0.9, "epochs": 1, "n": 1, "batch_size": 1} | words)


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
