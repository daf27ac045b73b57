import pytest
import torch
from torch import nn

import reference
import zoo
from unsee import tiers
from unsee.datasets import Dataset
from unsee.fisher import fisher_sum


class Tokens(nn.Module):
    """A class token and positions, which are spread over the samples, and a scale that is not."""

    def __init__(self):
        super().__init__()
        self.token, self.positions = nn.Parameter(torch.randn(1, 1, 4)), nn.Parameter(torch.randn(1, 4, 4))
        self.scale, self.head = nn.Parameter(torch.randn(1, 4)), nn.Linear(4, 3)

    def forward(self, x):
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.positions
        return self.head(torch.tanh(x).mean(1) * (self.scale @ self.scale.T))


@pytest.fixture
def probe():
    torch.manual_seed(0)
    data = zoo.numbers(3, 4)
    return Tokens(), data


def test_what_is_spread_over_the_samples_is_served_by_copies(probe):
    model, data = probe
    found = tiers.tiers_of(model, data.x[:3], data.y[:3])
    assert found["token"] == found["positions"] == "copy"
    assert found["scale"] in ("vmap", "loop")  # its copies would be multiplied with each other
    assert found["head.weight"] == found["head.bias"] == "rule"


def test_copies_give_what_a_loop_gives(probe):
    model, data = probe
    taken = fisher_sum(model.double(), data.with_(x=data.x.double()))
    truth = reference.fisher_sum(model, data)
    assert taken.tiers["token"] == "copy"
    for name, sums in truth.items():
        assert torch.allclose(taken.sums[name], sums, rtol=1e-9, atol=0), name
    assert all(isinstance(p, nn.Parameter) for p in model.parameters())  # the copies are gone again


@pytest.mark.parametrize("name", ["ViT", "Linear", "Attention", "LSTM"])
def test_groups_change_nothing(name, monkeypatch):
    model, data = next(zoo.case(case) for case in zoo.CASES if name.lower() in case.lower())
    whole = tiers.tiers_of(model, data.x[:3], data.y[:3])
    monkeypatch.setattr(tiers, "TOGETHER", 10)
    assert tiers.tiers_of(model, data.x[:3], data.y[:3]) == whole


def test_too_few_samples_to_check_on():
    model = nn.Linear(2, 2)
    assert set(tiers.tiers_of(model, torch.ones(2, 2), torch.zeros(2).long()).values()) == {"loop"}


def test_no_gradients_are_left(probe):
    model, data = probe
    tiers.tiers_of(model, data.x[:3], data.y[:3])
    assert all(p.grad is None for p in model.parameters())


def test_a_sum_that_overflows_in_float32_is_not_a_bad_value():
    assert tiers.unfinished({"theta": torch.full((4,), 2e38)}, "here") is None
    error = tiers.unfinished({"theta": torch.tensor([1.0, torch.inf])}, "here")
    assert "NaN or Inf in that of theta on here" in str(error)


def test_both_slow_ways_give_the_truth():
    model, data = nn.Linear(2, 2), Dataset([[0.5, 2.0], [1.0, 4.0]], [0, 1])
    truth = reference.fisher_sum(model, data)
    for way in (tiers.by_loop, tiers.by_vmap):
        found = way(model, data.x, data.y, {"weight", "bias"})
        assert all(torch.allclose(found[name], truth[name], rtol=1e-5) for name in truth)
