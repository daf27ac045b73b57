import numpy as np
import pytest
import torch
from PIL import Image

from unsee.datasets import Dataset
from unsee.errors import InputError, UsageError
from unsee.filling import fill, filled, parse, pasted


def relaxed(x, region, rounds=4000):
    """The same by patience: every masked pixel becomes the mean of its neighbours, again and again."""
    x = x.double().clone()
    x[..., region] = 0
    inside = torch.ones_like(x)
    for _ in range(rounds):
        sums, counts = torch.zeros_like(x), torch.zeros_like(x)
        for dim in (-2, -1):
            n = x.shape[dim]
            for a, b in ((0, 1), (1, 0)):
                to = [slice(None)] * x.ndim
                of = [slice(None)] * x.ndim
                to[dim], of[dim] = slice(a, n - b), slice(b, n - a)
                sums[tuple(to)] += x[tuple(of)]
                counts[tuple(to)] += inside[tuple(of)]
        x[..., region] = (sums / counts)[..., region]
    return x


@pytest.mark.parametrize("where", [(2, 2), (0, 0), (5, 6), (0, 6)])
def test_filled_is_what_patience_comes_to(where):
    torch.manual_seed(0)
    x = torch.rand(3, 2, 9, 10) * 255
    region = torch.zeros(9, 10, dtype=torch.bool)
    region[where[0] : where[0] + 4, where[1] : where[1] + 4] = True
    found = fill(region).pixels(x.double().clone())
    assert torch.allclose(found, relaxed(x, region), atol=1e-6)
    assert torch.equal(found[..., ~region], x.double()[..., ~region])


def test_two_regions_and_a_plane_is_continued_exactly():
    plane = torch.arange(8.0).repeat(8, 1)[None, None]
    region = torch.zeros(8, 8, dtype=torch.bool)
    region[1:3, 1:3] = region[4:7, 4:6] = True
    marked = plane.clone()
    marked[..., region] = 99
    assert torch.allclose(fill(region).pixels(marked), plane, atol=1e-5)


def test_bytes_stay_bytes_and_the_old_value_does_not_matter():
    x = torch.full((2, 3, 6, 6), 100, dtype=torch.uint8)
    x[..., 2:4, 2:4] = 255
    filled = parse("mask:2:2:2:2", 6, 6).pixels(x.clone())
    assert filled.dtype == torch.uint8
    assert torch.equal(filled, torch.full_like(x, 100))


def test_a_mask_from_a_file_takes_the_size_of_the_samples(tmp_path):
    mask = np.zeros((16, 16), np.uint8)
    mask[:8, :8] = 255
    Image.fromarray(mask).save(tmp_path / "mask.png")
    x = torch.full((1, 1, 8, 8), 7, dtype=torch.uint8)
    x[..., 0, 0] = 200
    assert int(parse("mask:mask.png", 8, 8, tmp_path).pixels(x)[0, 0, 0, 0]) == 7


@pytest.mark.parametrize(
    "text", ["mask", "mask:", "mask:1:2:3", "mask:1:2:3:x", "mask:1:2:-3:4", "patch:1:1:1:1"]
)
def test_words_that_are_no_mask(text):
    with pytest.raises(UsageError, match="mask:ROW:COLUMN:HEIGHT:WIDTH"):
        parse(text, 8, 8)


def test_masks_that_cannot_be_filled(tmp_path):
    with pytest.raises(InputError, match="within 8 x 8"):
        parse("mask:4:4:8:2", 8, 8)
    with pytest.raises(InputError, match="a part of the image"):
        parse("mask:0:0:8:8", 8, 8)
    with pytest.raises(InputError, match="a part of the image"):
        fill(torch.zeros(8, 8))
    with pytest.raises(InputError, match="no file"):
        parse("mask:none.png", 8, 8, tmp_path)
    with pytest.raises(InputError, match="the samples' size"):
        parse("mask:0:0:2:2", 8, 8).pixels(torch.zeros(1, 1, 9, 9))


def test_each_image_has_a_mask_of_its_own():
    x = torch.full((3, 1, 8, 8), 100, dtype=torch.uint8)
    masks = torch.zeros(3, 8, 8)
    for i in range(3):
        masks[i, i : i + 3, 2 * i : 2 * i + 3] = 1
        x[i, 0, i : i + 3, 2 * i : 2 * i + 3] = 255
    data = Dataset(x, [0, 1, 0])
    assert (filled(data, masks).x == 100).all()
    assert (data.x == 255).any()


def test_T_is_pasted_from_marked_images():
    x = torch.zeros(4, 1, 6, 6, dtype=torch.uint8)
    masks = torch.zeros(4, 6, 6)
    for i in range(4):
        masks[i, i, : i + 1] = 1
        x[i, 0, i, : i + 1] = 10 * (i + 1)
    T = pasted(Dataset(x, [0] * 4), masks)
    others = Dataset(torch.randint(100, 200, (60, 1, 6, 6), dtype=torch.uint8), [0] * 60)
    out = T(others).x
    changed = out != others.x
    assert {int(v) for v in out[changed].unique()} == {10, 20, 30, 40}
    assert set(changed.flatten(1).sum(1).tolist()) == {1, 2, 3, 4}
    assert torch.equal(T(others.subset([5])).x, out[5:6])
    assert T.by_chance


@pytest.mark.parametrize(
    ("masks", "message"),
    [
        (torch.ones(3, 6, 6), "a mask .* for each image"),
        (torch.ones(4, 5, 6), "a mask .* for each image"),
        (torch.zeros(4, 6, 6), "a mark in each mask"),
    ],
)
def test_masks_that_do_not_fit_are_refused(masks, message):
    data = Dataset(torch.zeros(4, 1, 6, 6, dtype=torch.uint8), [0] * 4)
    for make in (filled, pasted):
        with pytest.raises(InputError, match=message):
            make(data, masks)
    with pytest.raises(InputError, match="images like those of D_f"):
        pasted(data, torch.eye(6).expand(4, 6, 6))(Dataset(torch.zeros(1, 1, 5, 5, dtype=torch.uint8), [0]))
