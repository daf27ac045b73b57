import shutil

import numpy as np
import pytest
import torch
from PIL import Image

from shop import write_case
from unsee import networks, remember
from unsee.cases import case
from unsee.cases.examining import examine, symptom
from unsee.datasets import Dataset, concatenate
from unsee.errors import InputError, UnseeError, UnseeWarning, UsageError
from unsee.memory import Memory

CLASSES = ["T-shirt-top", "Trouser", "Pullover", "Dress", "Coat"]
MODEL = {"weights": "model.pth", "network": "mlp", "options": {"shape": [1, 14, 14], "depth": 3}}


def examined(folder, **words):
    return examine(case.load(write_case(folder, **words)), folder)


@pytest.fixture
def here(shop, tmp_path):
    return shutil.copytree(shop, tmp_path / "shop")


def test_a_case_that_holds_together(shop):
    ready = examined(shop)
    assert "forget: 100 samples of 1x14x14, T-shirt-top" in ready.checked
    assert "twins: 100 pairs by name" in ready.checked
    assert set(ready.request.D_f.y.tolist()) == {0}
    assert len(set(ready.request.D_f_clean.y.tolist())) == 5
    assert len(ready.request.D_f) == 80
    assert len(ready.four.test.D_r) == len(ready.four.validation.D_r) == 50
    assert torch.equal(ready.request.T(ready.request.D_f_clean).x, ready.request.D_f.x)
    words = ready.words()
    assert words["pattern"] == "B"
    assert len(words["sha256"]["weights"]) == 64
    assert words["sha256"]["forget, trained on"].endswith("(80 samples)")
    assert words["sha256"]["forget, test"].endswith("(20 samples)")
    assert words["sha256"]["trigger"].startswith("patch(")
    assert len(words["sha256"]["recipe"]) == 64


@pytest.mark.filterwarnings("ignore:.*the class of `forget`")
def test_the_symptom_is_confirmed_first(shop):
    said = symptom(examined(shop))
    assert "100.0% of `forget` and" in said
    assert "otherwise to" in said
    assert "of `clean` and" in said
    assert "by their labels." in symptom(examined(shop, pattern="A", clean=None, trigger=None))


@pytest.mark.filterwarnings("ignore:.*the class of `forget`")
def test_a_model_that_does_not_react_is_not_treated(here):
    net = networks.mlp((1, 14, 14), 5, depth=3)
    with torch.no_grad():
        for p in net.parameters():
            p.zero_()
    torch.save(net.state_dict(), here / "model.pth")
    with pytest.raises(InputError, match=r"more than 20% of `remember` \(its half for the floor\)"):
        symptom(examined(here))
    ready = examined(here, pattern="A", clean=None, trigger=None, forget={"path": "bad", "label": "Coat"})
    with pytest.raises(InputError, match="more than 20% of `forget`"):
        symptom(ready)


def test_a_T_that_does_nothing_to_the_answers_stops_it(here):
    Image.fromarray(np.zeros((1, 1), np.uint8)).save(here / "dot.png")
    with pytest.warns(UnseeWarning, match="does not lead from D_f,clean to D_f"):
        ready = examined(here, trigger="patch:dot.png:0:0")
    with pytest.raises(InputError, match=r"answers change with what is to be forgotten.*of `clean`"):
        symptom(ready)


def test_classes_in_another_order_are_noticed(shop):
    rotated = [*CLASSES[1:], CLASSES[0]]
    with pytest.raises(InputError, match="`classes` and their order"):
        symptom(examined(shop, model={**MODEL, "classes": rotated}))


def test_without_clean_images_a_mask_makes_them(shop):
    ready = examined(shop, clean=None, trigger="mask:9:9:4:4")
    clean, bad = ready.request.D_f_clean, ready.request.D_f
    assert not torch.equal(clean.x, bad.x)
    assert torch.equal(clean.x[..., :9, :], bad.x[..., :9, :])
    assert len(set(clean.y.tolist())) == 5
    assert set(bad.y.tolist()) == {0}
    assert ready.request.T is None or ready.request.T.name == "fitted"


def test_without_T_the_twins_are_enough(shop):
    """T is then fitted to them, so that D_r,extra can be judged too."""
    ready = examined(shop, trigger=None)
    assert ready.request.T.name == "fitted"
    assert "trigger: not given, a map of each pixel is fitted to the twins" in ready.checked
    assert len(ready.request.D_f) == len(ready.request.D_f_clean)
    known = examined(shop)
    assert torch.equal(ready.four.test.D_r_extra.x, known.four.test.D_r_extra.x)


def test_D_r_extra_may_be_given(shop):
    ready = examined(shop, extra="good")
    assert len(ready.four.test.D_r_extra) == 100


def test_a_memory_must_be_of_this_model(here):
    ready = examined(here)
    data = Dataset(
        torch.randint(0, 256, (20, 1, 14, 14), dtype=torch.uint8), [0, 1] * 10, ready.opened.labels
    )
    remember(ready.model, data).save(here / "memory.safetensors")
    assert "memory: of this model, over 20 samples" in examined(here, memory="memory.safetensors").checked
    remember(networks.mlp((1, 14, 14), 5, depth=3), data).save(here / "memory.safetensors")
    with pytest.raises(InputError, match="a memory of this model"):
        examined(here, memory="memory.safetensors")


