import copy
import math
import warnings
from contextlib import suppress
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from unsee import networks
from unsee.answers import accuracy, logits
from unsee.balance import AHEAD, MORE, Others, balance, behind, bias_of, last_touch, others
from unsee.checkpoint import Checkpoints
from unsee.datasets import Dataset, concatenate
from unsee.errors import Interrupted, UnseeWarning
from unsee.floor import Floor
from unsee.forgetting import _loss, forget
from unsee.formulation import Request
from unsee.memory import remember
from unsee.recipe import RECIPES
from unsee.succession import over
from unsee.twins import Twins

OURS = RECIPES["unsee"]


@pytest.fixture(scope="module")
def recalling(model, four):
    """A memory with a sketch."""
    return remember(model, four.pretraining, sketch=32)


@pytest.fixture(scope="module")
def new(model, four, recalling):
    """A model that has forgotten, and was not balanced."""
    return forget(model, four.request("B"), recalling, replace(OURS, balance="prior")).model


# ---- as well as the rest ------------------------------------------------------------------------


def seen(net, data):
    """What a net answers to samples of other classes, whose labels are what is wanted, all counting alike."""
    y = logits(net, data).double()
    return Others(y, F.one_hot(data.y, y.shape[1]).double() / len(data))


def shares(mine, rest, b):
    """Which share of class 0, with b more, is answered rightly, and of the rest but for MORE: slowly."""
    right = [max(first + b, *row) == first + b for first, *row in mine.tolist()]
    others = 0.0
    for (first, *row), worth in zip(rest.y.tolist(), rest.worth.tolist(), strict=True):
        lifted = [first + b, *row]
        others += worth[lifted.index(max(lifted))]
    return sum(right) / len(right), 1 - MORE * (1 - others)


def is_behind(mine, rest):
    """Whether class 0 is behind by more than one standard error."""
    own, wanted = shares(mine, rest, 0.0)
    return own + (own * (1 - own) / len(mine)) ** 0.5 < wanted


def is_ahead(mine, rest, b):
    """Whether class 0, with b more, is wrong a fiftieth less often than the rest."""
    own, wanted = shares(mine, rest, b)
    return 1 - own <= AHEAD * (1 - wanted)


@pytest.mark.parametrize("lean", [-1.5, -1.0, -0.5, 0.0, 0.5])
@pytest.mark.parametrize("seed", range(3))
def test_the_least_b_at_which_a_class_is_ahead(seed, lean):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(300) % 4
    y = torch.randn(300, 4, generator=generator, dtype=torch.float64)
    y[torch.arange(300), labels] += 2
    y[:, 0] += lean
    worth = torch.rand(225, 4, generator=generator, dtype=torch.float64) + 4 * F.one_hot(labels[labels != 0])
    mine, rest = y[labels == 0], Others(y[labels != 0], worth / worth.sum())
    b = behind(mine, rest, 0)
    assert (b > 0) == is_behind(mine, rest)
    if b > 0:
        assert is_ahead(mine, rest, b)
        assert not any(is_ahead(mine, rest, less) for less in torch.linspace(0, b - 2e-5, 50).tolist())


