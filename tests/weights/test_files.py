import hashlib
import importlib.util
import json
import os
from collections import OrderedDict

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import hostile
from unsee import networks, store
from unsee.errors import InputError, StoreError, UnseeError
from unsee.weights import files as weights
from unsee.weights import opening, plain
from unsee.weights.files import Weights, named_by, read, write
from unsee.weights.scanning import scan


@pytest.fixture
def here(monkeypatch):
    """Open checkpoints in this process, all steps but the process: importing torch in one takes a second."""

    def opened(file, name):
        form, tensors = opening.contents(file, name, scan(file, name))
        return plain.together(json.loads(json.dumps(form)), {n: t.clone() for n, t in tensors.items()})

    monkeypatch.setattr(weights, "opened", opened)


def network(dtype=torch.float32):
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(16, 3)).to(dtype)


def trained():
    """A network with an optimizer that has momenta."""
    model = network()
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(2, 1, 4, 4)).sum().backward()
    optimizer.step()
    return model, optimizer


def moved(found):
    """Other values for the same weights, as forgetting makes them: in float32."""
    return {
        name: tensor.float() + 0.5 if tensor.is_floating_point() else tensor
        for name, tensor in found.tensors.items()
    }


def equal(a, b):
    """Equal tensors under equal keys of equal types in the same order, all the way down."""
    if type(a) is not type(b):
        return False
    if isinstance(a, torch.Tensor):
        return a.dtype is b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return list(a) == list(b) and all(equal(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(equal, a, b))
    return a == b


def alike(a, b):
    """Equal tensors under equal keys, in any order: safetensors has its own."""
    return equal(dict(sorted(a.items())), dict(sorted(b.items())))


STATE = network().state_dict()
ABOUT = {
    "epoch": 3,
    "best": float("inf"),
    "args": {"lr": 0.1, "betas": (0.9, 0.99), "steps": [1, 2], 7: None},
}
WRAPPED = {
    "plain": (STATE, (), ""),
    "a dict": (dict(STATE), (), ""),
    "state_dict": ({"epoch": 1, "state_dict": STATE, "z": 2, "a": ABOUT}, ("state_dict",), ""),
    "model": (OrderedDict(model=STATE, **ABOUT), ("model",), ""),
    "model_state_dict": ({"model_state_dict": STATE, "optimizer_state_dict": {}}, ("model_state_dict",), ""),
    "ema": ({"ema": STATE, "epoch": 1}, ("ema",), ""),
    "ema, deeper": ({"ema": {"decay": 0.9, "state_dict": STATE}}, ("ema", "state_dict"), ""),
    "beside its average": ({"ema": STATE, "model": STATE, "epoch": 1}, ("model",), ""),
    "an unusual key": ({"backbone": STATE, "epoch": 1}, ("backbone",), ""),
    "DataParallel": ({f"module.{key}": value for key, value in STATE.items()}, (), "module."),
    "torch.compile": ({f"_orig_mod.{key}": value for key, value in STATE.items()}, (), "_orig_mod."),
    "both, in Lightning": (
        {"state_dict": {f"model.module._orig_mod.{key}": value for key, value in STATE.items()}},
        ("state_dict",),
        "model.module._orig_mod.",
    ),
    "a model in a model": ({f"model.model.{key}": value for key, value in STATE.items()}, (), "model."),
}


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("case", WRAPPED)
def test_weights_go_back_as_they_were_wrapped(tmp_path, case):
    whole, path, prefix = WRAPPED[case]
    torch.save(whole, tmp_path / "old.pth")
    before = (tmp_path / "old.pth").read_bytes()
    found = read(tmp_path / "old.pth")
    assert (found.format, found.path, found.prefix) == ("pth", path, prefix)
    assert found.sha256 == hashlib.sha256(before).hexdigest()
    inner = "model." if case == "a model in a model" else ""
    assert list(found.tensors) == [inner + key for key in STATE]
    write(tmp_path / "same.pt", found, found.tensors)
    assert equal(torch.load(tmp_path / "same.pt"), torch.load(tmp_path / "old.pth"))
    new = moved(found)
    write(tmp_path / "new.pth", found, new)
    state = torch.load(tmp_path / "new.pth")
    assert list(state) == list(whole)
    for key in path:
        state = state[key]
    assert equal(dict(state), {prefix + name: tensor for name, tensor in new.items()})
    write(tmp_path / "new.safetensors", found, new)
    assert alike(load_file(tmp_path / "new.safetensors"), state)
    assert torch.equal(found.tensors[inner + "0.bias"], STATE["0.bias"])


@pytest.mark.usefixtures("here")
def test_what_stands_around_goes_back_too(tmp_path):
    model, optimizer = trained()
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [3, 5])
    whole = {
        "epoch": 3,
        "optimizer": optimizer.state_dict(),
        "state_dict": model.state_dict(),
        "scheduler": scheduler.state_dict(),
        "average": {"decay": 0.99, "shadow": [value.clone() for value in model.parameters()]},
        **ABOUT,
    }
    torch.save(whole, tmp_path / "old.ckpt")
    found = read(tmp_path / "old.ckpt")
    assert found.around["state_dict"] == {}
    assert found.around["optimizer"]["state"].keys() == {0, 1, 2, 3, 4, 5}
    write(tmp_path / "new.ckpt", found, moved(found))
    back = torch.load(tmp_path / "new.ckpt")
    assert list(back) == list(whole)
    assert equal({**back, "state_dict": None}, {**torch.load(tmp_path / "old.ckpt"), "state_dict": None})
    optimizer.load_state_dict(back["optimizer"])
    model.load_state_dict(back["state_dict"])
    assert back["state_dict"]._metadata["1"] == {"version": 2}
    assert found.around["state_dict"] == {}  # writing changes nothing that was read


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("ending", ["pth", "safetensors"])
def test_types_are_kept_although_forgetting_computes_in_float32(tmp_path, dtype, ending):
    state = network(dtype).state_dict()
    torch.save(state, tmp_path / "old.pth")
    save_file(state, tmp_path / "old.safetensors")
    found = read(tmp_path / f"old.{ending}")
    assert found.tensors["0.weight"].dtype is dtype
    write(tmp_path / f"new.{ending}", found, {name: tensor.float() for name, tensor in found.tensors.items()})
    back = read(tmp_path / f"new.{ending}")
    assert equal(dict(back.tensors), dict(found.tensors))
    assert back.tensors["1.num_batches_tracked"].dtype is torch.int64


