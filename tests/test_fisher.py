"""fisher_sum against its float64 twin, on every case; what it refuses; what it leaves alone."""

import copy
import math

import pytest
import torch
from torch import nn

import reference
from unsee.datasets import Dataset
from unsee.errors import InputError
from unsee.fisher import fisher_sum
from zoo import CASES, case, numbers

BOUND = {torch.float64: 1e-10, torch.float32: 1e-5}

# Served by rules alone: what makes the Fisher about as cheap as an epoch of training.
RULED = (
    *("linear", "linear 3-d", "conv1d", "conv2d", "conv3d", "conv grouped, dilated, strided"),
    *("conv same, circular", "batch norm", "layer norm", "group norm", "rms norm", "prelu", "embedding"),
    *("tied later", "in place", "routed", "dropout", "residual"),
)


class Pairs(torch.utils.data.Dataset):
    """The contents of a Dataset as somebody else's."""

    def __init__(self, data: Dataset) -> None:
        self.data = data

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, i: int) -> tuple[torch.Tensor, int]:
        return self.data.x[i], int(self.data.y[i])


class Then(nn.Module):
    """A Linear layer, and whatever is done to its output."""

    def __init__(self, then) -> None:
        super().__init__()
        self.layer, self.then = nn.Linear(6, 3), then

    def forward(self, x):
        return self.then(self.layer(x))


def error(found: dict, truth: dict, eps: float) -> float:
    """The largest error, relative to its tensor's largest entry.

    Less than eps^2 of the largest entry of all is nothing: some gradients, such as that of the bias
    of attention's keys, are zero but for rounding.
    """
    nothing = eps**2 * max(float(t.max()) for t in truth.values())
    return max(float((found[k] - t).abs().max()) / max(float(t.max()), nothing) for k, t in truth.items())


