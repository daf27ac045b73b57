from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from unsee.data import pictures
from unsee.data.listings import Listing
from unsee.data.reading import of_folder, of_listing, of_npz
from unsee.errors import InputError, StoreError

PETS = ("cat", "cow", "dog")
PIXELS = np.random.default_rng(0).integers(0, 256, (6, 4, 5, 3), dtype=np.uint8)


@pytest.fixture
def pets(tmp_path):
    folder = tmp_path / "pets"
    for number, name in enumerate(("cat/1.png", "cat/2.png", "dog/1.png", "dog/3.png")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(PIXELS[number]).save(folder / name)
    return folder


def test_a_folder_with_a_sub_folder_for_each_class(pets):
    data, names = of_folder(pets, PETS, None, None)
    assert names == ("cat/1.png", "cat/2.png", "dog/1.png", "dog/3.png")
    assert (data.y.tolist(), data.classes, data.name) == ([0, 0, 2, 2], PETS, "pets")
    assert np.array_equal(data.x.permute(0, 2, 3, 1), PIXELS[:4])
    assert of_folder(pets, (), None, None)[0].classes == ("cat", "dog")


def test_folders_may_be_called_by_a_classs_number(pets):
    """A class such as T-shirt/top has no folder of its name."""
    (pets / "dog").rename(pets / "2")
    assert of_folder(pets, ("T-shirt/top", "cat", "dog"), None, None)[0].y.tolist() == [2, 2, 1, 1]


def test_with_a_label_the_folders_do_not_matter(pets):
    (pets / "dog" / "1.png").rename(pets / "x.png")
    for label, number in (("cow", 1), (2, 2), ("0", 0)):
        data, names = of_folder(pets, PETS, label, None)
        assert data.y.tolist() == [number] * 4
        assert names == ("x.png", "cat/1.png", "cat/2.png", "dog/3.png")
    assert of_folder(pets, (), "cow", None)[0].classes == ("cow",)
    assert of_folder(pets, (), 2, None)[0].classes == ("0", "1", "2")


def test_folders_that_say_no_label(pets, tmp_path):
    with pytest.raises(
        InputError, match=r"the classes cat, cow in .*found dog: .*, or give one label for all"
    ):
        of_folder(pets, ("cat", "cow"), None, None)
    with pytest.raises(
        InputError, match=r"each image in the folder of its class, .*, or give one label for all"
    ):
        of_folder(pets / "cat", PETS, None, None)
    (tmp_path / "empty").mkdir()
    for label in (None, "cat"):
        with pytest.raises(InputError, match=r"in .*empty, found none"):
            of_folder(tmp_path / "empty", PETS, label, None)


def test_a_folder_of_unknown_classes_is_refused_before_an_image_is_read(pets):
    (pets / "cat" / "0.png").write_bytes(b"broken")
    with pytest.raises(InputError, match=r"found dog"):
        of_folder(pets, ("cat", "cow"), None, None)


@pytest.mark.parametrize("label", ["fish", "3", 3, -1, "", "c\u202eow"])
def test_labels_of_no_class(pets, label):
    with pytest.raises(
        InputError, match=r"a class's name or number, such as cat, cow, dog, as label"
    ) as caught:
        of_folder(pets, PETS, label, None)
    assert str(caught.value).isprintable()


def encoded(number, tmp_path):
    Image.fromarray(PIXELS[number]).save(tmp_path / "x.png")
    return (tmp_path / "x.png").read_bytes()


def test_a_listing_of_files_and_bytes(pets, tmp_path):
    images = [("cat/1.png", pets / "cat" / "1.png"), ("b.png", encoded(5, tmp_path))]
    data, names = of_listing(Listing(images, ["dog", "cat"]), Path("list.csv"), PETS, None, None)
    assert (names, data.y.tolist(), data.classes) == (("cat/1.png", "b.png"), [2, 0], PETS)
    assert np.array_equal(data.x.permute(0, 2, 3, 1), PIXELS[[0, 5]])
    data, _ = of_listing(Listing(images, None), Path("list.csv"), PETS, "cow", (8, 9))
    assert (data.y.tolist(), data.x.shape) == ([1, 1], (2, 3, 8, 9))


@pytest.mark.parametrize("given", [(None, "b"), (None, None), ("a", "a")])
def test_images_without_names_of_their_own_are_numbered(tmp_path, given):
    images = [(name, encoded(0, tmp_path)) for name in given]
    assert of_listing(Listing(images, [0, 1]), Path("x"), PETS, None, None)[1] == ("0", "1")


def test_listings_that_cannot_be_read(pets, tmp_path, monkeypatch):
    data = encoded(0, tmp_path)
    path = Path("list.parquet")
    for images, labels, error, why in (
        ([("a", data)], ["fish"], InputError, r"the classes cat, cow, dog in list.parquet, found fish"),
        ([("a", data)], ["cat", "cat"], StoreError, r"an image in each row of list.parquet, found 1 for 2"),
        ([], ["cat"], InputError, r"rows in list.parquet, found none"),
        ([("a", data), ("b", b"x")], ["cat", "cat"], InputError, r"something else in list.parquet, row 2"),
        ([("a", pets / "no.png")], ["cat"], InputError, r"no file at .*no.png"),
    ):
        with pytest.raises(error, match=why):
            of_listing(Listing(iter(images), labels), path, PETS, None, None)
    monkeypatch.setattr(pictures, "MOST_BYTES", 100)
    with pytest.raises(
        InputError, match=r"at most 100 bytes of pixels in a set, found more by .*row 2: scale"
    ):
        of_listing(Listing([("a", data), ("b", data)], [0, 1]), path, PETS, None, None)
    with pytest.raises(InputError, match=r"at most 100 bytes of pixels in a set"):
        of_folder(pets, PETS, None, None)
    with pytest.raises(InputError, match=r"at most 100 bytes of pixels in a set"):
        of_folder(pets, PETS, "cat", None)


def test_sizes_must_agree_or_be_given(pets, tmp_path):
    Image.fromarray(PIXELS[0][:2]).save(tmp_path / "small.png")
    images = [("a", pets / "cat" / "1.png"), ("b", tmp_path / "small.png")]
    with pytest.raises(InputError, match=r"images of 4x5 like .*1.png, found 2x5 in .*small.png: scale all"):
        of_listing(Listing(images, [0, 1]), Path("x"), PETS, None, None)
    assert of_listing(Listing(images, [0, 1]), Path("x"), PETS, None, (3, 3))[0].x.shape == (2, 3, 3, 3)


def saved(tmp_path, **arrays):
    np.savez(tmp_path / "a.npz", **arrays)
    return tmp_path / "a.npz"


def test_arrays(tmp_path):
    path = saved(tmp_path, x=PIXELS, y=np.array([0, 1, 2, 0, 1, 2]))
    data, names = of_npz(path, PETS, None, None)
    assert (data.y.tolist(), data.classes) == ([0, 1, 2, 0, 1, 2], PETS)
    assert names == ("0", "1", "2", "3", "4", "5")
    assert np.array_equal(data.x.permute(0, 2, 3, 1), PIXELS)
    assert of_npz(path, PETS, "cow", (4, 5))[0].y.tolist() == [1] * 6
    assert of_npz(path, (), None, None)[0].classes == ("0", "1", "2")


def test_arrays_with_names_of_their_own(tmp_path):
    path = saved(tmp_path, x=PIXELS[:2], y=np.array([0, 1]), classes=np.array(["dog", "cat"]))
    assert of_npz(path, PETS, None, None)[0].y.tolist() == [2, 0]
    assert of_npz(path, (), None, None)[0].classes == ("dog", "cat")
    assert of_npz(path, (), "cat", None)[0].y.tolist() == [1, 1]


def test_x_alone_needs_a_label(tmp_path):
    path = saved(tmp_path, x=PIXELS)
    assert of_npz(path, PETS, 2, None)[0].y.tolist() == [2] * 6
    with pytest.raises(
        InputError, match=r"labels y beside x in .*, found none: save them, or give one label"
    ):
        of_npz(path, PETS, None, None)


def test_arrays_that_cannot_be_used(tmp_path):
    for arrays, label, why in (
        ({"images": PIXELS}, None, r"x and y in .*no array of such a name"),
        ({"images": PIXELS}, "cat", r"x and y in"),
        ({"x": PIXELS[:0], "y": np.zeros(0, int)}, None, "one or more samples"),
        ({"x": np.uint8(1)}, "cat", "one or more samples"),
        ({"x": PIXELS, "y": np.full(6, 3)}, None, "labels from 0 to 2 in .*, found 3 at index 0"),
        ({"x": PIXELS, "y": np.zeros(5, int)}, None, "as many labels as samples"),
    ):
        with pytest.raises(InputError, match=why):
            of_npz(saved(tmp_path, **arrays), PETS, label, None)
    with pytest.raises(InputError, match=r"images of 8x8 in .*, found 3x4x5: scale them"):
        of_npz(saved(tmp_path, x=PIXELS), PETS, 0, (8, 8))
