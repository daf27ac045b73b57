import copy

import pytest
import torch
import torch.nn.functional as F

from unsee import networks, store
from unsee.datasets import Dataset
from unsee.errors import InputError, StoreError
from unsee.formulation import Request
from unsee.memory import DEFINITION, Memory, remember, remember_at
from unsee.randomness import stream
from unsee.replay import replay_of
from unsee.training import train


def largest_difference(a, b):
    return max(float((a[k] - b[k]).abs().max() / b[k].abs().max().clamp_min(1e-300)) for k in b)


@pytest.fixture(scope="module")
def parts(model, four):
    return remember(model, four.train.D_r), remember(model, four.train.D_f)


def test_subtracting_and_merging_are_exact(memory, parts):
    D_r, D_f = parts
    rest = memory.subtract(D_f)
    assert rest.n == D_r.n
    assert largest_difference(rest.fisher(), D_r.fisher()) < 1e-6
    both = D_r.merge(D_f)
    assert both.n == memory.n
    assert largest_difference(both.fisher(), memory.fisher()) < 1e-6
    assert [entry[0] for entry in rest.data] == ["+", "-"]
    assert rest.data[1][1:] == D_f.data[0][1:]


def test_saved_and_loaded(tmp_path, memory, model):
    memory.save(tmp_path / "memory.safetensors")
    back = Memory.load(tmp_path / "memory.safetensors")
    assert (back.n, back.model, back.data, back.id) == (memory.n, memory.model, memory.data, memory.id)
    assert all(torch.equal(back.sums[k], memory.sums[k]) for k in memory.sums)
    assert all(values.dtype == torch.float64 for values in back.sums.values())
    back.check(model)
    data = bytearray((tmp_path / "memory.safetensors").read_bytes())
    data[-5] ^= 1
    (tmp_path / "memory.safetensors").write_bytes(data)
    with pytest.raises(StoreError, match="other bytes"):
        Memory.load(tmp_path / "memory.safetensors")


def test_a_model_is_no_memory(tmp_path, model):
    networks.save(model, tmp_path / "model.safetensors")
    with pytest.raises(InputError, match="a memory at"):
        Memory.load(tmp_path / "model.safetensors")


def test_memory_of_another_model_is_refused(memory, model, four):
    other = copy.deepcopy(model)
    with torch.no_grad():
        next(other.parameters())[0, 0] += 1e-6
    with pytest.raises(InputError, match="one of a model with other weights"):
        memory.check(other)
    deeper = networks.network("mlp", four.pretraining, depth=4)
    with pytest.raises(InputError, match=r"a memory of this model, found 8\.weight missing"):
        memory.check(deeper)
    narrower = networks.mlp((1, 7, 7), 10, depth=3)
    with pytest.raises(InputError, match=r"of shape \(196, 196\) for \(49, 49\)"):
        memory.check(narrower)
    with pytest.raises(InputError, match="unknown to the model"):
        memory.check(networks.mlp((1, 14, 14), 10, depth=2))
    with pytest.raises(InputError, match="two memories of one model"):
        memory.merge(remember(other, four.train.D_f))


@pytest.mark.parametrize(
    ("value", "message"),
    [(float("nan"), "NaN or Inf in 2.weight"), (float("inf"), "NaN or Inf"), (-1.0, "no negative entry")],
)
def test_a_broken_memory_is_refused_at_the_border(tmp_path, memory, value, message):
    sums = {name: values.clone() for name, values in memory.sums.items()}
    sums["2.weight"][0, 0] = value
    about = {"model": "x", "data": [], "definition": DEFINITION}
    tensors = {f"fisher/{name}": values for name, values in sums.items()} | {"samples": memory.samples}
    store.write_tensors(tmp_path / "m.safetensors", tensors, {"memory": about})
    with pytest.raises(InputError, match=message):
        Memory.load(tmp_path / "m.safetensors")


def test_zeros_and_nothing_are_refused(memory):
    zeros = {name: torch.zeros_like(values) for name, values in memory.sums.items()}
    with pytest.raises(InputError, match="not all zero"):
        Memory(zeros, memory.samples, "x", ())
    with pytest.raises(InputError, match="at least one sample"):
        memory.subtract(memory)


def test_subtracting_what_was_never_remembered(memory, parts, model, four):
    D_r, D_f = parts
    with pytest.raises(InputError, match="60 of 60 samples that are not in it"):
        D_r.subtract(D_f)
    with pytest.raises(InputError, match="subtract only what was remembered and is still there"):
        memory.subtract(D_f).subtract(D_f)
    with pytest.raises(InputError, match="180 of 180 samples"):
        memory.subtract(remember(model, four.test.D_r_extra))


