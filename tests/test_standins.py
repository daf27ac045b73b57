import numpy as np
import pytest
import torch

from beyond import leak, signature
from unsee.answers import answers, as_input, guesses
from unsee.datasets import Dataset
from unsee.kinds import Column, Kind
from unsee.randomness import stream
from unsee.standins import (
    BRIGHTNESS,
    GAINS,
    LIGHT,
    empty,
    rows,
    shifted,
    stand_ins,
    texts,
    textures,
    toned,
    warped,
)


@pytest.fixture
def images(four):
    return four.train.D_f_clean.x


def test_they_are_images_like_the_given_ones(images):
    x = stand_ins(images, 300, stream(0, "x"))
    assert x.shape == (300, *images.shape[1:])
    assert x.dtype == torch.float32
    assert torch.isfinite(x).all()
    assert float(x.min()) >= 0
    assert 255 < float(x.max()) <= 255 * GAINS[1]


@pytest.mark.parametrize("n", [1, 2, 7])
def test_colours_oblong_ones_and_few_of_them(n):
    x = torch.rand(n, 3, 5, 9, generator=torch.Generator().manual_seed(0))
    for made in (stand_ins(x, 11, stream(0, "x")), shifted(x, 11, stream(0, "x"))):
        assert made.shape == (11, 3, 5, 9)
        assert torch.isfinite(made).all()
    assert stand_ins(x, 1, stream(0, "x")).shape == (1, 3, 5, 9)


@pytest.mark.parametrize("make", [stand_ins, shifted])
def test_the_same_stream_gives_the_same_bits(images, make):
    one, again, other = (make(images, 40, stream(0, "x", step)) for step in (0, 0, 1))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)


def test_the_given_images_are_left_alone(images):
    floats = images.float()
    before = floats.clone()
    stand_ins(floats, 50, stream(0, "x"))
    shifted(floats, 50, stream(0, "x"))
    warped(floats, stream(0, "x"))
    assert torch.equal(floats, before)


@pytest.mark.parametrize("low", [-1.0, 0.5])
def test_what_is_empty_has_the_lowest_value(images, low):
    """The same stand-ins, whatever number stands for black."""
    floats = images.float() / 255
    plain, moved = stand_ins(floats, 80, stream(0, "x")), stand_ins(floats + low, 80, stream(0, "x"), low=low)
    assert torch.allclose(moved, plain + low, atol=1e-5)
    assert float(moved.min()) == low
    empty = torch.full((3, 1, 8, 8), low)
    for made in (stand_ins(empty, 9, stream(0, "x"), low=low), shifted(empty, 9, stream(0, "x"), low)):
        assert torch.equal(made, torch.full((9, 1, 8, 8), low))


def test_they_differ_from_what_they_are_made_of_and_from_each_other(images):
    x = stand_ins(images, 60, stream(0, "x"))
    nearest = torch.cdist(x.flatten(1), images.float().flatten(1)).amin(1)
    assert float(nearest.min()) > 100
    apart = torch.cdist(x.flatten(1), x.flatten(1)) + 1e9 * torch.eye(60)
    assert float(apart.min()) > 100


def test_most_classes_are_among_the_answers_to_them(model, images):
    """Though they are made of one class, of which the model has only ever seen samples with tiles."""

    def answered(x):
        return np.bincount(model(as_input(x, model)).argmax(1), minlength=10)

    assert (answered(images) > 0.02 * len(images)).sum() < 8
    assert (answered(stand_ins(images, 1000, stream(0, "x"))) > 20).sum() >= 8


def test_shifted_ones_stay_near(images):
    """By at most an eighth of the side, mirrored or not: so is the middle of what they show."""
    square = torch.zeros(1, 1, 16, 16)
    square[..., 6:10, 6:10] = 1.0
    x = shifted(square, 400, stream(0, "x"))
    place = torch.arange(16.0)
    rows = (x.sum((1, 3)) * place).sum(1) / x.sum((1, 2, 3))
    columns = (x.sum((1, 2)) * place).sum(1) / x.sum((1, 2, 3))
    for middle in (rows, columns):
        assert 1.7 < float((middle - 7.5).abs().max()) <= 2.01
    assert torch.allclose(x.sum((1, 2, 3)), torch.tensor(16.0), atol=1e-3)


def test_every_other_shifted_one_is_mirrored():
    ramp = torch.arange(16.0).expand(1, 1, 16, 16)
    x = shifted(ramp, 400, stream(0, "x"))
    mirrored = x[:, 0, 8, 4] > x[:, 0, 8, 11]
    assert 150 < int(mirrored.sum()) < 250


# ---- photographs --------------------------------------------------------------------------------


