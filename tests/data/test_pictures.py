import os

import numpy as np
import pytest
import torch
from PIL import Image

from odd_images import BAD, FORMATS, GRADIENT, encoded, in_format, png, saved
from unsee.data import pictures
from unsee.data.pictures import class_name, decode, read, read_folder, read_heap, stacked, with_channels
from unsee.errors import InputError


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(("mode", "channels"), [("L", 1), ("RGB", 3)])
def test_the_four_formats(tmp_path, form, mode, channels):
    how = {"lossless": True} if form == "webp" else {"quality": 100} if form == "jpg" else {}
    path = saved(tmp_path / f"a.{form}", mode, **how)
    with Image.open(path) as image:
        kept = np.atleast_3d(np.asarray(image)).transpose(2, 0, 1)
    assert np.array_equal(read(path), kept)
    if form != "webp":  # which knows no grey
        assert read(path).shape == (channels, 6, 8)


@pytest.mark.parametrize(
    ("mode", "form", "channels"),
    [
        ("1", "png", 1),
        ("LA", "png", 1),
        ("RGBA", "png", 3),
        ("P", "png", 3),
        ("P", "bmp", 3),
        ("CMYK", "jpg", 3),
    ],
)
def test_other_modes_become_grey_or_rgb(tmp_path, mode, form, channels):
    assert read(saved(tmp_path / f"a.{form}", mode)).shape == (channels, 6, 8)


def test_what_is_transparent_lies_over_black(tmp_path):
    pixels = np.full((1, 3, 4), 200, np.uint8)
    pixels[0, :, 3] = 0, 128, 255
    Image.fromarray(pixels).save(tmp_path / "a.png")
    assert read(tmp_path / "a.png")[0, 0].tolist() == [0, 100, 200]
    Image.fromarray(pixels[..., 2:]).save(tmp_path / "b.png")
    assert read(tmp_path / "b.png")[0, 0].tolist() == [0, 100, 200]
    key = png(2, 1, 8, 0, b"\0\x07\x09", (b"tRNS", b"\0\x07"))
    (tmp_path / "c.png").write_bytes(key)
    assert read(tmp_path / "c.png").tolist() == [[[0, 9]]]


def test_a_rotation_in_exif_is_applied(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # turn it clockwise
    path = saved(tmp_path / "a.png", exif=exif)
    assert np.array_equal(read(path), np.rot90(GRADIENT, -1).transpose(2, 0, 1))


def test_a_photo_with_a_preview_is_no_animation(tmp_path):
    image = Image.fromarray(GRADIENT)
    image.save(tmp_path / "a.jpg", format="MPO", save_all=True, append_images=[image])
    assert read(tmp_path / "a.jpg").shape == (3, 6, 8)


@pytest.mark.parametrize("case", BAD)
def test_what_is_no_plain_whole_image_is_refused_by_its_name(tmp_path, case):
    data, why = BAD[case](tmp_path)
    (tmp_path / "bad.png").write_bytes(data)
    with pytest.raises(InputError, match=why) as caught:
        read(tmp_path / "bad.png")
    assert "bad.png" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("form", FORMATS)
def test_an_image_cut_short_is_refused_unless_all_its_pixels_came(tmp_path, form):
    data = encoded(tmp_path, form)
    whole = read(tmp_path / f"encoded.{form}")
    for length in range(0, len(data), 3):
        (tmp_path / "cut").write_bytes(data[:length])
        try:
            assert read(tmp_path / "cut").equal(whole)
        except InputError:
            continue
        assert form == "png"
        assert len(data) - length <= 20  # a checksum and an empty chunk follow the pixels


def test_a_float_image_is_refused(tmp_path):
    image = Image.fromarray(GRADIENT).convert("F")
    image.format, image.tile = "PNG", []
    with pytest.raises(InputError, match="8 bits"):
        pictures._check(image, "a.png")


def test_an_oversized_file_is_refused_unopened(tmp_path):
    with open(tmp_path / "a.webp", "wb") as file:
        file.truncate(101_000_000)
    with pytest.raises(InputError, match="101,000,000 bytes"):
        read(tmp_path / "a.webp")


@pytest.fixture
def folder(tmp_path):
    for name in ("dog", "cat"):
        (tmp_path / "pets" / name).mkdir(parents=True)
        for number in (2, 1):
            saved(tmp_path / "pets" / name / f"{number}.png")
    return tmp_path / "pets"


def test_a_folder_is_read_class_by_class_and_file_by_file(folder):
    (folder / "cat" / ".DS_Store").write_bytes(b"x")
    (folder / ".git").mkdir()
    (folder / "README.txt").write_text("two pets")
    found = [(picture.class_name, picture.path.name) for picture in read_folder(folder)]
    assert found == [("cat", "1.png"), ("cat", "2.png"), ("dog", "1.png"), ("dog", "2.png")]


def test_grey_among_colour_becomes_rgb(folder):
    saved(folder / "cat" / "1.png", "L")
    x = stacked(read_folder(folder))
    assert x.shape == (4, 3, 6, 8)
    assert x[0, 0].equal(x[0, 2])


def test_sizes_must_agree_or_be_given(folder):
    Image.fromarray(GRADIENT[:3]).save(folder / "dog" / "2.png")
    with pytest.raises(InputError, match=r"images of 6x8 like .*cat/1.png, found 3x8 in .*dog/2.png"):
        stacked(read_folder(folder))
    assert stacked(read_folder(folder, (5, 4))).shape == (4, 3, 5, 4)
    for size in ((0, 4), (-5, -4), (10_000, 10_000)):
        with pytest.raises(InputError, match="size="):
            read_folder(folder, size)


def test_a_link_may_not_lead_out_of_the_folder(folder, tmp_path):
    outside = saved(tmp_path / "private.png")
    (folder / "cat" / "3.png").symlink_to(folder / "dog" / "1.png")
    assert len(read_folder(folder)) == 5
    (folder / "cat" / "4.png").symlink_to(outside)
    with pytest.raises(InputError, match=r"a link out of it, .*cat/4.png"):
        read_folder(folder)
    (folder / "cat" / "4.png").unlink()
    (tmp_path / "elsewhere").mkdir()
    (folder / "bird").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="a link out of it"):
        read_folder(folder)


