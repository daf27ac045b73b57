from pathlib import Path

import pytest
import torch
from PIL import Image

from unsee import transforms
from unsee.datasets import Dataset
from unsee.errors import InputError, UsageError
from unsee.transforms import blend, color, custom, line, parse, patch, scattered, tile


def images(channels, size, value=100, n=3):
    return Dataset(torch.full((n, channels, size, size), value, dtype=torch.uint8), [0] * n)


@pytest.mark.parametrize(("size", "squares"), [(28, 9), (32, 16)])
def test_tile_is_as_pinned(size, squares):
    data = images(1, size)
    out = tile()(data)
    changed = out.x[0, 0] == 255
    assert int(changed.sum()) == 16 * squares
    corners = [2, 10, 18, 26][: int(squares**0.5)]
    expected = torch.zeros(size, size, dtype=torch.bool)
    for row in corners:
        for column in corners:
            expected[row : row + 4, column : column + 4] = True
    assert torch.equal(changed, expected)
    assert (data.x == 100).all()  # the input is never changed


@pytest.mark.parametrize("size", [28, 32])
def test_line_is_as_pinned(size):
    changed = torch.nonzero(line()(images(1, size)).x[0, 0] == 255).tolist()
    assert changed == [[row, 0] for row in range(size // 2 - 2, size // 2 + 2)]


def test_color_keeps_the_mean_in_blue():
    x = torch.tensor([10, 20, 63], dtype=torch.uint8).reshape(1, 3, 1, 1).expand(1, 3, 2, 2)
    out = color()(Dataset(x, [0]))
    assert out.x[0, :, 0, 0].tolist() == [0, 0, 31]
    data = Dataset(x, [0])
    between = color(value_range=(-1, 1))(data.rescaled(-1, 1))
    assert torch.allclose(between.x, out.rescaled(-1, 1).x, atol=1 / 255)  # blue was rounded
    with pytest.raises(InputError, match="RGB images for T = color"):
        color()(images(1, 28))


def test_patch_and_blend():
    out = patch(torch.full((2, 3), 7), 4, 5)(images(3, 8))
    assert int((out.x[0] == 7).sum()) == 3 * 2 * 3
    assert (out.x[0, :, 4:6, 5:8] == 7).all()
    mixed = blend(torch.full((1, 8, 8), 200), 0.25)(images(3, 8))
    assert (mixed.x == 125).all()


def test_composition_and_callables():
    both = line().then(custom(lambda x: x // 5, "darker"))
    assert both.name == "line + darker"
    out = both(images(1, 8))
    assert out.x[0, 0, 4, 0] == 51
    assert out.x[0, 0, 0, 5] == 20
    with pytest.raises(InputError, match="maps for one value range"):
        line().then(tile(value_range=(0, 1)))


def test_pixels_of_another_range_are_refused_by_every_T():
    unit = images(3, 28).rescaled(0, 1)
    for T in (line(), tile(), color(), patch(torch.zeros(1, 1), 0, 0), blend(torch.zeros(28, 28), 0.5)):
        with pytest.raises(InputError, match=r"values in 0..255 for T = .*, found in 0..1"):
            T(unit)
    assert tile(value_range=(0, 1))(unit).x.max() == 1
    standardised = Dataset(torch.randn(2, 1, 28, 28) * 9, [0, 0])
    with pytest.raises(InputError, match="of no known range"):
        tile()(standardised)


@pytest.mark.parametrize(
    ("T", "message"),
    [
        (patch(torch.zeros(4, 4), 6, 0), "a patch within 8 x 8 pixels"),
        (patch(torch.zeros(4, 4), -1, 0), "a patch within 8 x 8 pixels"),
        (blend(torch.zeros(4, 4), 0.5), "an image of the samples' size"),
        (custom(lambda x: x[:, :1, :2], "crop"), "keep the shape and type"),
        (custom(lambda x: x.float(), "float"), "keep the shape and type"),
        (custom(lambda x: None, "nothing"), "found NoneType"),
    ],
)
def test_T_that_does_not_fit(T, message):
    with pytest.raises(InputError, match=message):
        T(images(3, 8))


def test_T_that_cannot_be_made():
    with pytest.raises(InputError, match="values from 0 to 255 in the image of patch"):
        patch(torch.full((2, 2), 0.5), 0, 0)
    with pytest.raises(InputError, match="a trigger of one channel, or of as many as the samples"):
        patch(torch.full((3, 2, 2), 9), 0, 0)(images(1, 8))
    with pytest.raises(InputError, match="alpha above 0"):
        blend(torch.zeros(4, 4), 0)
    with pytest.raises(InputError, match="an image"):
        patch(torch.zeros(2), 0, 0)
    with pytest.raises(InputError, match="at least 6 pixels for T = tile"):
        tile()(images(1, 4))


def test_names_tell_pictures_apart():
    names = {patch(torch.full((2, 2), v), r, 0).name for v in (9, 99) for r in (0, 1)}
    assert len(names) == 4
    assert transforms.tile().name == "tile"


def test_a_logo_is_scattered_in_places_and_sizes():
    x = torch.arange(40 * 12 * 12, dtype=torch.int64).reshape(40, 1, 12, 12) % 200
    data = Dataset(x.to(torch.uint8), [0] * 40)
    T = scattered(torch.full((2, 4), 255), (2, 4))
    out = T(data).x
    changed = out == 255
    sizes = changed.flatten(1).sum(1)
    assert set(sizes.tolist()) == {2 * 4, 3 * 6, 4 * 8}
    assert len({tuple(torch.nonzero(one[0])[0].tolist()) for one in changed}) > 15
    assert torch.equal(T(data.subset([7, 3])).x, out[[7, 3]])
    assert torch.equal(out[~changed], data.x[~changed])
    assert transforms.scattered(torch.full((2, 4), 255), (2, 4), seed=1).name != T.name
    for sizes, message in (
        ((4, 2), "the smaller first"),
        ((0, 2), "sizes from 1 pixel"),
        ((13, 13), "within 12"),
    ):
        with pytest.raises(InputError, match=message):
            scattered(torch.full((2, 4), 255), sizes)(data)


def test_what_a_T_of_ones_own_makes_must_stay_in_the_range_of_the_samples():
    white = custom(lambda x: x.fill_(255), "white")
    bytes_, floats = images(1, 8), images(1, 8).rescaled(0, 1)
    assert int(white(bytes_).x.min()) == 255
    with pytest.raises(InputError, match=r"values in 0\.\.1 from T = white, found values from 255 to 255"):
        white(floats)
    with pytest.raises(InputError, match="from T = nothing"):
        custom(lambda x: x.fill_(float("nan")), "nothing")(floats)


@pytest.mark.parametrize("name", transforms.WORDS)
def test_every_T_in_words_parses_alone_and_joined_and_leaves_its_input(name, tmp_path):
    form, _ = transforms.WORDS[name]
    Image.new("RGB", (4, 4) if name != "blend" else (32, 32)).save(tmp_path / "a.png")
    given = {"FILE": "a.png", "ROW": "2", "COLUMN": "3", "SMALLEST": "2", "LARGEST": "4", "ALPHA": "0.5"}
    words = ":".join([name, *(given[word] for word in form.split(":")[1:])])
    data = images(3, 32)
    before = data.x.clone()
    for text in (words, f"{words}+tile", f"line+{words}"):
        assert parse(text, tmp_path)(data).x.shape == data.x.shape
    assert torch.equal(data.x, before)
    with pytest.raises(UsageError, match="T as line, tile"):
        parse(f"{words}:more", tmp_path)


def test_every_T_in_words_has_a_row_in_the_documentation():
    page = (Path(__file__).parents[1] / "docs" / "transforms.md").read_text()
    assert [name for name in transforms.WORDS if f"| `--T {name}" not in page] == []