def test_a_file_that_only_looks_like_a_memory(tmp_path):
    for about in ({"memory": []}, {"memory": {"definition": DEFINITION}}, {}):
        store.write_tensors(tmp_path / "m.safetensors", {"samples": torch.zeros(1)}, about)
        with pytest.raises(InputError, match="a memory at"):
            Memory.load(tmp_path / "m.safetensors")


@pytest.mark.parametrize(
    "broken",
    [{"loss": "low"}, {"loss": []}, {"loss": 10**400}, {"data": 7}, {"sketch": "x"}, {"sketch": [1]}],
    ids=lambda words: str(words)[:20],
)
def test_words_of_other_kinds_are_no_memory(tmp_path, memory, broken):
    memory.save(tmp_path / "m.safetensors")
    tensors, about = store.read_tensors(tmp_path / "m.safetensors")
    store.write_tensors(tmp_path / "m.safetensors", tensors, {"memory": about["memory"] | broken})
    with pytest.raises(InputError, match="a memory at"):
        Memory.load(tmp_path / "m.safetensors")


@pytest.mark.parametrize("name", ["samples", "fisher/2.weight"])
def test_numbers_of_other_kinds_are_no_memory(tmp_path, memory, name):
    memory.save(tmp_path / "m.safetensors")
    tensors, about = store.read_tensors(tmp_path / "m.safetensors")
    store.write_tensors(tmp_path / "m.safetensors", tensors | {name: tensors[name].float()}, about)
    with pytest.raises(InputError, match="a memory at"):
        Memory.load(tmp_path / "m.safetensors")


def test_n_is_part_of_what_a_memory_is(memory):
    assert Memory(memory.sums, memory.samples[:-1], memory.model, memory.data).id != memory.id


def test_what_cannot_be_streamed(model):
    with pytest.raises(InputError, match="map-style"):
        remember(model, iter([]))


# ---- death and resumption -----------------------------------------------------------------------


class Dying(torch.utils.data.Dataset):
    """Data that cannot be read further than to some sample, as if the process had died there."""

    def __init__(self, data, last):
        self.data, self.last = data, last

    def __len__(self):
        return len(self.data)

    def __getitem__(self, i):
        if i == self.last:
            raise KeyboardInterrupt
        return self.data[i]


@pytest.mark.parametrize("sketch", [None, 32])
def test_a_pass_that_died_goes_on_to_the_same_bits(tmp_path, model, four, sketch):
    data = four.pretraining.subset(range(200))
    whole = remember(model, Dying(data, None), sketch=sketch, batch_size=16)
    for last in (0, 5, 16, 33, 150, 199):
        how = {"sketch": sketch, "batch_size": 16, "folder": tmp_path / f"{last}", "checkpoint_seconds": 0}
        with pytest.raises(KeyboardInterrupt):
            remember(model, Dying(data, last), **how)
        again = remember(model, Dying(data, None), **how)
        assert (again.id, again.data, again.loss) == (whole.id, whole.data, whole.loss)
        assert torch.equal(again.samples, whole.samples)


def test_it_does_not_go_on_with_other_data_or_in_other_batches(tmp_path, model, four):
    data, how = four.pretraining.subset(range(200)), {"folder": tmp_path, "checkpoint_seconds": 0}
    with pytest.raises(KeyboardInterrupt):
        remember(model, Dying(data, 150), batch_size=16, **how)
    for other in (data.subset(range(199, -1, -1)), data.subset(range(100)), data.with_(y=data.y.roll(1))):
        with pytest.raises(InputError, match="the 144 samples that this memory was begun with, found others"):
            remember(model, other, batch_size=16, **how)
    with pytest.raises(InputError, match="batch_size = 16 to go on"):
        remember(model, data, batch_size=17, **how)
    with pytest.raises(InputError, match=r"sketch\.shape = None to go on"):
        remember(model, data, batch_size=16, sketch=32, **how)
    with pytest.raises(InputError, match=r"model = .* to go on"):
        remember(networks.fresh(model, 1), data, batch_size=16, **how)
    # What comes later was not in it: the sum over the first samples is that of more data, too.
    more = remember(model, four.pretraining, batch_size=16, **how)
    assert more.id == remember(model, four.pretraining, batch_size=16).id