def tied():
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 3))
    model[1].weight = model[0].weight
    return model.state_dict()


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("legacy", [False, True])
def test_tied_weights_stay_tied_while_they_are_equal(tmp_path, legacy):
    torch.save({"model": tied()}, tmp_path / "old.pth", _use_new_zipfile_serialization=not legacy)
    found = read(tmp_path / "old.pth")
    assert found.tensors["0.weight"] is found.tensors["1.weight"]
    write(tmp_path / "new.pth", found, moved(found))
    state = torch.load(tmp_path / "new.pth")["model"]
    assert state["0.weight"].data_ptr() == state["1.weight"].data_ptr() != state["2.weight"].data_ptr()
    apart = {**moved(found), "1.weight": torch.ones(3, 3)}
    write(tmp_path / "apart.pth", found, apart)
    state = torch.load(tmp_path / "apart.pth")["model"]
    assert equal(dict(state), apart)
    write(tmp_path / "new.safetensors", found, moved(found))
    assert load_file(tmp_path / "new.safetensors").keys() == found.tensors.keys()


@pytest.mark.usefixtures("here")
def test_views_and_other_layouts_are_read_by_their_values(tmp_path):
    flat = torch.arange(40.0)
    state = {
        "a": flat[:12].reshape(3, 4),
        "b": flat[12:20].reshape(2, 4).T,
        "channels last": torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last),
        "expanded": torch.ones(1).expand(5),
        "scalar": torch.tensor(7),
        "empty": torch.zeros(0, 3),
        "parameter": nn.Parameter(torch.ones(2)),
    }
    torch.save(state, tmp_path / "old.pth")
    found = read(tmp_path / "old.pth")
    assert all(torch.equal(found.tensors[name], value) for name, value in state.items())
    write(tmp_path / "new.pth", found, found.tensors)
    for name, value in torch.load(tmp_path / "new.pth").items():
        assert torch.equal(value, state[name])
        # Nothing of a larger storage goes along, in which other and older numbers could lie.
        assert value.untyped_storage().nbytes() == value.numel() * value.element_size()


def test_a_network_of_ours_goes_through_the_process(tmp_path):
    model = networks.resnet((1, 8, 8), 3, width=4, blocks=1)
    checkpoint = {"epoch": 9, "state_dict": nn.DataParallel(model).state_dict()}
    torch.save(checkpoint, tmp_path / "old.pth")
    found = read(tmp_path / "old.pth")
    assert (found.path, found.prefix) == (("state_dict",), "module.")
    assert found.sha256 == hashlib.sha256((tmp_path / "old.pth").read_bytes()).hexdigest()
    other = networks.resnet((1, 8, 8), 3, width=4, blocks=1, seed=1)
    other.load_state_dict(found.tensors)
    assert networks.identity(other) == networks.identity(model)
    other = networks.resnet((1, 8, 8), 3, width=4, blocks=1, seed=2)
    write(tmp_path / "new.pth", found, other.state_dict())
    again = torch.load(tmp_path / "new.pth")
    assert again["epoch"] == 9
    assert list(again["state_dict"]) == list(checkpoint["state_dict"])
    nn.DataParallel(model).load_state_dict(again["state_dict"])
    assert networks.identity(model) == networks.identity(other)


