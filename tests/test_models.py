import json
import sys

import pytest
import torch
from torch import nn

from unsee import networks, weights
from unsee.answers import answers
from unsee.errors import InputError, UnseeError, UsageError
from unsee.models import Prepared, Preprocessing, open_model

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
    opened = open_model(pth, "resnet", classes=CLASSES, options=SHAPE, preprocessing=Preprocessing(255.0))
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


def test_pixels_are_divided_resized_and_standardised(net):
    how = Preprocessing(2.0, (8, 8), (1.0, 2.0, 3.0), (4.0, 5.0, 6.0))
    x = torch.rand(2, 3, 16, 16) * 255
    small = nn.functional.interpolate(x / 2, (8, 8), mode="bilinear", antialias=True)
    mean, std = (torch.tensor(v).reshape(3, 1, 1) for v in (how.mean, how.std))
    assert torch.allclose(Prepared(net, how)(x), net((small - mean) / std))


@pytest.mark.parametrize("words", [{"divide_by": 0.0}, {"std": (0.0,)}, {"mean": (1.0, 2.0)}])
def test_preprocessing_that_makes_no_sense(words):
    with pytest.raises(InputError):
        Preprocessing(**words)


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


def test_a_hugging_face_folder(tmp_path):
    transformers = pytest.importorskip("transformers")
    config = transformers.ViTConfig(
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        image_size=8,
        patch_size=4,
        id2label=dict(enumerate(CLASSES)),
        label2id={name: i for i, name in enumerate(CLASSES)},
    )
    inner = transformers.ViTForImageClassification(config).eval()
    inner.save_pretrained(tmp_path / "vit")
    words = {"rescale_factor": 0.5, "image_mean": [1, 1, 1], "image_std": [2, 2, 2], "size": 8}
    (tmp_path / "vit" / "preprocessor_config.json").write_text(json.dumps(words))
    opened = open_model(tmp_path / "vit")
    assert opened.labels == CLASSES
    x = torch.rand(2, 3, 8, 8)
    with torch.no_grad():
        assert torch.allclose(opened.model(x), inner((x / 2 - 1) / 2).logits, atol=1e-6)
    from unsee.datasets import Dataset

    assert answers(opened.model, Dataset(x, [0, 1], CLASSES)).shape == (2, 3)
    opened.write(tmp_path / "new.safetensors", opened.model)
    before = weights.read(tmp_path / "vit" / "model.safetensors")
    assert weights.read(tmp_path / "new.safetensors").tensors.keys() == before.tensors.keys()
    (tmp_path / "vit" / "preprocessor_config.json").write_text('{"image_mean": 3, "image_std": []}')
    with pytest.raises(InputError, match="a preprocessor's words"):
        open_model(tmp_path / "vit")
    (tmp_path / "vit" / "config.json").write_text('{"model_type": "nothing"}')
    with pytest.raises(InputError, match="an image classifier of transformers"):
        open_model(tmp_path / "vit")
    (tmp_path / "vit" / "config.json").unlink()
    with pytest.raises(InputError, match="not both"):
        open_model(tmp_path / "vit")
