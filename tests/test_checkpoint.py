import os

import pytest
import torch

from unsee import checkpoint, store
from unsee.checkpoint import Checkpoints, State
from unsee.errors import InputError, StoreError, UnseeWarning

IDENTITY = {"model": "abc", "recipe": {"lr": 0.1, "epochs": 3}, "seed": 0}


@pytest.fixture
def run(tmp_path):
    return Checkpoints(tmp_path, IDENTITY)


def state(step):
    return State(step, {"theta/w": torch.full((3,), float(step))}, {"rows": [], "sums": {"L": 0.1 + step}})


def test_nothing_is_read_from_an_empty_folder(run):
    assert run.read() is None


def test_the_newest_state_comes_back(run):
    run.write(state(1))
    run.write(state(2))
    back = run.read()
    assert (back.step, back.exact, back.log["sums"]["L"]) == (2, True, 2.1)
    assert back.tensors["theta/w"].tolist() == [2, 2, 2]


@pytest.mark.parametrize("harm", [lambda p: p.write_bytes(p.read_bytes()[:-3]), lambda p: p.unlink()])
def test_the_state_before_serves_when_the_newest_is_gone(run, tmp_path, harm, recwarn):
    run.write(state(1))
    run.write(state(2))
    harm(tmp_path / "checkpoint.safetensors")
    assert run.read().step == 1
    assert all("Going on from the state after step 1." in str(w.message) for w in recwarn)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"model": "abd"}, "model = abc"),
        ({"recipe": {"lr": 0.2, "epochs": 3}}, r"recipe\.lr = 0\.1"),
        ({"recipe": {"lr": 0.1, "epochs": 4}}, r"recipe\.epochs = 3"),
        ({"seed": 1}, "seed = 0"),
        ({"D_f": "new"}, "D_f = None"),
    ],
)
def test_another_run_is_refused_by_the_field(run, tmp_path, change, field):
    run.write(state(1))
    with pytest.raises(InputError, match=field):
        Checkpoints(tmp_path, IDENTITY | change).read()


@pytest.mark.parametrize("word", ["x" * 5000, "\x1b[2J"])
def test_a_refusal_is_one_short_sentence_whatever_the_file_says(run, tmp_path, word):
    Checkpoints(tmp_path, {**IDENTITY, word: word}).write(state(1))
    with pytest.raises(InputError) as caught:
        run.read()
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 1000


def test_other_threads_go_on_with_a_mark(run, monkeypatch):
    run.write(state(1))
    monkeypatch.setattr(torch, "get_num_threads", lambda: 77)
    with pytest.warns(UnseeWarning, match="not bit-exact: threads was 1, is 77"):
        back = run.read()
    assert not back.exact


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("torch", "2.9.1"),
        ("machine", "sparc"),
        ("device", "cuda:0"),
        ("threads", 8),
        ("products", "medium"),
    ],
)
def test_whatever_the_last_bits_depend_on_is_named(run, tmp_path, monkeypatch, word, value):
    here = checkpoint._environment("cpu")
    monkeypatch.setattr(checkpoint, "_environment", lambda _: here | {word: value})
    run.write(state(1))
    monkeypatch.setattr(checkpoint, "_environment", lambda _: here)
    with pytest.warns(UnseeWarning, match=f"not bit-exact: {word} was {value}, is {str(here[word])[:4]}"):
        back = run.read()
    assert not back.exact
    run.write(back)
    assert not run.read().exact  # once and for all


def test_a_state_that_does_not_say_what_multiplied_is_of_torchs_own_setting(run, monkeypatch):
    here = checkpoint._environment("cpu")
    old = {word: value for word, value in here.items() if word != "products"}
    monkeypatch.setattr(checkpoint, "_environment", lambda _: old)
    run.write(state(1))
    monkeypatch.setattr(checkpoint, "_environment", lambda _: here | {"products": "highest"})
    assert run.read().exact


def test_a_run_that_has_ended_is_as_exact_as_it_was(run, monkeypatch, recwarn):
    run.write(state(1), last=True)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 77)
    assert run.read().exact
    assert not recwarn


def test_with_no_whole_state_it_begins_anew_and_says_so(run, tmp_path):
    run.write(state(1))
    (tmp_path / "checkpoint.safetensors").write_bytes(b"PK\3\4 and so on")
    with pytest.warns(UnseeWarning, match=r"run code when opened.* Beginning anew\."):
        assert run.read() is None


def test_a_state_of_a_newer_format_is_refused_and_kept(run, tmp_path, monkeypatch):
    monkeypatch.setattr(store, "FORMAT", 2)
    run.write(state(1))
    monkeypatch.setattr(store, "FORMAT", 1)
    before = (tmp_path / "checkpoint.safetensors").read_bytes()
    with pytest.raises(InputError, match="found format 2: update unsee"):
        run.read()
    assert (tmp_path / "checkpoint.safetensors").read_bytes() == before


@pytest.mark.parametrize("about", [{}, {"step": "x"}, {"identity": 7}, {"log": None}])
def test_a_file_that_is_no_state(run, tmp_path, about):
    run.write(state(1))
    _, words = store.read_tensors(tmp_path / "checkpoint.safetensors")
    words = {**words, **about} if about else {}
    store.write_tensors(tmp_path / "checkpoint.safetensors", {"a": torch.zeros(1)}, words)
    with pytest.warns(UnseeWarning, match="the state of a run at .* found something else"):
        assert run.read() is None


def test_one_process_at_a_time(run, tmp_path):
    with run.alone(), pytest.raises(StoreError, match=f"found process {os.getpid()} on "):
        Checkpoints(tmp_path, IDENTITY).alone().__enter__()


def test_states_are_due_by_time(tmp_path):
    assert Checkpoints(tmp_path, {}, seconds=0).due
    assert not Checkpoints(tmp_path, {}, seconds=1e9).due
