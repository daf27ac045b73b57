import pytest
import torch

from unsee.checkpoint import Checkpoints, State
from unsee.errors import InputError, UnseeWarning

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
    assert all("Going on without that state" in str(w.message) for w in recwarn)


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


def test_other_threads_go_on_with_a_mark(run, monkeypatch):
    run.write(state(1))
    monkeypatch.setattr(torch, "get_num_threads", lambda: 77)
    with pytest.warns(UnseeWarning, match="not bit-exact: threads was 1, is 77"):
        back = run.read()
    assert not back.exact


def test_states_are_due_by_time(tmp_path):
    assert Checkpoints(tmp_path, {}, seconds=0).due
    assert not Checkpoints(tmp_path, {}, seconds=1e9).due
