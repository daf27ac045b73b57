import pytest
import torch
from torch import nn

from unsee.resting import Resting
from unsee.retreat import SHARES, LastGood, retreat


def two():
    """A model, the state of before, and where it is now; a part of it never moved."""
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 2))
    model[0].bias.requires_grad = False
    model.register_parameter("count", nn.Parameter(torch.tensor([3]), requires_grad=False))
    good = {name: value.clone() for name, value in model.state_dict().items()}
    with torch.no_grad():
        for p in model.parameters():
            if p.requires_grad:
                p += torch.randn_like(p)
    return model, good, {name: value.clone() for name, value in model.state_dict().items()}


@pytest.mark.parametrize("wanted", SHARES)
def test_it_goes_back_no_farther_than_it_must(wanted):
    model, good, end = two()
    tried = iter(SHARES)
    assert retreat(model, good, lambda: next(tried) == wanted) == wanted
    for name, value in model.state_dict().items():
        torch.testing.assert_close(value, (good[name] + wanted * (end[name] - good[name])).to(value))
    assert torch.equal(model[0].bias, good["0.bias"])


def test_where_even_half_of_the_way_is_too_far_it_is_the_last_good_state():
    model, good, _ = two()
    assert retreat(model, good, lambda: False) is None
    assert all(torch.equal(value, good[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize("resting", [False, True])
def test_the_last_good_state_is_a_copy_and_the_newest(tmp_path, resting):
    model, _, _ = two()
    good = LastGood(tmp_path if resting else None)
    for step in (0, 3):
        with torch.no_grad():
            model[0].weight += 1
        before = {name: value.clone() for name, value in model.state_dict().items()}
        good.keep(model.state_dict(), step)
        with torch.no_grad():
            model[0].weight += 1
        assert good.step == step
        assert isinstance(good.kept, Resting) == resting
        assert all(torch.equal(value, before[name]) for name, value in good.state().items())
