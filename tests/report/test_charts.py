import itertools
import re
from dataclasses import replace

import pytest

from report.made import made_facts, made_run
from unsee.report import charts
from unsee.report.facts import OTHER

NAMES = ("cat", "dog", "owl")


def test_accuracies_per_epoch_go_where_they_belong():
    plot = charts.trajectory(made_run(NAMES))
    assert [line.name for line in plot.lines] == ["D_r", "D_f", "D_f_clean", "D_r_extra"]
    first, last = plot.lines[0].marks[0], plot.lines[0].marks[-1]
    assert first == (charts.LEFT, charts.BOTTOM)
    assert last == (charts.RIGHT, pytest.approx(charts.BOTTOM - 0.6 * (charts.BOTTOM - charts.TOP)))
    assert plot.lines[0].last == pytest.approx(0.6)
    assert [epoch for _, epoch in plot.x_ticks] == [0, 1, 2, 3]
    assert plot.back_to is None


def test_labels_that_would_cover_each_other_are_moved_apart():
    plot = charts.trajectory(made_run(NAMES))
    places = sorted(line.label for line in plot.lines)
    assert all(b - a >= charts.APART for a, b in itertools.pairwise(places))


@pytest.mark.parametrize("places", [[12.0] * 4, [212.0] * 4, [100, 101, 12, 212], [50], [12, 29, 46, 63, 80]])
def test_labels_stay_in_order_within_the_drawing(places):
    found = charts.spread(places, 18)
    assert all(charts.TOP <= place <= charts.BOTTOM for place in found)
    order = sorted(range(len(places)), key=lambda i: places[i])
    assert [found[i] for i in order] == sorted(found)
    assert all(b - a >= 17.9 for a, b in zip(sorted(found), sorted(found)[1:], strict=False))


def test_one_epoch_many_epochs_and_none():
    run = made_run(NAMES)
    assert charts.trajectory(replace(run, trajectory=())) is None
    assert charts.trajectory(replace(run, trajectory=({"epoch": 0, "L": 1.0},))) is None
    one = charts.trajectory(replace(run, trajectory=({"epoch": 0, "D_r": 0.5},)))
    assert one.lines[0].marks == ((charts.LEFT, 112.0),)
    many = tuple({"epoch": e, "D_r": 0.5} for e in range(500))
    assert len(charts.trajectory(replace(run, trajectory=many)).x_ticks) <= 9
    assert charts.trajectory(replace(run, back_to=2)).back_to == pytest.approx(244.7)
    assert charts.trajectory(replace(run, back_to=99)).back_to is None


def test_a_matrix_shades_by_the_share_of_the_row():
    rows = ((0, 0, 8, 0), (0, 1, 0, 8), (1, 1, 2, 4), (1, OTHER, 6, 4))
    facts = replace(made_facts(NAMES), confusion={"D_r": rows})
    before, after = (charts.matrix(facts, "D_r", when) for when in ("before", "after"))
    assert (before.rows, before.columns) == ((0, 1), (0, 1, 2, OTHER))
    assert [(s.kind, s.level, s.path) for s in before.shades] == [
        ("right", 2, "M1 1h1v1h-1z"), ("right", 8, "M0 0h1v1h-1z"), ("wrong", 6, "M3 1h1v1h-1z"),
    ]  # fmt: skip
    assert [(c.column, c.row, c.count) for c in after.cells] == [(1, 0, 8), (1, 1, 4), (3, 1, 4)]
    assert charts.matrix(facts, "D_f", "before") is None


def test_many_classes_have_shades_only_and_very_many_no_matrix():
    facts = made_facts(tuple(map(str, range(50))))
    matrix = charts.matrix(facts, "D_r", "after")
    assert matrix.cells == ()
    assert len(matrix.columns) == 50
    cells = sum(len(re.findall("M", shade.path)) for shade in matrix.shades)
    assert cells == len([row for row in facts.confusion["D_r"] if row[3]])
    assert sum(len(shade.path) for shade in matrix.shades) < 20 * cells
    assert charts.matrix(made_facts(tuple(map(str, range(121)))), "D_r", "after") is None
