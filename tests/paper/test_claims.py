import pytest

from unsee import store
from unsee.paper.cells import Cell, Unit
from unsee.paper.claims import CLAIMS, check
from unsee.paper.rows import Rows

NAMES = ("D_r", "D_f", "D_f_clean", "D_r_extra")


@pytest.fixture
def rows(tmp_path):
    return Rows(tmp_path)


def put(rows, data, T, pattern, line, *values, softmax=()):
    for seed, value in enumerate(values):
        scores = {name: {"accuracy": value, "class_mean": value} for name in NAMES}
        run = {"scores": {**scores, "softmax_D_f": list(softmax)}, "trajectory": []}
        rows.add(Cell(Unit(data, T), pattern, line), {"network": "net"}, seed, run)


def verdicts(rows):
    return {v.claim: v.holds for v in check(rows)}


def test_nothing_run_nothing_judged(rows):
    assert set(verdicts(rows).values()) == {None}
    assert len(CLAIMS) == 16


def test_pattern_A(rows):
    put(rows, "fashion-mnist", None, "A", "truncation", 0.9, softmax=[0, 1])
    put(rows, "fashion-mnist", None, "A", "RND", 0.7, 0.9, softmax=[0.5, 0.5])
    put(rows, "fashion-mnist", None, "A", "RLD", 0.82, 0.83, softmax=[0.4, 0.6])
    store.write_json(
        rows.folder / "fashion-mnist-plain-scratch.json", {"scores": {"softmax_D_f": [0.1, 0.9]}}
    )
    found = verdicts(rows)
    assert found["Pattern A: truncation beats RND and RLD on D_r (Fashion-MNIST)"] is True
    assert found["RLD varies less than RND (Fashion-MNIST)"] is True
    assert [v for k, v in found.items() if "softmax" in k] == [True]
    assert found["RLD varies less than RND (CIFAR-10)"] is None
    put(rows, "fashion-mnist", None, "A", "RLD", 0.5, 0.99, softmax=[0.1, 0.9])
    found = verdicts(rows)
    assert found["RLD varies less than RND (Fashion-MNIST)"] is False
    assert [v for k, v in found.items() if "softmax" in k] == [False]


def test_patterns_B_and_C(rows):
    before = {"scores": {name: {"accuracy": 0.88 if name == "D_r" else 0.0} for name in NAMES}}
    store.write_json(rows.folder / "fashion-mnist-tile-pretrained.json", before)
    for line, value in (("CE", 0.1), ("CE + Fisher", 0.2), ("CE + Fisher + RLD", 0.55)):
        put(rows, "fashion-mnist", "tile", "B", line, value)
    found = {k: v for k, v in verdicts(rows).items() if v is not None}
    assert len(found) == 4
    assert all(found.values())
    put(rows, "fashion-mnist", "tile", "B", "CE + Fisher + RLD", 0.25)
    found = {k: v for k, v in verdicts(rows).items() if v is not None}
    assert sorted(found.values()) == [False, False, True, True]
