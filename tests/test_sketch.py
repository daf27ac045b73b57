from dataclasses import replace

import pytest
import torch

from beyond import leak
from unsee.answers import accuracy
from unsee.datasets import Dataset
from unsee.errors import InputError
from unsee.memory import Memory, remember
from unsee.randomness import stream
from unsee.sketch import DIRECTIONS, Sketch


def sketch_of(data, megabytes=32.0, batch=100):
    sketch = Sketch.empty(data.x, len(data.classes), data.value_range, megabytes)
    for x, y in zip(data.x.split(batch), data.y.split(batch), strict=True):
        sketch.add(x, y)
    return sketch


def same(a, b):
    return all(torch.equal(values, b.tensors()[name]) for name, values in a.tensors().items())


def floats(n=600, shape=(3,), classes=3):
    """Samples of no known range, each class around a mean of its own."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(n) % classes
    mixed = torch.randn(n, *shape, generator=generator).flatten(1)
    mixed[:, 0] += 2 * mixed[:, 1]
    return Dataset(mixed.view(n, *shape) + 5.0 * y.view(-1, *[1] * len(shape)), y, classes)


def test_it_holds_the_moments_of_each_class(data):
    train = data.train
    sketch = sketch_of(train)
    assert (sketch.pool, sketch.shape, sketch.whole) == (1, (1, 14, 14), True)
    assert sketch.counts.tolist() == [60] * 10
    for label in (0, 7):
        x = train.of_class(label).x.flatten(1).long()
        assert torch.equal(sketch.sums[label].long(), x.sum(0))
        assert torch.equal(sketch.products[label].long(), x.T @ x)


@pytest.mark.parametrize("megabytes", [32, 0.15])
def test_a_part_subtracts_and_parts_merge_to_the_bit(four, megabytes):
    D, D_f, D_r = (sketch_of(data, megabytes) for data in (four.pretraining, four.train.D_f, four.train.D_r))
    assert D.pool == (1 if megabytes == 32 else 2)
    assert same(D.subtract(D_f), D_r)
    assert same(D_r.merge(D_f), D)
    assert same(D_f.merge(D_r), D)
    assert same(D.subtract(D_r), D_f)
    assert not D.subtract(D).products.any()


def test_batches_do_not_matter(four):
    assert same(sketch_of(four.pretraining, batch=7), sketch_of(four.pretraining, batch=500))


def test_draws_from_what_is_left_are_draws_from_D_r(four):
    left = sketch_of(four.pretraining).subtract(sketch_of(four.train.D_f))
    for a, b in zip(
        left.draw(50, stream(0, "x")), sketch_of(four.train.D_r).draw(50, stream(0, "x")), strict=True
    ):
        assert torch.equal(a, b)


def test_the_moments_of_what_is_drawn_are_those_of_the_class():
    data = floats()
    x, y = sketch_of(data).draw(60_000, stream(0, "many"))
    assert x.dtype == torch.float32
    for label in range(3):
        drawn, real = x[y == label], data.of_class(label).x
        assert torch.allclose(drawn.mean(0), real.mean(0), atol=0.06)
        assert torch.allclose(drawn.T.cov(), real.T.cov(correction=0), atol=0.15)
    assert torch.bincount(y).min() > 19_000  # classes are drawn uniformly


def test_images_of_many_values_are_drawn_around_their_mean(data):
    x, y = sketch_of(data.train).draw(4000, stream(0, "many"))
    assert (x.dtype, x.shape[1:]) == (torch.uint8, data.train.x.shape[1:])
    assert data.train.x[0].numel() > DIRECTIONS
    for label in range(10):
        # Clamped to pixels, a mean moves a little where it is near black.
        gap = x[y == label].float().mean(0) - data.train.of_class(label).x.float().mean(0)
        assert float(gap.abs().mean()) < 10


def test_the_same_stream_gives_the_same_bits(data):
    sketch = sketch_of(data.train)
    one, again, other = (sketch.draw(20, stream(0, "x", step)) for step in (0, 0, 1))
    assert torch.equal(one[0], again[0])
    assert torch.equal(one[1], again[1])
    assert not torch.equal(one[0], other[0])


def test_values_stay_in_their_range(data):
    halves = data.train.rescaled(-1, 1)
    x, _ = sketch_of(halves).draw(500, stream(0, "x"))
    assert (float(x.min()), float(x.max())) == (-1, 1)
    assert x.is_floating_point()
    x, _ = sketch_of(data.train, 0.15).draw(500, stream(0, "x"))
    assert (x.dtype, int(x.min())) == (torch.uint8, 0)


def test_a_class_of_fewer_than_two_samples_is_never_drawn(data):
    few = data.train.subset([0, 1, 2, 60, *range(120, 140)])
    sketch = sketch_of(few)
    assert sketch.counts[:4].tolist() == [3, 1, 20, 0]
    assert sketch.classes == [0, 2]
    x, y = sketch.draw(300, stream(0, "x"))
    assert set(y.tolist()) == {0, 2}
    assert x.float().std() > 0
    assert sketch.draw(0, stream(0, "x"))[0].shape == (0, 1, 14, 14)


def test_samples_all_alike_are_drawn_as_they_are():
    x = torch.full((5, 1, 4, 4), 7, dtype=torch.uint8)
    drawn, y = sketch_of(Dataset(x, [1] * 5, 2)).draw(9, stream(0, "x"))
    assert torch.equal(drawn, torch.full((9, 1, 4, 4), 7, dtype=torch.uint8))
    assert y.tolist() == [1] * 9


def test_a_small_budget_pools_and_pooled_images_keep_their_mean(data):
    assert [Sketch.empty(data.train.x, 10, megabytes=mb).pool for mb in (32, 1.5, 1.4, 0.1)] == [1, 1, 2, 2]
    thirty_two = torch.zeros(2, 3, 32, 32)
    assert [Sketch.empty(thirty_two, 10, megabytes=mb).pool for mb in (500, 32, 5, 1)] == [1, 2, 4, 8]
    x, y = sketch_of(data.train, 0.15).draw(4000, stream(0, "many"))
    assert x.shape[1:] == (1, 14, 14)
    for label in range(10):
        gap = x[y == label].float().mean() - data.train.of_class(label).x.float().mean()
        assert float(gap.abs()) < 10


def test_a_file_is_no_larger_than_its_budget(data):
    for megabytes in (2, 0.2):
        sketch = sketch_of(data.train, megabytes)
        assert sum(values.nbytes for values in sketch.tensors().values()) <= megabytes * 2**20


@pytest.mark.parametrize("megabytes", [1e-6, 0, -1, float("nan")])
def test_a_budget_that_cannot_be_met_is_refused(data, megabytes):
    with pytest.raises(InputError, match=r"a sketch within .* MB, found 10 classes of 49 values"):
        Sketch.empty(data.train.x, 10, megabytes=megabytes)


def test_only_images_are_pooled():
    with pytest.raises(InputError, match="found 2 classes of 4,000 values"):
        Sketch.empty(torch.zeros(3, 4000), 2)
    with pytest.raises(InputError, match="4 classes of 2,883 values: allow more"):  # odd sides
        Sketch.empty(torch.zeros(3, 3, 31, 31), 4)


def test_sketches_of_different_kinds_do_not_mix(data):
    sketch = sketch_of(data.train)
    others = [
        sketch_of(data.train, 0.15),
        sketch_of(data.train.rescaled(0, 1)),
        Sketch.empty(torch.zeros(1, 1, 7, 28, dtype=torch.uint8), 10, data.train.value_range),
    ]
    for other in others:
        for both in (sketch.merge, sketch.subtract):
            with pytest.raises(InputError, match="two sketches of the same kind"):
                both(other)


def test_sketches_of_other_classes_do_not_mix(data):
    sketch, other = sketch_of(data.train), Sketch.empty(data.train.x, 11, data.train.value_range)
    for both in (sketch.merge, sketch.subtract):
        with pytest.raises(InputError, match="two sketches of the same kind"):
            both(other)


def test_more_than_there_is_cannot_be_subtracted(four):
    with pytest.raises(InputError, match="more samples than it has"):
        sketch_of(four.train.D_r).subtract(sketch_of(four.train.D_f))


def test_merging_and_subtracting_leave_both_as_they_were(four):
    D, D_f = sketch_of(four.pretraining), sketch_of(four.train.D_f)
    D.merge(D_f)
    D.subtract(D_f)
    assert same(D, sketch_of(four.pretraining))
    assert same(D_f, sketch_of(four.train.D_f))


@pytest.mark.parametrize("megabytes", [32, 0.15])
def test_a_memory_keeps_it(tmp_path, model, four, megabytes):
    memory = remember(model, four.pretraining, sketch=megabytes)
    memory.save(tmp_path / "m.safetensors")
    back = Memory.load(tmp_path / "m.safetensors").sketch
    assert same(back, memory.sketch)
    assert same(back, sketch_of(four.pretraining, megabytes))
    assert back.words() == memory.sketch.words()
    assert torch.equal(back.products, memory.sketch.products)
    drawn, again = (sketch.draw(30, stream(0, "x")) for sketch in (back, memory.sketch))
    assert torch.equal(drawn[0], again[0])


def test_words_and_tensors_make_it_again():
    for data in (floats(), floats(shape=(2, 4, 4))):
        sketch = sketch_of(data)
        back = Sketch.from_file(sketch.tensors(), sketch.words())
        assert same(back, sketch)
        assert (back.shape, back.value_range, back.whole) == (tuple(data.x.shape[1:]), None, False)


def test_a_table_is_sketched_by_its_columns():
    four, model, memory = leak()
    D, kind = four.pretraining, four.pretraining.kind
    x, y = memory.sketch.draw(2000, stream(0, "x"))
    drawn = Dataset(x, y, D.classes, kind=kind)  # codes that their columns have
    assert accuracy(model, drawn) > 0.7
    place = kind.place("relationship")
    for label in (0, 1):
        shares = [
            torch.bincount(data.of_class(label).x[:, place].long(), minlength=6) / len(data.of_class(label))
            for data in (D, drawn)
        ]
        assert float((shares[0] - shares[1]).abs().max()) < 0.2
    gain = kind.place("capital-gain")
    assert float((x[:, gain] == 0).double().mean()) > 0.5  # as most people have none


def test_a_column_of_one_name_is_sketched_too():
    x = torch.tensor([[1.0, 0.0], [4.0, 0.0], [2.5, 0.0]])
    sketch = Sketch.empty(x, 2, levels=(0, 1))
    sketch.add(x, torch.tensor([1, 1, 1]))
    drawn, labels = sketch.draw(50, stream(0, "x"))
    assert labels.unique().tolist() == [1]
    assert not drawn[:, 1].any()


def test_a_part_of_a_table_subtracts_exactly_and_its_sketch_is_kept(tmp_path):
    four, model, memory = leak()
    rest = memory.subtract(remember(model, four.train.D_f, sketch=memory.sketch))
    alone = remember(model, four.train.D_r, sketch=32)
    assert torch.equal(rest.sketch.products, alone.sketch.products)
    memory.save(tmp_path / "m.safetensors")
    again = Memory.load(tmp_path / "m.safetensors").sketch
    assert again.levels == memory.sketch.levels
    assert torch.equal(again.draw(9, stream(0, "x"))[0], memory.sketch.draw(9, stream(0, "x"))[0])
    with pytest.raises(InputError, match="of the same kind"):
        again.merge(replace(again, levels=(*again.levels[:-1], 3)))
