import pytest
import torch

from unsee import transforms
from unsee.datasets import Dataset
from unsee.twins import fitted
from unsee.view.sprite import image, sprite_of

LOGO = torch.tensor([[0, 255, 9], [255, 0, 200]], dtype=torch.uint8)


@pytest.fixture(scope="module")
def grey(data):
    return data.test.subset(range(20))


@pytest.fixture(scope="module")
def coloured():
    x = torch.randint(0, 256, (8, 3, 10, 12), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
    return Dataset(x, torch.zeros(8, dtype=torch.long), ("cat",))


@pytest.mark.parametrize(
    "T",
    [transforms.tile(), transforms.line(), transforms.patch(LOGO, 5, 7), transforms.patch(LOGO, 0, 0)],
    ids=lambda T: T.name,
)
def test_at_its_own_place_it_is_t(grey, T):
    sprite = sprite_of(T, grey)
    assert torch.equal(sprite.at(grey, sprite.row, sprite.column).x, T(grey).x)


def test_moved_it_is_t_made_for_that_place(grey, coloured):
    sprite = sprite_of(transforms.patch(LOGO, 5, 7), grey)
    assert (sprite.row, sprite.column, sprite.height, sprite.width) == (5, 7, 2, 3)
    assert torch.equal(sprite.at(grey, 1, 10).x, transforms.patch(LOGO, 1, 10)(grey).x)
    red = torch.tensor([[[200]], [[10]], [[30]]], dtype=torch.uint8)
    sprite = sprite_of(transforms.patch(red, 2, 3), coloured)
    assert torch.equal(sprite.at(coloured, 8, 0).x, transforms.patch(red, 8, 0)(coloured).x)
    assert sprite.rgba()[:, 0, 0].mul(255).round().tolist() == [200, 10, 30, 255]


def test_a_mixed_image_is_seen_through(grey):
    noise = torch.randint(0, 256, grey.x.shape[1:], generator=torch.Generator().manual_seed(1))
    T = transforms.blend(noise.to(torch.uint8), 0.25)
    sprite = sprite_of(T, grey)
    assert (sprite.height, sprite.width) == tuple(grey.x.shape[-2:])
    assert (sprite.at(grey, 0, 0).x.int() - T(grey).x.int()).abs().max() <= 1
    assert sprite.rgba()[3].mean() == pytest.approx(0.25, abs=0.01)
    assert (sprite.rgba()[0] - noise[0] / 255).abs().max() < 0.02


def test_a_fitted_t_is_one_too(grey):
    marked = transforms.patch(LOGO, 5, 7)(grey)
    sprite = sprite_of(fitted(grey.x, marked.x), grey)
    assert (sprite.row, sprite.column) == (5, 7)
    assert (sprite.at(grey, 5, 7).x.int() - marked.x.int()).abs().float().mean() < 1


def test_other_ranges_and_types(grey):
    small = grey.rescaled(0.0, 1.0)
    T = transforms.tile(value_range=(0.0, 1.0))
    sprite = sprite_of(T, small)
    moved = sprite.at(small, sprite.row, sprite.column)
    assert torch.allclose(moved.x, T(small).x, atol=1e-6)
    assert moved.x.dtype == small.x.dtype


def test_the_images_themselves_stay(grey):
    before = grey.x.clone()
    sprite_of(transforms.tile(), grey).at(grey, 0, 0)
    assert torch.equal(grey.x, before)


@pytest.mark.parametrize(
    "pixels",
    [
        lambda x: x.flip(-1),
        lambda x: 255 - x,
        lambda x: x,
        lambda x: (x.float() ** 2 / 255).round().to(torch.uint8),
    ],
    ids=["mirrored", "negative", "nothing", "curved"],
)
def test_what_is_no_picture_is_none(grey, pixels):
    assert sprite_of(transforms.custom(pixels, "T"), grey) is None


def test_colour_mixes_channels_and_tables_have_no_pictures(coloured):
    assert sprite_of(transforms.color(), coloured) is None
    table = Dataset(torch.rand(4, 3), torch.zeros(4, dtype=torch.long), ("a",))
    assert sprite_of(transforms.custom(lambda x: x, "T"), table) is None


def test_bytes_for_pillow():
    assert image(torch.tensor([[[0.0, 1.0]]])).tolist() == [[0, 255]]
    assert image(torch.ones(4, 2, 3)).shape == (2, 3, 4)