def test_a_file_from_before_2020_goes_through_the_process(tmp_path):
    torch.save({"model": STATE}, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    found = read(tmp_path / "old.pt")
    assert equal(dict(found.tensors), dict(STATE))
    assert found.path == ("model",)


@pytest.mark.skipif(not importlib.util.find_spec("transformers"), reason="transformers is not installed")
def test_a_vision_transformer_by_hugging_face_keeps_its_file(tmp_path):
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        image_size=8,
        patch_size=4,
        num_labels=3,
    )
    model = ViTForImageClassification(config)
    model.save_pretrained(tmp_path)
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    found = read(tmp_path / "pytorch_model.bin")
    assert equal(dict(found.tensors), dict(model.state_dict()))
    found = read(tmp_path / "model.safetensors")
    assert (found.prefix, found.metadata) == ("", {"format": "pt"})
    write(tmp_path / "model.safetensors", found, moved(found))
    again = read(tmp_path / "model.safetensors")
    assert alike(again.tensors, moved(found))
    assert again.metadata == found.metadata
    back = ViTForImageClassification.from_pretrained(tmp_path)
    assert torch.equal(back.classifier.weight, model.classifier.weight + 0.5)


def test_a_safetensors_file_keeps_its_metadata_and_equal_weights_make_equal_files(tmp_path):
    metadata = {"format": "pt", "b": "2", "a": "1", "π": "3"}
    state = {f"module.{key}": value for key, value in STATE.items()}
    save_file(state, tmp_path / "old.safetensors", metadata)
    found = read(tmp_path / "old.safetensors")
    assert (found.format, found.prefix, found.metadata) == ("safetensors", "module.", metadata)
    assert found.around == {}
    for name in "abcdef":
        write(tmp_path / f"{name}.safetensors", found, moved(found))
        write(tmp_path / f"{name}.pth", found, moved(found))
    for ending in ("safetensors", "pth"):
        assert len({(tmp_path / f"{name}.{ending}").read_bytes() for name in "abcdef"}) == 1
    back = read(tmp_path / "a.safetensors")
    assert back.metadata == metadata
    assert equal(dict(back.tensors), moved(found))
    assert torch.load(tmp_path / "a.pth").keys() == state.keys()


def test_a_file_of_ours_is_checked_by_its_seal_and_sealed_anew(tmp_path):
    model = networks.mlp((1, 4, 4), 3, depth=2)
    model.labels = ("a", "b", "c")
    networks.save(model, tmp_path / "old.safetensors")
    found = read(tmp_path / "old.safetensors")
    write(tmp_path / "new.safetensors", found, moved(found))
    new = networks.load(tmp_path / "new.safetensors")
    assert new.labels == ("a", "b", "c")
    assert alike(new.state_dict(), moved(found))
    data = bytearray((tmp_path / "old.safetensors").read_bytes())
    data[-3] ^= 1
    (tmp_path / "old.safetensors").write_bytes(data)
    with pytest.raises(StoreError, match="sealed"):
        read(tmp_path / "old.safetensors")


