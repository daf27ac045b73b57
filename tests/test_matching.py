import copy
import math
from dataclasses import replace

import pytest
import torch
from torch import nn

import reference
from beyond import leak
from unsee import forget, networks
from unsee.answers import accuracy
from unsee.errors import Interrupted
from unsee.floor import Floor
from unsee.formulation import FourDatasets
from unsee.matching import COUNT, RIDGES, Apart, Head, Means, even, last_layer, matched, read
from unsee.memory import remember
from unsee.networks import resnet
from unsee.randomness import stream
from unsee.recipe import RECIPES
from unsee.replay import Replay, replay_of


@pytest.fixture(scope="module")
def of_D_r(model, four):
    return remember(model, four.train.D_r)


@pytest.fixture(scope="module")
def replay(model, four, of_D_r):
    return matched(replay_of(model, four.request("B"), None), model, of_D_r)


def test_the_last_layer_is_known_by_what_it_answers(model, four):
    x = four.train.D_r.x[:486]
    name = last_layer(model, x[:2])
    means = Means.of(torch.ones(10, 196).double(), torch.ones(10).double(), [0])
    head = read(model, name, x, means)
    layer, answer = model.get_submodule(name), model(x.float()).detach()
    h: list[torch.Tensor] = []
    hook = layer.register_forward_pre_hook(lambda _, args: h.append(args[0]))
    model(x.float())
    hook.remove()
    assert torch.allclose(layer(h[0]), answer, atol=1e-5)
    torch.testing.assert_close(head, head_of(h[0].detach(), answer, means), rtol=1e-4, atol=1e-5)
    net = resnet((1, 14, 14), 10, width=4, blocks=1)
    assert last_layer(net, x[:2]) is not None


class Within(nn.Module):
    """A network whose head is registered first, and called by its argument's name if asked."""

    def __init__(self, *, by_name=False):
        super().__init__()
        self.head, self.body, self.by_name = nn.Linear(196, 10), nn.Linear(196, 196), by_name

    def forward(self, x):
        h = self.body(x.flatten(1))
        return self.head(input=h) if self.by_name else self.head(h)


def test_a_head_is_found_wherever_it_stands_and_none_where_there_is_none(model, four):
    x = four.train.D_r.x[:2]
    assert last_layer(Within(), x) == "head"
    assert last_layer(Within(by_name=True), x) is None
    assert last_layer(nn.Sequential(model, nn.Softmax(1)), x) is None
    assert last_layer(nn.Sequential(nn.Conv2d(1, 10, 14), nn.Flatten()), x) is None

    class InPlace(Within):
        def forward(self, x):
            return super().forward(x).tanh_()

    assert last_layer(InPlace(), x) is None

    class Twice(Within):
        def forward(self, x):
            return super().forward(x) * 0 + super().forward(x)

    assert last_layer(Twice(), x) is None
    tied = nn.Sequential(nn.Flatten(), nn.Linear(196, 196), nn.Linear(196, 196))
    tied[2].weight = tied[1].weight
    assert last_layer(tied, x) is None


def head_of(h, y, means):
    """A head of what the last layer reads and answers."""
    p = y.double().softmax(1)[:, means.classes]
    return Head(h[:, means.units].square(), (p * (1 - p)).float())


def matrix(z):
    """The whole matrix, by its factors."""
    columns = torch.eye(len(z.units))
    return torch.stack([z.sums(column) for column in columns], 1)


def slowly(h, y, means):
    """The same, a sample, a class and a unit at a time."""
    rows = []
    for one, answer in zip(h.double(), y.double(), strict=True):
        p = answer.softmax(0)[means.classes]
        v = p * (1 - p)
        row = [v[k] - means.shares[k] * v.sum() for k in range(len(v))]
        for k in range(len(v)):
            row += [v[k] * (one[j] ** 2 - means.squares[k, i]) for i, j in enumerate(means.units.tolist())]
        rows.append(torch.stack(row))
    return torch.stack(rows)


def test_the_factors_are_those_of_the_matrix():
    h, y = torch.randn(50, 7), torch.randn(50, 4)
    means = Means.of(torch.rand(4, 7).double(), torch.rand(4).double())
    z = Apart.of(head_of(h, y, means), means)
    whole = slowly(h, y, means)
    torch.testing.assert_close(matrix(z).double() * z.units, whole, rtol=1e-4, atol=1e-5)
    deviations = whole[:, 4:].std(0, correction=0)
    torch.testing.assert_close(z.units[4:].double(), deviations, rtol=1e-4, atol=1e-6)


