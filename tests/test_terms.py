import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.stats import chisquare

import reference
from reference import cross_entropy, remembering_and_gradient, squared_distance
from unsee import terms
from unsee.randomness import stream
from unsee.terms import Against


@pytest.fixture
def logits():
    generator = torch.Generator().manual_seed(0)
    return 5 * torch.randn(64, 10, generator=generator), torch.randn(64, 10, generator=generator)


def test_rnd_and_rld_and_correction_against_their_twins(logits):
    y, y_eta = logits
    labels = torch.arange(64) % 10
    assert float(terms.rnd(y, y_eta)) == pytest.approx(squared_distance(y, y_eta), rel=1e-6)
    for term in (terms.rld, terms.correction):
        assert float(term(y, labels)) == pytest.approx(cross_entropy(y, labels), rel=1e-6)


def test_remembering_and_its_gradient_against_the_twin():
    generator = torch.Generator().manual_seed(1)
    shapes = [(7, 5), (5,), (3, 2, 2)]
    old = [torch.randn(shape, generator=generator) for shape in shapes]
    new = [(p + 0.1 * torch.randn(p.shape, generator=generator)).requires_grad_() for p in old]
    fisher = [torch.rand(p.shape, generator=generator) for p in old]
    value, gradients = remembering_and_gradient(new, old, fisher)
    assert terms.remembering(new, old, fisher).item() == pytest.approx(value, rel=1e-6)
    before = [torch.randn(p.shape, generator=generator) for p in old]
    found = 0.0
    for p, p_old, f, start, gradient in zip(new, old, fisher, before, gradients, strict=True):
        grad, room = start.clone(), (torch.empty_like(p_old), torch.empty_like(p_old))
        found += float(terms.pull_(grad, p, p_old, f, 3e4, room))
        expected = start.double() + 3e4 * gradient
        assert float((grad - expected).abs().max() / expected.abs().max()) < 1e-6
    assert found == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize("name", terms.TERMS)
def test_every_term_gives_the_answers_to_D_f_a_gradient(name, logits):
    y, other = logits
    labels = torch.arange(64) % 10
    term, against = terms.TERMS[name]
    beside = {Against.RANDOM_LABELS: labels.flip(0), Against.NOTHING: labels}.get(against, other)
    y.requires_grad_()
    (gradient,) = torch.autograd.grad(term(y, beside, labels), y)
    assert gradient.isfinite().all()
    assert (gradient.abs().sum(1) > 0).any()


def test_a_term_of_ones_own_is_known_by_what_it_does():
    state = torch.get_rng_state()
    found = {
        terms.known_by(term, 10)
        for term in (lambda y, *_: y.square().mean(), lambda y, *_: y.abs().mean(), terms.masked)
    }
    assert len(found) == 3
    assert terms.known_by(terms.masked, 10) == terms.known_by(terms.masked, 10)
    assert torch.equal(torch.get_rng_state(), state)


def test_random_labels_are_uniform_on_the_subset_and_never_outside():
    subset = [1, 2, 3, 4, 5, 6, 7, 8, 9]
    drawn = np.concatenate(
        [terms.random_labels(1000, subset, stream(0, "rld", step)).numpy() for step in range(1000)]
    )
    counts = np.bincount(drawn, minlength=10)
    assert counts[0] == 0
    assert counts.sum() == 1_000_000
    assert chisquare(counts[1:]).pvalue > 0.001


def test_distillations_against_their_twins(logits):
    y, y_old = logits
    labels = torch.arange(64) % 10
    expected = reference.distil(y, y_old)
    assert expected > 1
    assert float(terms.distil(y, y_old)) == pytest.approx(expected, rel=1e-6)
    assert float(terms.invariance(y, y_old)) == pytest.approx(expected, rel=1e-6)
    assert float(terms.masked(y, y_old, labels)) == pytest.approx(
        reference.masked(y, y_old, labels), rel=1e-6
    )


def test_nothing_is_missed_of_the_same_answers(logits):
    y, _ = logits
    assert float(terms.distil(y, y)) == pytest.approx(0, abs=1e-6)
    assert float(terms.distil(y, y + 7)) == pytest.approx(0, abs=1e-6)  # logits are known up to a constant


