from dataclasses import replace

from unsee.paper.cells import Cell, Unit
from unsee.paper.choices import choices
from unsee.paper.rows import Rows
from unsee.paper.scale import QUICK, Scale


def test_choices_are_of_the_scale_that_was_run(tmp_path):
    for scale, size, epochs in ((Scale(), 128, 10), (QUICK, 64, 1), (replace(QUICK, batch_size=7), 7, 1)):
        found = {what: here for what, _, here in choices(Rows(tmp_path), scale)}
        assert found["batch size"] == f"128 for pretraining, {size} for forgetting"
        assert found["epochs and momentum of Pattern A"].startswith(f"{epochs} and 0.9,")


def test_a_second_fisher_is_told_where_it_was_run(tmp_path):
    rows, cell = Rows(tmp_path), Cell(Unit("fashion-mnist", None), "A", "RLD, Fisher over D_r")
    told = lambda: any("over D_r too on fashion-mnist" in here for _, _, here in choices(rows, Scale()))  # noqa: E731
    assert not told()
    rows.add(cell, {"network": "net"}, 0, {})
    assert told()


def test_what_the_paper_states_is_not_called_unstated(tmp_path):
    """Color, and the width of hidden layers, are stated."""
    unstated = " ".join(what for what, how, _ in choices(Rows(tmp_path), Scale()) if how == "unstated")
    assert "color" not in unstated
    assert "width" not in unstated
