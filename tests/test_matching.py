from dataclasses import replace

import pytest
import torch
from torch import nn

import reference
from beyond import leak
from unsee import forget, networks
from unsee.errors import Interrupted
from unsee.matching import Head, Means, even, last_layer, matched, read
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
    head = read(model, name, x)
    assert torch.allclose(head.y, model(x.float()).detach(), atol=1e-5)
    assert torch.allclose(model.get_submodule(name)(head.h), head.y, atol=1e-5)
    net = resnet((1, 14, 14), 10, width=4, blocks=1)
    assert read(net, last_layer(net, x[:2]), x[:20]).h.shape[0] == 20


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
    tied = nn.Sequential(nn.Flatten(), nn.Linear(196, 196), nn.Linear(196, 196))
    tied[2].weight = tied[1].weight
    assert last_layer(tied, x) is None


def test_samples_are_not_apart_from_themselves(model, four):
    data = four.train.D_r.subset(range(0, 400, 20))
    head = read(model, last_layer(model, data.x[:2]), data.x)
    F_W, F_b = reference.expected_fisher_of_last(model, data.x)
    z = Means.of(F_W, F_b).apart(head)
    assert (z.mean(0) / z.std(0)).abs().max() < 1e-4
    F_W[3] *= 2
    z = Means.of(F_W, F_b).apart(head)
    assert (z.mean(0) / z.std(0)).abs().max() > 0.1


def test_their_sums_are_those_of_the_matrix():
    head = Head(torch.randn(50, 7), torch.randn(50, 4))
    means = Means.of(torch.rand(4, 7).double(), torch.rand(4).double())
    a = torch.randn(4 + 4 * 7).double()
    assert torch.allclose(means.sums(head, a), means.apart(head) @ a)


def test_a_class_that_is_in_question_nowhere_says_nothing():
    head = Head(torch.randn(50, 4), torch.randn(50, 3))
    F_W, F_b = torch.ones(3, 4).double(), torch.tensor([1e-9, 0.1, 0.1]).double()
    z = Means.of(F_W, F_b).apart(head)
    assert z.shape == (50, 2 + 2 * 4)
    F_W[0] = 1e9
    assert torch.equal(Means.of(F_W, F_b).apart(head), z)
    assert Means.of(F_W, F_b, [2]).classes.tolist() == [1]
    assert Means.of(F_W, F_b, [1, 2]) is None
    assert Means.of(F_W, 0 * F_b) is None


def test_of_many_units_some_count():
    assert Means.of(torch.ones(3, 4000).double(), torch.ones(3).double()).squares.shape == (3, 1665)
    assert Means.of(torch.ones(900, 400).double(), torch.rand(900).double()).squares.shape == (50, 99)


def test_even_weights_bring_the_means_of_other_samples_near_to_0():
    z = torch.randn(3000, 20, generator=torch.manual_seed(0)) + torch.linspace(-0.3, 0.3, 20)
    new = z[2000:]
    w = (new.double() @ even(z[:1000], z[1000:2000])).softmax(0)
    assert (w @ new.double()).norm() < 0.5 * new.mean(0).norm()
    assert 1 / float(w.square().sum()) > 0.3 * len(w)


def test_what_helps_no_other_sample_is_left():
    """Of fewer samples than there are means, any weights fit; of others they say nothing."""
    noise = torch.randn(400, 300, generator=torch.manual_seed(0))
    w = (noise[200:].double() @ even(noise[:200], noise[200:])).softmax(0)
    assert 1 / float(w.square().sum()) > 0.9 * len(w)


def test_what_is_left_of_T_alone_asks_for_nothing(model, four, of_D_r):
    """Taken out of the whole memory, D_f's share leaves rounding where a unit fires under T alone."""
    name, x = last_layer(model, four.train.D_r.x[:2]), four.train.D_r.x
    F_W, F_b = (of_D_r.sums[f"{name}.{part}"] / of_D_r.n for part in ("weight", "bias"))
    head = read(model, name, x)
    head.h[:, :4] = 0
    F_W[:, :4] = 1e-8 * F_W.max()
    means = Means.of(F_W, F_b)
    z = means.apart(head) / means.deviations(head)
    columns = len(means.classes) + torch.arange(4)
    assert z.mean(0)[columns].abs().max() < 1e-2


def test_matched_stand_ins_have_what_the_memory_tells_of_D_r(model, of_D_r, replay):
    name = last_layer(model, replay.images.x[:2])
    drawn, made = replay.draw(4000, stream(0, "x"))[0], replay.fresh(4000, stream(0, "x"))
    heads = [read(model, name, x) for x in (made, drawn)]
    means = Means.of(*(of_D_r.sums[f"{name}.{part}"] / of_D_r.n for part in ("weight", "bias")))
    before, after = (means.apart(head) / means.deviations(heads[0]) for head in heads)
    assert after.mean(0).square().mean() < 0.2 * before.mean(0).square().mean()


def test_the_same_are_drawn_again(model, four, of_D_r, replay):
    x, labels = replay.draw(300, stream(0, "x"))
    assert (labels, len(x), x.dtype) == (None, 300, torch.uint8)
    again = matched(replay_of(model, four.request("B"), None), model, of_D_r)
    assert torch.equal(again.draw(300, stream(0, "x"))[0], x)
    assert replay.source == "stand-ins"


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
    monkeypatch.setattr(Means, "sums", lambda *of, sums=Means.sums: asked.append(1) or sums(*of))
    forget(model, four.request("B"), None)
    assert not asked
    result = forget(model, four.request("B"), memory)
    assert result.setting["replayed"] == "stand-ins"
    assert asked


def test_a_stopped_run_goes_on_to_the_same_bits(tmp_path, model, four, memory):
    recipe = replace(RECIPES["unsee"], epochs=3)
    whole = forget(model, four.request("B"), memory, recipe)
    asked = iter([False] * 30 + [True] * 1000)
    words = {"folder": tmp_path / "run", "checkpoint_seconds": 0.0}
    with pytest.raises(Interrupted):
        forget(model, four.request("B"), memory, recipe, stop=lambda: next(asked), **words)
    again = forget(model, four.request("B"), memory, recipe, **words)
    assert again.exact
    assert networks.identity(again.model) == networks.identity(whole.model)
