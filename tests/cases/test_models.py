import importlib
import sys

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from unsee import networks
from unsee.cases.models import _plain, open_model
from unsee.errors import HostileError, InputError, UnseeError, UsageError

SHAPE = {"shape": [3, 8, 8], "width": 4, "blocks": 1}
CLASSES = ("cat", "dog", "owl")


@pytest.fixture
def net():
    return networks.resnet((3, 8, 8), 3, width=4, blocks=1, seed=3).eval()


@pytest.fixture
def pth(net, tmp_path):
    state = {f"module.{name}": value for name, value in net.state_dict().items()}
    torch.save({"epoch": 3, "state_dict": state}, tmp_path / "net.pth")
    return tmp_path / "net.pth"


def test_a_checkpoint_becomes_the_model_it_was(net, pth):
    opened = open_model(pth, "resnet", classes=CLASSES, options=SHAPE, preprocessing={"divide_by": 255.0})
    x = torch.randint(0, 256, (5, 3, 8, 8)).float()
    assert torch.equal(opened.model(x), net(x / 255))
    assert opened.labels == opened.model.labels == CLASSES


def test_a_repaired_model_is_written_as_the_old_one_was_found(pth, tmp_path):
    opened = open_model(pth, "resnet", classes=CLASSES, options=SHAPE)
    with torch.no_grad():
        for p in opened.model.parameters():
            p.add_(1.0)
    opened.write(tmp_path / "new.pth", opened.model)
    old, new = (torch.load(path, weights_only=True) for path in (pth, tmp_path / "new.pth"))
    assert old["state_dict"].keys() == new["state_dict"].keys()
    assert new["epoch"] == 3
    first = "module.1.weight"
    assert torch.allclose(new["state_dict"][first], old["state_dict"][first] + 1)
    opened.write(tmp_path / "new.safetensors", opened.model)
    again = open_model(tmp_path / "new.safetensors", "resnet", classes=CLASSES, options=SHAPE)
    assert networks.identity(again.model) == networks.identity(opened.model)


def test_a_file_of_our_own_needs_no_words(net, tmp_path):
    net.labels = CLASSES
    networks.save(net, tmp_path / "net.safetensors")
    opened = open_model(tmp_path / "net.safetensors")
    assert opened.labels == CLASSES
    opened.write(tmp_path / "again.safetensors", opened.model)
    assert networks.identity(networks.load(tmp_path / "again.safetensors")) == networks.identity(net)


@pytest.mark.parametrize(
    ("network", "options", "message"),
    [
        ("resnot", {}, "a network as mlp, resnet, .*try resnet"),
        ("resnet", {"shape": [3, 8, 8], "width": 8, "blocks": 1}, "the weights of this network"),
        ("resnet", {"shape": [3, 8, 8], "width": 4, "blocks": 2}, "missing"),
        ("resnet", {"shape": [3, 8, 8], "hight": 4}, "options that resnet takes"),
        ("mlp", {"shape": [3, 8, 8], "depth": 2}, "unknown"),
        ("os:system", {}, "--allow-code"),
    ],
)
def test_networks_that_do_not_fit(pth, network, options, message):
    with pytest.raises(UnseeError, match=message):
        open_model(pth, network, classes=CLASSES, options=options)


def test_classes_are_needed_where_nothing_else_says_how_many(pth):
    with pytest.raises(InputError, match="the model's classes"):
        open_model(pth, "resnet", options=SHAPE)


def test_code_runs_only_when_it_is_allowed(net, tmp_path, monkeypatch):
    (tmp_path / "dealer.py").write_text(
        "from pathlib import Path\nPath(__file__).with_name('ran').touch()\n"
        "from unsee.networks import resnet\ndef build(): return resnet((3, 8, 8), 3, width=4, blocks=1)\n"
        "def other(): return 3\nodd = 4\n"
    )
    torch.save(net.state_dict(), tmp_path / "net.pth")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(UsageError, match="--allow-code to run dealer:build"):
        open_model(tmp_path / "net.pth", "dealer:build", classes=CLASSES)
    assert not (tmp_path / "ran").exists()
    opened = open_model(tmp_path / "net.pth", "dealer:build", classes=CLASSES, allow_code=True)
    x = torch.rand(2, 3, 8, 8) * 255
    assert torch.equal(opened.model(x), net(x / 255))
    for name, message in (
        ("dealer:none", "a function at"),
        ("dealer:odd", "name a function"),
        ("none:x", "PYTHONPATH"),
    ):
        with pytest.raises(InputError, match=message):
            open_model(tmp_path / "net.pth", name, classes=CLASSES, allow_code=True)
    with pytest.raises(InputError, match=r"an nn\.Module from dealer:other"):
        open_model(tmp_path / "net.pth", "dealer:other", classes=CLASSES, allow_code=True)
    sys.modules.pop("dealer")


