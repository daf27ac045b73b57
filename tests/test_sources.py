import os
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from unsee import sources
from unsee.data.catalogue import KNOWN
from unsee.data.known.adult import ADULT
from unsee.data.known.cifar_10 import CIFAR_10
from unsee.data.known.fashion_mnist import BUNDLED, FASHION_MNIST
from unsee.data.known.spam import SPAM
from unsee.errors import InputError, StoreError, UsageError

RANDOM = np.random.default_rng(0)


@pytest.fixture
def whole():
    """Fashion-MNIST where it was fetched before."""
    if not FASHION_MNIST.path.is_file():
        pytest.skip("needs `unsee data fetch fashion-mnist`")
    return sources.fashion_mnist()


def test_the_bundled_data_is_balanced_and_small():
    data = sources.bundled()
    assert data.train.x.shape == (6_000, 1, 28, 28)
    assert data.test.x.shape == (1_000, 1, 28, 28)
    assert data.train.x.dtype == torch.uint8
    assert data.train.y.bincount().tolist() == [600] * 10
    assert data.test.y.bincount().tolist() == [100] * 10
    assert data.train.classes == data.test.classes == FASHION_MNIST.classes
    assert data.train.value_range == (0.0, 255.0)
    assert os.path.getsize(BUNDLED.path) <= 4_000_000
    assert (BUNDLED.path.parent / "NOTICE-fashion-mnist.txt").is_file()