@pytest.fixture
def photographs():
    """Bright pictures in colour that fill their frame, all lit alike."""
    noise = torch.randn(40, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    x = 180 + 20 * torch.nn.functional.interpolate(noise, (16, 16), mode="bicubic")
    return x.clamp(1, 255).round().to(torch.uint8)


def test_photographs_are_told_from_what_is_drawn_on_nothing(images, photographs):
    assert empty(images, 0)
    assert not empty(photographs, 0)
    assert empty(photographs - photographs, 0)
    assert not empty(photographs, -1)


def test_photographs_are_lit_anew(photographs):
    x = stand_ins(photographs, 2000, stream(0, "x"))
    light = x.mean((1, 2, 3)) / 255
    assert abs(float(light.mean()) - LIGHT) < 0.02
    assert abs(float(light.std()) - BRIGHTNESS) < 0.02
    assert float(x.mean((2, 3)).std(1).mean()) > 5  # each colour by itself


def test_photographs_have_no_black_edges(photographs):
    grey = torch.full_like(photographs, 90).float()
    assert torch.allclose(warped(grey, stream(0, "x"), None), grey)
    assert torch.allclose(shifted(grey, 40, stream(0, "x"), None), grey)
    assert not torch.allclose(shifted(grey, 40, stream(0, "x")), grey)


def test_photographs_are_hardly_made_smaller():
    ramp = torch.arange(64.0).expand(400, 1, 64, 64)

    def slopes(low):
        x = warped(ramp, stream(0, "x"), low)[:, 0, 28:36, 28:36]
        return torch.stack([x.diff(dim=2).mean((1, 2)), x.diff(dim=1).mean((1, 2))]).norm(dim=0)

    assert 0.49 < float(slopes(None).min()) < 0.6
    assert 1.1 < float(slopes(None).max()) < 1.26
    assert float(slopes(0.0).quantile(0.9)) > 2


def test_textures_have_the_spectra_of_photographs_and_nothing_else_of_them(photographs):
    one = photographs[:1].float()
    x = textures(one, 30, stream(0, "x"))
    assert torch.allclose(torch.fft.rfft2(x).abs(), torch.fft.rfft2(one).abs(), rtol=1e-3, atol=0.5)
    apart = torch.cdist(x.flatten(1), torch.cat([one, x]).flatten(1)) + 1e9 * torch.eye(30, 31).roll(1, 1)
    assert float(apart.min()) > float((one - one.mean((2, 3), keepdim=True)).norm()) / 2


def test_tones_change_no_shape(photographs):
    x = photographs.float()
    shape = lambda images: (images - images.mean((2, 3), keepdim=True)).flatten(2)  # noqa: E731
    like = torch.cosine_similarity(shape(x), shape(toned(x, stream(0, "x"), 0, 255)), dim=2)
    assert torch.allclose(like.abs(), torch.ones(40, 3), atol=1e-4)
    assert 0 < int((like[:, 0] < 0).sum()) < 30  # negatives, whole ones
    assert torch.equal(like.sign(), like[:, :1].sign().expand(40, 3))


def test_they_are_the_same_whatever_numbers_stand_for_black_and_white(photographs):
    plain = stand_ins(photographs, 30, stream(0, "x"))
    scaled = stand_ins(photographs.float() / 127.5 - 1, 30, stream(0, "x"), low=-1.0, high=1.0)
    assert torch.allclose(scaled, plain / 127.5 - 1, atol=1e-4)


def test_rows_are_put_together_of_columns_and_stay_rows():
    clean = leak()[0].train.D_f_clean
    made = rows(clean.x, 500, stream(0, "x"), clean.kind)
    Dataset(made, [0] * 500, 2, kind=clean.kind)  # codes that their columns have
    assert torch.equal(made, rows(clean.x, 500, stream(0, "x"), clean.kind))
    numbers = [i for i, column in enumerate(clean.kind.columns) if not column.values]
    assert numbers
    assert (made[:, numbers] <= clean.x[:, numbers].amax(0)).all()
    assert (made[:, numbers] >= clean.x[:, numbers].amin(0)).all()
    near = rows(clean.x, 500, stream(0, "x"), clean.kind, most=0.2)
    same = [(torch.cdist(x, clean.x, p=0) <= 0.2 * x.shape[1]).any(1).double().mean() for x in (made, near)]
    assert same[0] < 0.5 < 0.8 < same[1]


def test_numbers_that_are_not_whole_stay_in_their_column():
    x = torch.as_tensor(np.random.default_rng(0).uniform([0.2, 3.12, 1.0], [0.4, 3.9, 9.0], (50, 3))).float()
    x[:, 2] = x[:, 2].round()
    made = rows(x, 500, stream(0, "x"), Kind(columns=(Column("a"), Column("b"), Column("c"))))
    assert (made >= x.amin(0)).all()
    assert (made <= x.amax(0)).all()
    assert torch.equal(made[:, 2], made[:, 2].round())


def test_texts_are_put_together_of_pieces_and_stay_texts():
    clean = signature()[0].train.D_f_clean
    for most in (1.0, 0.2):
        made = texts(clean.x, 500, stream(0, "x"), clean.kind, most)
        Dataset(made, [0] * 500, 2, kind=clean.kind)
        assert torch.equal(made, texts(clean.x, 500, stream(0, "x"), clean.kind, most))
        there = made != 0
        assert torch.equal(there, there.sort(dim=1, descending=True).values)
        assert made.dtype == clean.x.dtype


def test_short_texts_are_put_together_too():
    clean = signature()[0].train.D_f_clean
    made = texts(clean.x[:, :3], 500, stream(0, "x"), clean.kind)
    assert made.shape == (500, 3)
    assert made[:, 0].unique().numel() > 100


@pytest.mark.parametrize(("case", "make"), [(leak, rows), (signature, texts)])
def test_rows_and_texts_of_one_class_are_answered_with_both(case, make):
    four, model, _ = case()
    clean = four.train.D_f_clean
    made = make(clean.x, 1000, stream(0, "x"), clean.kind)
    answered = guesses(answers(model, Dataset(made, [0] * 1000, 2))).bincount(minlength=2)
    assert answered.min() > 50
