from dataclasses import replace

import pytest
import torch
from torch import nn

import reference
from unsee import FourDatasets, forget, networks, remember, tile, updating
from unsee.errors import InputError
from unsee.recipe import RECIPES
from unsee.updating import Remembering, Update

SHAPES = [(7, 5), (5,), (3, 2, 2), (33, 4)]


def tensors(seed, dtype=torch.float64, scale=1.0):
    generator = torch.Generator().manual_seed(seed)
    return [scale * torch.randn(shape, generator=generator, dtype=dtype) for shape in SHAPES]


def started(dtype=torch.float64):
    """theta, theta_old and F; the gradients of a step."""
    theta_old = tensors(0, dtype)
    moves = tensors(1, dtype, 0.1)
    theta = [nn.Parameter(p + move) for p, move in zip(theta_old, moves, strict=True)]
    return theta, theta_old, [f.square() for f in tensors(2, dtype)]


def give(theta, step):
    for p, g in zip(theta, tensors(10 + step, theta[0].dtype), strict=True):
        p.grad = g.clone()


def closed_form(theta, theta_old, fisher, strength):
    flat = (tensor.flatten() for tensor in (theta, theta_old, fisher))
    return reference.proximal(*flat, strength).view(theta.shape)


def test_without_R_it_is_torchs_own_to_the_bit():
    ours, theirs = started(torch.float32)[0], started(torch.float32)[0]
    update, optimizer = Update(ours, 0.9), torch.optim.SGD(theirs, 0.1, 0.9, fused=True)
    for step in range(4):
        lr = 0.1 / (step + 1)
        give(ours, step)
        give(theirs, step)
        assert update(lr) is None
        optimizer.param_groups[0]["lr"] = lr
        optimizer.step()
        assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))
    assert all(p.grad is None for p in ours)


@pytest.mark.parametrize("proximal", [False, True])
@pytest.mark.parametrize("block", [1, 7, 1 << 20])
def test_with_R_it_is_the_printed_formula(monkeypatch, proximal, block):
    monkeypatch.setattr(updating, "BLOCK", block)
    theta, theta_old, fisher = started()
    update = Update(theta, 0.8, Remembering(theta_old, fisher, 0.3, proximal))
    expected, v = [p.detach().clone() for p in theta], [torch.zeros_like(p) for p in theta]
    for step in range(4):
        lr = 0.05 / (step + 1)
        give(theta, step)
        grads = [p.grad.clone() for p in theta]
        R = update(lr)
        value, pulls = reference.remembering_and_gradient(expected, theta_old, fisher)
        assert (R is None) == proximal
        assert R is None or float(R) == pytest.approx(value, rel=1e-12)
        for i, pull in enumerate(pulls):
            v[i] = 0.8 * v[i] + grads[i] + (0 if proximal else 0.3 * pull)
            expected[i] = expected[i] - lr * v[i]
            if proximal:
                strength = 2 * 0.3 * lr / (1 - 0.8)
                expected[i] = closed_form(expected[i], theta_old[i], fisher[i], strength)
            assert torch.allclose(theta[i].detach(), expected[i], rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        *(("unsee", "B"), ("unsee", "C"), ("fashion-mnist/tile/B", "B"), ("cifar-10/line/C", "C")),
        *(("unsee/A", "A"), ("pattern-a/rld", "A"), ("pattern-a/rnd", "A")),
    ],
)
def test_blocks_change_no_bit_of_the_model(model, data, memory, monkeypatch, name, pattern):
    four = FourDatasets.of_class(data, 0, None if pattern == "A" else tile())
    kept = memory if pattern != "A" else remember(model, four.pretraining)
    recipe = replace(RECIPES[name], epochs=2, batch_size=16)
    recipe = recipe if name.startswith("unsee") else replace(recipe, lambda_kl=1e3, lr=1e-3)
    whole = forget(model, four.request(pattern), kept, recipe)
    monkeypatch.setattr(updating, "BLOCK", 1024)
    small = forget(model, four.request(pattern), kept, recipe)
    assert networks.identity(whole.model) == networks.identity(small.model) != networks.identity(model)
    for one, other in zip(whole.trajectory, small.trajectory, strict=True):
        assert one == pytest.approx(other, rel=1e-5)  # R is added up in another order