def test_what_is_read_does_not_change_with_the_file(tmp_path):
    save_file(dict(STATE), tmp_path / "x.safetensors")
    found = read(tmp_path / "x.safetensors")
    with open(tmp_path / "x.safetensors", "r+b") as file:
        file.seek(-200, os.SEEK_END)
        file.write(b"\xff" * 200)
    assert alike(found.tensors, STATE)


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("whole", "words"),
    [
        ({}, "found an empty dictionary: save model.state_dict()"),
        ({"epoch": 1, "loss": 2.0}, "found epoch, loss: save"),
        ([torch.zeros(2)], "found list"),
        (torch.zeros(2), "found Tensor"),
        ({"state_dict": {}, "model": {"a": 1}}, "found state_dict, model"),
        (
            {"generator": STATE, "critic": STATE},
            "one state dict in .* found generator, critic: save the model",
        ),
        ({"a": {"b": {"c": {"d": STATE}}}}, "found a"),
        ({"optimizer": {"state": {0: {"step": torch.zeros(1)}}}}, "found optimizer"),
        ({1: torch.zeros(2)}, "found 1"),
        ({"w": torch.tensor([1.0, float("nan")])}, "NaN or Inf in w"),
        ({"state_dict": {"w.b": torch.tensor([float("-inf")]).half()}}, "NaN or Inf in w.b"),
        ({"": torch.zeros(2)}, "names of 1 to 500 visible characters"),
        ({"x" * 501: torch.zeros(2)}, "names of 1 to 500 visible characters"),
        ({"a\nb": torch.zeros(2)}, "names of 1 to 500 visible characters"),
        ({"\u202ea": torch.zeros(2)}, "names of 1 to 500 visible characters"),
        ({"\x1b[2J": 1}, r"found '\\x1b\[2J'"),
    ],
    ids=range(16),
)
def test_what_is_no_state_dict_is_told_with_what_was_found(tmp_path, whole, words):
    torch.save(whole, tmp_path / "x.pth")
    with pytest.raises(InputError, match=words) as caught:
        read(tmp_path / "x.pth")
    assert str(caught.value).isprintable()


@pytest.mark.usefixtures("here")
def test_half_a_character_is_no_name(tmp_path):
    (tmp_path / "x.pth").write_bytes(hostile.LOADED["half a character"][1](""))
    with pytest.raises(InputError, match=r"found '\\ud800'"):
        read(tmp_path / "x.pth")


@pytest.mark.parametrize("case", hostile.SAFETENSORS)
def test_safetensors_that_lie_are_refused(tmp_path, case):
    error, data = hostile.SAFETENSORS[case]
    (tmp_path / "x.safetensors").write_bytes(data)
    with pytest.raises(UnseeError) as caught:
        read(tmp_path / "x.safetensors")
    assert type(caught.value) is error
    assert str(caught.value).isprintable()


def test_safetensors_with_any_bit_flipped_are_refused_or_tensors(tmp_path):
    save_file(dict(STATE), tmp_path / "old.safetensors")
    whole = (tmp_path / "old.safetensors").read_bytes()
    head = 8 * (8 + int.from_bytes(whole[:8], "little"))
    for bit in np.random.default_rng(0).choice(head, 300, replace=False):
        broken = bytearray(whole)
        broken[bit // 8] ^= 1 << bit % 8
        (tmp_path / "x.safetensors").write_bytes(broken)
        try:
            found = read(tmp_path / "x.safetensors")
        except UnseeError:
            continue
        assert sum(t.numel() * t.element_size() for t in found.tensors.values()) == len(whole) - head // 8


def test_what_is_no_file_is_told_so(tmp_path):
    (tmp_path / "folder.pth").mkdir()
    os.mkfifo(tmp_path / "pipe.pth")
    os.mkfifo(tmp_path / "pipe.safetensors")
    (tmp_path / "loop.pth").symlink_to(tmp_path / "loop.pth")
    (tmp_path / "dangling.pth").symlink_to(tmp_path / "nowhere")
    (tmp_path / "zero.pth").symlink_to("/dev/zero")
    (tmp_path / "model.h5").write_bytes(b"")
    for name, error, words in [
        ("folder.pth", InputError, "something else, such as a folder"),
        ("pipe.pth", InputError, "something else, such as a folder or a pipe"),
        ("pipe.safetensors", InputError, "something else, such as a folder or a pipe"),
        ("zero.pth", InputError, "something else"),
        ("loop.pth", StoreError, "symbolic links"),
        ("dangling.pth", InputError, "found none: check the path"),
        ("none.pth", InputError, "found none: check the path"),
        ("a\0b.pth", StoreError, "null"),
        ("x" * 300 + ".pth", StoreError, "name too long"),
        ("model.h5", InputError, r"ends in \.safetensors, \.pth"),
        ("model", InputError, r"ends in \.safetensors"),
        ("model.pkl", InputError, r"ends in \.safetensors"),
        ("\x1b[2J.pth", InputError, "found none"),
    ]:
        with pytest.raises(error, match=words) as caught:
            read(tmp_path / name)
        assert str(caught.value).isprintable()


def status(word):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith(word))


def test_this_process_takes_no_memory_for_what_it_refuses(tmp_path):
    gigabyte = 1 << 30
    files = {
        "zeros.pth": b"",
        "string.pth": hostile.legacy(b"\x80\x02X\0\0\0\x40", keys=b""),
        "zip.pth": hostile.GOOD,
        "zeros.safetensors": b"",
        "long.safetensors": hostile.header(b"{", length=gigabyte - 8),
    }
    for name, data in files.items():
        with open(tmp_path / name, "wb") as file:
            file.write(data)
            file.truncate(gigabyte)
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the peak starts anew
    before = status("VmRSS")
    for name in files:
        with pytest.raises(UnseeError):
            read(tmp_path / name)
    assert status("VmHWM") - before < 64 << 20


