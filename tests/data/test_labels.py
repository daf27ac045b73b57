import pytest

from unsee.data.labels import labels_of, numbered
from unsee.errors import InputError

PETS = ("cat", "cow", "dog")


def test_names_take_the_numbers_of_the_classes_given():
    y, classes = labels_of(["dog", "cat", "dog"], PETS, "pets")
    assert (y.tolist(), classes) == ([2, 0, 2], PETS)


def test_names_alone_are_sorted_into_classes():
    y, classes = labels_of(["dog", "cat", "dog"], (), "pets")
    assert (y.tolist(), classes) == ([1, 0, 1], ("cat", "dog"))


def test_numbers_count_the_classes_given_or_all_up_to_the_highest():
    assert labels_of([2, 0], PETS, "pets")[0].tolist() == [2, 0]
    assert labels_of([2, 0], (), "pets")[1] == ("0", "1", "2")


def test_numbers_as_text_are_numbers_where_no_class_is_called_so():
    assert labels_of(["2", "0", "cow"], PETS, "pets.csv")[0].tolist() == [2, 0, 1]
    y, classes = labels_of(["2", "0"], (), "pets.csv")
    assert (y.tolist(), classes) == ([2, 0], ("0", "1", "2"))


def test_names_that_are_numbers_are_names():
    """Sorted folders 0 to 11: the class called 2 is the fifth."""
    digits = tuple(sorted(numbered(12)))
    assert digits[:5] == ("0", "1", "10", "11", "2")
    assert labels_of(["2", "11"], digits, "digits.csv")[0].tolist() == [4, 3]
    with pytest.raises(InputError, match="found 12"):
        labels_of(["12"], digits, "digits.csv")
    with pytest.raises(InputError, match="found 0"):
        labels_of(["0"], ("7", "8"), "digits.csv")


def test_the_datas_own_names_are_found_among_the_models():
    y, classes = labels_of([0, 1], PETS, "pets", own=("dog", "cat"))
    assert (y.tolist(), classes) == ([2, 0], PETS)
    y, classes = labels_of([0, 1], (), "pets", own=("dog", "cat"))
    assert (y.tolist(), classes) == ([0, 1], ("dog", "cat"))
    with pytest.raises(InputError, match="the classes cat, cow, dog in pets, found fish"):
        labels_of([1], PETS, "pets", own=("dog", "fish"))


def test_a_model_without_names_goes_by_number():
    y, classes = labels_of([1, 0], ("0", "1"), "pets", own=("dog", "cat"))
    assert (y.tolist(), classes) == ([1, 0], ("0", "1"))
    with pytest.raises(InputError, match="found cat"):  # of how many classes, nobody knows which
        labels_of([1, 0], ("0", "1", "2"), "pets", own=("dog", "cat"))


def test_one_spelling():
    assert labels_of(["cafe\u0301"], ("bar", "caf\u00e9"), "x")[0].tolist() == [1]


@pytest.mark.parametrize(
    ("given", "own", "why"),
    [
        (["Dog"], (), "the classes cat, cow, dog in pets, found Dog: rename it to dog"),
        (["emu", "gnu", "owl", "yak"], (), "found emu, gnu, owl and 1 more: rename or remove those"),
        (["3"], (), "found 3"),
        (["-1"], (), "found -1"),
        (["1.0"], (), r"found 1\.0"),
        ([""], (), r"visible characters in pets, found '' \(0 characters\)"),
        (["x" * 1_000_000], (), "visible characters in pets"),
        (["d\u202eog"], (), "visible characters in pets"),
        ([0, 3], (), "labels from 0 to 2 in pets, found 3 at index 1"),
        ([0, -100], (), "found -100 at index 1"),
        ([2**64 - 1], (), "labels from 0 to 2 in pets"),
        ([2], ("dog", "cat"), "labels from 0 to 1 in pets, found 2 at index 0"),
    ],
)
def test_labels_of_no_class_are_refused_in_a_sentence(given, own, why):
    with pytest.raises(InputError, match=why) as caught:
        labels_of(given, PETS, "pets", own)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("given", [["10000"], ["9" * 80], ["-1", "0"], [10_000], [-1]])
def test_numbers_of_no_class_are_refused_without_classes_too(given):
    with pytest.raises(InputError, match="labels from 0 to"):
        labels_of(given, (), "pets")


def test_many_classes_are_not_all_printed():
    with pytest.raises(InputError) as caught:
        labels_of(["fish"], tuple(f"class {i}" for i in range(1_000)), "pets")
    assert "class 9 and 990 more" in str(caught.value)
