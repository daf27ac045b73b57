import pytest
import torch
from scipy.stats import binomtest

from unsee.errors import InputError
from unsee.randomness import stream
from unsee.report.rates import Rate, Shift, rate_of, shift_of, shift_read
from unsee.report.words import Words


@pytest.mark.parametrize(("right", "n"), [(0, 1), (0, 10), (10, 10), (1, 3), (830, 1000), (7, 9000)])
def test_the_interval_is_wilsons(right, n):
    found = binomtest(right, n).proportion_ci(method="wilson")
    assert Rate(right, n).interval == pytest.approx((found.low, found.high), abs=1e-12)


def test_accuracies_in_files_are_shares_of_whole_numbers():
    for right in range(301):
        assert rate_of(right / 300, 300) == Rate(right, 300)


def test_a_shift_counts_what_became_right_and_wrong():
    y = torch.tensor([0, 1, 2, 0, 1])
    shift = shift_of(y, torch.tensor([0, 1, 0, 1, 1]), torch.tensor([0, 0, 2, -1, 1]))
    assert shift == Shift(5, 2, 1, 1)
    assert (shift.before, shift.after, shift.change) == (Rate(3, 5), Rate(3, 5), 0)
    assert shift + shift == Shift(10, 4, 2, 2)


def test_a_change_is_clear_where_its_interval_leaves_0_out():
    assert Shift(900, 0, 754, 0).clear
    assert Shift(900, 700, 10, 60).clear
    assert not Shift(900, 737, 29, 35).clear
    assert not Shift(900, 900, 0, 0).clear
    assert not Shift(1, 0, 1, 0).clear


@pytest.mark.parametrize("flips", [(5, 12), (0, 0), (29, 35), (0, 17)])
def test_the_interval_of_a_change_covers_it_as_often_as_it_says(flips):
    """Samples of a population with these chances, in whose intervals the true change should lie."""
    gained, lost = flips[0] / 100, flips[1] / 100
    draws = stream(0, "flips").multinomial(200, [gained, lost, 1 - gained - lost], 4000)
    inside = 0
    for g, lo, _ in draws.tolist():
        low, high = Shift(200, 200 - g - lo, g, lo).interval
        inside += low <= gained - lost <= high
    assert inside / 4000 > 0.93


@pytest.mark.parametrize("counts", [(0, 0, 0, 0), (5, 3, 2, 1), (5, 6, 0, 0)])
def test_counts_that_cannot_be_are_refused(counts):
    with pytest.raises(InputError, match="make up at most n"):
        shift_read(Words([], "facts.json", "sets"), *counts)
