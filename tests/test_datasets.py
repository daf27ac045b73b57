import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from unsee.datasets import Dataset, Fingerprint, batches, concatenate
from unsee.errors import InputError

GREY = torch.zeros(4, 1, 3, 3, dtype=torch.uint8)


def test_numpy_and_lists_are_taken():
    data = Dataset(np.zeros((4, 1, 3, 3), np.uint8), np.array([0, 1, 2, 1], np.int8))
    assert data.classes == ("0", "1", "2")
    assert data.y.dtype == torch.int64
    assert len(data) == 4
    assert "4 samples of 1x3x3, 3 classes" in repr(data)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0, 1, 2, 10], "labels from 0 to 9 in data, found 10 at index 3"),
        ([0, -1, 2, 1], "found -1 at index 1"),
        ([0, -100, -100, 1], "found -100 at index 1, -100 at index 2"),
        ([0.0, 1.0, 2.0, 1.0], "whole numbers as labels in data, found torch.float"),
        ([True, False, True, True], "whole numbers as labels in data, found torch.bool"),
        ([[0], [1], [2], [1]], "one label a sample"),
        ([0, 1, 2], "as many labels as samples in data, found 4 and 3"),
    ],
)
def test_bad_labels(y, message):
    with pytest.raises(InputError, match=message.replace("[", r"\[")):
        Dataset(GREY, y, tuple("abcdefghij"))


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_one_bad_value_among_many_is_found(bad):
    x = torch.zeros(5000, 1, 8, 8)
    x[1234, 0, 3, 3] = bad
    with pytest.raises(InputError, match=r"NaN or Inf in 1 samples \(index 1234\)"):
        Dataset(x, torch.zeros(5000, dtype=torch.long))


def test_a_sum_that_overflows_is_not_a_bad_value():
    Dataset(torch.full((2, 8), 3e38), [0, 0])
    x = torch.full((3, 8), 3e38)
    x[1, 2] = torch.nan
    with pytest.raises(InputError, match=r"in 1 samples \(index 1\)"):
        Dataset(x, [0, 0, 0])


@pytest.mark.parametrize("shape", [(0, 1, 2, 2), (2, 0), (3,)])
def test_few_values_or_none_are_checked_too(shape):
    x = torch.zeros(shape)
    Dataset(x, [0] * len(x))


@pytest.mark.parametrize(
    ("x", "value_range"),
    [
        (torch.zeros(2, 1, 2, 2, dtype=torch.uint8), (0, 255)),
        (torch.rand(2, 1, 2, 2), (0, 1)),
        (torch.rand(2, 1, 2, 2) * 200 + 2, (0, 255)),
        (torch.randn(2, 1, 2, 2) - 9, None),
        (torch.zeros(2, 5, dtype=torch.long), None),
    ],
)
def test_the_value_range_is_read_off_the_data(x, value_range):
    assert Dataset(x, [0, 0]).value_range == value_range


def test_a_wrong_value_range_is_refused():
    with pytest.raises(InputError, match="values from 0 to 255 in data, found values from"):
        Dataset(torch.rand(2, 1, 2, 2), [0, 0], value_range=(0, 255))
    with pytest.raises(InputError, match="values from 0 to 1 in data"):
        Dataset(torch.rand(2, 1, 2, 2) + 1, [0, 0], value_range=(0, 1))


def test_a_label_beyond_reason_is_refused_at_once():
    with pytest.raises(InputError, match="labels from 0 to 9999"):
        Dataset(GREY, [0, 1, 10**15, 2])


def test_classes_may_be_a_number():
    assert Dataset(GREY, [0, 1, 0, 1], 3).classes == ("0", "1", "2")


def test_rescaling():
    data = Dataset(torch.tensor([[0, 255]], dtype=torch.uint8), [0]).rescaled(0, 1)
    assert data.x.tolist() == [[0, 1]]
    assert data.value_range == (0, 1)
    with pytest.raises(InputError, match="a known value range"):
        Dataset(torch.randn(2, 2) - 9, [0, 0]).rescaled(0, 1)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(0, 3), min_size=4, max_size=60),
    st.floats(0, 1),
    st.integers(2, 4),
    st.integers(0, 99),
)
def test_splits_and_folds_are_stratified_partitions(y, fraction, k, seed):
    data = Dataset(torch.arange(len(y))[:, None], y, tuple("abcd"))
    rest, part = data.split(fraction, seed)
    assert sorted(rest.x.flatten().tolist() + part.x.flatten().tolist()) == list(range(len(y)))
    for c in set(y):
        assert (part.y == c).sum() == round(fraction * y.count(c))
    folds = data.folds(k, seed)
    assert sorted(np.concatenate(folds).tolist()) == list(range(len(y)))
    for c in set(y):
        counts = [int((data.y[fold] == c).sum()) for fold in folds]
        assert max(counts) - min(counts) <= 1


def test_too_many_folds():
    with pytest.raises(InputError, match="between 2 and 4 folds"):
        Dataset(GREY, [0, 0, 0, 0]).folds(5)


def test_fingerprint_is_of_the_content_only():
    a = Dataset(GREY, [0, 1, 0, 1], ("a", "b"), name="one")
    assert a.fingerprint == Dataset(GREY, [0, 1, 0, 1], name="two").fingerprint
    assert a.fingerprint != Dataset(GREY, [0, 1, 1, 0]).fingerprint
    assert a.fingerprint != Dataset(GREY + 1, [0, 1, 0, 1]).fingerprint
    assert a.fingerprint != Dataset(GREY.float(), [0, 1, 0, 1]).fingerprint
    pieces = Fingerprint()
    for x, y in batches(a, 3, 2):
        pieces.update(x, y)
    assert pieces.hexdigest() == a.fingerprint


class Streamed(torch.utils.data.Dataset):
    def __init__(self, data):
        self.data = data

    def __len__(self):
        return len(self.data)

    def __getitem__(self, i):
        return self.data.x[i], int(self.data.y[i])


def test_a_torch_data_set_streams_and_is_checked():
    data = Dataset(torch.arange(20.0).reshape(10, 2), [0, 1] * 5)
    ours, theirs = list(batches(data, 4, 2)), list(batches(Streamed(data), 4, 2))
    assert all(torch.equal(a[0], b[0]) and torch.equal(a[1], b[1]) for a, b in zip(ours, theirs, strict=True))
    with pytest.raises(InputError, match="1 at index 1"):
        list(batches(Streamed(data), 4, 1))
    with pytest.raises(InputError, match="map-style"):
        list(batches(iter([]), 4, 1))


def test_concatenating_what_does_not_fit():
    with pytest.raises(InputError, match="one shape and the same classes"):
        concatenate([Dataset(GREY, [0, 1, 0, 1]), Dataset(GREY, [0, 1, 2, 1])], "both")
