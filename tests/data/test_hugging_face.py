import json
import shutil
import struct
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from unsee.data import hugging_face
from unsee.data.hugging_face import is_saved, read_saved, split_of
from unsee.errors import InputError, StoreError

PIXELS = np.random.default_rng(0).integers(0, 256, (6, 4, 5, 3), dtype=np.uint8)


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    """Data sets that Hugging Face's own library saved."""
    import datasets

    datasets.disable_progress_bars()
    folder = tmp_path_factory.mktemp("saved")
    columns = {"image": [Image.fromarray(x) for x in PIXELS], "label": [0, 1, 0, 1, 1, 0]}
    features = datasets.Features(
        {"image": datasets.Image(), "label": datasets.ClassLabel(names=["dog", "cat"])}
    )
    photos = datasets.Dataset.from_dict(columns, features=features)
    photos.save_to_disk(folder / "photos")
    photos.select([4, 1, 2]).save_to_disk(folder / "picked")
    photos.save_to_disk(folder / "parts", num_shards=3)
    datasets.DatasetDict({"train": photos, "test": photos.select(range(2))}).save_to_disk(folder / "both")
    datasets.DatasetDict({"train": photos}).save_to_disk(folder / "one")
    return folder


@pytest.fixture
def saved(originals, tmp_path):
    shutil.copytree(originals, tmp_path / "saved")
    return tmp_path / "saved"


def change(path, **words):
    path.write_text(json.dumps(json.loads(path.read_text()) | words))


def read(folder):
    listing = read_saved(folder)
    return list(listing.images), listing.labels, listing.classes


@pytest.mark.parametrize("name", ["photos", "parts"])
def test_what_the_library_saved(saved, name):
    images, labels, classes = read(saved / name)
    assert labels == [0, 1, 0, 1, 1, 0]
    assert classes == ("dog", "cat")
    assert all(path is None and data.startswith(b"\x89PNG") for path, data in images)
    assert len(images) == 6
    assert len(list((saved / "parts").glob("*.arrow"))) == 3


def test_chosen_rows_keep_their_order(saved):
    assert read(saved / "picked")[0] == [read(saved / "photos")[0][row] for row in (4, 1, 2)]


def test_labels_need_no_column_where_they_are_known(saved):
    listing = read_saved(saved / "photos", labelled=False)
    assert (listing.labels, listing.classes, len(list(listing.images))) == (None, (), 6)


def test_splits(saved):
    assert all(is_saved(saved / name) for name in ("photos", "both", "one"))
    assert not is_saved(saved)
    assert split_of(saved / "photos", None) == saved / "photos"
    assert split_of(saved / "both", "test") == saved / "both" / "test"
    assert split_of(saved / "one", None) == saved / "one" / "train"
    with pytest.raises(InputError, match=r"one split of .*both, found train, test: end the path with :train"):
        split_of(saved / "both", None)
    with pytest.raises(InputError, match=r"one split of .*both, found 'dev', of train, test"):
        split_of(saved / "both", "dev")
    with pytest.raises(InputError, match=r"splits in .*photos, found a data set without"):
        split_of(saved / "photos", "train")


TRICKS = ["..", "../photos", "/etc", "train/../../photos", "x::http://there/", "http://there/", "C:\\photos"]


@pytest.mark.parametrize("trick", TRICKS)
def test_neither_splits_nor_files_lead_elsewhere(saved, trick):
    change(saved / "both" / "dataset_dict.json", splits=[trick])
    with pytest.raises(InputError, match="which leads elsewhere"):
        split_of(saved / "both", trick)
    change(saved / "photos" / "state.json", _data_files=[{"filename": trick}])
    with pytest.raises(InputError, match="which leads elsewhere"):
        read_saved(saved / "photos")


def test_links_may_not_lead_out(saved):
    part = saved / "photos" / "data-00000-of-00001.arrow"
    part.rename(saved / "private.arrow")
    part.symlink_to(saved / "private.arrow")
    with pytest.raises(InputError, match="a link out of it"):
        read_saved(saved / "photos")
    (saved / "both" / "dev").symlink_to(saved / "photos")
    change(saved / "both" / "dataset_dict.json", splits=["dev"])
    with pytest.raises(InputError, match="a link out of it"):
        split_of(saved / "both", None)


BAD_WORDS = {
    "no files": ("state.json", {"_data_files": []}, "the names of data files"),
    "files of another kind": ("state.json", {"_data_files": "data"}, "the names of data files"),
    "no names": ("state.json", {"_data_files": [{}]}, "the names of data files"),
    "a missing part": (
        "state.json",
        {"_data_files": [{"filename": "x.arrow"}]},
        "all parts .*no file x.arrow",
    ),
    "itself": ("state.json", {"_data_files": [{"filename": "."}]}, r"no file \."),
    "indices": ("state.json", {"_indices_data_files": [{"filename": "i.arrow"}]}, "flatten_indices"),
    "a class twice": (
        "dataset_info.json",
        {"features": {"label": {"_type": "ClassLabel", "names": ["a", "a"]}}},
        "class names, each once",
    ),
}


@pytest.mark.parametrize("case", BAD_WORDS)
def test_words_that_cannot_be_used_are_refused_in_a_sentence(saved, case):
    file, words, why = BAD_WORDS[case]
    change(saved / "photos" / file, **words)
    with pytest.raises(InputError, match=why) as caught:
        read_saved(saved / "photos")
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("text", ["", "[]", "3", "{", '{"a": 1, "a": 2}', "[" * 100_000, "\udcff"])
def test_broken_words(saved, text):
    (saved / "photos" / "state.json").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(InputError, match=r"JSON|named values|each key once"):
        read_saved(saved / "photos")