def test_masked_distillation_moves_the_label_down_and_spreads_it_as_the_old_model_would(logits):
    _, y_old = logits
    labels = torch.arange(64) % 10
    y = y_old.clone().requires_grad_()
    for _ in range(400):
        (gradient,) = torch.autograd.grad(64 * terms.masked(y, y_old, labels), y)
        y = (y - gradient).detach().requires_grad_()
    p, q = y.softmax(1).detach(), y_old.softmax(1).scatter(1, labels[:, None], 0)
    assert float(p.gather(1, labels[:, None]).max()) < 0.01
    assert torch.allclose(p, q / q.sum(1, keepdim=True), atol=0.01)


def test_masked_distillation_stands_an_old_model_that_is_sure():
    """Without its label the old answer is all rounding: no NaN, whatever it is."""
    y = torch.zeros(3, 4, requires_grad=True)
    old = torch.tensor([[500.0, 0, 0, 0], [0, 0, 0, 0], [-500.0, 0, 500, 0]])
    loss = terms.masked(y, old, torch.tensor([0, 1, 2]))
    loss.backward()
    assert loss.item() == pytest.approx((2 * math.log(4 / 3) + math.log(2)) / 3, rel=1e-6)
    assert torch.isfinite(y.grad).all()


def test_invariance_leaves_the_clean_twin_alone(logits):
    y, clean = (values.clone().requires_grad_() for values in logits)
    terms.invariance(y, clean).backward()
    assert clean.grad is None
    assert float(y.grad.abs().max()) > 0


@pytest.mark.parametrize("most", [None, 0.5, 30.0])
def test_ascent_against_its_twin_and_without_gradient_beyond_its_bound(logits, most):
    y, labels = logits[0].clone().requires_grad_(), torch.arange(64) % 10
    bound = math.log(10) if most is None else most
    loss = terms.ascent(y, labels, most)
    loss.backward()
    assert loss.item() == pytest.approx(reference.ascent(y.detach(), labels, bound), rel=1e-6)
    assert loss.item() >= -bound - 1e-6
    each = torch.nn.functional.cross_entropy(y.detach(), labels, reduction="none")
    assert torch.equal(y.grad.abs().amax(1) > 0, each < bound)
    assert (each < bound).any()


def test_ascent_ends_where_the_label_has_its_share_by_chance():
    y, labels = torch.zeros(5, 10), torch.arange(5)
    y[labels, labels] = 3.0
    for _ in range(200):
        y.requires_grad_()
        (gradient,) = torch.autograd.grad(terms.ascent(y, labels), y)
        y = (y - gradient).detach()
    chance = y.softmax(1)[labels, labels]
    assert float(chance.max()) < 0.11
    assert float(chance.min()) > 0.05
    assert float(terms.ascent(y, labels)) == pytest.approx(-math.log(10), abs=1e-6)


def test_hidden_twins_against_the_slow_one():
    generator = torch.Generator().manual_seed(2)
    shapes = [(5, 7), (5, 3, 4, 4)]
    read, old = ([torch.randn(shape, generator=generator) for shape in shapes] for _ in range(2))
    assert float(terms.hidden(read, old)) == pytest.approx(reference.hidden(read, old), rel=1e-6)
    assert float(terms.hidden(old, old)) == 0
    assert float(terms.hidden([100 * h for h in read], [100 * h for h in old])) == pytest.approx(
        reference.hidden(read, old), rel=1e-5
    )


def test_a_layer_that_read_nothing_but_zeros_gives_no_nan():
    zeros = torch.zeros(3, 4)
    assert float(terms.hidden([zeros], [zeros])) == 0
    assert math.isfinite(float(terms.hidden([zeros + 1], [zeros])))
    with pytest.raises(ValueError, match="shorter"):
        terms.hidden([zeros, zeros], [zeros])


def test_below_its_level_a_loss_is_nothing_and_has_no_gradient():
    for value, expected, slope in [(3.0, 2.0, 1.0), (0.5, 0.0, 0.0), (-2.0, 0.0, 0.0)]:
        loss = torch.tensor(value, requires_grad=True)
        found = terms.above(loss, 1.0)
        found.backward()
        assert (found.item(), float(loss.grad)) == (expected, slope)