def test_a_memory_at_its_place_leaves_nothing_beside_it(tmp_path, model, four, memory):
    taken = remember_at(tmp_path / "m.safetensors", model, four.pretraining, checkpoint_seconds=0)
    assert taken.id == Memory.load(tmp_path / "m.safetensors").id == memory.id
    assert [path.name for path in tmp_path.iterdir()] == ["m.safetensors"]


# ---- the loss and the sketch --------------------------------------------------------------------


@pytest.fixture(scope="module")
def recalling(model, four):
    """Memories with a sketch, of D, D_r and D_f."""
    sets = four.pretraining, four.train.D_r, four.train.D_f
    return [remember(model, data, sketch=32) for data in sets]


def mean_loss(model, data):
    with torch.no_grad():
        return float(F.cross_entropy(model(data.x.float()).double(), data.y))


def moments(sketch):
    return sketch.tensors().values()


def test_the_level_is_the_mean_loss_of_what_is_remembered(model, four, memory, parts):
    for taken, data in zip((memory, *parts), (four.pretraining, four.train.D_r, four.train.D_f), strict=True):
        assert taken.level() == pytest.approx(mean_loss(model, data), rel=1e-6)
        assert taken.loss == pytest.approx(taken.level() * len(data))


def test_the_level_merges_and_subtracts(model, four, memory, parts):
    D_r, D_f = parts
    assert memory.subtract(D_f).level() == pytest.approx(mean_loss(model, four.train.D_r), rel=1e-6)
    assert D_r.merge(D_f).level() == pytest.approx(memory.level(), rel=1e-6)
    unknown = Memory(D_f.sums, D_f.samples, D_f.model, D_f.data)
    assert unknown.level() is None
    assert memory.subtract(unknown).level() is None
    assert D_r.merge(unknown).loss is unknown.merge(D_r).loss is None


def test_a_level_is_never_below_nothing(memory):
    """Of two sums over the same samples the difference may be a rounding below zero."""
    assert Memory(memory.sums, memory.samples, memory.model, memory.data, -1e-9).level() == 0


def test_a_memory_of_before_has_no_level_and_no_sketch(tmp_path, memory):
    about = {"model": memory.model, "data": list(memory.data), "definition": DEFINITION}
    tensors = {f"fisher/{name}": values for name, values in memory.sums.items()}
    store.write_tensors(tmp_path / "m.safetensors", tensors | {"samples": memory.samples}, {"memory": about})
    back = Memory.load(tmp_path / "m.safetensors")
    assert back.id == memory.id
    assert (back.loss, back.level(), back.sketch) == (None, None, None)


def test_a_sketch_comes_only_if_asked_for(model, four, memory):
    assert memory.sketch is None
    for nothing in (None, 0):
        assert remember(model, four.train.D_f, sketch=nothing).sketch is None


def test_a_sketch_changes_nothing_else(memory, recalling):
    assert all(torch.equal(recalling[0].sums[name], values) for name, values in memory.sums.items())
    assert (recalling[0].loss, recalling[0].data) == (memory.loss, memory.data)
    assert recalling[0].id != memory.id


def test_sketches_merge_and_subtract_with_their_memories(recalling):
    D, D_r, D_f = recalling
    for found, expected in ((D.subtract(D_f), D_r), (D_r.merge(D_f), D)):
        pairs = zip(moments(found.sketch), moments(expected.sketch), strict=True)
        assert all(torch.equal(a, b) for a, b in pairs)
    assert D.subtract(D_f).sketch.classes == list(range(1, 10))


def test_with_a_part_that_has_no_sketch_there_is_none_any_more(recalling, parts):
    """What is left would still hold the part."""
    assert recalling[0].subtract(parts[1]).sketch is None
    assert recalling[1].merge(parts[1]).sketch is None
    assert parts[0].merge(recalling[2]).sketch is None


def test_a_sketch_of_the_same_kind_is_taken_of_a_part(model, four, recalling):
    small = remember(model, four.pretraining, sketch=0.15)
    part = remember(model, four.train.D_f, sketch=small.sketch)
    assert part.sketch.pool == small.sketch.pool == 2
    assert part.sketch.counts.tolist() == [60] + [0] * 9
    assert small.subtract(part).sketch.counts[0] == 0
    assert small.sketch.counts[0] == 60
    with pytest.raises(InputError, match="two sketches of the same kind"):
        small.subtract(recalling[2])


def test_the_batches_of_the_pass_do_not_matter_to_the_sketch(model, four, recalling):
    again = remember(model, four.pretraining, sketch=32, batch_size=37)
    assert all(
        torch.equal(a, b) for a, b in zip(moments(again.sketch), moments(recalling[0].sketch), strict=True)
    )