def test_a_pickled_module_is_never_opened(net, tmp_path):
    torch.save(net, tmp_path / "module.pth")
    with pytest.raises(UnseeError, match="state_dict"):
        open_model(tmp_path / "module.pth", "resnet", classes=CLASSES, options=SHAPE)


@pytest.mark.parametrize("library", ["torchvision", "timm"])
def test_libraries_where_they_are_installed(library, tmp_path):
    torch.save(nn.Linear(2, 2).state_dict(), tmp_path / "net.pth")
    try:
        __import__(library)
    except (ImportError, RuntimeError):
        with pytest.raises(InputError, match=f"{library} installed"):
            open_model(tmp_path / "net.pth", f"{library}/resnet18", classes=CLASSES)
        pytest.skip(f"{library} is not installed, or not for this torch")
    with pytest.raises(InputError, match="the weights of this network"):
        open_model(tmp_path / "net.pth", f"{library}/resnet18", classes=CLASSES)
    module = importlib.import_module({"torchvision": "torchvision.models", "timm": "timm"}[library])
    make = {"torchvision": "get_model", "timm": "create_model"}[library]
    net = getattr(module, make)("resnet18", num_classes=len(CLASSES)).eval()
    torch.save({"state_dict": net.state_dict()}, tmp_path / "net.pth")
    model = open_model(tmp_path / "net.pth", f"{library}/resnet18", classes=CLASSES).model
    pixels = torch.randint(0, 256, (2, 3, 64, 64)).float()
    with torch.no_grad():
        assert torch.allclose(model(pixels), net(pixels / 255), atol=1e-5)


@pytest.mark.parametrize(
    "text",
    [
        "raise AttributeError('x')",
        "import nothing_like_it",
        "def (",
        "import sys; sys.exit(0)",
        "assert False",
    ],
)
def test_whatever_a_strangers_module_does_is_one_sentence(pth, tmp_path, monkeypatch, text):
    (tmp_path / "odd_dealer.py").write_text(f"{text}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(InputError, match="a function at odd_dealer:build"):
        open_model(pth, "odd_dealer:build", classes=CLASSES, allow_code=True)
    sys.modules.pop("odd_dealer", None)


@pytest.mark.parametrize(
    "raised", ["FileNotFoundError('f')", "SystemExit(0)", "AssertionError()", "KeyError(3)"]
)
def test_whatever_a_builder_does_is_one_sentence(pth, tmp_path, monkeypatch, raised):
    (tmp_path / "odd_maker.py").write_text(f"def build(): raise {raised}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(InputError, match=raised.split("(")[0]):
        open_model(pth, "odd_maker:build", classes=CLASSES, allow_code=True)
    sys.modules.pop("odd_maker", None)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("hf-hub:org/net", {}),
        ("../net", {}),
        ("resnet18", {"checkpoint_path": "evil.pth"}),
        ("resnet18", {"pretrained_cfg": {"file": "evil.pth"}}),
        ("resnet18", {"pretrained": True}),
        ("resnet18", {"weights": "DEFAULT"}),
    ],
)
def test_a_library_is_never_asked_to_fetch_or_open_files(name, options):
    """timm loads its checkpoint_path with a pickle that may run."""
    with pytest.raises(HostileError):
        _plain("timm", name, options)
    _plain("timm", "resnet18.a1_in1k", {"drop_rate": 0.1, "global_pool_size": 1})


def test_weights_without_a_network_ask_for_its_name(pth, net, tmp_path):
    save_file(net.state_dict(), tmp_path / "foreign.safetensors")
    for path in (pth, tmp_path / "foreign.safetensors"):
        with pytest.raises(InputError, match="`network`, of which"):
            open_model(path)
    networks.save(net, tmp_path / "ours.safetensors")
    with pytest.raises(InputError, match="no `preprocess` for a file that unsee wrote"):
        open_model(tmp_path / "ours.safetensors", preprocessing={"divide_by": 2.0})


@pytest.mark.parametrize(("network", "option"), [("resnet", "blocks"), ("mlp", "depth")])
def test_more_layers_than_the_file_has_tensors_are_refused_before_they_are_built(pth, network, option):
    with pytest.raises(InputError, match=f"{option} of [0-9]+ at most"):
        open_model(pth, network, classes=CLASSES, options={"shape": [1, 8, 8], option: 100_000})
