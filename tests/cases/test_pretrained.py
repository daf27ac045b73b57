import json

import pytest
import torch

from unsee.answers import answers
from unsee.cases.pretrained import _check_config, installed, open_folder, said
from unsee.datasets import Dataset
from unsee.errors import HostileError, InputError, StoreError
from unsee.weights import files as weights

CLASSES = ("cat", "dog", "owl")


def vit(folder):
    """Save a very small transformer for images."""
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
    inner.save_pretrained(folder)
    return inner


def test_a_hugging_face_folder(tmp_path):
    inner = vit(tmp_path / "vit")
    words = {"rescale_factor": 0.5, "image_mean": [1, 1, 1], "image_std": [2, 2, 2], "size": 8}
    (tmp_path / "vit" / "preprocessor_config.json").write_text(json.dumps(words))
    opened = open_folder(tmp_path / "vit", (), None)
    assert opened.labels == CLASSES
    x = torch.rand(2, 3, 8, 8)
    with torch.no_grad():
        assert torch.allclose(opened.model(x), inner((x / 2 - 1) / 2).logits, atol=1e-6)
    assert answers(opened.model, Dataset(x, [0, 1], CLASSES)).shape == (2, 3)
    opened.write(tmp_path / "new.safetensors", opened.model)
    before = weights.read(tmp_path / "vit" / "model.safetensors")
    assert weights.read(tmp_path / "new.safetensors").tensors.keys() == before.tensors.keys()
    over = open_folder(tmp_path / "vit", (), {"size": (4, 4)}).model.how
    assert (over.size, over.mean, over.divide_by) == ((4, 4), (1.0, 1.0, 1.0), 2.0)
    (tmp_path / "vit" / "preprocessor_config.json").write_text('{"do_center_crop": true}')
    with pytest.raises(InputError, match="do_center_crop"):
        open_folder(tmp_path / "vit", (), None)
    (tmp_path / "vit" / "preprocessor_config.json").write_text('{"image_mean": 3, "image_std": []}')
    with pytest.raises(InputError, match="a preprocessor's words"):
        open_folder(tmp_path / "vit", (), None)
    (tmp_path / "vit" / "config.json").write_text('{"model_type": "nothing"}')
    with pytest.raises(InputError, match="an image classifier of transformers"):
        open_folder(tmp_path / "vit", (), None)
    (tmp_path / "vit" / "config.json").unlink()
    with pytest.raises(InputError, match="not both"):
        open_folder(tmp_path / "vit", (), None)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"num_hidden_layers": 3000}, "num_hidden_layers of [0-9]+ at most"),
        ({"intermediate_size": 2_000_000}, "intermediate_size of [0-9,]+ at most"),
        ({"hidden_size": 16}, "the weights of config.json's network"),
        ({"id2label": {"5": "cat", "7": "dog", "8": "owl"}}, "id2label for each output"),
        ({"id2label": {"0": "cat", "1": "d\u202eog", "2": "owl"}}, "a class name"),
    ],
)
def test_a_config_that_lies_is_refused_before_the_network_is_built(tmp_path, words, said):
    vit(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **words}))
    with pytest.raises(InputError, match=said):
        open_folder(tmp_path, (), None)


@pytest.mark.parametrize(
    "words",
    [
        '{"size": {"height": 1e400, "width": 8}}',
        '{"size": -1}',
        f'{{"size": 1{"0" * 400}}}',
        '{"size": {"shortest_edge": 32}}',
        '{"image_mean": [NaN], "image_std": [1]}',
        '{"image_mean": [1], "image_std": [Infinity]}',
        '{"image_mean": [1], "image_std": []}',
        '{"rescale_factor": 0}',
    ],
)
def test_a_preprocessor_that_lies_is_one_sentence(tmp_path, words):
    vit(tmp_path)
    (tmp_path / "preprocessor_config.json").write_text(words)
    with pytest.raises((InputError, StoreError)):
        open_folder(tmp_path, (), None)


@pytest.mark.parametrize(
    "words",
    [
        {"auto_map": {"AutoConfig": "x.Y"}},
        {"model_type": "timm_wrapper", "model_args": {"checkpoint_path": "evil.pth"}},
        {"a": [{"b": {"_attn_implementation": "org/repo"}}]},
        {"attn_implementation": "org/repo"},
        {"quantization_config": {}},
        {"backbone": "resnet50", "use_timm_backbone": True},
    ],
)
def test_a_config_that_names_more_than_the_network_is_refused(tmp_path, words):
    with pytest.raises(HostileError, match="a plain config"):
        _check_config(words, tmp_path / "config.json")
    _check_config({"model_type": "vit", "layers": [1, 2]}, tmp_path / "config.json")


def test_an_adapter_is_no_model(tmp_path):
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(InputError, match="an adapter"):
        open_folder(tmp_path, (), None)


def test_foreign_errors_are_one_line():
    assert said(ValueError("a\nb")) == "ValueError: a"
    assert said(AssertionError()) == "AssertionError"
    with pytest.raises(InputError, match="pip install nothing"):
        installed("nothing_like_it", "nothing")
