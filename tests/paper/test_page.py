from unsee import store
from unsee.paper.cells import Cell, Unit
from unsee.paper.page import table_2_rows, text
from unsee.paper.rows import Rows
from unsee.paper.running import Scale


def test_ours_stands_beside_the_papers(tmp_path):
    rows = Rows(tmp_path / "rows")
    unit = Unit("fashion-mnist", None)
    for seed, value in enumerate((0.80, 0.84)):
        scores = {name: {"accuracy": 0.5, "class_mean": value} for name in ("D_r", "D_f")}
        rows.add(
            Cell(unit, "A", "RLD"),
            {"network": "net"},
            seed,
            {"scores": {**scores, "softmax_D_f": [1]}, "trajectory": []},
        )
    old = {name: {"accuracy": 0.5, "class_mean": 0.88} for name in ("D_r", "D_f")}
    store.write_json(rows.folder / "fashion-mnist-plain-pretrained.json", {"scores": old})
    found = table_2_rows("fashion-mnist", rows)
    assert [row["method"] for row in found] == ["pretrained", "RLD"]
    page = text(rows, Scale(), ["cifar-10-tile: not fetched"])
    assert (
        "| fashion-mnist | RLD | 0.820 ± 0.028 | 0.012 ± 0.001 | 0.820 ± 0.028 | 0.819 ± 0.002 | 2 |" in page
    )
    assert "| fashion-mnist | pretrained | 0.880 | 0.871 | 0.880 | 0.875 | 1 |" in page
    assert "Skipped: cifar-10-tile: not fetched" in page
    assert "quick" not in page
    assert "leaves more of D_f, 0.820 where the paper has 0.012 ± 0.001." in page
    assert "pretrained on fashion-mnist leaves" not in page  # within two points
