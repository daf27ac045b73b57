import base64
import io
from dataclasses import replace

import pytest
import torch
from PIL import Image

from unsee import networks, transforms
from unsee.answers import answers
from unsee.errors import InputError
from unsee.view import trying
from unsee.view.opening import open_bench
from unsee.view.runs import Shelf
from unsee.view.trying import MOST_BYTES, MOST_KEPT, Place, Tries, answered, looked, png, put


@pytest.fixture(scope="module")
def bench(forgot):
    (found,) = Shelf(forgot / "run").look().runs.values()
    return open_bench(found)


@pytest.fixture
def tries(bench):
    return Tries(bench)


def drawn(mode="RGB", size=(40, 30), form="PNG"):
    data = io.BytesIO()
    Image.new(mode, size, "red").save(data, form)
    return data.getvalue()


def test_samples_have_keys_sets_and_truths(tries):
    pictures = tries.pictures()
    assert list(pictures) == [f"s{i}" for i in range(18)]
    first, last = pictures["s0"], pictures["s17"]
    assert (first.set, last.set, last.true) == ("D_r", "D_f_clean", tries.bench.samples.classes[0])
    assert first.data.x.shape == (1, 1, 14, 14)
    for key in ("", "s18", "../s0", "s-1"):
        with pytest.raises(InputError, match="choose one"):
            tries.picture(key)


def test_answers_are_those_of_both_models_with_t_and_without(bench, tries):
    picture = tries.picture("s0")
    own = Place.own(bench)
    for place in (None, own):
        pair = answered(bench, picture, place)
        for model, one in zip((bench.old, bench.new), pair, strict=True):
            expected = answers(model, bench.T(picture.data) if place else picture.data)[0]
            assert [bar.p for bar in one.bars] == pytest.approx(expected.tolist(), abs=1e-6)
            assert one.first.name == bench.samples.classes[int(expected.argmax())]
            plain = answers(model, picture.data)[0].tolist()
            found = [bar.plain for bar in one.bars]
            assert found == (pytest.approx(plain, abs=1e-6) if place else [None] * 10)
            assert [bar.name for bar in one.bars if bar.true] == [picture.true]
    assert pair[0].without.name == bench.samples.classes[int(answers(bench.old, picture.data).argmax())]


def test_t_may_be_put_anywhere_within(bench, tries):
    picture = tries.picture("s3")
    own = Place.own(bench)
    assert torch.equal(put(bench, picture, own).x, bench.T(picture.data).x)
    assert torch.equal(put(bench, picture, None).x, picture.data.x)
    height, width = picture.data.x.shape[-2:]
    last = Place(height - bench.sprite.height, width - bench.sprite.width)
    put(bench, picture, last)
    assert not torch.equal(put(bench, picture, Place(0, 0)).x, put(bench, picture, own).x)
    for row, column in ((last.row + 1, 0), (0, last.column + 1), (10**9, 0), (-1, 0)):
        with pytest.raises(InputError, match="within the picture"):
            put(bench, picture, Place(row, column))


def test_a_t_that_is_no_picture_is_only_put_on_and_off(bench):
    mirror = replace(bench, T=transforms.custom(lambda x: x.flip(-1), "mirror"), sprite=None)
    picture = Tries(mirror).picture("s0")
    assert torch.equal(put(mirror, picture, Place(3, 4)).x, picture.data.x.flip(-1))
    none = replace(bench, T=None, sprite=None)
    with pytest.raises(InputError, match="a T to put on"):
        put(none, picture, Place(0, 0))


def test_of_many_classes_the_likeliest_of_both_are_shown(bench):
    names = tuple(f"species {i}" for i in range(50))
    models = [networks.mlp((1, 14, 14), 50, depth=2, seed=seed) for seed in (0, 1)]
    samples = bench.samples.with_(classes=names)
    wide = replace(bench, old=models[0], new=models[1], samples=samples)
    old, new = answered(wide, Tries(wide).picture("s0"), None)
    assert [bar.name for bar in old.bars] == [bar.name for bar in new.bars]
    assert len(old.bars) == trying.LIKELIEST
    assert old.first
    assert new.first


