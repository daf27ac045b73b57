import os

import pytest
import torch
from torch import nn

from unsee import networks, store
from unsee.datasets import Dataset
from unsee.errors import HostileError, InputError, StoreError, UsageError
from unsee.networks import NormalisedHardTanh, Truncated


def test_the_mlp_is_the_papers():
    model = networks.mlp((1, 28, 28), 10)
    layers = [layer for layer in model if isinstance(layer, nn.Linear)]
    assert [tuple(layer.weight.shape) for layer in layers] == [(784, 784)] * 9 + [(10, 784)]
    for layer in layers:
        gram = layer.weight @ layer.weight.T
        assert torch.allclose(gram, torch.eye(len(gram)), atol=1e-5)
        assert not layer.bias.any()
    assert not any("Norm" in type(m).__name__ and "Tanh" not in type(m).__name__ for m in model.modules())


def test_the_activation_in_both_forms():
    x = torch.linspace(-6, 6, 1001, dtype=torch.float64)
    s, g = 0.125**0.5, 1.0013
    assert torch.equal(NormalisedHardTanh()(x), (g * x).clamp(-1 / s, 1 / s))
    printed = torch.tensor([g * v if s * g * abs(v) < 1 else g * (v > 0) - g * (v < 0) for v in x.tolist()])
    assert torch.allclose(NormalisedHardTanh(printed=True)(x), printed.double())
    steps = NormalisedHardTanh()(x).diff()
    assert float(steps.max()) < 0.0131  # continuous
    assert float(NormalisedHardTanh(printed=True)(x).diff().abs().max()) > 1.8  # the printed jump


@pytest.mark.parametrize("name", ["mlp", "resnet"])
def test_saved_and_loaded_models_are_the_same(tmp_path, data, name):
    model = networks.network(name, data.train, seed=3).eval()
    networks.save(model, tmp_path / "m.safetensors")
    back = networks.load(tmp_path / "m.safetensors").eval()
    assert networks.identity(back) == networks.identity(model)
    x = data.test.x[:5].float()
    assert torch.equal(back(x), model(x))
    assert networks.identity(networks.network(name, data.train, seed=4)) != networks.identity(model)


def test_inputs_are_standardised_per_channel():
    x = torch.randint(0, 256, (50, 3, 8, 8), dtype=torch.uint8)
    x[:, 1] //= 4
    data = Dataset(x, torch.arange(50) % 2)
    out = networks.network("mlp", data)[0](x.float())
    assert torch.allclose(out.mean((0, 2, 3)), torch.zeros(3), atol=1e-4)
    assert torch.allclose(out.std((0, 2, 3)), torch.ones(3), atol=1e-3)


def test_the_number_of_threads_does_not_matter(data):
    ids = set()
    for threads in (1, 2):
        torch.set_num_threads(threads)
        ids.add(networks.identity(networks.network("mlp", data.train)))
        assert torch.get_num_threads() == threads
    torch.set_num_threads(1)
    assert len(ids) == 1


def test_the_resnet_has_batchnorm_and_under_a_million_parameters(data):
    model = networks.network("resnet", data.train)
    assert any(isinstance(m, nn.BatchNorm2d) for m in model.modules())
    assert sum(p.numel() for p in model.parameters()) < 1_000_000


def test_fresh_draws_other_parameters_of_the_same_kind(data):
    model = networks.network("mlp", data.train, seed=1)
    eta = networks.fresh(model, 1)
    assert networks.identity(eta) != networks.identity(model)  # though both have seed 1
    assert networks.identity(networks.fresh(model, 1)) == networks.identity(eta)
    assert networks.identity(networks.fresh(model, 2)) != networks.identity(eta)
    own = nn.Sequential(nn.Linear(3, 3), nn.LayerNorm(3))
    assert networks.identity(networks.fresh(own, 0)) != networks.identity(own)


class Raw(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(3))


