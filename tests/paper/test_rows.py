import pytest

from unsee.paper.cells import Cell, Unit
from unsee.paper.rows import Rows, curve, summary

CELL = Cell(Unit("fashion-mnist", "tile"), "B", "CE")


def run(value):
    return {
        "scores": {"D_r": {"accuracy": value, "class_mean": value / 2}},
        "trajectory": [{"epoch": 0, "D_r": 0.9}, {"epoch": 1, "D_r": value}],
    }


def test_runs_are_kept_by_seed_and_by_network(tmp_path):
    rows = Rows(tmp_path)
    assert rows.read(CELL) == {}
    rows.add(CELL, {"network": "net"}, 1, run(0.5))
    rows.add(CELL, {"network": "net"}, 0, run(0.7))
    assert list(rows.read(CELL)) == [0, 1]
    assert rows.read(CELL, {"network": "net"})[1] == run(0.5)
    assert rows.read(CELL, {"network": "other"}) == {}
    rows.add(CELL, {"network": "other"}, 0, run(0.1))
    assert rows.read(CELL) == {0: run(0.1)}


def test_means_and_deviations(tmp_path):
    runs = {0: run(0.5), 1: run(0.7)}
    epochs, mean, std = curve(runs, "D_r")
    assert epochs.tolist() == [0, 1]
    assert mean.tolist() == pytest.approx([0.9, 0.6])
    assert std.tolist() == pytest.approx([0, 0.02**0.5])
    assert summary(runs, "D_r") == pytest.approx((0.6, 0.02**0.5, 2))
    assert summary({0: run(0.5)}, "D_r", "class_mean") == (0.25, 0, 1)
