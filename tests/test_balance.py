import copy
import warnings
from dataclasses import replace

import pytest
import torch
from torch import nn

import reference
from unsee import networks
from unsee.answers import answers
from unsee.balance import FARTHEST, balance, bias_of, shift
from unsee.datasets import concatenate
from unsee.errors import Interrupted, UnseeWarning
from unsee.forgetting import forget
from unsee.formulation import Request
from unsee.memory import remember
from unsee.recipe import RECIPES

OURS = RECIPES["unsee"]


@pytest.fixture(scope="module")
def recalling(model, four):
    """A memory with a sketch."""
    return remember(model, four.pretraining, sketch=32)


@pytest.fixture(scope="module")
def new(model, four, recalling):
    """A model that has forgotten, and was not balanced."""
    return forget(model, four.request("B"), recalling, replace(OURS, balance="prior")).model


# ---- the shift ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_the_cross_entropy_is_least_at_b(seed):
    generator = torch.Generator().manual_seed(seed)
    mine, others = (torch.randn(n, generator=generator, dtype=torch.float64) for n in (40, 60))
    mine, others = 2 * mine + 1, 2 * others - 3

    def L(b):
        sides = ((0.2, mine, torch.ones(40)), (0.8, others, torch.zeros(60)))
        return sum(
            weight * reference.cross_entropy(torch.stack([torch.zeros_like(z), z + b], 1), own.long())
            for weight, z, own in sides
        )

    b = shift(mine, others, 0.2)
    assert abs(b) < FARTHEST
    assert all(L(b) < L(b + step) for step in (-0.5, -0.01, 0.01, 0.5))


def test_a_logit_too_far_off_is_moved_as_far_as_balance_goes():
    far = torch.full((3,), -9.0)
    assert shift(far, far, 0.5) == pytest.approx(FARTHEST)
    assert shift(-far, -far, 0.5) == pytest.approx(-FARTHEST)


# ---- the bias -----------------------------------------------------------------------------------


def test_the_bias_is_known_by_what_it_does(four):
    data, shape = four.train.D_f_clean, (1, 14, 14)
    plain = networks.mlp(shape, 10, depth=3)
    assert bias_of(plain, [0], data) is list(plain.parameters())[-1]
    normed = nn.Sequential(copy.deepcopy(plain), nn.LogSoftmax(1))
    assert bias_of(normed, [0, 3], data) is list(normed.parameters())[-1]
    flat = nn.Sequential(nn.Flatten(), nn.Linear(196, 10), nn.Linear(10, 10, bias=False))
    assert bias_of(flat, [0], data) is None
    tempered = nn.Sequential(copy.deepcopy(plain), nn.Hardtanh(-1e-3, 1e-3))
    assert bias_of(tempered, [0], data) is None
    frozen = copy.deepcopy(plain)
    list(frozen.parameters())[-1].requires_grad_(False)
    assert bias_of(frozen, [0], data) is None


def test_looking_for_it_changes_nothing(new, four):
    before = copy.deepcopy(new.state_dict())
    bias_of(new, [0], four.train.D_f_clean)
    assert all(torch.equal(before[name], value) for name, value in new.state_dict().items())


def test_where_no_bias_moves_the_logits_nothing_is_done(four):
    flat = nn.Sequential(nn.Flatten(), nn.Linear(196, 10, bias=False))
    before = copy.deepcopy(flat.state_dict())
    assert balance(flat, [0], [four.train.D_f_clean], [four.train.D_r]) == 0.0
    assert torch.equal(before["1.weight"], flat.state_dict()["1.weight"])


# ---- both ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("own", [[0], [0, 3]])
def test_afterwards_the_classes_have_their_share(new, four, own):
    balanced, whole = copy.deepcopy(new).double(), concatenate([four.train.D_f_clean, four.train.D_r], "both")
    mine = concatenate([whole.of_class(c) for c in own], "own")
    others = whole.subset(torch.nonzero(~torch.isin(whole.y, torch.tensor(own))).flatten())
    balance(balanced, own, [mine], [others])
    p = [float(answers(balanced, data)[:, own].sum(1).mean()) for data in (mine, others)]
    share = len(own) / 10
    assert share * p[0] + (1 - share) * p[1] == pytest.approx(share, abs=1e-6)
    changed = [
        name
        for name, value in new.state_dict().items()
        if not torch.equal(value.double(), balanced.state_dict()[name])
    ]
    assert changed == [list(new.state_dict())[-1]]
    moved = balanced.state_dict()[changed[0]] != new.state_dict()[changed[0]]
    assert torch.nonzero(moved).flatten().tolist() == own