def test_fresh_refuses_a_module_that_cannot_be_drawn_anew():
    with pytest.raises(InputError, match="reset_parameters in every module for RND, found none in 1"):
        networks.fresh(nn.Sequential(nn.Linear(3, 3), Raw()), 0)


def test_truncation_takes_one_answer_away(tmp_path, model, data):
    x = data.test.x[:50].float()
    cut = Truncated(model, 0)
    assert networks.identity(cut) != networks.identity(Truncated(model, 1))
    assert (cut(x).argmax(1) != 0).all()
    assert torch.allclose(cut(x).softmax(1)[:, 1:], model(x)[:, 1:].softmax(1))
    networks.save(cut, tmp_path / "m.safetensors")
    assert torch.equal(networks.load(tmp_path / "m.safetensors")(x), cut(x))
    twice = Truncated(cut, 3)
    networks.save(twice, tmp_path / "twice.safetensors")
    again = networks.load(tmp_path / "twice.safetensors")
    assert torch.equal(again(x), twice(x))
    assert networks.identity(again) == networks.identity(twice)


def test_bad_files_and_names(tmp_path, data):
    with pytest.raises(UsageError, match="one of mlp, resnet"):
        networks.network("vgg", data.train)
    with pytest.raises(InputError, match="images"):
        networks.network("mlp", Dataset(torch.zeros(2, 3), [0, 1]))
    store.write_tensors(tmp_path / "x.safetensors", {}, {"spec": {"network": "os.system"}})
    good = networks.mlp((1, 2, 2), 2, depth=2).spec
    for spec in ({"network": "os.system"}, [], "mlp", good | {"more": 1}, good | {"shape": None}, {}):
        store.write_tensors(tmp_path / "x.safetensors", {}, {"spec": spec, "labels": []})
        with pytest.raises(InputError, match="a network among mlp, resnet"):
            networks.load(tmp_path / "x.safetensors")
    deep = {"spec": good | {"depth": 10**12}, "labels": []}
    store.write_tensors(tmp_path / "x.safetensors", {"2.weight": torch.zeros(4, 4)}, deep)
    with pytest.raises(InputError, match="a network among mlp, resnet"):
        networks.load(tmp_path / "x.safetensors")
    huge, two = {"spec": good | {"shape": [1, 4000, 4000]}, "labels": []}, torch.zeros(2, 4, 4)
    store.write_tensors(tmp_path / "x.safetensors", {"2.weight": two[0], "4.weight": two[1]}, huge)
    with pytest.raises(InputError, match="the weights of this network"):
        networks.load(tmp_path / "x.safetensors")
    (tmp_path / "x.pth").write_bytes(b"PK")
    with pytest.raises(HostileError):
        networks.load(tmp_path / "x.pth")
    (tmp_path / "y.safetensors").write_bytes(b"nothing")
    with pytest.raises(StoreError):
        networks.load(tmp_path / "y.safetensors")
    os.mkfifo(tmp_path / "pipe.safetensors")
    with pytest.raises(InputError, match="a folder or a pipe"):
        networks.load(tmp_path / "pipe.safetensors")


def test_weights_of_ones_own_module(tmp_path):
    own = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    networks.save(own, tmp_path / "m.safetensors")
    other = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    back = networks.load(tmp_path / "m.safetensors", into=other)
    assert networks.identity(back) == networks.identity(own) != networks.identity(other)
    with pytest.raises(InputError, match="the weights of this network"):
        networks.load(tmp_path / "m.safetensors", into=nn.Linear(3, 3))


def test_tied_weights_can_be_saved(tmp_path):
    own = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    own[1].weight = own[0].weight
    networks.save(own, tmp_path / "m.safetensors")
    assert torch.equal(networks.load(tmp_path / "m.safetensors", into=own)[1].weight, own[0].weight)


def test_devices():
    assert networks.device_of("cpu") == torch.device("cpu")
    assert networks.device_of("auto").type in {"cpu", "cuda", "mps", "xpu"}
    for wrong in ("cuda:99", "abacus"):
        with pytest.raises(UsageError, match="use --device cpu"):
            networks.device_of(wrong)
