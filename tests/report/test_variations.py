import json
from dataclasses import asdict

import pytest
import torch

from beyond import leak, signature
from unsee.datasets import Dataset
from unsee.errors import InputError
from unsee.evaluation import dependence
from unsee.report.rates import Shift
from unsee.report.variations import AS_IT_IS, Variation, judged, variations_of
from unsee.report.words import Words
from unsee.transforms import blend, color, custom, line, patch, tile

BLANK = Dataset(torch.zeros(3, 1, 28, 28, dtype=torch.uint8), [0, 1, 1])


def shown(T, name, data=BLANK):
    """What a variation of T does to blank images."""
    return {v.name: v for v in variations_of(T, data)}[name](data).x[0, 0]


def box(picture):
    rows, columns = torch.nonzero(picture.sum(1)).flatten(), torch.nonzero(picture.sum(0)).flatten()
    return tuple(int(x) for x in (rows[0], rows[-1] + 1, columns[0], columns[-1] + 1))


def test_a_patch_moves_away_from_its_border():
    T = patch(torch.full((1, 4, 4), 200), 1, 22)
    assert box(shown(T, "moved left by 2 pixels")) == (1, 5, 20, 24)
    assert box(shown(T, "moved down by 2 pixels")) == (3, 7, 22, 26)
    assert box(shown(T, "moved left and down by 4 pixels")) == (5, 9, 18, 22)
    assert box(shown(T, "mirrored")) == (1, 5, 2, 6)


def test_a_patch_is_resized_about_its_middle_and_halved():
    T = patch(torch.full((1, 8, 8), 200), 10, 10)
    assert box(shown(T, "shrunk to 75%")) == (11, 17, 11, 17)
    assert box(shown(T, "grown to 150%")) == (8, 20, 8, 20)
    assert box(shown(T, "half of it")) == (10, 18, 10, 14)
    assert box(shown(line(), "half of it")) == (12, 14, 0, 1)
    assert int(shown(T, "grown to 150%").max()) == 200


def test_dimmed_lies_between_the_image_and_T():
    data = BLANK.with_(x=BLANK.x + 100)
    T = patch(torch.full((1, 4, 4), 200), 3, 3)
    assert int(shown(T, "dimmed to 75%", data)[3, 3]) == 175
    assert int(shown(T, "dimmed to 50%", data)[3, 3]) == 150
    assert int(shown(T, "dimmed to 50%", data)[0, 0]) == 100


def test_what_does_not_differ_from_T_is_left_out():
    coloured = Dataset(torch.arange(2 * 3 * 64).reshape(2, 3, 8, 8).to(torch.uint8), [0, 1])
    names = [v.name for v in variations_of(color(), coloured)]
    assert names == ["dimmed to 75%", "dimmed to 50%", "half of it"]
    whole = blend(torch.arange(28 * 28).reshape(28, 28) % 255, 0.3)
    assert not [v.name for v in variations_of(whole, BLANK) if "shrunk" in v.name or "grown" in v.name]
    assert variations_of(custom(lambda x: x, "nothing"), BLANK) == ()


def test_variations_are_of_images():
    assert variations_of(custom(lambda x: x + 1, "more"), Dataset(torch.rand(4, 6), [0, 1, 0, 1])) == ()
    assert variations_of(tile(), BLANK.subset([])) == ()


def test_at_least_six_for_the_papers_triggers_and_the_data_stays_as_it_is(four):
    before = four.test.D_r.x.clone()
    for T in (tile(), line()):
        varied = variations_of(T, four.test.D_r)
        assert len(varied) >= 6
        assert all(v(four.test.D_r).x.shape == before.shape for v in varied)
    assert torch.equal(four.test.D_r.x, before)


def test_floats_stay_floats_in_their_range():
    T = tile(value_range=(0, 1))
    data = Dataset(torch.rand(3, 3, 20, 20), [0, 1, 1])
    for varied in variations_of(T, data):
        x = varied(data).x
        assert x.dtype == torch.float32
        assert float(x.max()) <= 1


def test_judged_counts_who_is_misled(model, forgotten, four):
    found = judged(model, forgotten.model, tile(), four.test.D_r, four.test.D_f, 0)
    first = found[0]
    assert first.name == AS_IT_IS
    assert first.shift.n == len(four.test.D_r) == 180
    assert first.shift.before.value < 0.3
    assert first.taken[0] > 100
    assert first.taken[1] < first.taken[0]
    assert all(one.shift.n == 180 for one in found)
    assert judged(model, model, tile(), four.test.D_r, None, 0)[0].taken is None


def test_a_variation_from_a_file():
    words = {"name": "x", "shift": {"n": 5, "kept": 1, "gained": 2, "lost": 0}, "taken": [1, 2]}
    assert Variation.read(Words(words, "f")) == Variation("x", Shift(5, 1, 2, 0), (1, 2))
    for wrong in ({"taken": [1]}, {"taken": [9, 9]}, {"taken": [-1, 0]}, {"name": 3}, {"shift": {"n": 1}}):
        with pytest.raises(InputError):
            Variation.read(Words({**words, **wrong}, "f"))


@pytest.mark.parametrize(
    ("case", "name"), [(leak, "farther identifiers"), (signature, "its words turned round")]
)
def test_columns_and_phrases_have_variations_and_say_what_they_change(case, name):
    four, model, _ = case()
    found = judged(model, model, four.T, four.test.D_r, four.test.D_f, 0)
    assert found[0].name == AS_IT_IS
    assert name in [one.name for one in found]
    before, after = found[0].changed
    assert before == after == round(dependence(model, four.test.D_r, four.T) * len(four.test.D_r))
    assert before > 0.2 * len(four.test.D_r)
    assert Variation.read(Words(json.loads(json.dumps(asdict(found[0]))), "facts.json")) == found[0]


def test_a_T_without_variations_is_still_judged_on_a_table():
    four, model, _ = leak()
    alone = custom(four.T.pixels, "mine")
    assert [one.name for one in judged(model, model, alone, four.test.D_r, None, 0)] == [AS_IT_IS]


def test_half_a_count_is_refused():
    words = {"name": "x", "shift": {"n": 9, "kept": 1, "gained": 1, "lost": 1}}
    assert Variation.read(Words(words, "f")).changed is None
    for wrong in ([1], [1, 10], [1, 2, 3], "1"):
        with pytest.raises(InputError):
            Variation.read(Words({**words, "changed": wrong}, "f"))