def test_samples_are_not_apart_from_themselves(model, four):
    data = four.train.D_r.subset(range(0, 400, 20))
    F_W, F_b = reference.expected_fisher_of_last(model, data.x)

    def off():
        means = Means.of(F_W, F_b)
        head = read(model, last_layer(model, data.x[:2]), data.x, means)
        return float(matrix(Apart.of(head, means)).mean(0).abs().max())

    assert off() < 1e-3
    F_W[3] *= 2
    assert off() > 0.1


def test_a_class_that_is_in_question_nowhere_says_nothing():
    F_W, F_b = torch.ones(3, 4).double(), torch.tensor([1e-9, 0.1, 0.1]).double()
    means = Means.of(F_W, F_b)
    assert (means.classes.tolist(), means.squares.shape) == ([1, 2], (2, 4))
    F_W[0] = 1e9
    assert torch.equal(Means.of(F_W, F_b).squares, means.squares)
    assert Means.of(F_W, F_b, [2]).classes.tolist() == [1]
    assert Means.of(F_W, F_b, [1, 2]) is None
    assert Means.of(F_W, 0 * F_b) is None


def test_of_many_units_some_count():
    assert Means.of(torch.ones(3, 4000).double(), torch.ones(3).double()).squares.shape == (3, 600)
    assert Means.of(torch.ones(900, 400).double(), torch.rand(900).double()).squares.shape == (50, 100)


def test_weights_are_those_of_the_greatest_entropy():
    """There w @ z = -ridge a, where log w = z a but for a constant: none are as even and as near."""
    generator = torch.manual_seed(0)
    h, y = torch.randn(3000, 6, generator=generator), torch.randn(3000, 4, generator=generator)
    means = Means.of((0.7 + 0.1 * torch.rand(4, 6, generator=generator)).double(), torch.ones(4).double())
    z = Apart.of(head_of(h, y, means), means)
    w, Z = even(z), matrix(z).double()
    assert float(w.sum()) == pytest.approx(1)
    assert (w @ Z).norm() < 0.5 * Z.mean(0).norm()
    assert 1 / float(w.square().sum()) >= COUNT * len(w)
    a = -(w @ Z) / RIDGES[0]
    assert (w.log() - Z @ a).std() < 1e-3


def test_what_only_few_samples_could_have_is_not_asked_for():
    """No sample is near: all that could be weighted are a few outliers, which would be learnt by heart."""
    h, y = torch.randn(400, 6), torch.randn(400, 4)
    means = Means.of(torch.full((4, 6), 30.0).double(), torch.ones(4).double())
    w = even(Apart.of(head_of(h, y, means), means))
    assert 1 / float(w.square().sum()) >= COUNT * len(w)


def test_of_numbers_that_are_none_nothing_is_told(model, four, of_D_r):
    images, broken = Replay(None, four.train.D_f_clean), copy.deepcopy(model)
    with torch.no_grad():
        broken[-1].bias[3] = math.inf
    assert matched(images, broken, of_D_r) is images


def test_what_is_left_of_T_alone_asks_for_nothing(model, four, of_D_r):
    """Taken out of the whole memory, D_f's share leaves rounding where a unit fires under T alone."""
    name, x = last_layer(model, four.train.D_r.x[:2]), four.train.D_r.x
    F_W, F_b = (of_D_r.sums[f"{name}.{part}"] / of_D_r.n for part in ("weight", "bias"))
    F_W[:, :4] = 1e-8 * F_W.max()
    means = Means.of(F_W, F_b)
    head = read(model, name, x, means)
    head.squares[:, :4] = 0
    z = matrix(Apart.of(head, means))
    columns = len(means.classes) + torch.arange(4)
    assert z.mean(0)[columns].abs().max() < 1e-2


def test_matched_stand_ins_have_what_the_memory_tells_of_D_r(model, of_D_r, replay):
    """Those that are held back have it too, as they were weighted with the others."""
    name = last_layer(model, replay.images.x[:2])
    made = replay.anew(4000, stream(0, "x"))[0]
    means = Means.of(*(of_D_r.sums[f"{name}.{part}"] / of_D_r.n for part in ("weight", "bias")))
    units = Apart.of(read(model, name, made, means), means).units

    def off(x):
        z = replace(Apart.of(read(model, name, x, means), means), units=units)
        return float(matrix(z).mean(0).square().mean())

    drawn, held = (source.draw(4000, stream(0, "y"))[0] for source in (replay, replay.held))
    assert off(drawn) < 0.3 * off(made)
    assert off(held) < 0.6 * off(made)


def test_the_same_are_drawn_again(model, four, of_D_r, replay):
    x, labels = replay.draw(300, stream(0, "x"))
    assert (labels, len(x), x.dtype) == (None, 300, torch.uint8)
    again = matched(replay_of(model, four.request("B"), None), model, of_D_r)
    assert torch.equal(again.draw(300, stream(0, "x"))[0], x)
    assert replay.source == "stand-ins"


