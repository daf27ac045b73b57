import pytest

from unsee.formulation import SETS
from unsee.paper.cells import LINES, Cell, Unit
from unsee.paper.drawing import curves, drawn_lines, softmax
from unsee.paper.rows import Rows

UNIT = Unit("fashion-mnist", "tile")


def test_four_panels_a_row_with_a_band_for_each_line(tmp_path):
    rows = Rows(tmp_path)
    for line in list(LINES)[:3]:
        for seed, end in enumerate((0.2, 0.4)):
            trajectory = [{"epoch": e, **dict.fromkeys(SETS, v)} for e, v in enumerate((1.0, end))]
            rows.add(Cell(UNIT, "B", line), {"network": "net"}, seed, {"trajectory": trajectory})
    figure = curves([(UNIT, "B")], rows)
    assert [axes.get_title() for axes in figure.axes] == ["D_r ↑", "D_f", "D_f,clean ↑", "D_r,extra ↑"]
    assert [len(axes.lines) for axes in figure.axes] == [3] * 4
    assert figure.axes[0].lines[0].get_ydata() == pytest.approx([1.0, 0.3])
    numbers = drawn_lines([(UNIT, "B")], rows)
    assert len(numbers) == 12
    assert numbers[0]["seeds"] == 2


def test_a_bar_for_each_class_and_model():
    figure = softmax({"pretrained": [0.9, 0.1], "RLD": [0.0, 1.0]}, ("cat", "dog"))
    assert len(figure.axes[0].patches) == 4
