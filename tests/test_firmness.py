import pytest
import torch

from unsee import firmness
from unsee.firmness import MEAN_F
from unsee.plan import Plan

LARGE, SMALL = (Plan(0.1, 0.9, 1, 100, 10, average=average) for average in (False, True))
FEW = [torch.full((3,), 0.5 * MEAN_F), torch.full((2, 2), MEAN_F)]


@pytest.mark.parametrize(
    ("plan", "s", "times"),
    [
        (LARGE, 0.0, 1.0),
        (SMALL, 0.0, 10.0),
        (LARGE, 1.0, 0.3),
        (SMALL, 1.0, 0.3),
        (SMALL, 8 / 9, 10 ** (1 / 9) * 0.3 ** (8 / 9)),  # without the attacker's own class: no cliff
    ],
)
def test_R_by_the_size_of_D_f_and_by_how_many_classes_D_f_clean_has(plan, s, times):
    assert firmness.of_R(plan, s, FEW) == pytest.approx(times)


@pytest.mark.parametrize("plan", [LARGE, SMALL])
def test_R_holds_no_more_firmly_than_by_so_large_an_F(plan):
    """How large F is on the mean, over all weights alike, in whatever tensors they lie."""
    n = sum(f.numel() for f in FEW)
    peak = [*FEW, torch.full((n,), 99 * MEAN_F)]
    mean = (1.5 + 4 + 99 * n) / (2 * n)
    assert firmness.of_R(plan, 0.0, peak) == pytest.approx(firmness.of_R(plan, 0.0, FEW) / mean)
    held = firmness.of_R(plan, 0.0, peak) * torch.cat([f.flatten() for f in peak]).mean()
    assert float(held) == pytest.approx(firmness.of_R(plan, 0.0, FEW) * MEAN_F)
    assert firmness.of_R(plan, 1.0, peak) == 0.3  # samples of all classes hold D_r whatever F is


def test_an_F_of_nothing_holds_nothing_and_is_no_error():
    assert firmness.of_R(LARGE, 0.0, [torch.zeros(3)]) == firmness.of_R(LARGE, 0.0, []) == 1.0
    peak = torch.ones(3)
    assert firmness.of_R(LARGE, 0.0, [peak, torch.empty(0)]) == firmness.of_R(LARGE, 0.0, [peak]) < 1.0


def test_layers_are_held_the_more_firmly_the_more_classes_D_f_clean_has():
    assert [firmness.of_layers(SMALL, s) for s in (0.0, 0.5, 1.0)] == pytest.approx([1.0, 10**0.5, 10.0])
    assert firmness.of_layers(LARGE, 1.0) == 1.0
