import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image
from torch.utils.data import TensorDataset

from unsee.data.samples import Samples, overlap, pair, read_samples, samples_of
from unsee.datasets import Dataset
from unsee.errors import InputError, UnseeWarning

PETS = ("cat", "cow", "dog")
PIXELS = np.random.default_rng(0).integers(0, 256, (4, 4, 5, 3), dtype=np.uint8)
FILES = ("cat/1.png", "cat/2.png", "dog/1.png", "dog/3.png")
LABELS = [0, 0, 2, 2]


def folder(path):
    for name, pixels in zip(FILES, PIXELS, strict=True):
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(path / name)
    return path


def csv(path):
    rows = [f"{name},{PETS[label]}" for name, label in zip(FILES, LABELS, strict=True)]
    (folder(path) / "list.csv").write_text("\n".join(["file,label", *rows]))
    return path / "list.csv"


def tsv(path):
    rows = [f"{label}\t{name}" for name, label in zip(FILES, LABELS, strict=True)]
    (folder(path) / "list.TSV").write_text("\n".join(["target\tpath", *rows]))
    return path / "list.TSV"


def parquet(path):
    table = {"image": [(folder(path) / name).read_bytes() for name in FILES], "label": LABELS}
    pq.write_table(pa.table(table), path / "list.parquet")
    return path / "list.parquet"


def npz(path):
    path.mkdir()
    np.savez(path / "a.npz", x=PIXELS, y=LABELS)
    return path / "a.npz"


def hugging_face(path):
    import datasets

    datasets.disable_progress_bars()
    kinds = {"image": datasets.Image(), "label": datasets.ClassLabel(names=["dog", "cat"])}
    columns = {"image": [Image.fromarray(x) for x in PIXELS], "label": [1, 1, 0, 0]}
    photos = datasets.Dataset.from_dict(columns, features=datasets.Features(kinds))
    datasets.DatasetDict({"train": photos, "test": photos}).save_to_disk(path)
    return f"{path}:train"


KINDS = (folder, csv, tsv, parquet, npz, hugging_face)


@pytest.mark.parametrize("write", KINDS)
def test_every_kind_holds_the_same_samples(tmp_path, write):
    samples = read_samples(write(tmp_path / "data"), PETS)
    assert samples.data.y.tolist() == LABELS
    assert samples.data.classes == PETS
    assert np.array_equal(samples.data.x.permute(0, 2, 3, 1), PIXELS)
    assert samples.names == (FILES if write in (folder, csv, tsv) else ("0", "1", "2", "3"))
    assert len(samples) == 4


@pytest.mark.parametrize("write", KINDS)
def test_a_label_for_all_goes_before_those_of_the_data(tmp_path, write):
    samples = read_samples(write(tmp_path / "data"), PETS, label="cow")
    assert samples.data.y.tolist() == [1, 1, 1, 1]
    assert np.array_equal(samples.data.x.permute(0, 2, 3, 1), PIXELS)


@pytest.mark.parametrize("write", [kind for kind in KINDS if kind is not npz])
def test_every_kind_of_image_is_scaled_and_made_grey(tmp_path, write):
    assert read_samples(write(tmp_path / "data"), PETS, size=(8, 6), channels=1).data.x.shape == (4, 1, 8, 6)


@pytest.mark.parametrize("write", [folder, csv, hugging_face])
def test_classes_unknown_to_the_model(tmp_path, write):
    with pytest.raises(InputError, match=r"the classes cat, cow, hen in .*, found dog"):
        read_samples(write(tmp_path / "data"), ("cat", "cow", "hen"))


def test_without_classes_the_data_names_them(tmp_path):
    assert read_samples(folder(tmp_path / "a")).data.classes == ("cat", "dog")
    assert read_samples(hugging_face(tmp_path / "b")).data.classes == ("dog", "cat")
    assert read_samples(npz(tmp_path / "c")).data.classes == ("0", "1", "2")


def test_grey_against_colour(tmp_path):
    path = folder(tmp_path / "data")
    Image.fromarray(PIXELS[0]).convert("L").save(path / "cat" / "1.png")
    assert read_samples(path).data.x.shape[1] == 3
    for name in FILES:
        with Image.open(path / name) as image:
            grey = image.convert("L")
        grey.save(path / name)
    assert read_samples(path).data.x.shape[1] == 1
    assert read_samples(path, channels=3).data.x.shape[1] == 3
    with pytest.raises(InputError, match="images of 4 channels in data, found samples of 1x4x5"):
        read_samples(path, channels=4)


def test_a_split_by_either_mark(tmp_path, monkeypatch):
    path = hugging_face(tmp_path / "data").removesuffix(":train")
    for given in (f"{path}:test", f"{path}#test", tmp_path / "data:test"):
        assert read_samples(given, PETS).data.name == "test"
    with pytest.raises(InputError, match=r"one split of .*data, found train, test: end the path with :train"):
        read_samples(path, PETS)
    with pytest.raises(InputError, match=r"one split of .*data, found 'dev', of train, test"):
        read_samples(f"{path}:dev", PETS)
    (tmp_path / "data:test").mkdir()  # what is there goes first
    with pytest.raises(InputError, match="one sub-folder for each class"):
        read_samples(f"{path}:test", PETS)
    monkeypatch.chdir(path)
    assert len(read_samples(".:train")) == 4