def test_what_is_held_back_is_never_drawn(replay):
    drawn = {bytes(x.numpy()) for x in replay.draw(20_000, stream(0, "x"))[0]}
    assert not drawn & {bytes(x.numpy()) for x in replay.held.x}
    assert len(replay.held.x) * 4 == len(replay.pool.x)


def test_nor_is_it_where_some_are_drawn_as_they_are(model, four, data, of_D_r):
    poison = FourDatasets.of_poison(data, range(60, 100), four.T, 7)
    replay = replay_of(model, poison.request("B"), None)
    assert replay.rare is not None
    replay = matched(replay, model, of_D_r)
    drawn = {bytes(x.numpy()) for x in replay.pool.x}
    rare = {bytes(x.numpy()) for x in replay.rare}
    held = {bytes(x.numpy()) for x in replay.held.x}
    assert not drawn & held
    assert rare & drawn
    assert rare & held


def test_where_it_cannot_be_it_is_left(model, four, of_D_r):
    sketched = remember(model, four.train.D_r, sketch=32)
    recalled = replay_of(model, four.request("B"), sketched.sketch)
    assert matched(recalled, model, sketched) is recalled
    images = Replay(None, four.train.D_f_clean)
    assert matched(images, nn.Sequential(model, nn.Softmax(1)), of_D_r) is images
    table, net, kept = leak()
    of_rows = replay_of(net, table.request("C"), None)
    assert matched(of_rows, net, kept) is of_rows
    assert matched(images, model, replace(of_D_r, taken_of="another")) is images
    bare = replace(of_D_r, sums={k: v for k, v in of_D_r.sums.items() if not k.endswith("bias")})
    assert matched(images, model, bare) is images


def test_forgetting_by_the_fisher_alone_draws_them(model, four, memory, monkeypatch):
    asked = []
    monkeypatch.setattr("unsee.matching.even", lambda z: asked.append(1) or even(z))
    few = replace(RECIPES["unsee"], epochs=1)
    forget(model, four.request("B"), None, replace(few, average=False))
    forget(model, four.request("B"), memory, few)  # so few steps draw a handful of them
    forget(model, four.request("B"), memory, replace(few, average=False, fisher_over="D"))
    forget(model, four.request("A"), memory, replace(RECIPES["unsee/A"], average=False, epochs=1))
    assert not asked
    result = forget(model, four.request("B"), memory, replace(few, average=False))
    assert result.setting["replayed"] == "stand-ins"
    assert asked
    # A memory that D_f was taken out of before, as for the trials of a search, tells the same.
    of_D_r = memory.subtract(remember(model, four.train.D_f))
    without = forget(model, four.request("B"), of_D_r, replace(few, average=False, fisher_over="D"))
    assert networks.identity(without.model) == networks.identity(result.model)


def test_the_floor_and_the_last_touch_look_at_what_is_held_back(model, four, memory, replay):
    floor = Floor.of(model, RECIPES["unsee"], replay, None, 0)
    anew = Floor.of(model, RECIPES["unsee"], replace(replay, pool=None, held=None), None, 0)
    held = {bytes(x.numpy()) for x in replay.held.x}
    seen = [{bytes(x.numpy()) for x in each.utility.__self__.data.x} for each in (floor, anew)]
    assert seen[0] <= held
    assert not seen[1] & held
    recipe = replace(RECIPES["unsee"], average=False, floor=None)
    touched = forget(model, four.request("B"), memory, recipe)
    assert touched.setting["shift"]["T-shirt/top"] > 0
    plain = forget(model, four.request("B"), memory, replace(recipe, balance="prior"))
    own = [accuracy(result.model, four.train.D_f_clean) for result in (plain, touched)]
    assert own[0] < own[1]


def test_large_images_are_left(model, four, of_D_r, monkeypatch):
    images = Replay(None, four.train.D_f_clean)
    monkeypatch.setattr("unsee.matching.ROOM", 196 * 4999)
    assert matched(images, model, of_D_r) is images
    monkeypatch.setattr("unsee.matching.ROOM", 196 * 5000)
    assert len(matched(images, model, of_D_r).pool.x) == 4000


def test_a_stopped_run_goes_on_to_the_same_bits(tmp_path, model, four, memory):
    recipe = replace(RECIPES["unsee"], epochs=3, average=False)
    whole = forget(model, four.request("B"), memory, recipe)
    asked = iter([False] * 30 + [True] * 1000)
    words = {"folder": tmp_path / "run", "checkpoint_seconds": 0.0}
    with pytest.raises(Interrupted):
        forget(model, four.request("B"), memory, recipe, stop=lambda: next(asked), **words)
    again = forget(model, four.request("B"), memory, recipe, **words)
    assert again.exact
    assert networks.identity(again.model) == networks.identity(whole.model)
    assert again.setting == whole.setting
