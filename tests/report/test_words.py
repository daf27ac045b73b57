import pytest

from unsee.errors import InputError
from unsee.report.words import Words, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Ankle boot", "Ankle boot"),
        ("Ä 漢字 שלום", "Ä 漢字 שלום"),
        ("a\u202eb", r"a\u202eb"),
        ("a\u200bb\u2066c", r"a\u200bb\u2066c"),
        ("a\nb\tc\x00", r"a\u000ab\u0009c\u0000"),
        ("\ud800", r"\ud800"),
        ("\u2028", r"\u2028"),
        ("o\u0308", "o\u0308"),
        ("o" + "\u0300" * 5, "o" + "\u0300" * 3 + r"\u0300\u0300"),
        ("\ufeffa", r"\ufeffa"),
    ],
)
def test_what_is_unseen_or_steers_is_spelt_out(text, shown):
    assert visible(text) == shown


def test_long_names_are_cut():
    assert visible("a" * 500) == "a" * 159 + "…"
    assert visible("a" * 160) == "a" * 160
    assert len(visible("\u202e" * 10_000, 40)) == 40
    assert len(visible("o" + "\u0300" * 10**6)) <= 160


def test_questions_are_answered_with_what_stands_there():
    words = Words({"a": {"b": [1, 2.5, "x", True]}, "none": None}, "run.json")
    one, half, text, truth = words.at("a").at("b").each()
    assert (one.whole(), half.number(), text.text(), truth.truth()) == (1, 2.5, "x", True)
    assert one.share() == 1.0
    assert words.perhaps("none") is None
    assert words.perhaps("missing") is None
    assert [key for key, _ in words.items()] == ["a", "none"]


@pytest.mark.parametrize(
    ("value", "ask"),
    [
        ("1", Words.whole),
        (1.0, Words.whole),
        (True, Words.whole),
        (-1, Words.whole),
        (10**400, Words.whole),
        (10**400, Words.number),
        (float("nan"), Words.number),
        (float("inf"), Words.share),
        (True, Words.number),
        (None, Words.number),
        (1.001, Words.share),
        (1, Words.text),
        ("yes", Words.truth),
        ({}, Words.each),
        ([], Words.items),
        ([1], lambda words: words.at("x")),
        ({}, lambda words: words.at("x")),
        ({"x": 1}, lambda words: words.items(most=0)),
        ([1, 2], lambda words: words.each(most=1)),
    ],
)
def test_whatever_does_not_fit_is_refused_with_its_place(value, ask):
    with pytest.raises(InputError, match=r"at here(\.x)? in run\.json, found .*: mend it or run anew"):
        ask(Words(value, "run.json", "here"))


def test_a_refusal_cannot_steer_the_terminal():
    with pytest.raises(InputError) as caught:
        Words({"\x1b[2J": {"a\u202e": "\x1b[31m" * 99}}, "run.json").at("\x1b[2J").at("a\u202e").number()
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 300
