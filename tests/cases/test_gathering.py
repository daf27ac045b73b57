import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from shop import write_case
from unsee import networks
from unsee.cases import case
from unsee.cases.gathering import Gathering, _cut, _divided, _division
from unsee.cases.models import open_model
from unsee.data.samples import overlap
from unsee.errors import InputError, UnseeWarning, UsageError


@pytest.fixture(scope="module")
def opened(shop):
    words = case.load(write_case(shop)).model
    how = {"divide_by": 127.5, "mean": (1.0,), "std": (1.0,)}
    given = {"classes": words.classes, "options": words.options, "preprocessing": how}
    return open_model(shop / "model.pth", words.network, **given)


@pytest.fixture
def here(shop, tmp_path):
    return shutil.copytree(shop, tmp_path / "shop")


def gathered(folder, opened, allow_code=False, **words):
    gathering = Gathering(case.load(write_case(folder, **words)), Path(folder), opened, allow_code)
    return gathering.four(), gathering.checked


def test_what_is_trained_on_and_what_is_judged_by_are_apart(shop, opened):
    four, checked = gathered(shop, opened)
    said = (
        "forget 80 to learn from, 20 to judge by; remember 50 to hold the floor by (D_r^val), 50 to judge by"
    )
    assert checked[-1] == f"divided: {said}"
    assert (len(four.train.D_f), len(four.test.D_f)) == (80, 20)
    assert (len(four.validation.D_r), len(four.test.D_r)) == (50, 50)
    assert torch.equal(four.T(four.test.D_f_clean).x, four.test.D_f.x)
    assert torch.equal(four.T(four.test.D_r).x, four.test.D_r_extra.x)


def test_of_a_given_D_r_extra_half_is_to_choose_by_where_T_is_unknown(shop, opened):
    known, _ = gathered(shop, opened)
    D_r, train = known.validation.D_r, known.train
    four = _divided(train.D_f, train.D_f_clean, D_r, D_r.with_(x=255 - D_r.x), None)
    assert _division(four).endswith("; extra 25 to choose by (D_r,extra^val), 25 to judge by")
    assert overlap(four.validation.D_r_extra, four.test.D_r_extra) == 0
    assert torch.equal(255 - four.validation.D_r_extra.x, four.validation.D_r.x)  # twins are cut alike
    one = _divided(train.D_f, train.D_f_clean, D_r, D_r.subset([0]), None)
    assert (one.validation.D_r_extra, len(one.test.D_r_extra)) == (None, 1)


@pytest.mark.parametrize("name", ["remember", "extra"])
@pytest.mark.parametrize("other", ["bad", "clean"])
def test_a_leak_is_refused(shop, opened, name, other):
    with pytest.raises(InputError, match=f"`{name}` apart from what is trained on.*in `"):
        gathered(shop, opened, **{name: other})


def test_pairs_that_do_not_differ_or_stand_there_twice_are_left_out(here, opened):
    bad, clean = (sorted((here / part).rglob("*.png")) for part in ("bad", "clean"))
    for i in range(5):
        shutil.copy(bad[i], clean[i])
    for i in (5, 6):
        shutil.copy(bad[i], bad[i].with_name(f"again{i}.png"))
        shutil.copy(clean[i], clean[i].with_name(f"again{i}.png"))
    with pytest.warns(UnseeWarning, match="7 pairs that do not differ, or stand there twice"):
        four, _ = gathered(here, opened)
    assert len(four.train.D_f) + len(four.test.D_f) == 95


@pytest.mark.filterwarnings("ignore:.*samples that stand twice in `forget`")
@pytest.mark.filterwarnings("ignore:.*the class of `forget`")
def test_samples_that_stand_twice_are_not_on_both_sides(here, opened):
    for path in [*(here / "good").rglob("*.png"), *(here / "bad").rglob("*.png")]:
        shutil.copy(path, path.with_name(f"again-{path.name}"))
    words = {"pattern": "A", "clean": None, "trigger": None}
    with pytest.warns(UnseeWarning, match="100 samples that stand twice in `remember` are left out"):
        four, _ = gathered(here, opened, **words)
    assert overlap(four.test.D_f, four.train.D_f) == overlap(four.test.D_r, four.validation.D_r) == 0


def test_a_small_set_still_has_a_part_for_the_test(here, opened):
    for part in ("bad", "clean", "good"):
        for path in sorted((here / part).rglob("*.png"))[2:]:
            path.unlink()
        for folder in list((here / part).iterdir()):
            if not list(folder.iterdir()):
                folder.rmdir()
    four, _ = gathered(here, opened)
    assert [len(four.train.D_f), len(four.test.D_f), len(four.test.D_f_clean)] == [1, 1, 1]
    assert len(four.test.D_r) == len(four.validation.D_r) == 1
    min((here / "good").rglob("*.png")).unlink()
    with pytest.raises(InputError, match="two samples in `remember`"):
        gathered(here, opened)


def test_parts_are_cut_alike_and_whole():
    for n in (1, 2, 5, 17):
        kept, part = _cut(n, 0.2)
        assert sorted([*kept, *part]) == list(range(n))
        assert len(kept) >= 1
        assert np.array_equal(part, _cut(n, 0.2)[1])


def test_a_mask_and_the_true_labels(here, opened):
    four, checked = gathered(here, opened, clean=None, trigger="mask:9:9:4:4")
    assert len(set(four.train.D_f_clean.y.tolist())) == 5
    assert any("filled from the surroundings" in line for line in checked)
    heap = here / "heap"
    heap.mkdir()
    for path in (here / "bad").rglob("*.png"):
        shutil.copy(path, heap / path.name)
    words = {"clean": None, "trigger": "mask:9:9:4:4", "forget": {"path": "heap", "label": "Coat"}}
    four, _ = gathered(here, opened, pattern="C", **words)
    assert set(four.train.D_f_clean.y.tolist()) == {4}
    with pytest.raises(InputError):
        gathered(here, opened, **words)  # in B the label is the attacker's, and nothing says the true ones


def test_several_triggers_are_no_code(shop, opened):
    four, _ = gathered(shop, opened, trigger="line+patch:logo.png:9:9")
    assert four.T.name.startswith("line + patch(")


@pytest.mark.parametrize("text", ["raise SystemExit(0)", "return None", "import nothing_like_it"])
def test_whatever_a_strangers_T_does_is_one_sentence(here, opened, monkeypatch, text):
    (here / "odd_marks.py").write_text(f"def T(x):\n    {text}\n")
    monkeypatch.syspath_prepend(str(here))
    with pytest.raises(InputError, match="odd_marks:T"):
        gathered(here, opened, allow_code=True, trigger="odd_marks:T")
    with pytest.raises(UsageError, match="--allow-code"):
        gathered(here, opened, trigger="odd_marks:T")
    monkeypatch.delitem(__import__("sys").modules, "odd_marks")


def test_a_model_of_three_channels_takes_grey_images_in_colour(here):
    torch.save(networks.mlp((3, 14, 14), 5, depth=2).state_dict(), here / "rgb.pth")
    how = {"divide_by": 255.0, "mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5)}
    classes, options = case.load(write_case(here)).model.classes, {"shape": [3, 14, 14], "depth": 2}
    opened = open_model(here / "rgb.pth", "mlp", classes=classes, options=options, preprocessing=how)
    for path in list((here / "bad").rglob("*.png")):
        Image.open(path).convert("RGB").save(path)
    four, _ = gathered(here, opened)
    assert four.train.D_f.x.shape[1] == four.train.D_f_clean.x.shape[1] == 3
