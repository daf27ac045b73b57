import base64
import io
import json

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from beyond import leak, signature
from unsee.datasets import Dataset
from unsee.errors import InputError
from unsee.formulation import FourSets
from unsee.report.examples import Example, examples_of, png, shades
from unsee.report.words import Words
from unsee.transforms import tile
from unsee.twins import Twins


def opened(picture):
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(picture))))


def test_examples_show_the_same_sample_without_and_with_T(model, forgotten, four):
    twins = Twins(four.test.D_f, four.test.D_f_clean, tile())
    found = examples_of(model, forgotten.model, four.test, tile(), twins, with_images=True)
    assert [example.of for example in found] == ["D_r"] * 4 + ["D_f"] * 2
    assert len({example.true for example in found[:4]}) == 4
    for example in found:
        data = four.test.D_r if example.of == "D_r" else four.test.D_f_clean
        plain, marked = example.views
        assert (plain.with_T, marked.with_T) == (False, True)
        assert np.array_equal(opened(plain.picture), data.x[example.index, 0].numpy())
        assert np.array_equal(opened(marked.picture), tile()(data).x[example.index, 0].numpy())
        assert example.true == data.classes[int(data.y[example.index])]
        assert opened(marked.looks_before).shape == (14, 14, 3)
        assert not np.array_equal(opened(marked.looks_before), opened(marked.looks_after))


def test_answers_are_the_models_own(model, forgotten, four):
    (example,) = examples_of(model, forgotten.model, FourSets(four.test.D_r), None, None, count=1)
    x = four.test.D_r.x[example.index][None].float()
    p, labels = model(x).softmax(1)[0].sort(descending=True)
    first = example.views[0].before
    assert [a.name for a in first] == [four.test.D_r.classes[i] for i in labels[:3]]
    assert [a.p for a in first] == pytest.approx(p[:3].tolist(), abs=1e-6)


def test_drawn_by_chance_and_the_same_each_time(model, four):
    def rows(seed):
        found = examples_of(model, model, four.test, tile(), None, seed=seed)
        return [example.index for example in found]

    assert rows(0) == rows(0)
    assert rows(0) != rows(1)


def test_no_pictures_unless_asked(model, four):
    for example in examples_of(model, model, four.test, tile(), None):
        for view in example.views:
            assert view.picture is view.looks_before is view.looks_after is None
            assert len(view.before) == 3


def test_without_T_the_sets_speak_for_themselves(model, four):
    found = examples_of(model, model, four.test, None, None)
    assert {(e.of, tuple(v.with_T for v in e.views)) for e in found} == {
        ("D_r_extra", (True,)),
        ("D_f", (True,)),
    }
    found = examples_of(model, model, FourSets(four.test.D_r, four.test.D_f), None, None)
    assert {(e.of, tuple(v.with_T for v in e.views)) for e in found} == {("D_r", (False,)), ("D_f", (False,))}
    assert examples_of(model, model, FourSets(), None, None) == ()
    assert len(examples_of(model, model, FourSets(D_f=four.test.D_f), None, None)) == 6


def test_a_poisoned_sample_has_a_true_class_and_one_it_was_trained_as(model, four):
    wrong = four.test.D_f.with_(y=torch.full_like(four.test.D_f.y, 5))
    twins = Twins(wrong, four.test.D_f_clean, tile())
    (example,) = examples_of(model, model, FourSets(D_f=wrong), tile(), twins, count=1)
    assert (example.true, example.trained) == ("T-shirt/top", "Sandal")


class Odd(nn.Module):
    """More outputs than classes, and NaN for dark images."""

    def forward(self, x):
        y = torch.zeros(len(x), 5)
        y[:, 4] = 3
        y[x.flatten(1).sum(1) == 0] = torch.nan
        return y


def test_answers_beyond_the_classes_and_answers_of_nan():
    data = Dataset(torch.tensor([0, 200], dtype=torch.uint8).reshape(2, 1, 1, 1), [0, 1])
    by_row = {e.index: e for e in examples_of(Odd(), Odd(), FourSets(data), None, None)}
    assert by_row[0].views[0].before == ()
    assert by_row[1].views[0].before[0].name == "output 4"


def test_any_range_and_any_channels_become_a_small_png():
    standardised = Dataset(torch.randn(2, 5, 8, 8), [0, 1])
    assert shades(standardised).shape == (2, 1, 8, 8)
    assert shades(Dataset(torch.rand(2, 3, 8, 8), [0, 1])).shape == (2, 3, 8, 8)
    large = opened(png(torch.rand(3, 300, 150)))
    assert large.shape == (128, 64, 3)


def test_large_floats_and_numbers_have_no_pictures():
    data = Dataset(torch.rand(3, 6), [0, 1, 1])
    model = nn.Linear(6, 2)
    for example in examples_of(model, model, FourSets(data), None, None, with_images=True):
        assert example.views[0].picture is None


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "AAAA",
        "not base64!",
        "ä",
        base64.b64encode(b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR").decode(),
        base64.b64encode(b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x01\x00\x00\x00\x01\x00\x00").decode(),
        base64.b64encode(b'<svg xmlns="x" onload="alert(1)">').decode(),
        base64.b64encode(b"GIF89a").decode(),
        png(torch.zeros(1, 4, 4)) + '" onerror="alert(1)',
        png(torch.zeros(1, 4, 4)) + "\n",
        7,
    ],
)
def test_a_picture_from_a_file_is_a_small_png_or_refused(model, four, wrong):
    (example,) = examples_of(model, model, four.test, tile(), None, count=1, with_images=True)
    words = example.to_dict()
    assert Example.read(Words(_plain(words), "f")) == example
    words["views"][0]["looks_after"] = wrong
    with pytest.raises(InputError):
        Example.read(Words(_plain(words), "f"))


def _plain(words):
    return {
        **words,
        "views": [{**v, "before": list(v["before"]), "after": list(v["after"])} for v in words["views"]],
    }


@pytest.mark.parametrize(("case", "word"), [(leak, "account "), (signature, "best regards from the team")])
def test_rows_and_texts_are_shown_in_words_where_asked(case, word):
    four, model, _ = case()
    for asked in (True, False):
        found = examples_of(model, model, four.test, four.T, None, with_images=asked)
        views = [view for example in found for view in example.views]
        assert all(bool(view.words) == asked for view in views)
        assert not any(view.picture for view in views)
        if asked:
            assert all(word in view.words for view in views if view.with_T)
        written = json.loads(json.dumps([one.to_dict() for one in found]))
        assert [Example.read(Words(one, "f")) for one in written] == list(found)