@pytest.mark.parametrize("dtype", BOUND, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_equals_its_twin(name, dtype):
    model, data = case(name)
    truth = reference.fisher_sum(model, data)
    for batch_size in (1, 7, 64):
        taken = fisher_sum(model.to(dtype), data, batch_size=batch_size)
        assert list(taken.sums) == list(taken.tiers) == list(truth)
        assert {t.dtype for t in taken.sums.values()} == {torch.float64}
        assert error(taken.sums, truth, torch.finfo(dtype).eps) < BOUND[dtype], batch_size


@pytest.mark.parametrize("name", RULED)
def test_rules_serve_what_is_common(name):
    model, data = case(name)
    assert set(fisher_sum(model, data).tiers.values()) == {"rule"}


@pytest.mark.parametrize("name", ["time first", "scrambled"])
def test_rules_refuse_rows_that_are_not_samples(name):
    tiers = fisher_sum(*case(name)).tiers
    assert tiers["layer.weight"] == tiers["layer.bias"] == "vmap"
    assert tiers["head.weight"] == tiers["head.bias"] == "rule"


class Kink(nn.Module):
    """A ReLU whose input is zero, and rounds to one side in a batch and to the other alone."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = nn.Linear(6, 5), nn.Linear(5, 3)
        nn.init.zeros_(self.layer.bias)

    def forward(self, x):
        return self.head(torch.relu(self.layer(x) + (1e-9 if len(x) > 1 else -1e-9)))


def test_rules_are_not_misjudged_at_a_kink():
    data = numbers(6)
    data.x[1] = 0
    assert set(fisher_sum(Kink(), data).tiers.values()) == {"rule"}


def test_digits_survive_in_a_model_that_is_sure():
    model, data = case("linear")
    model[-1].weight.data *= 50
    chance, y = torch.softmax(model(data.x), 1).max(1)
    sure = data.with_(y=y).subset(torch.nonzero(chance > 1 - 1e-5).flatten())
    assert len(sure) > 10
    # With a softmax in float32, the error would be 1e-2.
    assert error(fisher_sum(model, sure).sums, reference.fisher_sum(model, sure), 0) < 1e-5


def test_a_part_subtracts():
    model, data = case("residual")
    D_f, D_r = data.of_class(0), data.of_class(0, others=True)
    whole, part, rest = (fisher_sum(model.double(), d, batch_size=16) for d in (data, D_f, D_r))
    assert whole.n == part.n + rest.n
    difference = {name: sums - part.sums[name] for name, sums in whole.sums.items()}
    assert error(difference, rest.sums, 0) < 1e-12


def test_any_map_style_data_gives_the_same():
    model, data = case("conv2d")
    ours, theirs = fisher_sum(model, data, batch_size=9), fisher_sum(model, Pairs(data), batch_size=9)
    assert ours.data == theirs.data == data.fingerprint
    assert all(torch.equal(ours.sums[name], theirs.sums[name]) for name in ours.sums)


def test_bytes_are_numbers():
    model, data = case("linear")
    whole = data.with_(x=(data.x * 20).abs().to(torch.uint8))
    floats = whole.with_(x=whole.x.float())
    ours, theirs = fisher_sum(model, whole), fisher_sum(model, floats)
    assert all(torch.equal(ours.sums[name], theirs.sums[name]) for name in ours.sums)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_samples(n):
    model, data = case("linear")
    data = data.subset(range(n))
    assert error(fisher_sum(model, data).sums, reference.fisher_sum(model, data), 1e-7) < 1e-5


def test_frozen_parameters_are_left_out():
    model, data = case("residual")
    model.stem.requires_grad_(False)
    model.norm2.bias.requires_grad_(False)
    taken = fisher_sum(model, data)
    assert "stem.weight" not in taken.sums
    assert "norm2.bias" not in taken.sums
    assert error(taken.sums, reference.fisher_sum(model, data), 1e-7) < 1e-5


def test_a_bfloat16_model_is_served_too():
    model, data = case("linear")
    truth = reference.fisher_sum(model.bfloat16(), data)
    assert error(fisher_sum(model, data).sums, truth, 1e-2) < 0.05


@pytest.mark.parametrize("name", ["in place", "gru", "vit"])
def test_model_data_and_generator_are_left_alone(name):
    model, data = case(name)
    model.train()
    next(model.parameters()).grad = torch.ones_like(next(model.parameters()))
    state, x, generator = copy.deepcopy(model.state_dict()), data.x.clone(), torch.get_rng_state()
    done = []
    fisher_sum(model, data, batch_size=64, progress=done.append)
    assert done == [64, 6]
    assert all(torch.equal(state[key], value) for key, value in model.state_dict().items())
    assert all(p.requires_grad for p in model.parameters())
    assert [p.grad is None for p in model.parameters()].count(False) == 1
    assert bool((next(model.parameters()).grad == 1).all())
    assert all(m.training and not m._forward_hooks for m in model.modules())
    assert torch.equal(data.x, x)
    assert torch.equal(torch.get_rng_state(), generator)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_gradients_are_on_whatever_the_caller_set(mode):
    model, data = case("batch norm")
    expected = fisher_sum(model, data)
    with mode():
        taken = fisher_sum(model, data)
    assert all(torch.equal(taken.sums[name], expected.sums[name]) for name in expected.sums)


REFUSED = {
    "at least one sample": lambda: (nn.Linear(6, 3), numbers(6).subset([])),
    "labels from 0 to 1 in data, found 2 at index": lambda: (nn.Linear(6, 2), numbers(6)),
    "map-style torch data set, found list_iterator": lambda: (nn.Linear(6, 3), iter([])),
    "found none: call model.requires_grad_": lambda: (nn.Linear(6, 3).requires_grad_(False), numbers(6)),
    r"logits of shape \(3, C\) from the model, found shape \(3, 3, 1\)": lambda: (
        Then(lambda y: y[..., None]),
        numbers(6),
    ),
    r"logits of shape \(3, C\) from the model, found tuple": lambda: (Then(lambda y: (y, y)), numbers(6)),
    r"logits of shape \(1, C\) from the model, found shape \(3,\)": lambda: (
        Then(torch.squeeze),
        numbers(6),
    ),
    r"data that the model takes, found samples of shape \(6,\)": lambda: (nn.Linear(7, 3), numbers(6)),
    "the same input, found another one: .* dropout": lambda: (Then(nn.functional.dropout), numbers(6)),
    "a sample alone as in a batch, found another one: .* BatchNorm": lambda: (
        nn.Sequential(nn.BatchNorm2d(2, track_running_stats=False), nn.Flatten(), nn.Linear(8, 3)),
        numbers(2, 2, 2),
    ),
    "a sample alone as in a batch, found Expected more than 1 value": lambda: (
        Then(nn.BatchNorm1d(3, track_running_stats=False)),
        numbers(6),
    ),
    "finite logits": lambda: (Then(lambda y: y * torch.inf), numbers(6)),
    "NaN or Inf in that of layer.weight on the first samples": lambda: (
        Then(lambda y: (y * (y > 0)).sqrt()),
        numbers(6),
    ),
    "NaN or Inf in that of layer.weight on samples 64 to 69": lambda: (
        Then(lambda y: (y * (y > 0)).sqrt()),
        growing(),
    ),
}


def growing() -> Dataset:
    """Data that `Then` answers with positive numbers, but for the last sample."""
    x = torch.zeros(70, 6)
    x[-1] = 1e6
    return Dataset(x, torch.zeros(70, dtype=torch.long), ("a", "b", "c"))


@pytest.mark.parametrize("message", REFUSED)
def test_refuses(message):
    model, data = REFUSED[message]()
    if isinstance(model, Then):
        nn.init.constant_(model.layer.bias, 0.5)
        nn.init.constant_(model.layer.weight, -0.3)
    generator = torch.get_rng_state()
    with pytest.raises(InputError, match=message):
        fisher_sum(model, data, batch_size=64)
    assert torch.equal(torch.get_rng_state(), generator)


def test_refuses_weights_by_name():
    model, data = case("linear")
    model[2].bias.data[3] = torch.nan
    with pytest.raises(InputError, match=r"finite weights, found NaN or Inf in 2\.bias"):
        fisher_sum(model, data)


def test_refuses_labels_of_later_batches():
    model, data = case("linear")
    data = data.with_(y=data.y.index_fill(0, torch.tensor([66]), 3))
    for given in (data, Pairs(data)):
        with pytest.raises(InputError, match="labels from 0 to 2 in data, found 3 at index 66"):
            fisher_sum(model, given, batch_size=64)


@pytest.mark.parametrize("name", CASES)
def test_the_loss_is_the_sum_over_samples(name):
    """Whichever tier serves the parameters."""
    model, data = case(name)
    model = model.double()
    expected = 0.0
    for x, label in data:
        x = x.double() if x.is_floating_point() else x
        row = copy.deepcopy(model).eval()(x[None].clone())[0].tolist()
        expected -= row[int(label)] - math.log(sum(math.exp(value) for value in row))
    for batch_size in (1, 64):
        assert fisher_sum(model, data, batch_size=batch_size).loss == pytest.approx(expected, rel=1e-9)


def test_what_is_seen_are_the_samples_as_they_are():
    model, data = case("linear")
    data = data.with_(x=(data.x * 20).abs().to(torch.uint8))
    seen = []
    plain = fisher_sum(model, data, batch_size=32)
    watched = fisher_sum(model, data, batch_size=32, seen=lambda x, y: seen.append((x, y)))
    assert [len(y) for _, y in seen] == [32, 32, 6]
    assert torch.equal(torch.cat([x for x, _ in seen]), data.x)
    assert torch.equal(torch.cat([y for _, y in seen]), data.y)
    assert seen[0][0].dtype == torch.uint8
    assert all(torch.equal(watched.sums[name], plain.sums[name]) for name in plain.sums)
    assert watched.loss == plain.loss


def test_a_model_that_works_in_place_is_not_seen_to():
    model, data = case("in place")
    seen = []
    fisher_sum(model, data, seen=lambda x, y: seen.append(x.clone()))
    assert torch.equal(torch.cat(seen), data.x)


def test_a_batch_that_is_refused_was_not_seen():
    model, data = case("linear")
    data, seen = data.with_(y=data.y.index_fill(0, torch.tensor([66]), 3)), []
    with pytest.raises(InputError, match="found 3 at index 66"):
        fisher_sum(model, data, batch_size=64, seen=lambda x, y: seen.append(len(y)))
    assert seen == [64]


# ---- going on -----------------------------------------------------------------------------------


def test_it_goes_on_from_a_sum_and_computes_only_the_rest():
    model, data = nn.Linear(6, 3), numbers(6)
    parts = []
    whole = fisher_sum(model, data, batch_size=5, after=lambda so_far: parts.append(copy.deepcopy(so_far)))
    assert [part.n for part in parts] == [min(n + 5, len(data)) for n in range(0, len(data), 5)]
    for begun in parts:
        seen, before = [], {name: squares.clone() for name, squares in begun.sums.items()}
        more = {"begun": begun, "seen": lambda x, y, seen=seen: seen.extend(y)}
        again = fisher_sum(model, data, batch_size=5, **more)
        assert len(seen) == len(data) - begun.n
        assert all(torch.equal(again.sums[name], whole.sums[name]) for name in whole.sums)
        assert (again.n, again.data, again.loss) == (whole.n, whole.data, whole.loss)
        assert torch.equal(again.samples, whole.samples)
        assert all(torch.equal(begun.sums[name], before[name]) for name in before)
    with pytest.raises(InputError, match="was begun with, found others"):
        fisher_sum(model, data, batch_size=3, begun=parts[0])
    with pytest.raises(InputError, match="was begun with, found others"):
        fisher_sum(model, data.subset(range(4)), batch_size=5, begun=parts[0])
