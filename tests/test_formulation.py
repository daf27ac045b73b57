import dataclasses

import pytest
import torch

from unsee.data.samples import overlap
from unsee.datasets import concatenate
from unsee.errors import InputError, UsageError
from unsee.formulation import TABLE_1, Arrow, FourDatasets, FourSets, Request, Validation, pattern_of
from unsee.sources import TrainTest
from unsee.transforms import patch, tile


def test_table_1_is_the_papers():
    up, down = Arrow.UP, Arrow.DOWN
    assert {name: dict(row.arrows) for name, row in TABLE_1.items()} == {
        "A": {"D_r": up, "D_f": down},
        "B": {"D_r": up, "D_f_clean": up, "D_r_extra": up},
        "C": {"D_r": up, "D_f": up, "D_r_extra": up},
    }
    assert pattern_of("b") is TABLE_1["B"]
    with pytest.raises(UsageError, match="pattern A, B or C"):
        pattern_of("D")


def test_the_papers_restriction_is_a_type():
    """Forgetting learns from these fields alone, and none of them is D_r."""
    assert [field.name for field in dataclasses.fields(Request)] == ["pattern", "D_f", "D_f_clean", "T"]


def test_score_is_the_least():
    values = {"D_r": 0.9, "D_f": 0.3, "D_f_clean": 0.8, "D_r_extra": 0.5}
    assert [round(TABLE_1[p].score(values), 9) for p in "ABC"] == [0.7, 0.5, 0.3]


def test_four_sets_of_a_class(data):
    four = FourDatasets.of_class(data, 0, tile())
    train, test = four.train, four.test
    assert [len(s) for s in (train.D_r, train.D_f, train.D_f_clean)] == [486, 60, 60]
    assert [len(s) for s in test.present().values()] == [180, 20, 20, 180]
    assert len(four.validation.D_r) == 54
    assert 0 not in train.D_r.y
    assert 0 not in four.validation.D_r.y
    assert torch.equal(train.D_f.x, tile()(train.D_f_clean).x)
    assert torch.equal(test.D_r_extra.y, test.D_r.y)
    assert torch.equal(four.validation.D_r_extra.x, tile()(four.validation.D_r).x)
    assert len(four.pretraining) == 486 + 60
    held = {row.numpy().tobytes() for row in four.validation.D_r.x}
    assert not held & {row.numpy().tobytes() for row in four.pretraining.x}


def test_four_sets_of_a_class_without_T(data):
    four = FourDatasets.of_class(data, 3)
    assert list(four.test.present()) == ["D_r", "D_f"]
    assert four.request("A").D_f_clean is None
    with pytest.raises(InputError, match="D_f,clean"):
        four.request("B")
    assert FourDatasets.of_class(data, "Dress").train.D_f.fingerprint == four.train.D_f.fingerprint
    for wrong in (10, "Gown"):
        with pytest.raises(
            InputError, match=rf"0 to 9, or one of T-shirt/top.*, found {wrong!r}: choose one"
        ):
            FourDatasets.of_class(data, wrong)


def test_four_sets_of_a_poisoning(data):
    rows = [5, 100, 200, 599]
    T = patch(torch.full((3, 3), 255), 0, 0)
    four = FourDatasets.of_poison(data, rows, T, 7)
    assert four.train.D_f.y.tolist() == [7, 7, 7, 7]
    assert torch.equal(four.train.D_f_clean.y, data.train.y[rows])
    assert torch.equal(four.train.D_f_clean.x, data.train.x[rows])
    assert len(four.train.D_r) + len(four.validation.D_r) == 596
    assert set(four.test.D_f.y.tolist()) == {7}
    assert set(four.test.D_f_clean.y.tolist()) <= set(data.train.y[rows].tolist())
    assert torch.equal(four.test.D_r_extra.y, four.test.D_r.y)  # the true labels, though T comes with another
    assert len(four.test.D_f) + len(four.test.D_r) == 200


@pytest.mark.parametrize("rows", [[], [-1], [600], [3, 3]])
def test_poison_that_cannot_be(data, rows):
    with pytest.raises(InputError, match="different indices from 0 to 599"):
        FourDatasets.of_poison(data, rows, tile(), 0)
    with pytest.raises(InputError, match="a label from 0 to 9"):
        FourDatasets.of_poison(data, [1], tile(), 10)