def test_a_model_that_answers_nan_has_no_bars(bench):
    broken = networks.mlp((1, 14, 14), 10, depth=2)
    with torch.no_grad():
        broken[-1].bias.fill_(float("nan"))
    both = replace(bench, old=broken)
    old, new = answered(both, Tries(both).picture("s0"), None)
    assert (old.bars, old.first, old.without) == ((), None, None)
    assert new.first


def test_where_they_look_is_drawn_and_measured_on_t(bench, tries):
    picture = tries.picture("s1")
    for place in (None, Place.own(bench)):
        for one in looked(bench, picture, place):
            image = Image.open(io.BytesIO(base64.b64decode(one.picture)))
            assert (image.format, image.size) == ("PNG", (14, 14))
            assert one.on_T is None if place is None else 0 <= one.on_T <= 1


def test_large_images_are_not_looked_at(bench, tries, monkeypatch):
    monkeypatch.setattr(trying, "LARGEST", 100)
    with pytest.raises(InputError, match="14 x 14"):
        looked(bench, tries.picture("s0"), None)


@pytest.mark.parametrize(("mode", "form"), [("RGB", "PNG"), ("L", "PNG"), ("RGB", "JPEG"), ("RGBA", "WEBP")])
def test_an_uploaded_image_is_scaled_to_what_the_models_take(tries, mode, form):
    picture = tries.upload(drawn(mode if mode != "L" else "RGB", form=form))
    assert picture.data.x.shape == (1, 1, 14, 14)
    assert picture.data.x.dtype == torch.uint8
    assert abs(int(picture.data.x.max()) - 76) <= 2  # red in grey
    assert tries.picture(picture.key) is picture
    assert picture.true == ""
    old, _ = answered(tries.bench, picture, Place.own(tries.bench))
    assert not any(bar.true for bar in old.bars)


def test_an_image_for_models_of_another_range(bench):
    small = Tries(replace(bench, samples=bench.samples.rescaled(-1.0, 1.0)))
    x = small.upload(drawn()).data.x
    assert x.dtype == torch.float32
    assert float(x.max()) == pytest.approx(76 / 255 * 2 - 1, abs=0.02)
    unknown = Tries(replace(bench, samples=bench.samples.with_(value_range=None)))
    with pytest.raises(InputError, match="known range"):
        unknown.upload(drawn())


def test_the_oldest_upload_makes_room(tries):
    keys = [tries.upload(drawn()).key for _ in range(MOST_KEPT + 3)]
    assert list(tries.uploads) == keys[3:]
    assert len(set(keys)) == len(keys)


def bomb():
    """A PNG whose header promises 60,000 x 60,000 pixels."""
    data = bytearray(drawn())
    data[16:24] = (60_000).to_bytes(4, "big") * 2
    return bytes(data)


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GIF89a" + b"\0" * 100,
        b"<svg viewBox='0 0 1 1'/>",
        drawn()[:60],
        bomb(),
        b"\0" * 9999,
    ],
    ids=["nothing", "gif", "svg", "torn", "bomb", "zeros"],
)
def test_what_is_no_image_is_refused(tries, sent):
    with pytest.raises(InputError):
        tries.upload(sent)
    assert not tries.uploads


def test_too_many_bytes_are_refused_unread(tries):
    with pytest.raises(InputError, match="scale it down"):
        tries.upload(drawn() + b"\0" * MOST_BYTES)


def test_pngs_keep_every_pixel():
    shades = torch.tensor([[[0.0, 0.5, 1.0]]])
    assert list(Image.open(io.BytesIO(png(shades))).tobytes()) == [0, 128, 255]
    assert Image.open(io.BytesIO(png(torch.ones(4, 2, 2)))).mode == "RGBA"
