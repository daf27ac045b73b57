import json
import os
import pickle
import resource
import stat

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import formats
from unsee import store
from unsee.errors import HostileError, InputError, StoreError


@pytest.fixture
def tensors():
    return {"a": torch.arange(6.0).reshape(2, 3), "b": torch.tensor([1, 2], dtype=torch.int64)}


def test_tensors_come_back_as_they_went(tmp_path, tensors):
    store.write_tensors(tmp_path / "deep" / "x.safetensors", tensors, {"n": 3})
    back, about = store.read_tensors(tmp_path / "deep" / "x.safetensors")
    assert about == {"n": 3}
    assert all(torch.equal(back[name], tensors[name]) for name in tensors)
    mask = os.umask(0o077)
    try:
        store.write_tensors(tmp_path / "y.safetensors", tensors, {})
    finally:
        os.umask(mask)
    assert stat.S_IMODE(os.stat(tmp_path / "y.safetensors").st_mode) == 0o600


def test_every_flipped_bit_is_detected(tmp_path, tensors):
    path = tmp_path / "x.safetensors"
    store.write_tensors(path, tensors, {"n": 3})
    whole = path.read_bytes()
    for bit in np.random.default_rng(0).choice(8 * len(whole), 400, replace=False):
        broken = bytearray(whole)
        broken[bit // 8] ^= 1 << bit % 8
        path.write_bytes(broken)
        with pytest.raises(StoreError):
            store.read_tensors(path)


def test_every_truncation_is_detected(tmp_path, tensors):
    path = tmp_path / "x.safetensors"
    store.write_tensors(path, tensors, {})
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(StoreError):
            store.read_tensors(path)


def test_a_cut_header_is_no_pickle_even_where_its_length_reads_so(tmp_path):
    path = tmp_path / "x.safetensors"
    for size in range(300, 800, 4):
        store.write_tensors(path, {"a": torch.zeros(1)}, {"pad": "x" * size})
        if path.read_bytes()[:2] == b"\x80\x03":
            break
    whole = path.read_bytes()
    assert whole[:2] == b"\x80\x03"
    for length in range(10):
        path.write_bytes(whole[:length])
        with pytest.raises(StoreError):
            store.read_tensors(path)


def test_a_newer_format_is_refused_in_words(tmp_path, tensors, monkeypatch):
    monkeypatch.setattr(store, "FORMAT", 3)
    store.write_tensors(tmp_path / "x.safetensors", tensors, {})
    monkeypatch.setattr(store, "FORMAT", 2)
    with pytest.raises(InputError, match=r"format 2 or older in .*, found format 3: update unsee"):
        store.read_tensors(tmp_path / "x.safetensors")


@pytest.mark.parametrize("folder", formats.folders(), ids=lambda folder: folder.name)
def test_what_past_versions_wrote_is_read_for_ever(folder):
    formats.check(folder)


def test_the_present_format_will_be_read_for_ever():
    assert f"format-{store.FORMAT}" in [folder.name for folder in formats.folders()]


@pytest.mark.parametrize("text", ["[]", "{}", '{"format": "x"}', '{"format": null}', "7", "{", "[" * 100_000])
def test_words_that_anyone_may_have_sealed_are_not_believed(tmp_path, tensors, text):
    sealed = json.dumps({"about": text, "sha256": store._seal(tensors, text)})
    save_file(tensors, tmp_path / "x.safetensors", {"unsee": sealed})
    with pytest.raises(StoreError, match="found other words in it"):
        store.read_tensors(tmp_path / "x.safetensors")


@pytest.mark.parametrize("seal", ["", "[]", '"x"', "{}", '{"about": 1}', "[" * 100_000])
def test_a_seal_that_is_none(tmp_path, tensors, seal):
    save_file(tensors, tmp_path / "x.safetensors", {"unsee": seal})
    with pytest.raises(StoreError, match="without its seal"):
        store.read_tensors(tmp_path / "x.safetensors")


def test_a_name_that_cannot_be_given_is_a_store_error(tmp_path, tensors):
    store.write_tensors(tmp_path / "x.safetensors", tensors, {})
    with pytest.raises(StoreError, match="nothing at that place was changed"):
        store.rename(tmp_path / "x.safetensors", tmp_path / "none" / "y.safetensors")


class Bomb:
    def __reduce__(self):
        return os.system, ("touch canary",)


def test_a_pickle_is_refused_by_name_and_by_content(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("x.pth", "x.safetensors"):
        (tmp_path / name).write_bytes(pickle.dumps(Bomb()))
        with pytest.raises(HostileError):
            store.read_tensors(tmp_path / name)
    assert not (tmp_path / "canary").exists()


def test_a_header_out_of_all_proportion_is_refused_unread(tmp_path, tensors, monkeypatch):
    path = tmp_path / "x.safetensors"
    store.write_tensors(path, {f"w{i}": torch.zeros(1) for i in range(30)}, {"pad": "x" * 3000})
    store.read_tensors(path)
    for name, most in (("MOST_HEADER", 3000), ("MOST_TENSORS", 29)):
        with monkeypatch.context() as patch:
            patch.setattr(store, name, most)
            with pytest.raises(StoreError, match="a header of at most"):
                store.read_tensors(path)


def test_a_header_as_long_as_a_pickles_first_bytes_is_no_pickle(tmp_path):
    lengths = set()
    for size in range(400, 1300, 4):
        store.write_tensors(tmp_path / "x.safetensors", {"a": torch.zeros(1)}, {"pad": "x" * size})
        lengths.add((tmp_path / "x.safetensors").read_bytes()[:2])
        store.read_tensors(tmp_path / "x.safetensors")
    assert lengths & {b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"}


def test_a_full_disk_leaves_the_file_before_it(tmp_path, tensors):
    path = tmp_path / "x.safetensors"
    store.write_tensors(path, tensors, {})
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        with pytest.raises(StoreError, match="nothing at that place was changed"):
            store.write_tensors(path, {"a": torch.zeros(1000)}, {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    back, _ = store.read_tensors(path)
    assert torch.equal(back["a"], tensors["a"])
    assert os.listdir(tmp_path) == ["x.safetensors"]


def test_what_kills_have_left_is_swept_once_nobody_can_be_writing_it(tmp_path):
    names = [".x.json.abcdefgh.part", ".x.json.ijklmnop.part", ".x.json.original", ".y.json.abcdefgh.part"]
    for name in names:
        (tmp_path / name).write_text("")
    os.utime(tmp_path / names[0], (0, 0))
    os.utime(tmp_path / names[2], (0, 0))
    store.write_json(tmp_path / "x.json", 1)
    assert sorted(os.listdir(tmp_path)) == sorted(["x.json", *names[1:]])
    store.sweep(tmp_path / "x.json")
    assert sorted(os.listdir(tmp_path)) == sorted(["x.json", *names[2:]])
    store.sweep(tmp_path / "none" / "x.json")


def test_a_folder_that_cannot_be_made_is_a_store_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError):
        store.write_json(tmp_path / "file" / "x.json", {})


@pytest.mark.parametrize("text", ["{", '{"a": 1, "a": 2}', "[" * 100_000])
def test_bad_json_is_one_sentence(tmp_path, text):
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(InputError):
        store.read_json(tmp_path / "x.json")


def test_json_has_no_nan(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        store.write_json(tmp_path / "x.json", {"loss": float("nan")})


def test_missing_files_say_so(tmp_path):
    for read in (store.read_json, store.read_tensors):
        with pytest.raises(InputError, match="check the path"):
            read(tmp_path / "none.safetensors")


def test_digest_sees_names_shapes_types_and_values(tensors):
    a = tensors["a"]
    variants = [{"a": a}, {"b": a}, {"a": a.T}, {"a": a.double()}, {"a": a + 1}, {"a": a.flatten()}]
    assert len({store.digest(v) for v in variants}) == len(variants)
    assert store.digest({"a": a.T.contiguous()}) == store.digest({"a": a.T})


def test_equal_contents_make_equal_files(tmp_path, tensors):
    for name in "abcdefgh":
        store.write_tensors(tmp_path / name, tensors, {"z": 1, "a": {"d": 2, "c": 3}})
    assert len({(tmp_path / name).read_bytes() for name in "abcdefgh"}) == 1
    _, about = store.read_tensors(tmp_path / "a")
    assert list(about) == ["z", "a"]


def test_what_lies_under_a_name(tensors):
    a, b = tensors.values()
    found = store.under("sketch/", {"sketch/sums": a, "sketch/sketch/x": b, "fisher/sketch/": a, "sketch": b})
    assert found == {"sums": a, "sketch/x": b}  # the first part of a name goes, and no other
    assert found["sums"] is a
    assert store.under("none/", {"a": a}) == {}
    assert store.under("", {"a": a}) == {"a": a}
    assert store.under("a", {"a": a}) == {"": a}


def test_anyones_safetensors_are_read_and_written_with_their_metadata(tmp_path, tensors):
    save_file(tensors, tmp_path / "x.safetensors", {"b": "1", "a": "2", "format": "pt"})
    back, metadata = store.read_foreign(tmp_path / "x.safetensors")
    assert metadata == {"a": "2", "b": "1", "format": "pt"}
    assert all(torch.equal(back[name], tensors[name]) for name in tensors)
    for name in "abcdefgh":
        store.write_foreign(tmp_path / name, {**tensors, "tied": tensors["a"]}, metadata)
    assert len({(tmp_path / name).read_bytes() for name in "abcdefgh"}) == 1
    again = load_file(tmp_path / "a")
    assert again.keys() == {"a", "b", "tied"}
    assert torch.equal(again["tied"], tensors["a"])
    store.write_foreign(tmp_path / "bare", tensors, {})
    assert store.read_foreign(tmp_path / "bare")[1] == {}


def test_a_seal_among_foreign_metadata_is_checked_and_renewed(tmp_path, tensors):
    store.write_tensors(tmp_path / "x.safetensors", tensors, {"n": 3})
    _, metadata = store.read_foreign(tmp_path / "x.safetensors")
    store.write_foreign(tmp_path / "same.safetensors", tensors, metadata)
    assert (tmp_path / "same.safetensors").read_bytes() == (tmp_path / "x.safetensors").read_bytes()
    store.write_foreign(tmp_path / "new.safetensors", {**tensors, "a": torch.zeros(1)}, metadata)
    back, about = store.read_tensors(tmp_path / "new.safetensors")
    assert (back["a"].tolist(), about) == ([0.0], {"n": 3})
    save_file({"a": torch.ones(1)}, tmp_path / "x.safetensors", metadata)
    with pytest.raises(StoreError, match="sealed"):
        store.read_foreign(tmp_path / "x.safetensors")


@pytest.mark.parametrize("path", ["/dev/zero", "."])
def test_what_is_no_file_is_not_read(path):
    for read in (store.read_text, store.read_json):
        with pytest.raises(InputError, match="something else"):
            read(path)


def test_what_cannot_be_written_for_another_reason_than_room_says_so(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(StoreError, match=r"a file that may be written at .*folder.*choose another place"):
        store.write_bytes(tmp_path / "folder", b"page")
    assert not list((tmp_path / "folder").iterdir())
