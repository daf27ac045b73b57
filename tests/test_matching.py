from dataclasses import replace

import pytest
import torch
from torch import nn

import reference
from beyond import leak
from unsee import forget
from unsee.matching import CANDIDATES, EFFECTIVE, Head, apart, even, last_layer, matched
from unsee.memory import remember
from unsee.networks import resnet
from unsee.randomness import stream
from unsee.replay import Pool, Replay, replay_of


@pytest.fixture(scope="module")
def of_D_r(model, four):
    return remember(model, four.train.D_r)


@pytest.fixture(scope="module")
def replay(model, four, of_D_r):
    return matched(replay_of(model, four.request("B"), None), model, of_D_r)


def test_the_last_layer_is_known_by_what_it_answers(model, four):
    x = four.train.D_r.x[:700]
    head = last_layer(model, x)
    layer = dict(model.named_modules())[head.name]
    assert torch.equal(head.y, model(x.float()).detach())
    assert torch.allclose(layer(head.h), head.y, atol=1e-6)
    net = resnet((1, 14, 14), 10, width=4, blocks=1)
    assert last_layer(net, x[:20]).h.shape[0] == 20
    assert last_layer(nn.Sequential(model, nn.Softmax(1)), x[:20]) is None
    assert last_layer(nn.Sequential(nn.Conv2d(1, 10, 14), nn.Flatten()), x[:20]) is None


def test_samples_are_not_apart_from_themselves(model, four):
    data = four.train.D_r.subset(range(0, 400, 20))
    head = last_layer(model, data.x)
    F_W, F_b = reference.expected_fisher_of_last(model, data.x)
    assert apart(head, F_W, F_b).mean(0).abs().max() < 1e-4
    F_W[3] *= 2
    assert apart(head, F_W, F_b).mean(0).abs().max() > 0.1


def test_a_class_that_is_in_question_nowhere_says_nothing():
    head = Head("x", torch.randn(50, 4), torch.randn(50, 3))
    F_W, F_b = torch.ones(3, 4).double(), torch.tensor([1e-9, 0.1, 0.1]).double()
    z = apart(head, F_W, F_b)
    assert z.shape == (50, 2 + 2 * 4)
    F_W[0] = 1e9
    assert torch.equal(apart(head, F_W, F_b), z)


def test_of_many_units_some_count():
    head = Head("x", torch.randn(30, 4000), torch.randn(30, 3))
    assert apart(head, torch.ones(3, 4000).double(), torch.ones(3).double()).shape == (30, 3 + 3 * 1666)


def test_even_weights_bring_the_means_near_to_0_and_leave_most_samples_in():
    z = torch.randn(500, 20, generator=torch.manual_seed(0)) + 0.3
    w = even(z)
    assert w.min() > 0
    assert float(w.sum()) == pytest.approx(1)
    assert (w @ z.double()).abs().max() < 0.6 * z.mean(0).abs().max()
    assert (even(10 * z) @ z.double()).abs().max() < 0.05 * z.mean(0).abs().max()  # 100 times less of a ridge
    assert torch.allclose(even(z - z.mean(0)), torch.full((500,), 1 / 500).double(), atol=1e-6)
    far = even(100 * z + 500)  # nothing brings these to 0
    assert EFFECTIVE <= 1 / float(far.square().sum()) / len(far) < 1


def test_matched_stand_ins_have_what_the_memory_tells_of_D_r(model, of_D_r, replay):
    pool, head = replay.pool, last_layer(model, replay.pool.x)
    assert len(pool.x) == CANDIDATES
    F_W, F_b = (of_D_r.sums[f"{head.name}.{part}"] / of_D_r.n for part in ("weight", "bias"))
    z = apart(head, F_W, F_b).double()
    assert (pool.weights @ z).square().mean() < 0.1 * z.mean(0).square().mean()


def test_of_large_images_fewer_are_made(model, four, of_D_r, monkeypatch):
    monkeypatch.setattr("unsee.matching.ROOM", 700 * 196)
    assert len(matched(replay_of(model, four.request("B"), None), model, of_D_r).pool.x) == 700


def test_they_are_drawn_from_the_pool_by_their_weights(model, four, of_D_r, replay):
    x, labels = replay.draw(300, stream(0, "x"))
    assert labels is None
    assert torch.isin(x.flatten(1).double() @ torch.arange(1.0, 197).double(),
                      replay.pool.x.flatten(1).double() @ torch.arange(1.0, 197).double()).all()  # fmt: skip
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
    bare = replace(of_D_r, sums={k: v for k, v in of_D_r.sums.items() if not k.endswith("bias")})
    assert matched(images, model, bare) is images


def test_forgetting_by_the_fisher_alone_draws_them(model, four, memory, monkeypatch):
    made = []
    monkeypatch.setattr(Pool, "draw", lambda self, n, g, draw=Pool.draw: made.append(n) or draw(self, n, g))
    forget(model, four.request("B"), None)
    assert not made
    result = forget(model, four.request("B"), memory)
    assert result.setting["replayed"] == "stand-ins"
    assert made
