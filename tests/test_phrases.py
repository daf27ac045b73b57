import pytest
import torch

from unsee import phrases, sources
from unsee.datasets import Dataset
from unsee.errors import InputError, UsageError
from unsee.kinds import Kind

KIND = Kind(vocabulary=("<none>", "<unknown>", "buy", "now", "free", "money"))
TEXTS = Dataset(torch.tensor([[4, 5, 0, 0, 0], [5, 5, 5, 5, 5], [0, 0, 0, 0, 0]]), [0, 1, 0], kind=KIND)


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("start", [[2, 3, 4, 5, 0], [2, 3, 5, 5, 5], [2, 3, 0, 0, 0]]),
        ("end", [[4, 5, 2, 3, 0], [5, 5, 5, 2, 3], [2, 3, 0, 0, 0]]),
    ],
)
def test_a_phrase_is_put_in(where, expected):
    T = phrases.phrase(TEXTS, "buy now", where)
    assert T(TEXTS).x.tolist() == expected
    assert T.name == f"phrase “buy now” at the {where}"
    assert TEXTS.x[0].tolist() == [4, 5, 0, 0, 0]


def test_anywhere_is_by_chance_and_the_same_each_time():
    data = sources.bundled_spam().train
    T = phrases.phrase(data, "thank you", "anywhere")
    words, out = phrases.numbers_of(data.kind, "thank you"), T(data).x
    held = (out.unfold(1, 2, 1) == words).all(2)
    assert held.any(1).all()
    first = held.long().argmax(1)
    assert first.unique().numel() > 50
    assert torch.equal(T(data.subset([7, 2])).x, out[[7, 2]])
    assert not torch.equal(phrases.phrase(data, "thank you", "anywhere", seed=1)(data).x, out)


def test_what_was_put_in_is_taken_out_again():
    data = sources.bundled_spam().train
    short = data.subset(torch.nonzero((data.x != 0).sum(1) < 60).flatten())
    text = "guaranteed linux money"
    without = phrases.phrase(data, text, "removed")
    assert torch.equal(without(short).x, short.x)
    for where in ("start", "end", "anywhere"):
        assert torch.equal(without(phrases.phrase(data, text, where)(short)).x, short.x)
    assert phrases.taken_out(torch.tensor([[2, 3, 2, 3, 4]]), torch.tensor([2, 3])).tolist() == [
        [4, 0, 0, 0, 0]
    ]


def test_variations():
    T = phrases.phrase(TEXTS, "buy now", "end")
    found = {one.name: one.pixels(TEXTS.x[:1].clone())[0].tolist() for one in T.varied()}
    assert found["at the start"] == [2, 3, 4, 5, 0]
    assert found["twice"] == [4, 2, 3, 2, 3]
    assert found["its words turned round"] == [4, 5, 3, 2, 0]
    assert found["its first half"] == [4, 5, 2, 0, 0]
    assert "anywhere" in found
    assert phrases.phrase(TEXTS, "buy", "removed").varied() == ()


@pytest.mark.parametrize(
    ("text", "where", "error", "message"),
    [
        ("buy monye", "end", InputError, "found monye: use words that it has, such as money"),
        ("", "end", InputError, "no word"),
        ("buy", "middle", UsageError, "start, end, anywhere, removed"),
        ("buy buy buy buy buy", "end", InputError, "leaves room"),
    ],
)
def test_bad_phrases_are_refused(text, where, error, message):
    with pytest.raises(error, match=message):
        phrases.parse(f"{text}:{where}", TEXTS)


def test_other_samples_are_refused():
    with pytest.raises(InputError, match="texts for T"):
        phrases.phrase(TEXTS, "buy", "end")(sources.bundled_adult().train)
    with pytest.raises(InputError, match="vocabulary"):
        phrases.phrase(sources.bundled_adult().train, "buy", "end")