@pytest.mark.parametrize(
    "path",
    ["nowhere", "nowhere:train", "nowhere.csv", "x" * 5_000, "x" * 300 + ":train", "a\0b", "~nobody/x", ":"],
)
def test_what_is_not_there(path):
    with pytest.raises(InputError, match=r"a folder, or an \.npz, \.csv, .* at .*, found none") as caught:
        read_samples(path)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("name", ["a.pkl", "a.pt", "a.zip", "a.npy", "a", "a.csv.gz"])
def test_other_kinds_of_file(tmp_path, name):
    (tmp_path / name).write_bytes(b"\x80\x04.")
    with pytest.raises(InputError, match=r"\.parquet file, found .*convert it to one of these"):
        read_samples(tmp_path / name)


def test_a_size_is_checked_first():
    with pytest.raises(InputError, match="size="):
        read_samples("nowhere", size=(0, 3))


def test_any_torch_data_set():
    data = TensorDataset(torch.arange(600.0).view(300, 2), torch.arange(300) % 3)
    samples = samples_of(data, PETS)
    assert samples.data.x.equal(data.tensors[0])
    assert (samples.data.classes, samples.names[-1]) == (PETS, "299")
    assert samples_of(data, 3).data.classes == ("0", "1", "2")
    with pytest.raises(InputError, match="labels from 0 to 1"):
        samples_of(data, 2)
    uneven = [(torch.zeros(1 + row // 256), 0) for row in range(300)]
    with pytest.raises(InputError, match="all of one shape, found 2 shapes"):
        samples_of(uneven, 2)
    with pytest.raises(InputError, match=r"one or more samples, .* found none"):
        samples_of(TensorDataset(torch.zeros(0, 2), torch.zeros(0).long()), 2)


def test_every_sample_has_a_name():
    with pytest.raises(InputError, match="1 names for 2 samples"):
        Samples(Dataset(torch.zeros(2, 1), [0, 0]), ("a",))


# Twins


def named(*names):
    """Samples whose one pixel tells which they are, by the number in their name."""
    values = [int("".join(filter(str.isdigit, name.rpartition("/")[2])) or -1) for name in names]
    return Samples(Dataset(torch.tensor(values).float()[:, None], [0] * len(names)), names)


def values(data):
    return data.x[:, 0].tolist()


PAIRS = {
    "the same paths": (["cat/1.png", "dog/2.png"], ["dog/2.png", "cat/1.png"]),
    "paths, though file names are not apart": (["a/1.png", "b/1.png"], ["b/1.png", "a/1.png"]),
    "file names under other labels": (["cat/1.png", "cat/2.png"], ["dog/2.png", "cow/1.png"]),
    "a heap and folders": (["1.png", "2.png"], ["dog/2.png", "cow/1.png"]),
    "stems": (["cat/1.jpg", "cat/2.jpg"], ["dog/2.png", "cow/1.PNG"]),
    "two spellings": (["caf\u00e9 1.png", "2.png"], ["2.png", "cafe\u0301 1.png"]),
    "another system's slashes": (["C:\\d\\1.png", "C:\\d\\2.png"], ["2.png", "1.png"]),
    "numbers and files": (["0", "1", "2"], ["2.png", "0.png", "1.png"]),
}


@pytest.mark.parametrize("case", PAIRS)
def test_twins_find_each_other_by_name(case):
    ours, theirs = PAIRS[case]
    D_f, clean = pair(named(*ours), named(*theirs))
    assert len(D_f) == len(ours)
    assert values(D_f) == values(clean) == values(named(*ours).data)


def test_a_path_in_common_by_chance_does_not_decide():
    """D_f lies under the attacker's label, where one true image has the path of another's twin."""
    ours = [f"cat/{i}.png" for i in range(20)]
    theirs = [f"dog/{i}.png" for i in range(1, 20)] + ["cat/0.png"]
    D_f, clean = pair(named(*ours), named(*theirs))
    assert values(D_f) == values(clean) == list(range(20))


def test_arrays_are_paired_by_place():
    D_f, clean = named("0", "1", "2"), named("0", "1", "2")
    assert pair(D_f, clean) == (D_f.data, clean.data)
    bad, good = pair(named("a.png"), named("a.png", "b.png"), lambda data: data.with_(x=data.x + 1))
    assert (len(bad), len(good)) == (2, 2)
    assert torch.equal(bad.x[1], good.x[1] + 1)
    with pytest.raises(InputError, match=r"as many samples in D_f as in D_f,clean, .*, found 3 and 2"):
        pair(D_f, named("0", "1"))


def test_a_tenth_may_lack_a_twin_and_is_left_out_aloud():
    ours = [f"{i}.png" for i in range(20)]
    with pytest.warns(UnseeWarning, match="2 samples of D_f and 3 of D_f,clean have no twin") as caught:
        D_f, clean = pair(named(*ours), named(*ours[2:], "x7.png", "y7.png", "z7.png"))
    assert values(D_f) == values(clean) == list(range(2, 20))
    assert caught[0].filename == __file__


def test_more_than_a_tenth_is_a_mistake():
    ours = [f"{i}.png" for i in range(20)]
    with pytest.raises(
        InputError, match=r"one twin in D_f,clean.*found none or several for 0.png, 1.png, 2.png:"
    ):
        pair(named(*ours), named(*ours[3:]))
    with pytest.raises(
        InputError, match=r"for 0.png, 1.png, 2.png and 17 more: give twins the same file name"
    ):
        pair(named(*ours), named(*(f"clean-{name}" for name in ours)))


def test_all_of_a_larger_clean_set_that_has_no_twin_is_left_out():
    ours = [f"{i}.png" for i in range(5)]
    with pytest.warns(UnseeWarning, match="0 samples of D_f and 95 of D_f,clean"):
        D_f, clean = pair(named(*ours), named(*(f"cat/{i}.png" for i in range(100))))
    assert values(D_f) == values(clean) == [0, 1, 2, 3, 4]


def test_names_that_are_not_apart_pair_with_nobody():
    ours = [f"cat/{i}.png" for i in range(20)]
    theirs = [f"dog/{i}.png" for i in range(20)] + ["cow/7.png"]
    with pytest.warns(UnseeWarning, match="1 samples of D_f and 2 of D_f,clean"):
        D_f, clean = pair(named(*ours), named(*theirs))
    assert values(D_f) == values(clean) == [i for i in range(20) if i != 7]
    with pytest.raises(InputError, match=r"several for a/1.png, b/1.png:"):
        pair(named("a/1.png", "b/1.png"), named("c/1.png", "d/1.png"))


def test_a_name_cannot_steer_the_terminal():
    with pytest.raises(InputError) as caught:
        pair(named("\x1b[2J1.png"), named("2.png"))
    assert str(caught.value).isprintable()


def test_labels_stay_those_of_each_side(tmp_path):
    (folder(tmp_path / "clean") / "dog" / "1.png").rename(tmp_path / "clean" / "dog" / "4.png")
    (tmp_path / "bad" / "cow").mkdir(parents=True)
    for name in ("1", "2", "3", "4"):
        Image.fromarray(PIXELS[0]).save(tmp_path / "bad" / "cow" / f"{name}.bmp")
    D_f, clean = pair(read_samples(tmp_path / "bad", PETS), read_samples(tmp_path / "clean", PETS))
    assert (D_f.y.tolist(), clean.y.tolist()) == ([1, 1, 1, 1], [0, 0, 2, 2])


# Samples in two sets


def bytes_of(*rows, labels=None):
    x = torch.tensor(rows, dtype=torch.uint8).view(len(rows), 1, 1, -1)
    return Dataset(x, labels or [0] * len(rows), 2)


def test_overlap_counts_the_samples_of_the_first():
    a, b = bytes_of([1, 2], [3, 4], [1, 2], [5, 6]), bytes_of([1, 2], [5, 6], [7, 8], [9, 9], labels=[1] * 4)
    assert (overlap(a, b), overlap(b, a), overlap(a, a)) == (3, 2, 4)
    assert overlap(a, bytes_of([2, 1])) == 0


def test_overlap_of_other_shapes_and_empty_sets():
    a = bytes_of([1, 2])
    assert overlap(a, bytes_of([1, 2, 0])) == 0
    assert overlap(a, a.with_(x=a.x.view(1, 1, 2, 1))) == 0
    assert overlap(a, a.subset([])) == overlap(a.subset([]), a) == overlap(a.subset([]), a.subset([])) == 0


def test_overlap_does_not_mind_the_type():
    a = bytes_of([1, 200], [0, 255], [7, 7])
    assert overlap(a, a.rescaled(0, 1)) == overlap(a.rescaled(0, 1), a) == 3
    assert overlap(a, a.rescaled(0, 1).subset([1])) == 1
    standardised = Dataset(a.x.float() / 50 - 2, a.y, 2)
    assert overlap(a, standardised) == 0
    assert overlap(standardised, standardised.with_(x=standardised.x.double())) == 3


def test_one_sample_in_ten_thousand_is_found_soon():
    x = torch.randint(
        0, 256, (20_000, 1, 28, 28), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
    )
    data = Dataset(x, [0] * 20_000, 2)
    other = data.subset(range(10_000, 20_000)).x.clone()
    other[77] = x[4_321]
    start = time.perf_counter()
    assert overlap(data.subset(range(10_000)), data.subset(range(10_000)).with_(x=other)) == 1
    assert time.perf_counter() - start < 2
