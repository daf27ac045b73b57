"""Each rule against a loop over samples, on the layer by itself; and which parameters are served."""

from itertools import product

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unsee import rules
from unsee.randomness import seeded
from unsee.rules import RULES, by_rule
from zoo import case

N = 4


def by_loop(layer: nn.Module, a: Tensor, delta: Tensor) -> dict[str, Tensor]:
    sums = {name: torch.zeros_like(p) for name, p in layer.named_parameters()}
    for i in range(len(a)):
        layer.zero_grad()
        layer(a[i : i + 1]).backward(delta[i : i + 1])
        for name, p in layer.named_parameters():
            sums[name] += p.grad**2
    return sums


def check(layer: nn.Module, a: Tensor) -> None:
    layer = layer.double().eval()
    with torch.no_grad():
        delta = torch.randn_like(layer(a))
        found = RULES[type(layer)](layer, a, delta)
    for name, truth in by_loop(layer, a, delta).items():
        torch.testing.assert_close(found[name], truth, rtol=1e-12, atol=1e-12)


def numbers(*shape: int) -> Tensor:
    return torch.randn(N, *shape, dtype=torch.float64)


LAYERS = {
    "linear": lambda: (nn.Linear(3, 2), numbers(3)),
    "linear, 4-d": lambda: (nn.Linear(3, 2), numbers(2, 5, 3)),
    "linear, no bias": lambda: (nn.Linear(3, 2, bias=False), numbers(5, 3)),
    "layer norm, two axes": lambda: (nn.LayerNorm((2, 3)), numbers(5, 2, 3)),
    "layer norm, 2-d": lambda: (nn.LayerNorm(3), numbers(3)),
    "layer norm, no bias": lambda: (nn.LayerNorm(3, bias=False), numbers(5, 3)),
    "rms norm": lambda: (nn.RMSNorm(3, eps=1e-3), numbers(5, 3)),
    "group norm, 2-d": lambda: (nn.GroupNorm(2, 4), numbers(4)),
    "batch norm, 2-d": lambda: (nn.BatchNorm1d(3), numbers(3)),
    "batch norm, 5-d": lambda: (nn.BatchNorm3d(3), numbers(3, 2, 2, 2)),
    "prelu, one weight, 2-d": lambda: (nn.PReLU(), numbers(3)),
    "prelu, a weight a channel, 4-d": lambda: (nn.PReLU(3), numbers(3, 2, 2)),
    "embedding": lambda: (nn.Embedding(5, 3), torch.randint(5, (N, 7))),
    "embedding, one token": lambda: (nn.Embedding(5, 3), torch.randint(5, (N,))),
    "embedding, by frequency": lambda: (
        nn.Embedding(5, 3, scale_grad_by_freq=True),
        torch.randint(5, (N, 9)),
    ),
    "embedding, padded": lambda: (nn.Embedding(5, 3, padding_idx=2), torch.randint(5, (N, 3, 3))),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layer(name):
    with seeded(0, name):
        check(*LAYERS[name]())


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("mode", ["zeros", "reflect", "replicate", "circular"])
def test_convolution(dims, mode):
    kind = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}[dims]
    geometries = product((1, 2), (1, 2), (0, 1), (1, 2), (1, 2))
    with seeded(0, "conv"):
        for kernel, stride, padding, dilation, groups in geometries:
            layer = kind(2, 4, kernel, stride, padding, dilation, groups, padding_mode=mode)
            check(layer, numbers(2, *(5, 4, 3)[:dims]))
        check(kind(2, 4, 3, padding="same", padding_mode=mode), numbers(2, *(5, 4, 3)[:dims]))
        check(kind(2, 4, 3, padding="valid", padding_mode=mode), numbers(2, *(5, 4, 3)[:dims]))


def test_convolution_of_what_is_not_contiguous():
    with seeded(0, "conv"):
        check(nn.Conv2d(2, 3, 2), numbers(5, 4, 2).permute(0, 3, 1, 2))


def test_chunks_change_nothing(monkeypatch):
    layer, a = nn.Linear(3, 2).double(), numbers(5, 3)
    delta = numbers(5, 2)
    whole = rules.linear(layer, a, delta)["weight"]
    monkeypatch.setattr(rules, "CHUNK", 1)
    torch.testing.assert_close(rules.linear(layer, a, delta)["weight"], whole)


def test_a_subclass_has_no_rule():
    class Doubled(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return 2 * super().forward(x)

    assert Doubled not in RULES


def served(name: str) -> tuple[set[str], set[str]]:
    model, data = case(name)
    names = [name for name, _ in model.named_parameters()]
    squares, left = by_rule(model, names, len(data), lambda: F.cross_entropy(model(data.x), data.y))
    return set(squares), left


HEAD = {"head.weight", "head.bias"}
OWN = {"layer.weight", "layer.bias"}


@pytest.mark.parametrize(
    ("name", "by_rules", "by_others"),
    [
        ("used twice", HEAD, OWN),
        ("tied", HEAD, {"embedding.weight"}),
        ("tied later", HEAD | {"layer.bias"}, {"layer.weight"}),
        ("routed", HEAD | OWN, {"expert.weight", "expert.bias"}),
        ("unused", HEAD | OWN, set()),
        ("raw parameter", HEAD, {"core"}),
        ("time first", HEAD, OWN),
    ],
)
def test_served_are_those_used_once_by_layers_with_samples_as_rows(name, by_rules, by_others):
    assert served(name) == (by_rules, by_others)


def test_nobody_is_served_without_a_graph():
    model, data = case("linear")
    names = [name for name, _ in model.named_parameters()]
    assert by_rule(model, names, len(data), lambda: torch.zeros(())) == ({}, set())