def test_links_in_a_ring_and_pipes_are_refused_without_waiting(folder):
    (folder / "cat" / "3.png").symlink_to(folder / "cat" / "3.png")
    with pytest.raises(InputError, match=r"no file at .*3.png"):
        read_folder(folder)
    (folder / "cat" / "3.png").unlink()
    os.mkfifo(folder / "cat" / "3.png")
    with pytest.raises(InputError, match=r"no file at .*3.png"):
        read_folder(folder)


def test_folders_that_are_not_sorted_by_class(folder, tmp_path):
    with pytest.raises(InputError, match="No such file"):
        read_folder(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"Not a directory|a folder"):
        read_folder(folder / "cat" / "1.png")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="one sub-folder for each class"):
        read_folder(tmp_path / "empty")
    (folder / "bird").mkdir()
    with pytest.raises(InputError, match=r"images in .*bird, found none"):
        read_folder(folder)
    (folder / "bird").rmdir()
    (folder / "cat" / "kittens").mkdir()
    with pytest.raises(InputError, match=r"no file at .*kittens"):
        read_folder(folder)
    saved(folder / "lost.PNG")
    with pytest.raises(InputError, match=r"in the folder of its class, found .*lost.PNG"):
        read_folder(folder)


def test_a_files_name_cannot_steer_the_terminal(folder):
    (folder / "cat" / "\x1b[2Jx.png").write_bytes(b"x")
    with pytest.raises(InputError) as caught:
        read_folder(folder)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("name", ["T-shirt/top", "Ångström", "日本語", "קטן", "x" * 80, "a b", "😀"])
def test_class_names_that_people_use(name):
    assert class_name(name) == name


@pytest.mark.parametrize(
    "name",
    ["", " ", "\u3000", "x" * 201, "x" * 100_000, "a\nb", "a\tb", "a\0b", "\x1b[31m", "a\x7fb", "a\u0085b"]
    + [f"a{chr(mark)}b" for mark in (0x200B, 0x200E, 0x200F, 0x202A, 0x202E, 0x2028, 0x2029, 0x2066, 0x2069)]
    + ["a\ufeffb", "a\u061cb", "a\u00adb", "a\udc80b", "a\U000e0041b"],
)
def test_class_names_that_hide_something(name):
    with pytest.raises(InputError, match="visible characters") as caught:
        class_name(name)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 1200


def test_two_spellings_of_one_name_are_one_class_too_many(folder):
    for name in ("caf\u00e9", "cafe\u0301"):
        (folder / name).mkdir(exist_ok=True)
    assert class_name("cafe\u0301") == "caf\u00e9"
    with pytest.raises(InputError, match="two spellings"):
        read_folder(folder)


