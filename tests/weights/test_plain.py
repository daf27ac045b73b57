import json
import math
from collections import Counter, OrderedDict, defaultdict

import pytest
import torch
from torch import nn

from unsee.errors import HostileError, InputError
from unsee.weights import plain
from unsee.weights.plain import apart, like, together


def there_and_back(value, most=10**6):
    form, tensors = apart(value, most)
    return together(json.loads(json.dumps(form, allow_nan=False)), tensors)


def same(a, b):
    """Equal, and of the same types all the way down, in the same order."""
    if type(a) is not type(b):
        return False
    if isinstance(a, torch.Tensor):
        return a.dtype is b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        inner = all(same(x, y) for x, y in zip(a.items(), b.items(), strict=True))
        return inner and same(getattr(a, "_metadata", None), getattr(b, "_metadata", None))
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return a == b or (isinstance(a, float) and math.isnan(a) and math.isnan(b))


VALUES = [
    *(None, True, False, 0, -1, 2**300, 0.1, -0.0, "", "\u202e\ud800 text", [], (), {}),
    *(float("inf"), float("-inf"), float("nan"), 1e-320, 1e308),
    *([1, [2, (3, [4.0])]], (1,), {1: "one", "1": 1, -5: None}, {"b": 1, "a": 2}),
    *(OrderedDict(b=1, a=2), Counter({3: 1, 5: 2}), torch.Size([1, 2]), torch.Size([])),
    *({"float": "inf"}, {"tensor": "0"}, {"dict": []}, [["a", 1]]),  # what the marks look like
]


@pytest.mark.parametrize("value", VALUES, ids=range(len(VALUES)))
def test_plain_values_come_back_as_they_went(value):
    assert same(there_and_back(value), value)
    assert same(there_and_back({"deep": [value, (value,)]}), {"deep": [value, (value,)]})


def test_an_optimizers_state_comes_back():
    model = nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    state = optimizer.state_dict()
    assert same(there_and_back(state), state)
    assert list(there_and_back(state)["state"]) == [0, 1]


def test_the_notes_of_a_state_dict_come_back():
    state = nn.Sequential(nn.BatchNorm1d(2)).state_dict()
    back = there_and_back(state)
    assert same(back, state)
    assert back._metadata["0"] == {"version": 2}
    assert same(like(state, {}), like(back, {}))
    assert like(state, {})._metadata is state._metadata
    assert like({}, {"a": 1}) == {"a": 1}


@pytest.mark.parametrize("dtype", plain.TYPES, ids=str)
def test_tensors_of_all_types_come_back(dtype):
    for tensor in (torch.ones(2, 3, dtype=dtype), torch.ones((), dtype=dtype), torch.ones(0, 4, dtype=dtype)):
        assert same(there_and_back(tensor), tensor)


def test_a_tensor_in_two_places_is_one_and_a_view_is_its_own():
    weight = torch.arange(6.0).reshape(2, 3)
    value = {"a": weight, "b": [weight], "part": weight[1], "turned": weight.T}
    form, tensors = apart(value, 1000)
    assert len(tensors) == 3
    back = together(form, tensors)
    assert back["a"] is back["b"][0]
    assert torch.equal(back["part"], weight[1])
    assert torch.equal(back["turned"], weight.T)


def test_a_parameter_becomes_a_tensor():
    back = there_and_back({"w": nn.Parameter(torch.ones(2))})
    assert type(back["w"]) is torch.Tensor
    assert not back["w"].requires_grad


def test_the_bytes_of_all_tensors_together_are_bounded_before_any_copy():
    one = torch.zeros(1)
    assert apart([one.expand(10), torch.ones(2)], 48)
    for claims in ([one.expand(10), torch.ones(3)], [one.expand(10**11)], [one.expand(10**9, 10**9)]):
        with pytest.raises(HostileError, match="tensors that claim more, such as one of"):
            apart(claims, 48)
    assert apart([one] * 1000, 4)  # a thousand times the same


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"a": {"b": {1, 2}}}, "set at a.b"),
        ([0, b"bytes"], "bytes at 1"),
        ({"lr": 1j}, "complex at lr"),
        ({"d": defaultdict(int)}, "defaultdict at d"),
        ({"t": torch.float32}, "dtype at t"),
        ({1: object()}, "object at 1"),
        (nn.Linear(1, 1), "Linear at the top"),
        ({None: 1}, "NoneType at the top"),
        ({"a": {0.5: 1}}, "float at a"),
        ({"a": {(1, 2): 1}}, "tuple at a"),
        ({True: 1}, "bool at the top"),
        ({2**63: 1}, "int at the top"),
        ({"w": torch.zeros(2, dtype=torch.complex64)}, "torch.complex64 .* at w"),
        ({"w": torch.zeros(2).to_sparse()}, "sparse_coo, cpu. at w"),
        ({"w": torch.zeros(2, device="meta")}, "meta. at w"),
        ({"w": torch._neg_view(torch.ones(2))}, "torch.float32 .* at w"),
        ({"w": torch.zeros(2).to(torch.float8_e5m2)}, "float8_e5m2 .* at w"),
        ({"\x1b[2J": object()}, r"object at '\\x1b"),
    ],
    ids=range(18),
)
def test_what_is_not_plain_is_refused_with_its_place(value, words):
    with pytest.raises(InputError, match=words) as caught:
        apart(value, 10**6, "x.pth")
    assert str(caught.value).isprintable()
    assert "in x.pth" in str(caught.value)


def test_an_ordered_dict_with_attributes_of_its_own_is_refused():
    value = OrderedDict(a=1)
    value.items = None  # as a pickle can do
    with pytest.raises(InputError, match="attributes of its own at the top"):
        apart(value, 0)
    notes = Counter("a")
    notes._metadata = {}
    with pytest.raises(InputError, match="attributes"):
        apart(notes, 0)


def test_depth_and_number_are_bounded(monkeypatch):
    deep = []
    for _ in range(plain.DEEPEST - 1):
        deep = [deep]
    assert same(there_and_back(deep), deep)
    with pytest.raises(HostileError, match="deeper"):
        apart([[deep]], 0)
    own = []
    own.append(own)
    with pytest.raises(HostileError, match="deeper"):
        apart(own, 0)
    monkeypatch.setattr(plain, "MOST_VALUES", 1000)
    laughs = [0]
    for _ in range(20):
        laughs = [laughs, laughs]
    with pytest.raises(HostileError, match="at most 1,000 values"):
        apart(laughs, 0)


@pytest.mark.parametrize("form", [{"tensor": "9"}, {"odd": []}, {"dict": [1]}, {"dict": [[[], 1]]}, {}])
def test_a_form_that_is_none_ends_in_an_error(form):
    with pytest.raises((LookupError, TypeError, ValueError)):
        together(form, {})
