from dataclasses import replace

import pytest

from report.made import made_facts, made_run
from unsee.report import tables
from unsee.report.facts import OTHER, Layer
from unsee.report.rates import Shift

NAMES = ("cat", "dog", "owl")


def test_the_class_that_lost_most_stands_first():
    run = made_run(tuple(f"class {i}" for i in range(12)))
    rows = tables.classes_of(run)
    assert [row.change for row in rows] == sorted(row.change for row in rows)
    assert len(rows) == 11
    assert {row.number for row in rows} == set(range(1, 12))
    assert all(row.extra.after.value == 0.9 for row in rows)


def test_without_facts_the_scores_tell_the_classes():
    run = replace(made_run(NAMES), facts=None, changes={"dog": -0.1, "owl": 0.05})
    first, second = tables.classes_of(run)
    assert (first.name, first.number, first.before, first.after) == ("dog", 1, pytest.approx(0.9), 0.8)
    assert second.change == 0.05
    alone = tables.classes_of(replace(run, changes={}))
    assert all(row.before is None and row.after == 0.8 for row in alone)
    assert tables.classes_of(replace(run, sets={})) == []


def test_many_classes_are_shown_from_both_ends():
    rows = tables.classes_of(made_run(tuple(map(str, range(100)))))
    short = tables.shortened(rows, 18)
    assert len(short) == 18
    assert short[:12] == rows[:12]
    assert short[12:] == rows[-6:]
    assert tables.shortened(rows[:18], 18) == rows[:18]


def test_a_bar_reaches_as_far_as_the_largest_change():
    def row(change):
        return tables.ClassRow(0, "x", 1, 0.5, 0.5, change)

    assert tables.reach([row(-0.3), row(0.2)]) == 0.3
    assert tables.reach([row(None)]) == 0.1
    assert tables.reach([row(0.001)]) == 0.1


def test_wrong_answers_that_changed_most_come_first():
    rows = ((0, 0, 50, 1), (0, 1, 3, 30), (0, 2, 20, 5), (1, OTHER, 0, 4), (2, 2, 0, 0))
    facts = replace(made_facts(NAMES), confusion={"D_r": rows})
    found = [(row.true, row.answer, row.before, row.after) for row in tables.confused(facts, "D_r")]
    assert found == [("cat", "dog", 3, 30), ("cat", "owl", 20, 5), ("dog", "another answer", 0, 4)]
    assert tables.confused(facts, "D_f") == []


def test_answers_beyond_the_first_are_added_up():
    names = tuple(f"c{i}" for i in range(30))
    facts = replace(made_facts(names), softmax=tuple((i / 435, (29 - i) / 435) for i in range(30)))
    rows, rest = tables.softmax_of(replace(made_run(names), facts=facts))
    assert len(rows) == tables.MOST_ANSWERS
    assert rest.name == "18 other classes"
    assert sum(row.after for row in rows) + rest.after == pytest.approx(1)
    assert sum(row.before for row in rows) + rest.before == pytest.approx(1)
    rows, rest = tables.softmax_of(replace(made_run(NAMES), facts=None))
    assert rest is None
    assert [row.before for row in rows] == [None] * 3


def test_of_many_layers_those_that_moved_most_are_shown_in_order():
    layers = tuple(Layer(str(i), "Linear", 1, (i * 37 % 101) / 100) for i in range(100))
    shown, left_out = tables.layers_of(replace(made_facts(NAMES), layers=layers))
    assert len(shown) == 40
    assert left_out == 60
    assert [layer.name for layer in shown] == [x.name for x in layers if x in shown]
    assert min(x.moved for x in shown) >= max(x.moved for x in layers if x not in shown)
    alike = tuple(Layer(str(i), "Linear", 1, 0.0) for i in range(100))
    assert tables.layers_of(replace(made_facts(NAMES), layers=alike))[1] == 60


def test_the_worst_variation_is_not_T_itself():
    facts = made_facts(NAMES)
    worst = replace(facts.variations[2], shift=Shift(20, 1, 0, 0))
    varied = (replace(facts.variations[0], shift=Shift(20, 0, 0, 0)), facts.variations[1], worst)
    run = replace(made_run(NAMES), facts=replace(facts, variations=varied))
    assert tables.worst_variation(run) == worst
    assert tables.worst_variation(replace(run, facts=None)) is None


def test_what_is_missing_is_said_with_its_reason():
    run = made_run(NAMES)
    assert tables.missing(run) == []
    bare = replace(run, facts=None, without_facts="there is none", sets={}, trajectory=())
    assert [what for what, _ in tables.missing(bare)][:2] == ["the four accuracies", "accuracy per epoch"]
    assert tables.missing(bare)[-1][1] == "there is none"
    plain = made_run(NAMES, images=False)
    assert [what for what, _ in tables.missing(plain)] == ["samples themselves"]
    empty = replace(run.facts, examples=(), confusion={}, softmax=(), layers=(), variations=())
    said = dict(tables.missing(replace(run, facts=empty)))
    assert list(said) == [
        "examples", "confusion", "answers to D_f", "how far each layer moved", "variations of T",
    ]  # fmt: skip
    old = {name: replace(one, before=None) for name, one in run.sets.items()}
    assert tables.missing(replace(run, sets=old))[0][0] == "accuracies before"
    unseen = replace(run, trajectory=({"epoch": 0.0, "L": 1.0},))
    assert tables.missing(unseen)[0][1] == "no accuracies were taken on the way"


def test_runs_are_compared_with_care():
    run = made_run(NAMES)
    assert tables.comparable([run, run]).startswith("All start from the same model")
    other = replace(run, hashes=(("model before", "x"), *run.hashes[1:]))
    assert "differ in the model they start from." in tables.comparable([run, other])
    fewer = {name: one for name, one in run.sets.items() if name != "D_f"}
    assert "the sizes of their test sets" in tables.comparable([run, replace(run, sets=fewer)])
    assert "the pattern" in tables.comparable([run, made_run(NAMES, pattern="C")])
