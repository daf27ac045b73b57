from unsee.paper.cells import CELLS, LINES, METHODS, Unit
from unsee.recipe import RECIPES


def test_every_table_and_figure_is_there():
    assert list(CELLS) == [
        "table-2",
        "table-s1",
        "figure-2",
        "figure-3",
        "figure-4",
        "figure-s1",
        "figure-s2",
    ]
    assert [len(CELLS[name]) for name in ("table-2", "figure-4", "figure-s1", "figure-s2")] == [8, 16, 16, 8]


def test_names_are_unique_and_plain():
    names = {cell.name for cells in CELLS.values() for cell in cells}
    assert len(names) == 48
    assert all(set(name) <= set("abcdefghijklmnopqrstuvwxyzABCD0123456789-_") for name in names)


def test_the_lines_change_what_the_decision_says():
    cells = {(c.unit.data, c.pattern, c.line): c.recipe for c in CELLS["figure-4"]}
    paper = RECIPES["fashion-mnist/tile/B"]
    for line in LINES:
        recipe = cells["fashion-mnist", "B", line]
        assert recipe.lr == paper.lr
        assert recipe.lambda_f == (paper.lambda_f if "RLD" in line else 0)
        assert recipe.lambda_kl == (paper.lambda_kl if "Fisher" in line else 0)
    assert {c.recipe.forgetting for c in CELLS["table-2"]} == {"rnd", "rld", "truncation"}
    assert len(METHODS) == 5


def test_networks_that_stay_below_the_papers_range_train_longer():
    assert Unit("fashion-mnist", "tile").pretraining == ((5, 0.01),)
    assert Unit("fashion-mnist", None).pretraining == ((5, 0.01), (4, 0.001))
    assert Unit("fashion-mnist", "tile").at_half == ()
    for T in ("line", None):
        assert Unit("cifar-10", T).pretraining == ((1, 0.001), (1, 0.0003))
        assert Unit("cifar-10", T).at_half == ((8, 0.03), (4, 0.01), (2, 0.003), (1, 0.001))
