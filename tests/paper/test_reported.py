from unsee.paper.reported import TABLE_2, TABLE_S1, Published
from unsee.recipe import RECIPES


def test_table_2_as_published():
    assert str(TABLE_2["fashion-mnist"]["RND"]["D_f"]) == "0.144 ± 0.205"
    assert str(TABLE_2["cifar-10"]["RLD"]["D_r"]) == "0.479 ± 0.008"
    assert str(TABLE_2["fashion-mnist"]["truncation"]["D_f"]) == "--"
    assert str(Published(0.875)) == "0.875"
    for columns in TABLE_2.values():
        assert list(columns) == ["pretrained", "RND", "RLD", "truncation"]


def test_table_s1_is_what_the_recipes_of_these_names_have():
    assert len(TABLE_S1) == 10
    for name, row in TABLE_S1.items():
        recipe = RECIPES[name]
        assert (recipe.lr, recipe.lambda_kl, recipe.lambda_f) == row