def test_of_two_sets_the_one_answered_less_well_counts(new, four):
    clean, bad, rest = four.train.D_f_clean, four.train.D_f, [four.train.D_r]
    worse = min(clean, bad, key=lambda data: float(answers(new, data)[:, 0].mean()))
    found = [balance(copy.deepcopy(new), [0], sets, rest) for sets in ([clean, bad], [bad, clean], [worse])]
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("off", [-0.6, 0.3])
def test_what_was_put_off_balance_is_put_back(new, four, off):
    sets = [0], [four.train.D_f_clean, four.train.D_f], [four.train.D_r]
    straight, leaning = copy.deepcopy(new).double(), copy.deepcopy(new).double()
    balance(straight, *sets)
    with torch.no_grad():
        list(leaning.parameters())[-1].copy_(list(straight.parameters())[-1])
        list(leaning.parameters())[-1][0] += off
    assert balance(leaning, *sets) == pytest.approx(-off, abs=1e-6)
    torch.testing.assert_close(list(leaning.parameters())[-1], list(straight.parameters())[-1])


# ---- in forget() --------------------------------------------------------------------------------


def test_it_is_the_last_touch_and_the_result_says_how_far(model, four, recalling, new):
    found = forget(model, four.request("B"), recalling, OURS)
    b = found.setting["shift"]
    assert b == found.trajectory[-1]["shift"] != 0
    assert "shift" not in found.trajectory[-2]
    *same, (last, weights) = new.state_dict().items()
    assert all(torch.equal(value, found.model.state_dict()[name]) for name, value in same)
    moved = found.model.state_dict()[last] - weights
    assert float(moved[0]) == pytest.approx(b, abs=1e-6)
    assert not moved[1:].any()


def test_killed_before_it_or_after_the_same_bits_come_out(model, four, recalling, tmp_path):
    whole = forget(model, four.request("B"), recalling, OURS, folder=tmp_path / "whole")
    asked = iter([False] * 30 + [True])
    words = {"folder": tmp_path / "broken", "checkpoint_seconds": 1e9}
    with pytest.raises(Interrupted):
        forget(model, four.request("B"), recalling, OURS, stop=lambda: next(asked), **words)
    for _ in range(2):  # the second time from a run that has ended
        again = forget(model, four.request("B"), recalling, OURS, **words)
        assert networks.identity(again.model) == networks.identity(whole.model)
        assert again.trajectory == whole.trajectory
        assert again.setting == whole.setting


@pytest.mark.parametrize("why", ["prior", "no memory", "all classes", "Pattern A"])
def test_where_there_is_nothing_to_do_it_by_it_is_left(model, four, recalling, why):
    request, memory, recipe = four.request("A" if why == "Pattern A" else "B"), recalling, OURS
    if why == "prior":
        recipe = replace(OURS, balance="prior")
    elif why == "no memory":
        memory = None
    elif why == "all classes":
        clean = concatenate([four.train.D_f_clean, four.train.D_r.subset(range(0, 480, 5))], "all")
        request = Request(request.pattern, request.D_f, clean)
    elif why == "Pattern A":
        recipe = RECIPES["unsee/A"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnseeWarning)
        found = forget(model, request, memory, recipe)
    assert found.setting["shift"] is None
    assert all("shift" not in row for row in found.trajectory)


def test_a_model_that_went_back_to_its_floor_is_not_touched(model, four, recalling):
    request = four.request("B")
    with pytest.warns(UnseeWarning, match="the old model is kept"):
        found = forget(model, request, recalling, replace(OURS, lr=10.0, stride=None, floor=0.0))
    assert found.setting["shift"] is None
    assert networks.identity(found.model) == networks.identity(model)


def test_where_a_part_of_D_f_is_known_what_the_rest_holds_of_its_class_does_not_count(new, four):
    mixed = concatenate([four.train.D_f, four.train.D_r], "D")
    found = [
        balance(copy.deepcopy(new), [0], [four.train.D_f_clean], [rest]) for rest in (mixed, four.train.D_r)
    ]
    assert found[0] == found[1] != 0
    assert balance(copy.deepcopy(new), [0], [four.train.D_f_clean], [four.train.D_f]) == 0.0