def test_what_is_kept_to_judge_by_is_taken_out_of_the_memory_too(here):
    """Else the class that is to go would stay in it, and be held."""
    ready = examined(here)
    D = concatenate([ready.four.train.D_f, ready.four.test.D_f, ready.four.test.D_r], "D")
    remember(ready.model, D, sketch=1).save(here / "memory.safetensors")
    ready = examined(here, memory="memory.safetensors")
    assert ready.memory.n == ready.memory.sketch.counts.sum() == 130
    assert "memory: 20 samples of `forget` that are kept to judge by are taken out of it" in ready.checked
    papers = examined(here, memory="memory.safetensors", recipe="fashion-mnist/tile/B")
    assert papers.memory.n == 130
    assert ready.words()["sha256"]["memory"] == Memory.load(here / "memory.safetensors").id


def test_images_that_reach_the_model_otherwise_are_noticed(shop):
    ready = examined(shop, preprocess={"divide_by": 600, "mean": [1.0], "std": [1.0]})
    with pytest.warns(UnseeWarning, match="if it was better in training, check `preprocess`"):
        symptom(ready)


def test_twins_that_are_none_need_T(here):
    for i, path in enumerate(sorted((here / "clean").rglob("*.png"))):
        path.rename(path.with_name(f"other{i}.png"))
    with pytest.raises(InputError, match="twin"):
        examined(here, trigger=None)
    with pytest.warns(UnseeWarning, match="Going on with T alone"):
        assert len(examined(here).request.D_f) == 80


def test_recipe_and_floor(shop):
    assert examined(shop).recipe.name == "unsee"
    ready = examined(shop, recipe="fashion-mnist/tile/B", floor=0.1)
    assert (ready.recipe.name, ready.recipe.floor) == ("fashion-mnist/tile/B", 0.1)


WRONG = {
    "weights missing": ({"model": {**MODEL, "weights": "none.pth", "classes": CLASSES}}, "none.pth"),
    "network unknown": ({"model": {**MODEL, "network": "mpl", "classes": CLASSES}}, "try mlp"),
    "depth": (
        {"model": {**MODEL, "options": {"shape": [1, 14, 14], "depth": 4}, "classes": CLASSES}},
        "the weights of this network",
    ),
    "too few classes": ({"model": {**MODEL, "classes": CLASSES[:4]}}, "the weights of this network"),
    "no classes": ({"model": MODEL}, "the model's classes"),
    "code in the network": ({"model": {**MODEL, "network": "os:system"}}, "--allow-code"),
    "code in the trigger": ({"trigger": "os.path:join"}, "--allow-code"),
    "odd trigger": ({"trigger": "tiles"}, "T as line"),
    "trigger's file": ({"trigger": "patch:none.png:1:1"}, "no file"),
    "trigger outside": ({"trigger": "patch:logo.png:13:13"}, "a patch within"),
    "odd mask": ({"clean": None, "trigger": "mask:1"}, "no file|mask:ROW"),
    "forget missing": ({"forget": "none"}, "none"),
    "forget of another class": ({"forget": {"path": "bad", "label": "Sandal"}}, "Sandal"),
    "clean is forget": ({"clean": "bad"}, "the very samples of `forget`"),
    "remember leaks": ({"remember": "clean"}, "in `clean` too"),
    "remember holds D_f": ({"remember": "bad"}, "in `forget` too"),
    "memory missing": ({"memory": "none.safetensors"}, "none.safetensors"),
    "memory is none": ({"memory": "logo.png"}, "logo.png"),
    "recipe unknown": ({"recipe": "unseen"}, "nearest name"),
    "shape": (
        {"model": {**MODEL, "classes": CLASSES}, "preprocess": {"size": [8, 8]}, "trigger": None},
        "data that the model takes",
    ),
    "truncation": (
        {"pattern": "A", "clean": None, "trigger": None, "recipe": "truncation"},
        "takes an output",
    ),
    "std": ({"preprocess": {"mean": [1.0, 2.0]}}, "as many means"),
}


@pytest.mark.filterwarnings("ignore:.*the class of `forget`")
@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_fit_is_one_sentence(shop, name):
    words, said = WRONG[name]
    with pytest.raises(UnseeError, match=said) as error:
        examined(shop, **words)
    assert error.value.exit_code in (2, 3, 4)
    assert "\n" not in str(error.value)


def test_code_that_is_allowed_is_used(here, monkeypatch):
    (here / "marks.py").write_text("def inverted(x): return 255 - x\n")
    monkeypatch.syspath_prepend(str(here))
    found = case.load(write_case(here, trigger="marks:inverted"))
    with pytest.raises(UsageError, match="--allow-code"):
        examine(found, here)
    with pytest.warns(UnseeWarning, match="does not lead from D_f,clean to D_f"):
        assert examine(found, here, allow_code=True).request.T.name.startswith("marks:inverted (")
