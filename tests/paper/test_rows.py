import os

import pytest

from unsee.errors import InputError
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
    assert rows.under(CELL, {"network": "net"})[1] == run(0.5)


@pytest.mark.parametrize(
    ("key", "what"),
    [({"network": "other"}, "network = other"), ({"network": "net", "epochs": 3}, "epochs = 3")],
)
def test_runs_of_another_network_or_recipe_are_never_replaced(tmp_path, key, what):
    rows = Rows(tmp_path)
    rows.add(CELL, {"network": "net"}, 0, run(0.7))
    for call in (lambda: rows.under(CELL, key), lambda: rows.add(CELL, key, 1, run(0.1))):
        with pytest.raises(InputError, match=rf"{what} .*: choose another folder"):
            call()
    assert rows.read(CELL) == {0: run(0.7)}


def test_two_processes_lose_no_row(tmp_path):
    def add_all(first):
        for seed in range(first, 40, 2):
            Rows(tmp_path).add(CELL, {"network": "net"}, seed, run(0.5))

    child = os.fork()
    if child == 0:
        try:
            add_all(1)
        finally:
            os._exit(0)
    add_all(0)
    os.waitpid(child, 0)
    assert list(Rows(tmp_path).read(CELL)) == list(range(40))


def test_means_and_deviations(tmp_path):
    runs = {0: run(0.5), 1: run(0.7)}
    epochs, mean, std = curve(runs, "D_r")
    assert epochs.tolist() == [0, 1]
    assert mean.tolist() == pytest.approx([0.9, 0.6])
    assert std.tolist() == pytest.approx([0, 0.02**0.5])
    assert summary(runs, "D_r") == pytest.approx((0.6, 0.02**0.5, 2))
    assert summary({0: run(0.5)}, "D_r", "class_mean") == (0.25, None, 1)
