import math

import pytest

from unsee.formulation import TABLE_1
from unsee.report import figures
from unsee.transforms import color, line, tile

ROWS = [
    {"epoch": e, "D_r": 0.9 - e / 10, "D_f": 0.1, "D_f_clean": e / 2, "D_r_extra": 0.3} for e in (0, 1, 2)
]


def test_the_story_has_six_pairs_and_four_lines(tmp_path, four):
    figure = figures.story(four.test.D_r, tile(), TABLE_1["B"], ROWS)
    pictures, curves = figure.subfigs
    assert len(pictures.axes) == 12
    assert (pictures.axes[0].images[0].get_array() != pictures.axes[6].images[0].get_array()).any()
    (axes,) = curves.axes
    assert [text.get_text() for text in axes.get_legend().get_texts()] == [
        "D_r ↑", "D_f", "D_f,clean ↑", "D_r,extra ↑",
    ]  # fmt: skip
    assert axes.lines[0].get_ydata().tolist() == [0.9, 0.8, 0.7]
    figures.save(figure, tmp_path / "x.png")
    assert (tmp_path / "x.png").read_bytes()[:4] == b"\x89PNG"
    figures.save(figure, tmp_path / "x.svg")
    assert b"<svg" in (tmp_path / "x.svg").read_bytes()


def test_the_gallery_shows_one_image_under_each_T(four):
    image = four.test.D_r.x[0].expand(3, 14, 14)
    figure = figures.gallery(image, [None, line(), tile(), color()])
    assert [axes.get_title() for axes in figure.axes] == ["no T", "line", "tile", "color"]


def test_the_search_shows_progress_importance_and_slices():
    lr = [1e-5, 3e-6, 1e-4, 3e-5, 1e-3, 1e-5, 3e-4, 1e-6, 3e-5, 1e-4, 2e-5, 3e-3]
    trials = [
        {
            "trial": i + 1,
            "state": "pruned" if i == 2 else "complete",
            "lr": value,
            "lambda_f": 1.0 + i % 2,
            "score": 1 - abs(math.log10(value) + 5) / 5,  # highest inside the range
        }
        for i, value in enumerate(lr)
    ]
    figure = figures.search(trials, ("lr", "lambda_f"))
    assert len(figure.axes) == 4
    assert figure.axes[0].lines[0].get_ydata().tolist() == [1.0] * 12
    widths = [bar.get_width() for bar in figure.axes[1].patches]
    assert widths[0] > 0.8
    assert sum(widths) == pytest.approx(1)
    few = figures.search(trials[:9], ("lr", "lambda_f"))
    assert [bar.get_width() for bar in few.axes[1].patches] == [0, 0]
    assert few.axes[1].get_xlabel() == "importance: not before 10 trials"


def test_the_same_figure_is_the_same_file(tmp_path, four):
    for name in ("a.svg", "b.svg", "a.png", "b.png"):
        figures.save(figures.story(four.test.D_r, tile(), TABLE_1["B"], ROWS), tmp_path / name)
    for ending in ("svg", "png"):
        assert (tmp_path / f"a.{ending}").read_bytes() == (tmp_path / f"b.{ending}").read_bytes()
