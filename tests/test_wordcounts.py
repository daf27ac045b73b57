import pytest
import torch

from beyond import signature
from unsee import networks, remember, sources
from unsee.answers import accuracy
from unsee.datasets import Dataset
from unsee.errors import InputError
from unsee.memory import Memory
from unsee.randomness import stream
from unsee.wordcounts import WordCounts


@pytest.fixture(scope="module")
def data():
    return sources.bundled_spam().train.subset(range(400))


@pytest.fixture(scope="module")
def model(data):
    return networks.network(None, data, width=8)


def counts(data):
    taken = WordCounts.empty(2, len(data.kind.vocabulary), data.x.shape[1])
    taken.add(data.x, data.y)
    return taken


def test_a_part_subtracts_exactly_and_merges_again(data):
    one, other = counts(data.subset(range(150))), counts(data.subset(range(150, 400)))
    whole = counts(data)
    for made, wanted in ((one.merge(other), whole), (whole.subtract(one), other)):
        assert torch.equal(made.sums, wanted.sums)
        assert torch.equal(made.counts, wanted.counts)
    with pytest.raises(InputError, match="more words than it has"):
        one.subtract(whole)
    with pytest.raises(InputError, match="of the same kind"):
        one.merge(WordCounts.empty(2, 5, 64))


def test_texts_are_drawn_with_the_words_of_their_class(data):
    taken = counts(data)
    x, y = taken.draw(2000, stream(0, "x"))
    assert torch.equal(x, taken.draw(2000, stream(0, "x"))[0])
    assert set(y.tolist()) == {0, 1}
    for label in (0, 1):
        drawn = torch.bincount(x[y == label].flatten(), minlength=2000).double()
        shares = taken.sums[label] / taken.sums[label].sum()
        assert float((drawn / drawn.sum() - shares).abs().max()) < 0.01
    there = x != 0
    assert torch.equal(there, there.sort(dim=1, descending=True).values)  # no gap in a text


def test_a_model_recognises_what_is_drawn():
    four, model, memory = signature()
    x, y = memory.sketch.draw(500, stream(0, "x"))
    assert accuracy(model, Dataset(x, y, four.pretraining.classes)) > 0.8


def test_a_memory_keeps_it(data, model, tmp_path):
    memory = remember(model, data, sketch=32)
    memory.save(tmp_path / "m.safetensors")
    again = Memory.load(tmp_path / "m.safetensors")
    assert again.id == memory.id
    assert torch.equal(again.sketch.sums, counts(data).sums)
    part = data.subset(range(100))
    rest = memory.subtract(remember(model, part, sketch=memory.sketch))
    assert torch.equal(rest.sketch.sums, counts(data.subset(range(100, 400))).sums)


def test_a_budget_is_kept_or_refused():
    assert WordCounts.empty(2, 10_000, 5, 1).sums.shape == (2, 10_000)
    with pytest.raises(InputError, match=r"within 1 MB, found 20 classes of 10,000 words"):
        WordCounts.empty(20, 10_000, 5, 1)


def test_nothing_can_be_drawn_of_nothing():
    with pytest.raises(InputError, match="two texts"):
        WordCounts.empty(2, 10, 5).draw(1, stream(0, "x"))


@pytest.mark.parametrize(
    "change",
    [
        {"sums": torch.full((2, 10), -1.0)},
        {"sums": torch.full((2, 10), float("nan"))},
        {"counts": torch.zeros(3)},
        {"length": 0},
    ],
)
def test_broken_files_are_refused(change):
    given = {"counts": torch.ones(2), "sums": torch.ones(2, 10), "length": 5, **change}
    with pytest.raises(ValueError):  # noqa: PT011
        WordCounts.from_file(given, {"length": given["length"]})
