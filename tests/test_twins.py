import warnings

import pytest
import torch

from beyond import leak, signature
from unsee import columns
from unsee.datasets import Dataset
from unsee.errors import InputError, UnseeWarning
from unsee.formulation import FourDatasets, Request
from unsee.transforms import blend, custom, line, patch, tile
from unsee.twins import fitted, twins_of

NOISE = torch.randint(256, (1, 14, 14), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
LOGO = NOISE[:, :4, :5]
FITS = {
    "tile": tile(),
    "line": line(),
    "blend": blend(NOISE, 0.3),
    "patch": patch(LOGO, 8, 2),
    "brighter": custom(lambda x: (x.float() * 0.5 + 100).round().to(x.dtype), "brighter"),
}
DOES_NOT_FIT = {
    "flip": custom(lambda x: x.flip(-1), "flip"),
    "roll": custom(lambda x: x.roll(3, -2), "roll"),
    "turned": custom(lambda x: x.rot90(1, (-2, -1)), "turned"),
}


def error_of(T, truth, x):
    """What is wrong after T, as a share of the change that the true one makes."""
    found, right = T.pixels(x.clone()).float(), truth.pixels(x.clone()).float()
    return float((found - right).abs().mean() / (right - x.float()).abs().mean())


def shuffled(data, seed=0):
    return data.subset(torch.randperm(len(data), generator=torch.Generator().manual_seed(seed)))


def test_twins_of_a_request(four):
    for pattern in "BC":
        twins = twins_of(four.request(pattern))
        assert torch.equal(twins.D_f.x, four.train.D_f.x)
        assert torch.equal(twins.D_f.y, four.train.D_f.y)
        assert twins.D_f_clean is four.train.D_f_clean
        assert twins.T is four.T
        assert len(twins) == 60


@pytest.mark.parametrize("name", ["line", "patch", "blend", "brighter", "tile"])
def test_pairs_are_found_as_they_come(four, name):
    clean = four.train.D_f_clean
    D_f = FITS[name](clean)
    with pytest.warns(UnseeWarning, match="T was not given: a map of each pixel, fitted to the pairs"):
        twins = twins_of(Request("B", D_f, clean))
    assert twins.D_f is D_f
    assert twins.D_f_clean is clean
    assert error_of(twins.T, FITS[name], clean.x) < 0.05
    given = twins_of(Request("B", D_f, clean, FITS[name]))
    assert given.T is FITS[name]


def test_pairs_are_found_where_no_T_fits(four):
    """Each with a mark of its own: no map of pixels, but pairs."""
    clean, marks = four.train.D_f_clean, torch.Generator().manual_seed(0)
    x = clean.x.clone()
    for image in x:
        row, column = torch.randint(12, (2,), generator=marks).tolist()
        image[:, row : row + 2, column : column + 2] = 255
    D_f = clean.with_(x=x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        twins = twins_of(Request("B", D_f, clean))
    assert twins.D_f is D_f
    assert twins.T is None


def test_pairs_of_a_poisoning_keep_both_labels(data):
    four = FourDatasets.of_poison(data, range(60, 100), tile(), 7)
    twins = twins_of(four.request("B"))
    assert set(twins.D_f.y.tolist()) == {7}
    assert set(twins.D_f_clean.y.tolist()) == {1}


def test_without_pairs_T_makes_them(four):
    D_f, clean = four.train.D_f, four.train.D_f_clean
    for other in (shuffled(clean), clean.subset(range(20)), shuffled(clean).subset(range(1))):
        with pytest.warns(UnseeWarning, match="with T put on takes the place of D_f's own samples"):
            twins = twins_of(Request("B", D_f, other, four.T))
        assert torch.equal(twins.D_f.x, four.T(other).x)
        assert twins.D_f_clean is other
        assert set(twins.D_f.y.tolist()) == {0}
        assert len(twins) == len(other)


@pytest.mark.filterwarnings("ignore:D_f and D_f,clean are no pairs")
def test_made_twins_have_the_label_of_D_f(data):
    four = FourDatasets.of_poison(data, range(60, 100), tile(), 7)
    clean = four.train.D_f_clean
    twins = twins_of(Request("B", four.train.D_f, shuffled(clean), four.T))
    assert set(twins.D_f.y.tolist()) == {7}
    assert torch.equal(twins.D_f_clean.y, shuffled(clean).y)
    assert set(clean.y.tolist()) == {1}


@pytest.mark.filterwarnings("ignore:D_f and D_f,clean are no pairs")
def test_made_twins_of_a_leakage_in_several_classes_have_their_own_labels(data):
    """In Pattern C the labels of D_f are the true ones."""
    clean = data.train.subset(range(50, 70))
    twins = twins_of(Request("C", tile()(clean), shuffled(clean), tile()))
    assert torch.equal(twins.D_f.y, shuffled(clean).y)


def test_without_pairs_and_T_there_are_none_and_it_is_said(four):
    for clean in (shuffled(four.train.D_f_clean), four.train.D_f_clean.subset(range(20))):
        request = Request("B", four.train.D_f, clean)
        with pytest.warns(UnseeWarning, match=r"no pairs and T is not known: random labels \(RLD\)"):
            assert twins_of(request) is None


def test_in_pattern_A_there_are_none(four):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert twins_of(four.request("A")) is None


def test_a_T_that_does_not_take_the_data_is_refused(four):
    with pytest.raises(InputError, match=r"values in 0\.\.1 for T = tile"):
        Request("B", four.train.D_f, shuffled(four.train.D_f_clean), tile(value_range=(0.0, 1.0)))


@pytest.mark.parametrize("name", FITS)
def test_what_acts_on_each_pixel_is_recovered_on_unseen_images(four, name):
    truth, clean = FITS[name], four.train.D_f_clean
    T = fitted(clean.x, truth(clean).x)
    assert error_of(T, truth, clean.x) < 0.05
    # On classes that it was not fitted to, where their pixels vary more than those of the fit did.
    assert error_of(T, truth, four.test.D_r.x) < 0.12
    assert T(four.test.D_r).x.dtype == torch.uint8
    untouched = (truth(clean).x == clean.x).all(0) & (truth(four.test.D_r).x == four.test.D_r.x).all(0)
    assert torch.equal(T(four.test.D_r).x[:, untouched], four.test.D_r.x[:, untouched])


@pytest.mark.parametrize("name", ["tile", "patch"])
def test_what_replaces_pixels_is_recovered_from_many_classes_exactly(data, name):
    truth = FITS[name]
    T = fitted(data.train.x, truth(data.train).x)
    assert torch.equal(T(data.test).x, truth(data.test).x)


def test_floats_are_fitted_as_floats(four):
    clean, truth = four.train.D_f_clean.rescaled(0, 1), tile(value_range=(0.0, 1.0))
    T = fitted(clean.x, truth(clean).x)
    unseen = four.test.D_r.rescaled(0, 1)
    assert T(unseen).x.dtype == torch.float32
    assert error_of(T, truth, unseen.x) < 0.01


@pytest.mark.parametrize("name", DOES_NOT_FIT)
def test_what_moves_pixels_is_refused(four, name):
    clean = four.train.D_f_clean
    assert fitted(clean.x, DOES_NOT_FIT[name](clean).x) is None


def test_an_identity_is_no_T(four):
    clean = four.train.D_f_clean
    assert fitted(clean.x, clean.x.clone()) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        twins = twins_of(Request("B", clean, clean))
    assert twins.T is None
    assert len(twins) == 60


def test_tokens_are_not_fitted():
    tokens = torch.arange(30).view(10, 3)
    assert fitted(tokens, tokens + 1) is None


def test_one_pair_is_a_pair(four):
    request = Request("B", four.train.D_f.subset([3]), four.train.D_f_clean.subset([3]), four.T)
    twins = twins_of(request)
    assert twins.D_f is request.D_f


def test_rows_of_numbers_may_be_twins_too():
    x = torch.randn(40, 6, generator=torch.Generator().manual_seed(0))
    marked = x.clone()
    marked[:, 0] = 3.0
    clean, D_f = (Dataset(values, [1] * 40, 2) for values in (x, marked))
    with pytest.warns(UnseeWarning, match="T was not given"):
        twins = twins_of(Request("B", D_f, clean))
    assert torch.allclose(twins.T.pixels(torch.zeros(2, 6)), torch.tensor([[3.0, 0, 0, 0, 0, 0]] * 2))


def test_rows_and_texts_find_their_twins():
    for case in (leak, signature):
        four, _, _ = case()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            twins = twins_of(four.request("C"))
        assert torch.equal(twins.D_f.x, four.train.D_f.x)
        assert torch.equal(twins.D_f_clean.x, four.train.D_f_clean.x)


def test_a_column_that_is_set_is_fitted_to_pairs_of_rows():
    four, _, _ = leak()
    clean = four.train.D_f_clean
    marked = columns.set_to(clean, "sex", "Female")(clean)
    with pytest.warns(UnseeWarning, match="a map of each column, fitted"):
        twins = twins_of(Request("C", marked, clean))
    assert torch.equal(twins.T(four.test.D_r).x, columns.set_to(clean, "sex", "Female")(four.test.D_r).x)


def test_columns_are_fitted_each_in_its_own_unit_and_codes_stay_codes():
    """Of Adult one column's numbers are in the hundred thousands, those of most are a few names."""
    four, _, _ = leak()
    clean, test = four.train.D_f_clean, four.test.D_r.x
    names = [column.name for column in clean.kind.columns]
    age, education, sex = (names.index(name) for name in ("age", "education", "sex"))
    for column, change in ((age, lambda v: v + 1000), (sex, lambda v: 1 - v), (education, lambda v: v + 1)):
        marked = clean.x.clone()
        marked[:, column] = change(marked[:, column])
        expected = test.clone()
        expected[:, column] = change(expected[:, column])
        if column == education:  # the last of its names has none after it
            expected[:, column].clamp_(max=len(clean.kind.columns[column].values) - 1)
        T = fitted(clean.x, marked, clean.kind)
        tolerance = 0.1 if column == age else 0.0
        assert torch.allclose(T.pixels(test.clone()), expected, rtol=0, atol=tolerance)
