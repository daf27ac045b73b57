import pytest

from unsee import store
from unsee.paper.cells import Cell, Unit
from unsee.paper.claims import CLAIMS, check
from unsee.paper.rows import Rows

NAMES = ("D_r", "D_f", "D_f_clean", "D_r_extra")
FORGETS, LESSENS, PREVENTS = "CE alone forgets D_r", "Fisher lessens it", "Fisher prevents it"
LIFTS, AROUND = "RLD lifts D_r,extra where CE + Fisher does not", "D_r,extra remains around 50 %"


@pytest.fixture
def rows(tmp_path):
    return Rows(tmp_path)


def put(rows, unit, pattern, line, *runs, softmax=()):
    """Write runs down, each the accuracies on D_r and D_r,extra; on D_f it is a tenth of D_r.

    Of D_f,clean it is what no claim may use.
    """
    for seed, (D_r, extra) in enumerate(runs):
        values = {"D_r": D_r, "D_f": D_r / 10, "D_f_clean": 0.987, "D_r_extra": extra}
        scores = {name: {"accuracy": value, "class_mean": value} for name, value in values.items()}
        run = {"scores": {**scores, "softmax_D_f": list(softmax)}, "trajectory": []}
        rows.add(Cell(unit, pattern, line), {"network": "net"}, seed, run)


def before(rows, unit, D_r, extra):
    values = {"D_r": D_r, "D_f": 0.9, "D_f_clean": 0.7, "D_r_extra": extra}
    scores = {name: {"accuracy": value} for name, value in values.items()}
    store.write_json(rows.folder / f"{unit.name}-pretrained.json", {"scores": scores})


def verdicts(rows, case):
    return {v.claim.words: v.holds for v in check(rows) if v.claim.case == case}


def test_nothing_run_nothing_judged(rows):
    assert {v.holds for v in check(rows)} == {None}
    assert len({(claim.words, claim.case) for claim in CLAIMS}) == len(CLAIMS) == 51


@pytest.mark.parametrize("data", ["fashion-mnist", "cifar-10"])
def test_pattern_A(rows, data):
    unit, case = Unit(data, None), f"{data}, A"
    put(rows, unit, "A", "truncation", (0.9, 0), softmax=[0, 1])
    put(rows, unit, "A", "RND", (0.7, 0), (0.8, 0), softmax=[0.5, 0.5])
    put(rows, unit, "A", "RLD", (0.82, 0), softmax=[0.4, 0.6])
    assert verdicts(rows, case)["RLD varies less than RND"] is None  # one run does not vary
    put(rows, unit, "A", "RLD", (0.82, 0), (0.83, 0), softmax=[0.4, 0.6])
    found = verdicts(rows, case)
    assert found["Truncation beats RND and RLD"] is True
    assert found["RLD varies less than RND"] is True
    put(rows, unit, "A", "RLD", (0.5, 0), (0.99, 0), (0.99, 0), (0.99, 0), (0.99, 0))
    assert verdicts(rows, case)["RLD varies less than RND"] is False
    put(rows, unit, "A", "RLD", (0.99, 0), (0.99, 0))
    assert verdicts(rows, case)["Truncation beats RND and RLD"] is False


@pytest.mark.parametrize(
    ("truncation", "rnd", "holds"), [(0.15, 0.5, True), (0.25, 0.5, False), (0.15, 0.2, False)]
)
def test_the_softmax_of_training_from_scratch(rows, truncation, rnd, holds):
    unit = Unit("fashion-mnist", None)
    scratch = {"scores": {"softmax_D_f": [0.1, 0.9]}}
    store.write_json(rows.folder / "fashion-mnist-plain-scratch.json", scratch)
    for method, p in (("truncation", truncation), ("RND", rnd), ("RLD", 0.6)):
        put(rows, unit, "A", method, (0.9, 0), softmax=[p, 1 - p])
    assert [h for words, h in verdicts(rows, "fashion-mnist, A").items() if "softmax" in words] == [holds]


@pytest.mark.parametrize("pattern", "BC")
@pytest.mark.parametrize("data", ["fashion-mnist", "cifar-10"])
def test_the_lines_of_figure_4(rows, data, pattern):
    unit, case = Unit(data, "tile"), f"{data}, tile, {pattern}"
    before(rows, unit, 0.88, 0.05)
    put(rows, unit, pattern, "CE", (0.48, 0.05))
    put(rows, unit, pattern, "CE + Fisher", (0.79, 0.10))
    put(rows, unit, pattern, "CE + Fisher + RLD", (0.72, 0.55))
    assert verdicts(rows, case)[LESSENS] is None  # of one run nobody knows the error
    put(rows, unit, pattern, "CE", (0.48, 0.05), (0.48, 0.05))
    put(rows, unit, pattern, "CE + Fisher", (0.79, 0.10), (0.79, 0.10))
    assert verdicts(rows, case) == {FORGETS: True, LESSENS: True, PREVENTS: True, LIFTS: True, AROUND: True}
    put(rows, unit, pattern, "CE + Fisher", (0.77, 0.26), (0.77, 0.26))
    put(rows, unit, pattern, "CE + Fisher + RLD", (0.72, 0.66))
    found = {FORGETS: True, LESSENS: True, PREVENTS: False, LIFTS: False, AROUND: False}
    assert verdicts(rows, case) == found
    put(rows, unit, pattern, "CE", (0.80, 0.05), (0.80, 0.05))
    put(rows, unit, pattern, "CE + Fisher", (0.79, 0.26), (0.79, 0.26))
    found = {FORGETS: False, LESSENS: False, PREVENTS: False}  # where nothing fell, nothing was prevented
    assert found.items() <= verdicts(rows, case).items()


@pytest.mark.parametrize("unit", [Unit("fashion-mnist", "line"), Unit("cifar-10", "color")])
def test_less_is_by_more_than_chance(rows, unit):
    case = f"{unit.data}, {unit.T}, B"
    before(rows, unit, 0.88, 0.05)
    put(rows, unit, "B", "CE", (0.40, 0.0), (0.60, 0.0))
    put(rows, unit, "B", "CE + Fisher", (0.55, 0.0), (0.65, 0.0))
    assert verdicts(rows, case)[LESSENS] is False  # 0.10 higher, of an error of 0.11
    put(rows, unit, "B", "CE", (0.49, 0.0), (0.51, 0.0))
    put(rows, unit, "B", "CE + Fisher", (0.59, 0.0), (0.61, 0.0))
    assert verdicts(rows, case)[LESSENS] is True
    assert [v.figures for v in check(rows) if v.claim.case == case and v.claim.words == LESSENS] == [
        "D_r: before 0.880, CE 0.500, CE + Fisher 0.600; 26% of the fall is gone"
    ]


@pytest.mark.parametrize("pattern", "BC")
def test_how_far_D_r_extra_rises(rows, pattern):
    line, color = Unit("fashion-mnist", "line"), Unit("cifar-10", "color")
    for after, of_line, of_color in ((0.05, False, False), (0.1, False, True), (0.3, True, False)):
        for unit in (line, color):
            before(rows, unit, 0.5, 0.08)
            put(rows, unit, pattern, "CE + Fisher + RLD", (0.5, after))
        judged = lambda case: {w: h for w, h in verdicts(rows, case).items() if h is not None}  # noqa: E731
        assert judged(f"fashion-mnist, line, {pattern}") == {"D_r,extra rises": of_line, AROUND: after > 0.35}
        assert judged(f"cifar-10, color, {pattern}") == {"The rise of D_r,extra is slight": of_color}
