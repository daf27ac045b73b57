import pytest

from unsee import sources
from unsee.errors import InputError, UsageError
from unsee.parsing import parse


@pytest.mark.parametrize(
    ("text", "source", "name"),
    [
        ("line+tile", sources.bundled, "line + tile"),
        ("column:sex:Female", sources.bundled_adult, "column sex = Female"),
        ("column:sex:Male+column:age:40", sources.bundled_adult, "column sex = Male + column age = 40"),
        ("phrase:thank you:start", sources.bundled_spam, "phrase “thank you” at the start"),
    ],
)
def test_T_in_words_for_all_kinds_of_data(text, source, name):
    data = source().train.subset(range(3))
    T = parse(text, data)
    assert T.name == name
    assert T(data).x.shape == data.x.shape


@pytest.mark.parametrize("text", ["column:sex", "phrase:thank you", "column", "wave", "patch:2:2"])
def test_half_a_T_is_refused(text):
    with pytest.raises(UsageError, match="T as line"):
        parse(text, sources.bundled_adult().train)


def test_a_column_of_images_is_refused():
    with pytest.raises(InputError, match="a table"):
        parse("column:sex:Female", sources.bundled().train)
