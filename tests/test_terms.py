import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from reference import cross_entropy, remembering_and_gradient, squared_distance
from unsee import terms
from unsee.randomness import stream


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
    for p, start in zip(new, before, strict=True):
        p.grad = start.clone()
    assert float(terms.add_remembering(new, old, fisher, 3e4)) == pytest.approx(value, rel=1e-6)
    for p, start, gradient in zip(new, before, gradients, strict=True):
        expected = start.double() + 3e4 * gradient
        assert float((p.grad - expected).abs().max() / expected.abs().max()) < 1e-6


def test_random_labels_are_uniform_on_the_subset_and_never_outside():
    subset = [1, 2, 3, 4, 5, 6, 7, 8, 9]
    drawn = np.concatenate(
        [terms.random_labels(1000, subset, stream(0, "rld", step)).numpy() for step in range(1000)]
    )
    counts = np.bincount(drawn, minlength=10)
    assert counts[0] == 0
    assert counts.sum() == 1_000_000
    assert chisquare(counts[1:]).pvalue > 0.001