def test_given_sets_are_cut_by_image(data):
    clean, rest = data.train.of_class(0), data.train.of_class(0, others=True)
    four = FourDatasets.of_sets(FourSets(D_r=rest, D_f=tile()(clean), D_f_clean=clean), tile(), test=0.25)
    for part in (four.train, four.test):
        assert torch.equal(part.D_f.x, tile()(part.D_f_clean).x)
    assert torch.equal(four.test.D_r_extra.x, tile()(four.test.D_r).x)
    assert (len(four.train.D_f), len(four.test.D_f)) == (45, 15)


def sets(data):
    clean = data.train.of_class(0)
    return {"D_f": tile()(clean), "D_f_clean": clean}


@pytest.mark.parametrize("pattern", "ABC")
@pytest.mark.parametrize("given", [(), ("D_f",), ("D_f_clean",), ("D_f", "D_f_clean")])
def test_all_twelve_combinations(data, pattern, given):
    words = {name: sets(data)[name] if name in given else None for name in ("D_f", "D_f_clean")}
    right = {"A": ("D_f",), "B": ("D_f", "D_f_clean"), "C": ("D_f", "D_f_clean")}[pattern]
    if given == right:
        assert Request(pattern, **words).pattern.name == pattern
        return
    missing = "samples in D_f" if "D_f" not in given else "D_f,clean"
    with pytest.raises(InputError, match=missing) as caught:
        Request(pattern, **words)
    if "D_f" in given:
        assert f"Table 1, Pattern {pattern}" in str(caught.value)


def test_empty_sets(data):
    empty = data.train.subset([])
    with pytest.raises(InputError, match="samples in D_f, found none: there is nothing to forget"):
        Request("A", empty)
    with pytest.raises(InputError, match="found an empty one"):
        Request("B", data.train, empty)


def test_a_share_of_a_class_carries_T_and_the_rest_of_it_is_remembered(data):
    four = FourDatasets.of_class(data, 3, tile(), share=0.25, validation=0)
    assert len(four.train.D_f) == round(0.25 * len(data.train.of_class(3)))
    assert set(four.train.D_f.y.tolist()) == {3}
    assert len(four.train.D_r) == len(data.train) - len(four.train.D_f)
    assert 3 in four.test.D_r.y
    again = FourDatasets.of_class(data, 3, tile(), share=0.25, validation=0)
    assert again.train.D_f.fingerprint == four.train.D_f.fingerprint
    whole = FourDatasets.of_class(data, 3, tile(), share=1.0)
    assert whole.train.D_f.fingerprint == FourDatasets.of_class(data, 3, tile()).train.D_f.fingerprint
    for share in (0, -0.5, 1.5):
        with pytest.raises(InputError, match="a share above 0"):
            FourDatasets.of_class(data, 3, tile(), share=share)


def test_D_r_extra_that_is_given_has_a_validation_part_too(data):
    """Found in the field, without anybody knowing T: the search needs some of it to choose by."""
    D_r, clean = data.train.subset(range(100)), data.train.of_class(0)
    given = {"D_r": D_r, "D_f": tile()(clean), "D_f_clean": clean}
    twin = FourDatasets.of_sets(FourSets(**given, D_r_extra=D_r.with_(x=255 - D_r.x)))
    assert torch.equal(255 - twin.validation.D_r_extra.x, twin.validation.D_r.x)  # cut alike
    assert twin.train.D_r_extra is None
    few = FourDatasets.of_sets(FourSets(**given, D_r_extra=data.test))
    n = len(few.validation.D_r_extra)
    assert 0 < n < len(data.test) - len(few.test.D_r_extra)
    assert overlap(few.validation.D_r_extra, few.test.D_r_extra) == 0


def test_where_D_r_is_too_small_there_is_no_validation(data):
    rows = torch.cat([torch.nonzero(data.train.y == c).flatten()[:4] for c in range(10)])
    few = TrainTest(data.train.subset(rows), data.test)
    assert FourDatasets.of_class(few, 0, tile()).validation is None
    with pytest.raises(InputError, match=r"samples in D_r\^val, found none"):
        Validation(data.train.subset([]))


def test_a_stray_sample_makes_no_class_of_D_f_clean(four):
    clean = four.train.D_f_clean
    assert four.request("B").corrected == [0]
    assert four.request("A").corrected == []
    strays = four.train.D_r.subset([four.train.D_r.y.tolist().index(label) for label in range(1, 10)])
    assert Request("B", four.train.D_f, concatenate([clean, strays], "clean")).corrected == [0]
    all_classes = Request("B", four.train.D_f, four.train.D_r)
    assert all_classes.corrected == list(range(1, 10))
    few = four.train.D_r.subset(range(50))  # by chance some have one or two
    assert Request("B", four.train.D_f, few).corrected == few.y.unique().tolist()