@pytest.mark.parametrize(
    ("name", "n", "shape", "dtype"),
    [
        ("bundled-adult", (2_000, 1_000), (14,), torch.float32),
        ("bundled-spam", (1_600, 400), (64,), torch.int64),
    ],
)
def test_the_bundled_table_and_texts_are_balanced_and_small(name, n, shape, dtype):
    data = sources.open_source(name)
    for part, count in ((data.train, n[0]), (data.test, n[1])):
        assert part.x.shape == (count, *shape)
        assert part.x.dtype == dtype
        assert part.y.bincount().tolist() == [count // 2] * 2
    assert os.path.getsize(KNOWN[name].path) <= 300_000
    assert (BUNDLED.path.parent / f"NOTICE-{name.removeprefix('bundled-')}.txt").is_file()
    fresh = {row.numpy().tobytes() for row in data.test.x} - {row.numpy().tobytes() for row in data.train.x}
    assert len(fresh) > 0.98 * n[1]  # of Adult, some people are alike in everything


def test_rows_and_texts_read_as_what_they_are():
    table, text = sources.bundled_adult().train, sources.bundled_spam().train
    said = table.kind.said(table.x[0])
    assert said.startswith("age 39, workclass State-gov, fnlwgt 77516, education Bachelors")
    assert text.kind.said(text.x[0]).startswith("take advantage of this offer <number> copy any dvd")
    assert "@" not in " ".join(text.kind.vocabulary)


@pytest.mark.data
@pytest.mark.parametrize(
    ("published", "shape"), [(ADULT, (32_561, 14)), (SPAM, (4_660, 128))], ids=lambda each: str(each)[:9]
)
def test_whole_tables_and_texts_have_their_published_shape(published, shape):
    if not published.path.is_file():
        pytest.skip(f"needs `unsee data fetch {published.name}`")
    data = sources.open_source(published.name)
    assert data.train.x.shape == shape
    assert (len(data.train), len(data.test)) == published.counts
    few = sources.open_source(f"bundled-{published.name}").train
    length = few.x.shape[1]
    assert few.x[0, 0] == data.train.x[0, 0]
    assert few.kind.vocabulary == data.train.kind.vocabulary[: len(few.kind.vocabulary)]
    assert length <= shape[1]


@pytest.mark.data
def test_the_bundled_data_is_the_first_of_each_class_as_published(whole):
    for few, all_of_them in ((sources.bundled().train, whole.train), (sources.bundled().test, whole.test)):
        each = len(few) // 10
        rows = torch.cat([torch.nonzero(all_of_them.y == label).flatten()[:each] for label in range(10)])
        assert few.fingerprint == all_of_them.subset(rows.sort().values).fingerprint


@pytest.mark.data
def test_fashion_mnist_has_its_published_shape(whole):
    assert whole.train.x.shape == (60_000, 1, 28, 28)
    assert whole.test.x.shape == (10_000, 1, 28, 28)
    assert whole.train.y[:5].tolist() == [9, 0, 0, 3, 0]


@pytest.mark.data
def test_cifar_10_has_its_published_shape():
    if not CIFAR_10.path.is_file():
        pytest.skip("needs `unsee data fetch cifar-10`")
    data = sources.cifar_10()
    assert data.train.x.shape == (50_000, 3, 32, 32)
    assert data.test.x.shape == (10_000, 3, 32, 32)
    assert [data.train.classes[label] for label in data.train.y[:4]] == ["frog", "truck", "truck", "deer"]


def test_one_changed_byte_in_the_bundled_data_is_refused(tmp_path, monkeypatch):
    with np.load(BUNDLED.path) as file:
        arrays = dict(file)
    for name in arrays:
        changed = arrays | {name: arrays[name].copy()}
        changed[name].flat[-1] ^= 1
        np.savez(tmp_path / "a.npz", **changed)
        monkeypatch.setitem(KNOWN, "bundled", replace(BUNDLED, file=str(tmp_path / "a.npz")))
        with pytest.raises(StoreError, match=rf"bundled as published, found other bytes .*\({name}\)"):
            sources.bundled()


def test_listing_says_what_is_here(tmp_path, monkeypatch):
    monkeypatch.setenv("UNSEE_CACHE", str(tmp_path))
    rows = {row.name: row for row in sources.listing()}
    here = {"bundled": 7_000, "bundled-adult": 3_000, "bundled-spam": 2_000}
    elsewhere = {"adult": 48_842, "cifar-10": 60_000, "fashion-mnist": 70_000, "spam": 5_825}
    for name, samples in (here | elsewhere).items():
        assert (rows[name].present, rows[name].samples) == (name in here, samples)
    assert rows["cifar-10"].where == tmp_path / "cifar-10.safetensors"
    assert rows["bundled"].what == BUNDLED.what


# .npz


def arrays(n=20, shape=(4, 4), suffix=""):
    x = RANDOM.integers(0, 256, (n, *shape), dtype=np.uint8)
    return {f"x{suffix}": x, f"y{suffix}": np.arange(n) % 2}


def saved(tmp_path, **content):
    np.savez(tmp_path / "data.npz", **content)
    return tmp_path / "data.npz"


def test_npz_with_both_parts(tmp_path):
    train, test = arrays(20, suffix="_train"), arrays(6, suffix="_test")
    data = sources.npz(saved(tmp_path, **train, **test, classes=np.array(["cat", "dog"])))
    assert np.array_equal(data.train.x[:, 0], train["x_train"])
    assert np.array_equal(data.test.x[:, 0], test["x_test"])
    assert data.train.classes == data.test.classes == ("cat", "dog")
    assert (data.train.name, data.test.name) == ("data.npz, train", "data.npz, test")


def test_npz_without_names_counts_the_classes_of_both_parts(tmp_path):
    content = arrays(20, suffix="_train") | arrays(6, suffix="_test")
    content["y_test"][0] = 4
    data = sources.npz(saved(tmp_path, **content))
    assert data.train.classes == data.test.classes == ("0", "1", "2", "3", "4")


def test_npz_in_one_part_is_split_the_same_way_each_time(tmp_path):
    path = saved(tmp_path, **arrays(20))
    data, again = sources.npz(path), sources.npz(path)
    assert data.test.y.bincount().tolist() == [2, 2]
    assert len(data.train) == 16
    assert data.test.fingerprint == again.test.fingerprint


@pytest.mark.parametrize(
    ("shape", "becomes"),
    [
        ((5, 6), (1, 5, 6)),
        ((3, 5, 6), (3, 5, 6)),
        ((5, 6, 3), (3, 5, 6)),
        ((5, 6, 1), (1, 5, 6)),
        ((1, 5, 3), (1, 5, 3)),
        ((7,), (7,)),
    ],
)
def test_npz_shapes(tmp_path, shape, becomes):
    assert sources.npz(saved(tmp_path, **arrays(shape=shape))).train.x.shape[1:] == becomes


@pytest.mark.parametrize("kind", [">f8", "<f2", "<f4"])
def test_npz_floats_come_as_float32(tmp_path, kind):
    content = arrays()
    content["x"] = (content["x"] / 255).astype(kind)
    content["y"] = content["y"].astype(">u2")
    data = sources.npz(saved(tmp_path, **content)).train
    assert (data.x.dtype, data.y.dtype, data.value_range) == (torch.float32, torch.int64, (0.0, 1.0))


BAD_ARRAYS = {
    "no y": (lambda c: {"x": c["x"]}, "x and y in .*, found x"),
    "other names": (lambda c: {"images": c["x"]}, "no array of such a name"),
    "no test": (lambda c: {"x_train": c["x"], "y_train": c["y"]}, "x_test and y_test in .*, found x_train"),
    "no samples": (lambda c: {"x": c["x"][:0], "y": c["y"][:0]}, "one or more samples"),
    "a flat x": (lambda c: c | {"x": np.zeros(20, np.uint8)}, "samples of bytes or floats"),
    "a scalar x": (lambda c: c | {"x": np.uint8(1)}, "samples of bytes or floats"),
    "integers": (lambda c: c | {"x": c["x"].astype(int)}, "bytes or floats in .*int64"),
    "complex": (lambda c: c | {"x": c["x"].astype(complex)}, "bytes or floats"),
    "words": (lambda c: c | {"x": c["x"].astype(str)}, "bytes or floats"),
    "NaN": (lambda c: c | {"x": np.full((20, 4), np.nan)}, "finite values"),
    "fewer labels": (lambda c: c | {"y": c["y"][:-1]}, "as many labels as samples"),
    "float labels": (lambda c: c | {"y": c["y"] * 1.0}, "whole numbers as labels"),
    "word labels": (lambda c: c | {"y": c["y"].astype(str)}, "whole numbers as labels"),
    "columns of labels": (lambda c: c | {"y": c["y"][:, None]}, "one label a sample"),
    "negative labels": (lambda c: c | {"y": c["y"] - 1}, "labels from 0"),
    "only negative": (lambda c: c | {"y": c["y"] - 100}, "labels from 0 to 0"),
    "vast labels": (lambda c: c | {"y": c["y"] + 10**15}, "labels below 10,000"),
    "too few names": (lambda c: c | {"classes": np.array(["cat"])}, "labels from 0 to 0"),
    "one name twice": (lambda c: c | {"classes": np.array(["cat", "cat"])}, "each once"),
    "names as bytes": (lambda c: c | {"classes": np.array([b"cat", b"dog"])}, "each once"),
    "names that hide": (lambda c: c | {"classes": np.array(["cat", "d\u202eog"])}, "visible characters"),
    "two of a class": (lambda c: {"x": c["x"][:4], "y": c["y"][:4]}, "three samples of a class"),
}


@pytest.mark.parametrize("case", BAD_ARRAYS)
def test_npz_that_cannot_be_used_is_refused_in_a_sentence(tmp_path, case):
    change, why = BAD_ARRAYS[case]
    path = saved(tmp_path, **change(arrays()))
    with pytest.raises(InputError, match=why) as caught:
        sources.npz(path)
    assert str(caught.value).isprintable()


# Folders


def pictures(folder, classes, n=5, mode="RGB", form="png"):
    for name in classes:
        (folder / name).mkdir(parents=True)
        for number in range(n):
            pixels = RANDOM.integers(0, 256, (4, 6, 3), dtype=np.uint8)
            Image.fromarray(pixels).convert(mode).save(folder / name / f"{number}.{form}")
    return folder


@pytest.mark.parametrize("form", ["png", "jpg", "bmp", "webp"])
def test_a_folder_is_split_by_class(tmp_path, form):
    data = sources.image_folder(pictures(tmp_path / "pets", ("dog", "cat"), 10, form=form))
    assert data.train.classes == ("cat", "dog")
    assert data.train.y.bincount().tolist() == [8, 8]
    assert data.test.x.shape == (4, 3, 4, 6)
    assert data.train.name == "pets, train"


def test_a_folder_with_two_parts(tmp_path):
    pictures(tmp_path / "train", ("cat", "dog"), 3, mode="L")
    pictures(tmp_path / "test", ("dog",), 2)
    data = sources.image_folder(tmp_path)
    assert data.train.y.tolist() == [0, 0, 0, 1, 1, 1]
    assert data.test.y.tolist() == [1, 1]
    assert data.train.x.shape[1] == data.test.x.shape[1] == 3  # grey and colour go together
    pictures(tmp_path / "test", ("fish",), 1)
    with pytest.raises(InputError, match=r"the classes cat, dog in .*, found fish"):
        sources.image_folder(tmp_path)


def test_neither_part_may_be_a_link_out_of_the_folder(tmp_path):
    pictures(tmp_path / "data" / "train", ("cat",))
    (tmp_path / "data" / "test").symlink_to(pictures(tmp_path / "private", ("cat",)))
    with pytest.raises(InputError, match="a link out of it"):
        sources.image_folder(tmp_path / "data")


def test_a_folder_can_be_scaled(tmp_path):
    data = sources.image_folder(pictures(tmp_path / "pets", ("cat",)), size=(8, 5))
    assert data.train.x.shape[1:] == (3, 8, 5)


def test_one_set_takes_the_labels_of_the_classes_given(tmp_path):
    folder = pictures(tmp_path / "D_f", ("dog",), 2)
    assert sources.images(folder).y.tolist() == [0, 0]
    D_f = sources.images(folder, classes=("cat", "dog"))
    assert (D_f.y.tolist(), D_f.classes, D_f.name) == ([1, 1], ("cat", "dog"), "D_f")
    with pytest.raises(InputError, match=r"the classes cat, fish in .*, found dog"):
        sources.images(folder, classes=("cat", "fish"))


def test_one_set_from_an_npz(tmp_path):
    content = arrays(4)
    named = saved(tmp_path, **content, classes=np.array(["dog", "cat"]))
    assert sources.images(named).y.tolist() == [0, 1, 0, 1]
    assert sources.images(named, classes=("cat", "cow", "dog")).y.tolist() == [2, 0, 2, 0]
    with pytest.raises(InputError, match="found dog"):
        sources.images(named, classes=("cat", "cow"))
    numbered = saved(tmp_path, **content)
    assert sources.images(numbered, classes=("cat", "cow", "dog")).y.tolist() == [0, 1, 0, 1]
    with pytest.raises(InputError, match="labels from 0 to 0"):
        sources.images(numbered, classes=("cat",))
    with pytest.raises(InputError, match=r"a folder or an \.npz file at nowhere"):
        sources.images("nowhere")


def test_a_source_takes_the_labels_of_the_classes_given(tmp_path):
    """As those of a model, which may have been trained on the same classes in another order."""
    folder = pictures(tmp_path / "pets", ("cat", "dog"), 10)
    own = sources.open_source(str(folder))
    again = sources.open_source(str(folder), ("dog", "bird", "cat"))
    for ours, theirs in ((own.train, again.train), (own.test, again.test)):
        assert theirs.classes == ("dog", "bird", "cat")
        assert [theirs.classes[i] for i in theirs.y.tolist()] == [ours.classes[i] for i in ours.y.tolist()]
        assert torch.equal(theirs.x, ours.x)
    with pytest.raises(InputError, match=r"the classes dog, bird in pets.*, found cat"):
        sources.open_source(str(folder), ("dog", "bird"))
    for numbers in (("0", "1"), ("0", "1", "2"), ()):  # a model that knows no names
        assert sources.open_source(str(folder), numbers).train.classes == ("cat", "dog")


def test_folders_that_are_named_by_numbers_are_names_too(tmp_path):
    """As text, 10 comes before 2."""
    classes = tuple(map(str, range(12)))
    folder = pictures(tmp_path / "numbers", classes, 3)
    found = sources.open_source(str(folder), classes).train
    own = sources.open_source(str(folder)).train
    assert own.classes[2] == "10"
    assert found.classes == classes
    assert [own.classes[i] for i in own.y.tolist()] == [classes[i] for i in found.y.tolist()]


def test_a_source_by_name_or_path(tmp_path):
    assert len(sources.open_source("bundled").train) == 6_000
    assert len(sources.open_source(str(saved(tmp_path, **arrays()))).train) == 16
    assert len(sources.open_source(str(pictures(tmp_path / "pets", ("cat",)))).train) == 4


@pytest.mark.parametrize(
    ("name", "do"),
    [("fashion_mnist", "try fashion-mnist"), ("cifar10", "try cifar-10"), ("x.csv", "check the path")],
)
def test_an_unknown_source_is_answered_with_the_nearest(name, do):
    with pytest.raises(UsageError, match=do):
        sources.open_source(name)
    with pytest.raises(InputError, match=r"an \.npz file at nowhere\.npz"):
        sources.open_source("nowhere.npz")


def test_an_npz_may_name_columns_or_words(tmp_path):
    x = np.array([[39, 1], [50, 0]] * 10)
    np.savez(tmp_path / "t.npz", x=x.astype(float), y=np.arange(20) % 2, columns=["age", "sex:Female|Male"])
    table = sources.npz(tmp_path / "t.npz").train
    assert table.kind.columns[1].values == ("Female", "Male")
    assert sources.images(tmp_path / "t.npz", classes=["0", "1"]).kind == table.kind
    np.savez(tmp_path / "w.npz", x=x % 3, y=np.arange(20) % 2, vocabulary=["<none>", "<unknown>", "buy"])
    assert sources.npz(tmp_path / "w.npz").train.x.dtype == torch.int64
    np.savez(tmp_path / "bad.npz", x=x.astype(float), y=np.arange(20) % 2, columns=["age"])
    with pytest.raises(InputError, match="one for each column"):
        sources.npz(tmp_path / "bad.npz")