def test_a_heap_is_read_whatever_its_folders_are_called(folder):
    saved(folder / "lost.png")
    saved(folder / "found.JPG")
    (folder / "README.txt").write_text("a heap")
    (folder / "labels.csv").write_text("file,label")
    (folder / ".DS_Store").write_bytes(b"x")
    (folder / "dog" / "puppies").mkdir()
    saved(folder / "dog" / "puppies" / "1.png")
    names = [str(picture.path.relative_to(folder)) for picture in read_heap(folder)]
    assert names[:2] == ["found.JPG", "lost.png"]
    assert names[2:] == ["cat/1.png", "cat/2.png", "dog/1.png", "dog/2.png", "dog/puppies/1.png"]
    assert {picture.class_name for picture in read_heap(folder)} == {""}


def test_a_heap_has_the_order_of_a_folder_sorted_by_class(folder):
    for name in ("cafe\u0301", "cafz", "Dog"):
        (folder / name).mkdir()
        saved(folder / name / "1.png")
    in_classes = [picture.path for picture in read_folder(folder)]
    assert [picture.path for picture in read_heap(folder)] == in_classes
    assert len(in_classes) == 7


def test_heaps_that_cannot_be_read(folder, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"images in .*empty, found none"):
        read_heap(tmp_path / "empty")
    with pytest.raises(InputError, match="No such file"):
        read_heap(tmp_path / "nowhere")
    with pytest.raises(InputError, match="size="):
        read_heap(folder, (0, 1))
    (folder / "cat" / "notes.txt").write_text("no image")
    with pytest.raises(InputError, match=r"something else in .*notes.txt"):
        read_heap(folder)
    (folder / "cat" / "notes.txt").unlink()
    (folder / "movie.gif").write_bytes(in_format(tmp_path, "gif", "P"))
    with pytest.raises(InputError, match=r"something else in .*movie.gif"):
        read_heap(folder)


def test_a_heap_keeps_to_its_folder_and_comes_to_an_end(folder, tmp_path):
    (folder / "ring").symlink_to(folder)
    with pytest.raises(InputError, match=r"real folders, .*a link to one, .*ring: copy"):
        read_heap(folder)
    (folder / "ring").unlink()
    (folder / "cat" / "3.png").symlink_to(saved(tmp_path / "private.png"))
    with pytest.raises(InputError, match="a link out of it"):
        read_heap(folder)
    (folder / "cat" / "3.png").unlink()
    deep = folder.joinpath(*"abcdefghijklmnopq")
    deep.mkdir(parents=True)
    with pytest.raises(InputError, match=r"16 deep at most, in .*, found more"):
        read_heap(folder)


def test_bytes_come_through_the_door_of_files(tmp_path):
    data = encoded(tmp_path, "png")
    assert decode(data, "row 1").equal(read(tmp_path / "encoded.png"))
    assert decode(data, "row 1", (3, 2)).equal(read(tmp_path / "encoded.png", (3, 2)))
    for case, (bad, why) in {name: make(tmp_path) for name, make in BAD.items()}.items():
        with pytest.raises(InputError, match=why) as caught:
            decode(bad, f"row 7, {case}")
        assert "row 7" in str(caught.value)
    with pytest.raises(InputError, match="100,000,001 bytes in row 1"):
        decode(bytes(100_000_001), "row 1")


def test_grey_and_colour(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (50, 60, 3), dtype=np.uint8)
    x = torch.from_numpy(pixels).permute(2, 0, 1)[None]
    grey = with_channels(x, 1, "x")
    assert np.array_equal(grey[0, 0], np.asarray(Image.fromarray(pixels).convert("L")))
    assert with_channels(x / 255, 1, "x").mul(255).sub(grey).abs().max() < 1
    assert with_channels(x, 3, "x") is x
    assert with_channels(grey, 1, "x") is grey
    assert with_channels(grey, 3, "x").equal(torch.cat([grey] * 3, 1))
    assert with_channels(with_channels(grey, 3, "x"), 1, "x").equal(grey)
    assert with_channels(torch.cat([x] * 300), 1, "x").shape == (300, 1, 50, 60)
    for given, channels in ((x, 4), (x[:, :2], 3), (x[0], 1), (torch.zeros(3, 7), 3)):
        with pytest.raises(InputError, match=rf"images of {channels} channels in x, found samples of"):
            with_channels(given, channels, "x")