# ---- R's step in closed form --------------------------------------------------------------------

moderate = st.floats(-1e3, 1e3, allow_subnormal=False)
fishers = st.one_of(st.just(0.0), st.floats(1e-30, 1e30))
strengths = st.one_of(st.sampled_from([0.0, 1e-30, 1.0, 1e30]), st.floats(0, 1e30))
triples = st.lists(st.tuples(moderate, moderate, fishers), min_size=1, max_size=5)


def stepped(rows, strength, dtype=torch.float64):
    theta, old, fisher = (torch.tensor(column, dtype=dtype) for column in zip(*rows, strict=True))
    new = theta.clone()
    terms.proximal_(new, old, fisher, strength, (torch.empty_like(new), torch.empty_like(new)))
    return theta, old, fisher, new


def between(new, theta, old):
    return bool(((new >= torch.minimum(theta, old)) & (new <= torch.maximum(theta, old))).all())


@settings(max_examples=200, deadline=None)
@given(triples, strengths)
def test_the_proximal_step_is_its_closed_form(rows, strength):
    for dtype, digits in ((torch.float64, 1e-13), (torch.float32, 1e-5)):
        theta, old, fisher, new = stepped(rows, strength, dtype)
        assert not new.isnan().any()
        assert between(new, theta, old)
        expected = reference.proximal(theta, old, fisher, strength)
        scale = torch.maximum(theta.abs(), old.abs()).double() + 1e-12
        assert float(((new - expected).abs() / scale).max()) < digits


@settings(max_examples=100, deadline=None)
@given(triples, st.sampled_from([1e200, 1e308, math.inf]))
def test_a_strength_that_overflows_goes_back_and_no_further(rows, strength):
    for dtype in (torch.float64, torch.float32):
        theta, old, fisher, new = stepped(rows, strength, dtype)
        assert not new.isnan().any()
        assert between(new, theta, old)
        assert torch.equal(new[fisher > 1e-10], old[fisher > 1e-10])


@settings(max_examples=50, deadline=None)
@given(triples)
def test_without_strength_or_fisher_nothing_moves(rows):
    theta, *_, new = stepped(rows, 0.0)
    assert torch.equal(new, theta)
    theta, *_, new = stepped([(a, b, 0.0) for a, b, _ in rows], 1e30)
    assert torch.equal(new, theta)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(moderate, moderate, st.floats(0, 10)), min_size=1, max_size=5), st.floats(0, 1e3))
def test_the_proximal_step_minimises_what_it_names(rows, strength):
    theta, old, fisher, new = stepped(rows, strength)
    new.requires_grad_()
    objective = (new - theta).square().sum() / 2 + strength * terms.remembering([new], [old], [fisher]) / 2
    (gradient,) = torch.autograd.grad(objective, new)
    scale = 1 + (1 + strength * fisher) * (theta - old).abs()
    assert float((gradient.abs() / scale).max()) < 1e-9


def test_a_numeric_minimum_lies_at_the_proximal_step():
    for theta, old, fisher, strength in [(2.0, -1.0, 0.5, 3.0), (-4.0, 7.0, 2.0, 0.1), (1.0, 1.5, 9.0, 50.0)]:

        def objective(t, theta=theta, old=old, fisher=fisher, strength=strength):
            return (t - theta) ** 2 / 2 + strength * fisher * (t - old) ** 2 / 2

        *_, new = stepped([(theta, old, fisher)], strength)
        assert float(new) == pytest.approx(minimize_scalar(objective).x, abs=1e-6)


def test_the_proximal_step_is_taken_in_place_and_only_there():
    theta, old, fisher = torch.ones(3, requires_grad=True), torch.zeros(3), torch.full((3,), 3.0)
    terms.proximal_(theta, old, fisher, 1.0, (torch.empty(3), torch.empty(3)))
    assert theta.tolist() == [0.25] * 3
    assert not old.any()
    assert fisher.tolist() == [3.0] * 3