def test_words_too_long_or_missing(saved, monkeypatch):
    monkeypatch.setattr(hugging_face, "MOST_WORDS", 10)
    with pytest.raises(InputError, match=r"state.json of at most 10 bytes in .*, found [0-9]+"):
        read_saved(saved / "photos")
    (saved / "photos" / "state.json").unlink()
    with pytest.raises(InputError, match=r"state.json of at most .*, found none"):
        read_saved(saved / "photos")


def written(folder, batch, **options):
    """Put other columns in the place of a data set's only part."""
    path = folder / "data-00000-of-00001.arrow"
    with pa.ipc.new_stream(str(path), batch.schema, options=pa.ipc.IpcWriteOptions(**options)) as stream:
        stream.write_batch(batch)
    return path


def test_files_are_found_beside_and_never_elsewhere(saved):
    kind = pa.struct({"bytes": pa.binary(), "path": pa.string()})
    Image.fromarray(PIXELS[0]).save(saved / "photos" / "a.png")
    for path in ("a.png", "../a.png", "/etc/passwd"):
        column = pa.array([{"bytes": None, "path": path}], kind)
        written(saved / "photos", pa.record_batch({"image": column, "label": [0]}))
        if path == "a.png":
            assert read(saved / "photos")[0] == [("a.png", saved / "photos" / "a.png")]
            continue
        with pytest.raises(InputError, match="leads elsewhere"):
            read(saved / "photos")


@pytest.mark.parametrize("packing", ["lz4", "zstd"])
def test_packed_columns_are_refused_unread(saved, packing):
    column = pa.array([bytes(10_000_000)])
    path = written(saved / "photos", pa.record_batch({"image": column, "label": [0]}), compression=packing)
    assert path.stat().st_size < 100_000
    with pytest.raises(InputError, match=r"plain columns in .*, found packed ones"):
        read(saved / "photos")


def test_dictionaries_are_refused(saved):
    labels = pa.array(["cat"]).dictionary_encode()
    written(saved / "photos", pa.record_batch({"image": [b"x"], "label": labels}))
    with pytest.raises(InputError, match=r"plain columns in .*, found a dictionary"):
        read(saved / "photos")


def test_offsets_that_point_elsewhere_are_refused_before_a_value_is_touched(saved):
    batch = pa.record_batch({"image": pa.array([b"abc", b"de"]), "label": [0, 1]})
    path = written(saved / "photos", batch)
    data = path.read_bytes()
    offsets = struct.pack("<iii", 0, 3, 5)
    assert data.count(offsets) == 1
    for wrong in ((0, 3, 2**31 - 1), (0, 2**30, 5), (0, -5, 5), (-(2**20), 3, 5)):
        path.write_bytes(data.replace(offsets, struct.pack("<iii", *wrong)))
        with pytest.raises(StoreError, match="whole columns in"):
            read(saved / "photos")


def test_parts_must_be_alike(saved):
    batch = pa.record_batch({"image": [b"abc"], "label": ["x"]})
    with pa.ipc.new_stream(str(saved / "parts" / "data-00001-of-00003.arrow"), batch.schema) as stream:
        stream.write_batch(batch)
    with pytest.raises(InputError, match=r"columns in .*00001-of-00003.arrow as in the first file"):
        read(saved / "parts")


def test_broken_parts_are_one_kind_of_error(saved):
    path = saved / "photos" / "data-00000-of-00001.arrow"
    whole = path.read_bytes()
    for data in (b"", b"text", whole[:100], whole[: len(whole) // 2], whole[8:], bytes(500), whole[::-1]):
        path.write_bytes(data)
        with pytest.raises(StoreError, match="whole columns in") as caught:
            read(saved / "photos")
        assert str(caught.value).isprintable()


def test_mutated_parts_end_in_our_errors_alone(saved):
    random = np.random.default_rng(0)
    path = saved / "photos" / "data-00000-of-00001.arrow"
    whole = np.frombuffer(path.read_bytes(), np.uint8)
    said = []
    for _ in range(500):
        data = whole.copy()
        data[random.integers(0, len(data), random.integers(1, 9))] = random.integers(0, 256)
        path.write_bytes(data.tobytes())
        try:
            assert len(read(saved / "photos")[0]) < 1_000
        except (InputError, StoreError) as error:
            said.append(str(error))
    assert 100 < len(said) < 500
    assert all(text.isprintable() for text in said)


WATCHED = """
import pickle, sys
class Canary:
    def __reduce__(self): return (print, ("executed",))
import unsee.data.samples
assert "pyarrow" not in sys.modules
import pyarrow as pa
name, metadata = b"ARROW:extension:name", b"ARROW:extension:metadata"
kind = {name: b"arrow.py_extension_type", metadata: pickle.dumps(Canary())}
fields = [pa.field("image", pa.binary(), metadata=kind), pa.field("label", pa.int64())]
batch = pa.record_batch([pa.array([b"x"]), pa.array([0])], pa.schema(fields))
with pa.ipc.new_stream(sys.argv[2], batch.schema) as stream: stream.write_batch(batch)
def watch(event, _):
    if event.startswith(("socket.", "subprocess.", "pickle.", "os.system", "os.exec", "os.fork")):
        raise SystemExit(f"{event} while reading")
sys.addaudithook(watch)
assert len(unsee.data.samples.read_samples(sys.argv[1])) == 6
try: unsee.data.samples.read_samples(sys.argv[2].rpartition("/")[0])
except unsee.data.samples.InputError as error: assert "a whole image" in str(error), error
assert "datasets" not in sys.modules
"""


def test_reading_runs_no_code_and_asks_no_network(saved):
    part = saved / "picked" / "data-00000-of-00001.arrow"
    call = [sys.executable, "-c", WATCHED, str(saved / "photos"), str(part)]
    done = subprocess.run(call, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
