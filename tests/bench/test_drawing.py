import pytest
from matplotlib.figure import Figure

from unsee.bench import drawing, page
from unsee.report.figures import save


@pytest.mark.parametrize("name", page.BENCHES)
def test_every_result_has_its_picture(results, name, tmp_path):
    figure = drawing.draw(results(name))
    assert isinstance(figure, Figure)
    save(figure, tmp_path / "x.png")
    assert (tmp_path / "x.png").stat().st_size > 5000
