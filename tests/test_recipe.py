import json
from dataclasses import asdict

import pytest

from unsee.errors import InputError, UsageError
from unsee.formulation import TABLE_1
from unsee.kinds import PLAIN, Column, Kind
from unsee.recipe import FORGETTING, PAPERS, RECIPES, Recipe, ours, recipe_of


def test_table_s1_is_complete():
    rows = [name for name in RECIPES if name.count("/") == 2]
    assert len(rows) == 10
    tile = RECIPES["fashion-mnist/tile/B"]
    assert (tile.lr, tile.lambda_kl, tile.lambda_f) == (9.98345e-5, 3.56290e4, 1.73782)
    color = RECIPES["cifar-10/color/C"]
    assert (color.lr, color.lambda_kl, color.lambda_f) == (6.58463e-6, 3.10743e5, 1.20910)
    assert all(RECIPES[name].name == name for name in RECIPES)


def test_pattern_a_is_as_the_paper_sets_it():
    for term in ("rld", "rnd"):
        recipe = RECIPES[f"pattern-a/{term}"]
        assert (recipe.lambda_c, recipe.lambda_f, recipe.lambda_kl, recipe.lr) == (0, 1, 1e5, 1e-5)
        assert (recipe.momentum, recipe.forgetting) == (0.9, term)


def test_recipes_by_name_file_and_default(tmp_path):
    B = TABLE_1["B"]
    assert recipe_of(None, B).name == "unsee"
    assert recipe_of(None, TABLE_1["A"]).name == "unsee/A"
    assert recipe_of(None, TABLE_1["A"], PAPERS).name == "pattern-a/rld"
    assert recipe_of("truncation", B).forgetting == "truncation"
    mine = Recipe("mine", lr=0.1)
    mine.save(tmp_path / "r.json")
    assert recipe_of(str(tmp_path / "r.json"), B) == mine == recipe_of(mine, B)
    with pytest.raises(UsageError, match="the nearest name is 'fashion-mnist/tile/B'"):
        recipe_of("fashion-mnist/tiles/B", B)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"lambdakl": 1}, "did you mean 'lambda_kl'"),
        ({"lr": 0}, "a number above 0 as lr, found 0"),
        ({"lr": float("nan")}, "as lr, found nan"),
        ({"lambda_f": -1}, "at least 0 as lambda_f"),
        ({"lambda_kl": "much"}, "found 'much'"),
        ({"momentum": 1}, "below 1 as momentum"),
        ({"momentum": True}, "found True"),
        ({"epochs": 0}, "a whole number of at least 1 as epochs"),
        ({"batch_size": 1.5}, "as batch_size, found 1.5"),
        ({"forgetting": "amnesia"}, "one of " + ", ".join(FORGETTING)),
        ({"labels": "some"}, "one of others, all"),
        ({"fisher_over": "D_f"}, "one of D_r, D"),
    ],
)
def test_bad_recipes(tmp_path, words, message):
    (tmp_path / "r.json").write_text(json.dumps(words))
    with pytest.raises(InputError, match=message):
        Recipe.load(tmp_path / "r.json")


def test_a_recipe_that_is_no_object(tmp_path):
    (tmp_path / "r.json").write_text("[1]")
    with pytest.raises(InputError, match="a JSON object"):
        Recipe.load(tmp_path / "r.json")
    assert Recipe.from_dict(asdict(RECIPES["truncation"])) == RECIPES["truncation"]


def test_the_papers_recipe_for_C_is_one_that_holds_with_our_activation():
    """SGD with momentum on R is stable where lr lambda_KL max(F) < 1 + momentum; F reaches about 0.26."""
    for pattern in "BC":
        recipe = recipe_of(None, TABLE_1[pattern], PAPERS)
        assert recipe.lr * recipe.lambda_kl * 0.3 < 1 + recipe.momentum


def test_tables_and_texts_have_a_recipe_of_their_own():
    table = Kind(columns=(Column("age"),))
    assert recipe_of(None, TABLE_1["C"], ours(PLAIN)).name == "unsee"
    assert recipe_of(None, TABLE_1["C"], ours(table)).name == "unsee/small"
    assert recipe_of(None, TABLE_1["A"], ours(table)).forgetting == "delete"
    changed = {k for k, v in asdict(RECIPES["unsee/small"]).items() if v != asdict(RECIPES["unsee"])[k]}
    assert changed == {"name", "lambda_h", "lambda_kl", "lr", "stride", "settle", "average"}