def pulled_apart(theta, v, grads, R, lr, momentum):
    """The same in two passes: R over all with fresh room, torch's own SGD over all; what it was before."""
    optimizer = torch.optim.SGD(theta, lr, momentum, fused=True)
    for p, buffer in zip(theta, v, strict=True):
        if buffer is not None:
            optimizer.state[p]["momentum_buffer"] = buffer
    with torch.no_grad():
        for p, g, old, f in zip(theta, grads, R.theta_old, R.fisher, strict=True):
            p.grad = g if R.proximal else g.add(f * (p - old), alpha=2 * R.lambda_kl)
        optimizer.step()
        for p, old, f in zip(theta, R.theta_old, R.fisher, strict=True):
            if R.proximal:
                a = f * (2 * R.lambda_kl * lr / (1 - momentum))
                p.lerp_(old, a / (1 + a))
    return [optimizer.state[p].get("momentum_buffer") for p in theta]


@pytest.mark.parametrize("proximal", [False, True])
@pytest.mark.parametrize("block", [16, 64, 1 << 20])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_one_pass_is_two_to_the_bit(monkeypatch, proximal, block, momentum):
    """In single precision, with sizes that no vector divides, two types, and a weight in another order."""
    monkeypatch.setattr(updating, "BLOCK", block)
    generator = torch.Generator().manual_seed(2)
    shapes = [(37, 11), (5,), (64,), (2, 3, 5, 5)]
    drawn = [[torch.randn(shape, generator=generator) for shape in shapes] for _ in range(7)]
    for tensors_of in drawn:
        tensors_of[1] = tensors_of[1].double()
        tensors_of[3] = tensors_of[3].to(memory_format=torch.channels_last)
    start, theta_old, fisher, *steps = drawn
    R = Remembering(theta_old, [f.square() for f in fisher], 0.3, proximal)
    one, two = ([nn.Parameter(p.clone()) for p in start] for _ in range(2))
    update, v = Update(one, momentum, R), [None] * len(start)
    for number, grads in enumerate(steps):
        lr = 0.05 / (number + 1)
        for p, g in zip(one, grads, strict=True):
            p.grad = g.clone()
        update(lr)
        v = pulled_apart(two, v, [g.clone() for g in grads], R, lr, momentum)
        assert all(torch.equal(a, b) for a, b in zip(one, two, strict=True))
    assert (update.v[0] is None) == (momentum == 0)


def test_a_gradient_in_another_order_is_brought_into_the_weights():
    weight = nn.Parameter(torch.zeros(2, 3, 4, 4).to(memory_format=torch.channels_last))
    given = torch.arange(96.0).view(2, 3, 4, 4)
    weight.grad = given.clone()
    Update([weight], 0.9)(1.0)
    assert torch.equal(weight.detach(), -given)


def test_a_parameter_without_a_gradient_is_moved_by_R_alone():
    theta, theta_old, fisher = started()
    before = [p.detach().clone() for p in theta]
    assert Update(theta, 0.9)(0.1) is None
    assert all(torch.equal(p, was) for p, was in zip(theta, before, strict=True))
    Update(theta, 0.9, Remembering(theta_old, fisher, 1.0))(0.1)
    for p, was, old, f in zip(theta, before, theta_old, fisher, strict=True):
        assert torch.allclose(p.detach(), was - 0.2 * f * (was - old), atol=1e-12)


def test_in_closed_form_R_does_not_wake_the_momentum_of_a_parameter_without_a_gradient():
    theta, theta_old, fisher = started()
    update = Update(theta, 0.9, Remembering(theta_old, [torch.zeros_like(f) for f in fisher], 1.0, True))
    update(0.1)
    assert update.v == [None] * len(theta)
    give(theta, 0)
    update(0.1)
    moved = [p.detach().clone() for p in theta]
    update(0.1)
    assert all(torch.equal(p, was) for p, was in zip(theta, moved, strict=True))


def test_R_of_another_model_is_refused():
    theta, theta_old, fisher = started()
    for R in (
        Remembering(theta_old[:2], fisher, 1.0),
        Remembering(theta_old, [torch.ones(1) for _ in fisher], 1.0),
    ):
        with pytest.raises(InputError, match="theta_old and F in theta's shapes"):
            Update(theta, 0.9, R)


def test_a_sparse_gradient_is_made_dense():
    words = nn.Embedding(5, 2, sparse=True)
    before = words.weight.detach().clone()
    words(torch.tensor([1, 1])).sum().backward()
    Update([words.weight], 0.9)(0.5)
    moved = before - words.weight.detach()
    assert torch.allclose(moved, torch.tensor([[0.0], [1.0], [0.0], [0.0], [0.0]]).expand(5, 2))


def test_R_moves_nothing_but_theta():
    theta, theta_old, fisher = started()
    kept = [t.clone() for t in (*theta_old, *fisher)]
    for proximal in (False, True):
        give(theta, 0)
        Update(theta, 0.9, Remembering(theta_old, fisher, 1.0, proximal))(0.1)
    assert all(torch.equal(a, b) for a, b in zip((*theta_old, *fisher), kept, strict=True))