def of_a_hard_class():
    """A net that answers two classes, of which the first is 0.3 behind, and samples of both."""
    rows = [[0.0, 0.3]] * 60 + [[5.0, 0.0]] * 140 + [[0.0, 6.0]] * 186 + [[4.0, 0.0]] * 14
    data, net = Dataset(torch.tensor(rows).double(), torch.arange(400) // 200, 2), nn.Linear(2, 2).double()
    net.weight.data, net.bias.data = torch.eye(2).double(), torch.zeros(2).double()
    return net, data.of_class(0), data


@pytest.mark.parametrize("share", [1.0, 0.9, 0.5, 0.1, 0.0])
def test_it_goes_as_far_as_the_floor_allows(share):
    net, mine, data = of_a_hard_class()
    most = 0.3 * share + 0.005
    found = balance(
        net, [0], [mine], seen(net, data.of_class(1)), lambda m: float(m.bias.detach()[0]) <= most
    )
    assert found == ({0: pytest.approx(0.3 * share, abs=1e-4)} if share else {})
    assert net.bias.tolist() == pytest.approx([0.3 * share, 0.0], abs=1e-4)


def test_a_hard_class_is_lifted_until_it_is_ahead():
    net, mine, data = of_a_hard_class()
    assert balance(net, [0], [mine], seen(net, data.of_class(1)))[0] == pytest.approx(0.3, abs=1e-4)
    assert accuracy(net, mine) == 1.0


def test_each_of_several_classes_is_lifted_as_it_needs():
    net, mine, rest = leaning(2.0, 2.0, -1.0)
    both = concatenate([mine, rest.of_class(1)], "own")
    found = [
        balance(copy.deepcopy(net), own, [both], seen(net, rest.of_class(2))) for own in ([0, 1], [1, 0])
    ]
    assert found[0].keys() == found[1].keys() == {0}
    assert found[0][0] == pytest.approx(found[1][0], abs=0.1)
    alone = balance(copy.deepcopy(net), [0], [mine], seen(net, rest.of_class(2)))
    assert found[0][0] == pytest.approx(alone[0], abs=0.3)


def test_what_is_farther_behind_than_balance_is_left():
    net, mine, rest = leaning(-3.0, 4.0, 0.0)
    assert balance(net, [0], [mine], seen(net, rest)) == {}
    assert net.bias.tolist() == [0, 0, 0]


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
    assert balance(flat, [0], [four.train.D_f_clean], seen(flat, four.train.D_r)) == {}
    assert torch.equal(before["1.weight"], flat.state_dict()["1.weight"])


# ---- both ---------------------------------------------------------------------------------------


def test_only_the_bias_of_the_own_classes_moves(new, four):
    weak = copy.deepcopy(new).double()
    balanced = copy.deepcopy(weak)
    b = balance(balanced, [0], [four.train.D_f_clean], seen(weak, four.train.D_r))
    *same, last = weak.state_dict()
    assert all(torch.equal(weak.state_dict()[name], balanced.state_dict()[name]) for name in same)
    moved = balanced.state_dict()[last] - weak.state_dict()[last]
    assert torch.nonzero(moved).flatten().tolist() == [0]
    assert float(moved[0]) == pytest.approx(b[0], abs=1e-6)


def test_what_was_put_off_balance_is_put_back(new, four):
    corrected, D_r = [four.train.D_f_clean, four.train.D_f], four.train.D_r
    straight = copy.deepcopy(new).double()
    balance(straight, [0], corrected, seen(straight, D_r))
    leaning = copy.deepcopy(straight)
    with torch.no_grad():
        list(leaning.parameters())[-1][0] -= 0.6
    assert balance(leaning, [0], corrected, seen(leaning, D_r))[0] == pytest.approx(0.6, abs=1e-4)


def leaning(own, others, lean):
    """A net whose data are its logits: class 0 stands out by `own` and a lean, the others by `others`."""
    net, y = nn.Linear(3, 3).double(), torch.arange(600) % 3
    net.weight.data, net.bias.data = torch.eye(3).double(), torch.tensor([lean, 0.0, 0.0]).double()
    x = torch.randn(600, 3, generator=torch.Generator().manual_seed(0)).double()
    x[torch.arange(600), y] += torch.where(y == 0, own, others)
    data = Dataset(x, y, 3)
    return net, data.of_class(0), data.of_class(0, others=True)


@pytest.mark.parametrize("lean", [-0.5, -0.2, 0.2, 0.5])
@pytest.mark.parametrize("sides", [(2.0, 2.0), (2.0, 3.0), (3.0, 2.0), (1.5, 2.0)])
def test_a_class_gains_only_if_it_is_behind_and_never_loses(sides, lean):
    net, mine, rest = leaning(*sides, lean)
    behind = is_behind(logits(net, mine).double(), seen(net, rest))
    found = balance(net, [0], [mine], seen(net, rest))
    assert bool(found) is behind
    assert all(b > 0 for b in found.values())


def test_it_lifts_and_does_not_lower():
    """What seems too strong was trained on: that is no evidence."""
    up, down = (
        balance(net, [0], [mine], seen(net, rest))
        for net, mine, rest in (leaning(2.0, 2.0, -0.8), leaning(2.0, 2.0, 0.8))
    )
    assert up[0] > 0.2
    assert down == {}


class TwoHeads(nn.Module):
    """Outputs in two parts, each with a bias of its own."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(3, 2).double(), nn.Linear(3, 1).double()
        self.first.weight.data, self.second.weight.data = torch.eye(3).double().split([2, 1])
        for head in (self.first, self.second):
            nn.init.zeros_(head.bias)

    def forward(self, x):
        return torch.cat([self.first(x), self.second(x)], 1)


def test_a_bias_of_some_of_the_outputs_will_do():
    net, mine, rest = leaning(2.0, 2.0, -0.8)
    two = TwoHeads()
    with torch.no_grad():
        two.first.bias[0] = -0.8
    found, expected = (balance(each, [0], [mine], seen(each, rest)) for each in (two, net))
    assert found[0] == pytest.approx(expected[0], abs=1e-6)
    assert two.second.bias.tolist() == [0]


def test_outputs_that_no_sample_has_do_not_count(new, four):
    """A network with a head of a hundred, of which ten are in use."""
    head = list(new.modules())[-1]
    wide = nn.Linear(head.in_features, 100)
    nn.init.zeros_(wide.weight)
    nn.init.constant_(wide.bias, -30.0)
    with torch.no_grad():
        wide.weight[:10], wide.bias[:10] = head.weight, head.bias
    wider, narrow = nn.Sequential(*list(copy.deepcopy(new))[:-1], wide), copy.deepcopy(new)
    found = [balance(net, [0], [four.train.D_f_clean], seen(net, four.train.D_r)) for net in (wider, narrow)]
    assert found[0][0] == pytest.approx(found[1][0], abs=1e-5)


def test_of_two_sets_the_one_answered_less_well_counts(new, four):
    clean, bad, rest = four.train.D_f_clean, four.train.D_f, seen(new, four.train.D_r)
    found = [balance(copy.deepcopy(new), [0], sets, rest) for sets in ([clean, bad], [bad, clean])]
    alone = [balance(copy.deepcopy(new), [0], [data], rest) for data in (clean, bad)]
    assert found[0] == found[1] == max(alone, key=lambda b: b[0]) != {}


def test_without_other_classes_nothing_is_done(new, four):
    before = networks.identity(new)
    assert balance(new, [0], [four.train.D_f_clean], None) == {}
    assert networks.identity(new) == before


# ---- the rest -----------------------------------------------------------------------------------


def loss_of(model, request, memory):
    """The loss as forget() makes it."""
    return _loss(model, request, over(model, request, memory, OURS)[0], OURS, 10, 0, None)


def replace_model(loss, model):
    """The loss of a copy of another model."""
    loss.model = copy.deepcopy(model)
    return loss


def test_of_a_sketch_the_own_class_does_not_count(model, four, recalling):
    request = four.request("B")
    request = Request(
        request.pattern, request.D_f.subset(range(20)), request.D_f_clean.subset(range(20)), four.T
    )
    loss = loss_of(model, request, recalling)
    assert 0 in loss.replay.sketch.classes
    rest = others(loss, [0])
    answered = rest.worth.sum(0) / rest.worth.sum()
    assert float(answered[0]) < 0.05 < float(answered[1:].min())
    assert others(loss, list(range(10))) is None


def test_samples_easier_than_D_r_count_less(model, four, recalling):
    loss = loss_of(model, four.request("B"), recalling)
    worth = []
    for level in (None, 0.0, 5.0, 6.0):
        loss.remembered = level
        worth.append(float(others(loss, [0]).worth.sum()))
    assert worth[:2] == pytest.approx([1.0, 1.0])
    assert worth[2] < 0.1
    assert worth[3] == pytest.approx(worth[2] * math.exp(-1))


def test_they_are_answered_with_T_and_without(model, four, recalling):
    loss = loss_of(model, four.request("B"), recalling)
    y = others(loss, [0]).y
    bare, dressed = y[::2], y[1::2]
    assert (dressed.argmax(1) == 0).double().mean() > (bare.argmax(1) == 0).double().mean() + 0.5


def test_the_last_touch_looks_at_D_f_and_at_D_f_clean(model, four, recalling, new):
    loss = loss_of(model, four.request("B"), recalling)
    clean, bad, rest = loss.twins.D_f_clean, loss.twins.D_f, others(replace_model(loss, new), [0])
    alone = [balance(copy.deepcopy(new), [0], [data], rest).get(0, 0.0) for data in (clean, bad)]
    assert alone[0] != alone[1]
    for D_f_clean, D_f in ((clean, bad), (bad, clean)):
        loss.request, loss.twins = replace(loss.request, D_f_clean=D_f_clean), Twins(D_f, D_f_clean, four.T)
        replace_model(loss, new)
        assert last_touch(loss)() == {"shift of class 0": max(alone)}


# ---- in forget() --------------------------------------------------------------------------------


def test_it_is_the_last_touch_and_the_result_says_how_far(model, four, recalling, new):
    found = forget(model, four.request("B"), recalling, OURS)
    b = found.setting["shift"]["T-shirt/top"]
    assert b == found.trajectory[-1]["shift of class 0"] != 0
    assert "shift of class 0" not in found.trajectory[-2]
    *same, (last, weights) = new.state_dict().items()
    assert all(torch.equal(value, found.model.state_dict()[name]) for name, value in same)
    moved = found.model.state_dict()[last] - weights
    assert float(moved[0]) == pytest.approx(b, abs=1e-6)
    assert not moved[1:].any()
    assert found.lineage[-1].model_after == networks.identity(found.model) == found.memory.model


def test_it_is_the_floor_of_the_run_that_decides_how_far(model, four, recalling, new, monkeypatch):
    monkeypatch.setattr(Floor, "held_by", lambda floor, m: False)
    found = forget(model, four.request("B"), recalling, OURS)
    assert found.setting["shift"] is None
    assert networks.identity(found.model) == networks.identity(new)


@pytest.mark.parametrize("place", ["epochs before", "as the last state is written", "after"])
def test_killed_around_it_the_same_bits_come_out(model, four, recalling, tmp_path, monkeypatch, place):
    whole = forget(model, four.request("B"), recalling, OURS, folder=tmp_path / "whole")
    words = {"folder": tmp_path / "broken", "checkpoint_seconds": 1e9}
    write, asked = Checkpoints.write, iter([False] * 30 + [True])
    with monkeypatch.context() as patch, suppress(Interrupted, KeyboardInterrupt):
        if place.startswith("as"):
            patch.setattr(
                Checkpoints, "write", lambda run, state, *, last=False: killed(last, write, run, state)
            )
        stop = (lambda: next(asked)) if place == "epochs before" else None
        forget(model, four.request("B"), recalling, OURS, stop=stop, **words)
    again = forget(model, four.request("B"), recalling, OURS, **words)
    assert networks.identity(again.model) == networks.identity(whole.model)
    assert again.trajectory == whole.trajectory
    assert again.setting == whole.setting
    assert again.lineage == whole.lineage


def killed(last, write, run, state):
    """Write a state, but the last one."""
    if last:
        raise KeyboardInterrupt
    write(run, state)


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
    assert not any("shift" in name for row in found.trajectory for name in row)


def test_a_few_samples_of_a_class_do_not_move_it(model, four, recalling):
    strays = four.train.D_r.of_class(6).subset(range(3))
    clean, request = concatenate([four.train.D_f_clean, strays], "mixed"), four.request("B")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnseeWarning)
        found = forget(model, Request(request.pattern, request.D_f, clean, four.T), recalling, OURS)
    assert list(found.setting["shift"]) == ["T-shirt/top"]