def test_a_link_to_a_file_is_followed(tmp_path):
    save_file(dict(STATE), tmp_path / "blob")
    (tmp_path / "x.safetensors").symlink_to(tmp_path / "blob")
    assert read(tmp_path / "x.safetensors").tensors.keys() == STATE.keys()


FOUND = Weights({"w": torch.ones(2, 3).half(), "n": torch.tensor(1)}, "pth")


@pytest.mark.parametrize(
    ("tensors", "words"),
    [
        ({"w": torch.ones(2, 3)}, "n missing"),
        ({"w": torch.ones(2, 3), "n": torch.tensor(1), "v": torch.ones(1)}, "v unknown"),
        ({"w": torch.ones(3, 2), "n": torch.tensor(1)}, r"w of \(3, 2\) for \(2, 3\)"),
        ({"w": torch.full((2, 3), 1e5), "n": torch.tensor(1)}, "values that fit torch.float16 in w"),
        ({"w": torch.full((2, 3), float("nan")), "n": torch.tensor(1)}, "values that fit torch.float16 in w"),
        ({"w": torch.ones(2, 3), "n": torch.tensor(1.5)}, "values that fit torch.int64 in n"),
        ({"w": torch.ones(2, 3), "n": torch.tensor(float("nan"))}, "values that fit torch.int64 in n"),
    ],
    ids=range(7),
)
def test_values_that_do_not_fit_are_not_written(tmp_path, tensors, words):
    for ending in ("pth", "safetensors"):
        with pytest.raises(InputError, match=words):
            write(tmp_path / f"x.{ending}", FOUND, tensors)
    assert os.listdir(tmp_path) == []


def test_only_known_endings_are_written(tmp_path):
    with pytest.raises(InputError, match=r"ends in \.safetensors, \.pth"):
        write(tmp_path / "x.onnx", FOUND, FOUND.tensors)


def test_the_repair_does_not_change_what_it_is_given(tmp_path):
    new = {"w": torch.zeros(2, 3, requires_grad=True), "n": torch.tensor(5)}
    write(tmp_path / "x.pth", FOUND, new)
    assert new["w"].dtype is torch.float32
    assert torch.equal(FOUND.tensors["w"], torch.ones(2, 3).half())
    back = torch.load(tmp_path / "x.pth")
    assert equal(back, {"w": torch.zeros(2, 3).half(), "n": torch.tensor(5)})


def test_a_prefix_of_whatever_name_is_taken_away_where_the_rest_is_the_modules():
    tensors = {"net.fc.weight": torch.ones(1), "net.fc.bias": torch.ones(1)}
    names = {"fc.weight", "fc.bias"}
    found = named_by(Weights(tensors, "pth", prefix="module."), names)
    assert (found.prefix, set(found.tensors)) == ("module.net.", names)
    more = {**tensors, "criterion.weight": torch.ones(1)}
    assert named_by(Weights(more, "pth"), names).prefix == ""  # told of by whoever fills the network


def test_a_prefix_is_given_back_where_the_module_has_it():
    found = Weights({"fc.weight": torch.ones(1), "fc.bias": torch.ones(1)}, "pth", prefix="module.model.")
    names = {"fc.weight", "fc.bias"}
    assert named_by(found, names).prefix == "module.model."
    own = named_by(found, {f"model.{name}" for name in names})
    assert (own.prefix, list(own.tensors)) == ("module.", ["model.fc.weight", "model.fc.bias"])
    assert named_by(found, {f"module.model.{name}" for name in names}).prefix == ""
    assert named_by(found, {"other"}) is found


@pytest.mark.parametrize("ending", ["pth", "safetensors"])
def test_a_full_disk_leaves_the_file_before_it(tmp_path, monkeypatch, ending):
    write(tmp_path / f"x.{ending}", FOUND, FOUND.tensors)
    before = (tmp_path / f"x.{ending}").read_bytes()

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store.os, "fsync", full)
    with pytest.raises(StoreError, match="nothing at that place was changed"):
        write(tmp_path / f"x.{ending}", FOUND, {"w": torch.zeros(2, 3), "n": torch.tensor(2)})
    assert (tmp_path / f"x.{ending}").read_bytes() == before
    assert os.listdir(tmp_path) == [f"x.{ending}"]
