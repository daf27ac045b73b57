import copy

import pytest
import torch

from unsee import networks, store
from unsee.errors import InputError, StoreError
from unsee.memory import DEFINITION, Memory, remember


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


def test_n_is_part_of_what_a_memory_is(memory):
    assert Memory(memory.sums, memory.samples[:-1], memory.model, memory.data).id != memory.id


def test_what_cannot_be_streamed(model):
    with pytest.raises(InputError, match="map-style"):
        remember(model, iter([]))
