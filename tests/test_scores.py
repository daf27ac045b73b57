import json

import pytest

from unsee.formulation import TABLE_1
from unsee.scores import Accuracy, Scores


def scores(pattern, D_r=0.9, D_f=0.05, D_f_clean=0.8, D_r_extra=0.7, old=None, margin=0.02):
    values = {"D_r": D_r, "D_f": D_f, "D_f_clean": D_f_clean, "D_r_extra": D_r_extra}
    sets = {
        name: Accuracy(round(1000 * v), 1000, {"cat": v - 0.1, "dog": v + 0.1}) for name, v in values.items()
    }
    return Scores(sets, (0.5, 0.5), tuple("abcdefghij"), TABLE_1[pattern], old, margin)


def test_an_arrow_up_asks_the_old_D_r_less_the_margin():
    old = scores("B", D_r=0.82)
    new = scores("B", old=old)
    assert new.threshold("D_f_clean") == pytest.approx(0.8)
    assert [new.met(name) for name in new.sets] == [True, None, True, False]
    assert not new.all_met
    assert scores("B", old=old, margin=0.12).all_met


def test_an_arrow_down_asks_one_over_C():
    old = scores("A")
    assert scores("A", old=old).met("D_f")
    assert not scores("A", D_f=0.11, old=old).met("D_f")
    assert scores("A", D_r=0.89, old=old).all_met


def test_the_table_shows_arrows_ticks_and_what_is_asked():
    text = str(scores("B", old=scores("B")))
    for part in (
        "Pattern B: forget a backdoor",
        "D_r,extra ↑",
        "0.900 ✓",
        "0.700 ✗",
        ">= 0.880",
        "before",
        "n ",
    ):
        assert part in text
    head = next(line for line in text.splitlines() if "accuracy" in line)
    assert [cell.strip() for cell in head.split("┃")][2:4] == ["D_r ↑", "D_f"]  # no arrow on D_f in B


def test_the_classes_that_paid_are_listed():
    from rich.console import Console

    console = Console(record=True, width=100)
    new = scores("B", D_r=0.7, old=scores("B"))
    changed = type(new)(new.sets, (0.25, 0.75), ("cat", "dog"), new.pattern, new.old)
    console.print(changed.class_table())
    rows = [line.split() for line in console.export_text().splitlines() if "cat" in line or "dog" in line]
    assert [[cell for cell in row if cell != "│"] for row in rows] == [
        ["cat", "0.600", "-0.200", "0.250"],
        ["dog", "0.800", "-0.200", "0.750"],
    ]


def test_everything_is_json():
    words = json.loads(json.dumps(scores("C", old=scores("C", D_r=0.95)).to_dict()))
    assert words["pattern"] == "C"
    assert words["sets"]["D_r"]["met"] is False
    assert words["sets"]["D_r"]["arrow"] == "up"
    assert words["sets"]["D_f_clean"]["arrow"] is None
    assert words["changes_on_D_r"]["cat"] == pytest.approx(-0.05)
    assert words["score"] == 0.05
    assert len(words["sets"]["D_f"]["interval"]) == 2
