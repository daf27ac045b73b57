import pytest
import torch

from unsee.datasets import Dataset, concatenate
from unsee.errors import InputError
from unsee.kinds import PLAIN, Column, Kind, kind_of

TABLE = Kind(columns=(Column("age"), Column("sex", ("Female", "Male"))))
TEXT = Kind(vocabulary=("<none>", "<unknown>", "buy", "now"))


def test_a_data_set_carries_its_kind_through_all_that_is_made_of_it():
    data = Dataset(torch.tensor([[39.0, 1.0], [50.0, 0.0], [20.0, 1.0]]), [0, 1, 0], kind=TABLE)
    assert data.subset([1]).kind is data.of_class(0).kind is data.with_(name="x").kind is TABLE
    assert concatenate([data, data], "both").kind is TABLE
    assert data.value_range is None  # a number from 0 to 255 is no pixel here
    assert Dataset(data.x, data.y).fingerprint == data.fingerprint


@pytest.mark.parametrize(
    ("x", "kind", "message"),
    [
        ([[1.0]], TABLE, "one for each column"),
        ([[1, 0]], TABLE, "floats"),
        ([[1.0, 2.0]], TABLE, "codes from 0 to 1 as sex"),
        ([[1.0, 0.5]], TABLE, "codes from 0 to 1 as sex"),
        ([[1.0, -1.0]], TABLE, "codes from 0 to 1 as sex"),
        ([[2.0, 3.0]], TEXT, "numbers of words"),
        ([[2, 4]], TEXT, "words from 0 to 3"),
        ([[2, -1]], TEXT, "words from 0 to 3"),
        ([2], TEXT, "numbers of words"),
    ],
)
def test_what_does_not_fit_its_kind_is_refused(x, kind, message):
    with pytest.raises(InputError, match=message):
        Dataset(torch.tensor(x), [0], kind=kind)


def test_two_kinds_do_not_go_together():
    rows = Dataset(torch.tensor([[1.0, 0.0]]), [0], kind=TABLE)
    with pytest.raises(InputError, match="data sets like"):
        concatenate([rows, rows.with_(kind=PLAIN)], "both")


def test_distances_mean_something():
    x = torch.tensor([[1e6, 0.0], [3e6, 1.0]])
    assert torch.allclose((TABLE.vectors(x)[1] - TABLE.vectors(x)[0]), torch.tensor([2**0.5, 2**0.5]))
    same = torch.tensor([[7.0, 0.0], [7.0, 1.0]])
    assert torch.isfinite(TABLE.vectors(same)).all()
    assert TEXT.vectors(torch.tensor([[2, 2, 0], [3, 2, 2]])).tolist() == [[0, 0, 2, 0], [0, 0, 2, 1]]
    assert PLAIN.vectors(torch.ones(2, 1, 2, 2)).shape == (2, 4)


def test_columns_are_found_by_name():
    assert TABLE.place("sex") == 1
    with pytest.raises(InputError, match="one of age, sex, found 'seks'"):
        TABLE.place("seks")
    with pytest.raises(InputError, match="a table with named columns"):
        PLAIN.place("sex")


def test_kinds_of_files():
    assert kind_of(["age", "sex:Female|Male"]) == TABLE
    assert kind_of(vocabulary=TEXT.vocabulary) == TEXT
    assert kind_of() == PLAIN
    assert [kind.name for kind in (TABLE, TEXT, PLAIN)] == ["table", "text", "plain"]
    for wrong in ({"columns": ["age", "age"]}, {"columns": ["age"], "vocabulary": ["a"]}):
        with pytest.raises(InputError):
            kind_of(**wrong)
