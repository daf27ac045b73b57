import pytest

from unsee.cases import notation
from unsee.errors import InputError, UnseeError, UsageError


def test_words_numbers_and_lists_are_read(tmp_path):
    path = tmp_path / "case.yaml"
    path.write_text("a: [1, two]\nb: {c: 0.5}\n")
    assert notation.read(path) == {"a": [1, "two"], "b": {"c": 0.5}}
    assert notation.inline("{width: 16, blocks: 1}", "--options") == {"width": 16, "blocks": 1}


def test_what_is_wrong_is_named_by_its_line(tmp_path):
    path = tmp_path / "case.yaml"
    path.write_text("a: 1\nb: [")
    with pytest.raises(InputError, match="at line 2"):
        notation.read(path)


@pytest.mark.parametrize(
    "text",
    ["!!int ''", "!!python/name:os.system", "{<<: {a: 1}}", "[&x 1, *x]", "{a: 1, a: 2}", "{", "[" * 5000],
)
def test_what_a_case_does_not_need_is_refused(tmp_path, text):
    path = tmp_path / "case.yaml"
    path.write_text(f"a: {text}")
    with pytest.raises(InputError):
        notation.read(path)
    with pytest.raises((UsageError, InputError)) as error:
        notation.inline(text, "--options")
    assert isinstance(error.value, UnseeError)