class Pairs(torch.utils.data.Dataset):
    """Somebody else's data: a sample and its label at a time, and no word of their range."""

    def __init__(self, data, scale=1):
        self.data, self.scale = data, scale

    def __len__(self):
        return len(self.data)

    def __getitem__(self, i):
        x = self.data.x[i]
        return x if self.scale == 1 else x.float() / self.scale, int(self.data.y[i])


def test_a_sketch_of_somebody_elses_data(model, four, recalling):
    sketch = remember(model, Pairs(four.train.D_f), sketch=32).sketch
    assert torch.equal(sketch.products, recalling[2].sketch.products)
    assert sketch.value_range is None  # which nobody has said
    found, expected = (s.draw(50, stream(0, "x"))[0] for s in (sketch, recalling[2].sketch))
    assert torch.equal(found, expected)  # bytes end at 0 and 255 and do not wrap around


def test_a_sketch_of_somebody_elses_floats_is_replayed_within_the_range_of_D_f(four):
    def scaled(data):
        return Dataset(data.x.float() / 255, data.y, data.classes)

    D, request = four.pretraining, four.request("B")
    request = Request("B", scaled(request.D_f), scaled(request.D_f_clean))
    start = networks.network("mlp", scaled(D), depth=3)
    net = train(start, scaled(D), epochs=4, lr=0.02, batch_size=32).model
    sketch = remember(net, Pairs(D, 255), sketch=32).sketch
    replay = replay_of(net, request, sketch)
    assert replay.source == "sketch"
    x, _ = replay.draw(200, stream(0, "x"))
    assert 0 <= x.min() < x.max() <= 1


def test_loss_and_sketch_are_saved_and_loaded(tmp_path, recalling):
    D = recalling[0]
    D.save(tmp_path / "m.safetensors")
    back = Memory.load(tmp_path / "m.safetensors")
    assert (back.loss, back.id, back.level()) == (D.loss, D.id, D.level())
    assert back.sketch.words() == D.sketch.words()
    assert back.subtract(recalling[2]).sketch.classes == list(range(1, 10))
    assert back.sums.keys() == D.sums.keys()


def test_a_budget_that_is_too_small_is_refused_before_the_pass(model, four):
    for megabytes in (1e-3, -1):
        with pytest.raises(InputError, match="a sketch within"):
            remember(model, four.pretraining, sketch=megabytes)


def test_data_that_do_not_fit_are_refused_with_a_sketch_as_without(model, four):
    small = Dataset(four.pretraining.x[:8, :, :7, :7], four.pretraining.y[:8])
    for sketch in (None, 32):
        with pytest.raises(InputError, match="data that the model takes"):
            remember(model, small, sketch=sketch)
        with pytest.raises(InputError, match="at least one sample"):
            remember(model, four.pretraining.subset([]), sketch=sketch)


@pytest.mark.parametrize(
    "broken",
    [
        {"shape": None},
        {"value_range": 7},
        {"pool": "two"},
        {"shape": [1, 14, 15]},
        {"pool": 0},
        {"pool": 2},
    ],
    ids=str,
)
def test_a_file_whose_sketch_does_not_fit_its_words(tmp_path, recalling, broken):
    D = recalling[0]
    D.save(tmp_path / "m.safetensors")
    tensors, about = store.read_tensors(tmp_path / "m.safetensors")
    about["memory"]["sketch"] |= broken
    store.write_tensors(tmp_path / "m.safetensors", tensors, about)
    with pytest.raises(InputError, match="a memory at"):
        Memory.load(tmp_path / "m.safetensors")


@pytest.mark.parametrize("name", ["counts", "sums", "products"])
def test_a_file_with_a_sketch_of_other_tensors(tmp_path, recalling, name):
    recalling[0].save(tmp_path / "m.safetensors")
    tensors, about = store.read_tensors(tmp_path / "m.safetensors")
    for wrong in (
        None,
        tensors[f"sketch/{name}"][:-1],
        torch.full_like(tensors[f"sketch/{name}"], torch.nan),
    ):
        changed = {key: values for key, values in tensors.items() if key != f"sketch/{name}"}
        if wrong is not None:
            changed[f"sketch/{name}"] = wrong
        store.write_tensors(tmp_path / "n.safetensors", changed, about)
        with pytest.raises(InputError):
            Memory.load(tmp_path / "n.safetensors")
