import copy
import math
import warnings
from contextlib import suppress
from dataclasses import replace

import pytest
import torch
from torch import nn

import reference
from unsee import networks
from unsee.answers import accuracy, answers
from unsee.balance import FARTHEST, Seen, balance, behind, bias_of, lift, shift
from unsee.checkpoint import Checkpoints
from unsee.datasets import Dataset, concatenate
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


def drawn(seed, n=100, own=1):
    """Logits of own classes and of all others together, what is right, and weights."""
    generator = torch.Generator().manual_seed(seed)
    z = torch.randn(n, own + 1, generator=generator, dtype=torch.float64)
    y = torch.randint(own + 1, (n,), generator=generator)
    z[torch.arange(n), y] += 1
    return z, y, torch.rand(n, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("own", [1, 3])
@pytest.mark.parametrize("seed", range(5))
def test_the_cross_entropy_is_least_at_b(seed, own):
    z, y, weight = drawn(seed, own=own)

    def L(b):
        return sum(
            float(weight[i]) * reference.cross_entropy((z[i] + torch.tensor([*b, 0.0]))[None], y[i : i + 1])
            for i in range(len(y))
        )

    b = shift(z, y, weight, range(own))
    assert max(map(abs, b)) < FARTHEST
    for i in range(own):
        for step in (-0.5, -0.001, 0.001, 0.5):
            assert L(b) < L([value + step * (i == j) for j, value in enumerate(b)])


def test_what_is_farther_off_than_balance_or_no_number_is_left():
    z, y, weight = drawn(0)
    near, far, broken = z.clone(), z.clone(), z.clone()
    near[:, 0] -= 0.8
    far[:, 0] -= 9
    broken[0, 0] = math.nan
    assert lift(near, y, weight, [0])[0] == pytest.approx(shift(z, y, weight, [0])[0] + 0.8, abs=1e-6)
    assert lift(far, y, weight, [0]) == {}
    assert lift(broken, y, weight, [0]) == {}
    assert lift(z, torch.zeros_like(y), weight, [0]) == {}  # nothing but one class: without end


def test_a_class_that_stays_does_not_count_for_the_others():
    z, y, weight = drawn(1, own=3)
    z[:, 0] += 0.3
    z[:, 1:3] -= 0.3
    together = shift(z, y, weight, [0, 1, 2])
    assert together[0] < 0 < min(together[1:])
    apart = lift(z, y, weight, [0, 1, 2])
    assert apart == dict(zip([1, 2], shift(z, y, weight, [1, 2]), strict=True))
    assert list(apart.values()) != together[1:]
    assert lift(z, y, weight, [0, 2]) == {2: shift(z, y, weight, [2])[0]}
    assert lift(z, y, weight, []) == {}


# ---- as well as the rest ------------------------------------------------------------------------


def enough(mine, theirs, b):
    """Whether class 0, with b more, is answered as well as the others, but for 0.05 and an error: slowly."""
    lifted = [(row.tolist(), int(c)) for part in (mine, theirs) for row, c in zip(*part, strict=True)]
    right = {True: [], False: []}
    for (first, *rest), c in lifted:
        row = [first + b, *rest]
        right[c == 0].append(row.index(max(row)) == c)
    own, others = (sum(right[side]) / len(right[side]) for side in (True, False))
    return own + (own * (1 - own) / len(right[True])) ** 0.5 >= others - 0.05


@pytest.mark.parametrize("lean", [-1.5, -1.0, -0.5, 0.0, 0.5])
@pytest.mark.parametrize("seed", range(3))
def test_the_least_b_at_which_a_class_is_not_behind(seed, lean):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(300) % 4
    y = torch.randn(300, 4, generator=generator, dtype=torch.float64)
    y[torch.arange(300), labels] += 2
    y[:, 0] += lean
    mine, theirs = (Seen(y[mask], labels[mask]) for mask in (labels == 0, labels != 0))
    b = behind(mine, theirs, 0)
    assert enough(mine, theirs, b)
    assert (b > 0) == (not enough(mine, theirs, 0.0))
    if b > 0:
        assert not any(enough(mine, theirs, less) for less in torch.linspace(0, b - 2e-5, 50).tolist())


def test_a_hard_class_is_lifted_beyond_its_share_until_it_is_not_behind(monkeypatch):
    rows = [[0.0, 0.3]] * 60 + [[5.0, 0.0]] * 140 + [[0.0, 6.0]] * 166 + [[4.0, 0.0]] * 34
    data = Dataset(torch.tensor(rows).double(), torch.arange(400) // 200, 2)
    mine, others, net = data.of_class(0), data.of_class(1), nn.Linear(2, 2).double()
    net.weight.data, net.bias.data = torch.eye(2).double(), torch.zeros(2).double()
    with monkeypatch.context() as patch:
        patch.setattr("unsee.balance.CHANCE", 1e9)
        share = balance(copy.deepcopy(net), [0], [mine], [others])
    assert 0 < share[0] < 0.2
    assert balance(net, [0], [mine], [others])[0] == pytest.approx(0.3, abs=1e-4)
    assert accuracy(net, mine) == 1.0


def test_of_several_classes_none_is_set_against_the_others():
    net, mine, others = leaning(1.0, 3.0, -0.5)
    both = concatenate([mine, others.of_class(1)], "own")
    there = [balance(copy.deepcopy(net), own, [both], [others.of_class(2)]) for own in ([0, 1], [1, 0])]
    assert there[0] == pytest.approx(there[1], abs=1e-6)


def test_what_is_farther_behind_than_balance_is_left():
    net, mine, others = leaning(-3.0, 2.5, 0.0)
    assert balance(net, [0], [mine], [others]) == {}
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
    assert balance(flat, [0], [four.train.D_f_clean], [four.train.D_r]) == {}
    assert torch.equal(before["1.weight"], flat.state_dict()["1.weight"])


# ---- both ---------------------------------------------------------------------------------------


def share_of(net, data, label):
    """The mean over classes of the mean probability of a label."""
    p = answers(net, data)[:, label]
    return float(torch.stack([p[data.y == c].double().mean() for c in data.y.unique()]).mean())


@pytest.mark.parametrize("own", [[0], [0, 3]])
def test_afterwards_the_classes_have_their_share(new, four, own, monkeypatch):
    monkeypatch.setattr("unsee.balance.CHANCE", 1e9)  # nothing is behind
    whole = concatenate([four.train.D_f_clean, four.train.D_r], "both")
    weak, mine = copy.deepcopy(new).double(), concatenate([whole.of_class(c) for c in own], "own")
    with torch.no_grad():
        list(weak.parameters())[-1][own[1:]] -= 0.8  # the first is too weak as it is
    balanced = copy.deepcopy(weak)
    b = balance(balanced, own, [mine], [whole])  # what it holds of the own classes does not count twice
    assert list(b) == own
    for label in own:
        assert share_of(balanced, whole, label) == pytest.approx(0.1, abs=1e-6)
    *same, last = weak.state_dict()
    assert all(torch.equal(weak.state_dict()[name], balanced.state_dict()[name]) for name in same)
    moved = balanced.state_dict()[last] - weak.state_dict()[last]
    assert torch.nonzero(moved).flatten().tolist() == own
    assert moved[own].tolist() == pytest.approx(list(b.values()), abs=1e-6)


def test_what_was_put_off_balance_is_put_back(new, four):
    sets = [0], [four.train.D_f_clean, four.train.D_f], [four.train.D_r]
    straight = copy.deepcopy(new).double()
    balance(straight, *sets)
    leaning = copy.deepcopy(straight)
    with torch.no_grad():
        list(leaning.parameters())[-1][0] -= 0.6
    assert balance(leaning, *sets)[0] == pytest.approx(0.6, abs=1e-6)
    torch.testing.assert_close(
        *(list(net.parameters())[-1] for net in (leaning, straight)), atol=1e-5, rtol=0
    )


def leaning(own, others, lean):
    """A net whose data are its logits: class 0 stands out by `own` and a lean, the others by `others`."""
    net, y = nn.Linear(3, 3).double(), torch.arange(600) % 3
    net.weight.data, net.bias.data = torch.eye(3).double(), torch.tensor([lean, 0.0, 0.0]).double()
    x = torch.randn(600, 3, generator=torch.Generator().manual_seed(0)).double()
    x[torch.arange(600), y] += torch.where(y == 0, own, others)
    data = Dataset(x, y, 3)
    return net, data.of_class(0), data.of_class(0, others=True)


@pytest.mark.parametrize("sides", [(2.0, 2.0), (2.0, 3.0), (3.0, 2.0), (1.5, 2.0)])
def test_a_class_gains_only_if_it_has_less_and_never_loses(sides):
    lifted = []
    for lean in (-0.5, -0.2, 0.2, 0.5):
        net, mine, others = leaning(*sides, lean)
        needy = accuracy(net, mine) < accuracy(net, others)
        found = balance(net, [0], [mine], [others])
        assert all(b > 0 and needy for b in found.values())
        lifted += found.values()
    assert bool(lifted) is (sides[0] <= sides[1])  # the easier class is never behind


def test_it_lifts_and_does_not_lower():
    """What seems too strong was trained on: that is no evidence."""
    up, down = (
        balance(net, [0], [mine], [others])
        for net, mine, others in (leaning(2.0, 2.0, -0.5), leaning(2.0, 2.0, 0.5))
    )
    assert up[0] > 0.2
    assert down == {}


def test_outputs_that_no_sample_has_do_not_count(new, four):
    """A network with a head of a hundred, of which ten are in use."""
    head = list(new.modules())[-1]
    wide = nn.Linear(head.in_features, 100)
    nn.init.zeros_(wide.weight)
    nn.init.constant_(wide.bias, -30.0)
    with torch.no_grad():
        wide.weight[:10], wide.bias[:10] = head.weight, head.bias
    wider = nn.Sequential(*list(copy.deepcopy(new))[:-1], wide)
    sets = [0], [four.train.D_f_clean], [four.train.D_r]
    assert balance(wider, *sets)[0] == pytest.approx(balance(copy.deepcopy(new), *sets)[0], abs=1e-5)


def test_of_two_sets_the_one_answered_less_well_counts(new, four):
    clean, bad, rest = four.train.D_f_clean, four.train.D_f, [four.train.D_r]
    worse = max(clean, bad, key=lambda data: -float(answers(new, data)[:, 0].log().mean()))
    found = [balance(copy.deepcopy(new), [0], sets, rest) for sets in ([clean, bad], [bad, clean], [worse])]
    assert found[0] == found[1] == found[2] != {}


def test_without_other_classes_nothing_is_done(new, four):
    before = networks.identity(new)
    assert balance(new, [0], [four.train.D_f_clean], [four.train.D_f]) == {}
    assert networks.identity(new) == before


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
        found = forget(model, Request(request.pattern, request.D_f, clean), recalling)
    assert list(found.setting["shift"]) == ["T-shirt/top"]
