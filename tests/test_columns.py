import pytest
import torch

from unsee import columns, sources
from unsee.errors import InputError


@pytest.fixture(scope="module")
def data():
    return sources.bundled_adult().train


def others(data, name):
    return [place for place in range(data.x.shape[1]) if place != data.kind.place(name)]


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda d: columns.set_to(d, "sex", "Female"), "column sex = Female"),
        (lambda d: columns.set_to(d, "age", 30), "column age = 30"),
        (lambda d: columns.constant(d, "race"), "column race constant at White"),
        (lambda d: columns.constant(d, "hours-per-week"), "column hours-per-week constant at 40"),
    ],
)
def test_a_column_gets_one_value_and_the_others_stay(data, make, name):
    T, column = make(data), name.split()[1]
    out = T(data)
    assert T.name == name
    assert out.x[:, data.kind.place(column)].unique().numel() == 1
    assert torch.equal(out.x[:, others(data, column)], data.x[:, others(data, column)])
    assert out.kind is data.kind
    assert torch.equal(data.x, sources.bundled_adult().train.x)  # the input is never changed


def test_resampled_has_the_columns_distribution_and_nothing_of_its_row(data):
    T, place = columns.resampled(data, "sex"), data.kind.place("sex")
    out = T(data)
    assert abs(float(out.x[:, place].mean() - data.x[:, place].mean())) < 0.03
    assert float((out.x[:, place] != data.x[:, place]).double().mean()) > 0.3
    assert torch.equal(T(out).x, out.x)  # it depends on the other columns alone
    assert torch.equal(T(data.subset([5, 3])).x, out.x[[5, 3]])
    assert not torch.equal(columns.resampled(data, "sex", seed=1)(data).x, out.x)


def test_leaked_identifiers_lie_beyond_all_others(data):
    numbered = columns.numbered(data, "account")
    place = numbered.kind.place("account")
    assert numbered.x[:, place].unique().numel() > 1900
    T = columns.leaked(numbered, "account")
    found = T(numbered).x[:, place]
    assert float(found.min()) > float(numbered.x[:, place].max())
    assert found.unique().numel() > 1900
    nearer, farther = (one.pixels(numbered.x.clone())[:, place] for one in T.varied())
    assert nearer.max() < found.min() < found.max() < farther.min()


def test_variations_go_through_the_columns_values(data):
    names = [one.name for one in columns.set_to(data, "sex", "Female").varied()]
    assert names == ["set to Male"]
    assert len(columns.resampled(data, "race").varied()) == 5
    ages = [one.pixels(data.x[:1].clone())[0, 0] for one in columns.constant(data, "age").varied()]
    assert sorted(ages) == ages


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("sex:Female", "column sex = Female"),
        ("age:30", "column age = 30"),
        ("race:constant", "column race constant at White"),
        ("race:resampled", "column race resampled"),
        ("fnlwgt:leaked", "column fnlwgt leaked"),
    ],
)
def test_in_words(data, words, name):
    assert columns.parse(words, data).name.startswith(name)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("seks:Female", "one of age, .*, found 'seks'"),
        ("sex:female", "one of Female, Male as sex, found 'female'"),
        ("native-country:Atlantis", r"United-States, .*, \.\.\."),
        ("age:old", "a number, constant, resampled, leaked as age"),
        ("age:nan", "a number"),
        ("sex:leaked", "numbers in the column sex"),
    ],
)
def test_bad_words_are_refused(data, words, message):
    with pytest.raises(InputError, match=message):
        columns.parse(words, data)


def test_other_samples_are_refused(data):
    T = columns.constant(data, "sex")
    with pytest.raises(InputError, match="rows of the table"):
        T(sources.bundled().train.subset([0]))
    with pytest.raises(InputError, match="a table with named columns"):
        columns.constant(sources.bundled().train, "sex")
    with pytest.raises(InputError, match="no column age yet"):
        columns.numbered(data, "age")
    with pytest.raises(InputError, match="rows to make T of"):
        columns.constant(data.subset([]), "sex")
