import pytest
import torch
from safetensors.torch import load, save

from unsee.layout import in_order, in_parts, raw

TENSORS = {
    "b": torch.arange(6.0).reshape(2, 3),
    "a": torch.arange(6.0).reshape(3, 2).T,
    "long": torch.arange(3),
    "double": torch.ones(2, 2, dtype=torch.float64),
    "half": torch.ones(3, dtype=torch.bfloat16),
    "yes": torch.tensor([True, False]),
    "bytes": torch.arange(5, dtype=torch.uint8),
    "one": torch.tensor(3.5),
    "none": torch.empty(0, 4),
    "größe/日本": torch.ones(1),
}


def test_the_parts_are_what_the_library_would_write():
    apart = {name: tensor.contiguous() for name, tensor in TENSORS.items()}
    for words in ({"unsee": '{"a": "\\"ü\\n"}'}, {}):
        assert b"".join(in_parts(apart, words)) == save(apart, words)
    assert b"".join(in_parts({}, {"a": "b"})) == save({}, {"a": "b"})


def test_they_are_views_of_the_tensors():
    tensor = torch.zeros(4)
    _, part = in_parts({"x": tensor}, {})
    tensor += 1
    assert load(b"".join(in_parts({"x": tensor}, {})))["x"].tolist() == [1, 1, 1, 1]
    assert bytes(part) == bytes(raw(torch.ones(4)))


@pytest.mark.parametrize("name", TENSORS)
def test_raw_is_row_major(name):
    assert bytes(raw(TENSORS[name])) == bytes(raw(TENSORS[name].clone(memory_format=torch.contiguous_format)))
    assert len(raw(TENSORS[name])) == TENSORS[name].nbytes


def test_metadata_in_order():
    one, other = (save({"x": torch.ones(2)}, words) for words in ({"b": "1", "a": "2"}, {"a": "2"}))
    assert in_order(one).index(b'"a"') < in_order(one).index(b'"b"')
    assert load(in_order(one))["x"].tolist() == [1, 1]
    assert in_order(other) == other
