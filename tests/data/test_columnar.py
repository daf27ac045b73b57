import io
import json
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from unsee.data import columnar, listings
from unsee.data.columnar import read_parquet
from unsee.errors import InputError, StoreError


def png(value):
    file = io.BytesIO()
    Image.fromarray(np.full((4, 5, 3), value, np.uint8)).save(file, "png")
    return file.getvalue()


IMAGES = [png(value) for value in (0, 100, 200)]


def structs(images=IMAGES, paths=("a.png", "b.png", "c.png")):
    kind = pa.struct({"bytes": pa.binary(), "path": pa.string()})
    return pa.array([{"bytes": data, "path": path} for data, path in zip(images, paths, strict=True)], kind)


def listed(tmp_path, columns, **how):
    table = columns if isinstance(columns, pa.Table) else pa.table(columns)
    pq.write_table(table, tmp_path / "list.parquet", **how)
    listing = read_parquet(tmp_path / "list.parquet")
    return list(listing.images), list(listing.labels), listing.classes


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_files_and_names(tmp_path, kind):
    for name in ("a.png", "b.png"):
        (tmp_path / name).write_bytes(b"")
    columns = {"file": pa.array(["a.png", "b.png"]).cast(kind), "label": pa.array(["dog", "cat"]).cast(kind)}
    images, labels, _ = listed(tmp_path, columns)
    assert images == [("a.png", tmp_path / "a.png"), ("b.png", tmp_path / "b.png")]
    assert labels == ["dog", "cat"]


def test_files_in_a_listing_never_lead_out_of_its_folder(tmp_path):
    with pytest.raises(InputError, match=r"row 1, found '\.\./a\.png', which leads elsewhere"):
        listed(tmp_path, {"file": ["../a.png"], "label": [0]})
    with pytest.raises(InputError, match="leads elsewhere"):
        listed(tmp_path, {"image": structs([None], ["/etc/passwd"]), "label": [0]})


def test_images_as_bytes_in_their_structs(tmp_path):
    images, labels, _ = listed(tmp_path, {"image": structs(), "label": [2, 0, 1]})
    assert images == list(zip(("a.png", "b.png", "c.png"), IMAGES, strict=True))
    assert labels == [2, 0, 1]


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.dictionary(pa.int32(), pa.binary())])
@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
def test_images_as_plain_bytes(tmp_path, kind, compression):
    columns = {"img": pa.array(IMAGES).cast(kind), "y": pa.array([0, 1, 0], pa.uint8())}
    images, labels, _ = listed(tmp_path, columns, compression=compression)
    assert images == [(None, data) for data in IMAGES]
    assert labels == [0, 1, 0]


def test_a_struct_without_bytes_names_a_file(tmp_path):
    (tmp_path / "b.png").write_bytes(b"")
    column = structs([IMAGES[0], None], ["a.png", "b.png"])
    assert listed(tmp_path, {"image": column, "label": [0, 1]})[0] == [
        ("a.png", IMAGES[0]),
        ("b.png", tmp_path / "b.png"),
    ]
    for path in (None, ""):
        with pytest.raises(InputError, match=r"an image in .*list.parquet, row 2, found none"):
            listed(tmp_path, {"image": structs([IMAGES[0], None], ["a.png", path]), "label": [0, 1]})


def test_a_column_with_images_goes_before_one_with_names(tmp_path):
    columns = {"file": ["x", "y", "z"], "image": structs(), "label": [0, 1, 2]}
    assert listed(tmp_path, columns)[0][0] == ("a.png", IMAGES[0])


def test_more_rows_than_a_batch_keep_their_order(tmp_path):
    columns = {"image": pa.array([b"%d" % i for i in range(100)]), "label": list(range(100))}
    images, labels, _ = listed(tmp_path, columns, row_group_size=30)
    assert images == [(None, b"%d" % i) for i in range(100)]
    assert labels == list(range(100))


def with_features(columns, features):
    words = {b"huggingface": json.dumps({"info": {"features": features}})}
    return pa.table(columns).replace_schema_metadata(words)


def test_class_names_as_hugging_face_leaves_them(tmp_path):
    names = {"label": {"_type": "ClassLabel", "names": ["dog", "cat"]}}
    columns = {"image": structs(), "label": [0, 1, 0]}
    assert listed(tmp_path, with_features(columns, names))[2] == ("dog", "cat")
    for other in ({}, {"label": {"_type": "Value"}}, {"label": None}, None, [], "x"):
        assert listed(tmp_path, with_features(columns, other))[2] == ()


@pytest.mark.parametrize(
    "names", [[], ["a", "a"], ["a", 1], "ab", 7, ["a\nb"], [""], [str(i) for i in range(20_000)]]
)
def test_class_names_that_are_none(tmp_path, names):
    features = {"label": {"_type": "ClassLabel", "names": names}}
    with pytest.raises(InputError, match="class name"):
        listed(tmp_path, with_features({"image": structs(), "label": [0, 1, 0]}, features))


BAD = {
    "no rows": ({"file": pa.array([], pa.string()), "label": pa.array([], pa.int64())}, "rows in"),
    "no file": ({"photo": ["a"], "label": [0]}, r"for the image \(file, .*found photo, label"),
    "no label": ({"file": ["a"], "kind": [0]}, r"for the label \(label, .*found file, kind"),
    "twice": (pa.table([["a"], [0], [1]], ["file", "label", "LABEL"]), "one column label in .*, found 2"),
    "float labels": ({"image": structs(), "label": [0.0, 1.0, 2.0]}, "whole numbers as label .*double"),
    "bool labels": ({"image": structs(), "label": [True, False, True]}, "whole numbers as label .*bool"),
    "list labels": ({"image": structs(), "label": [[0], [1], [2]]}, "whole numbers as label .*list"),
    "null labels": ({"image": structs(), "label": pa.nulls(3)}, "whole numbers as label .*null"),
    "a label missing": ({"image": structs(), "label": [0, None, 1]}, "in .*row 2, found none"),
    "a long label": ({"image": structs(), "label": ["a", "b" * 10**6, "c"]}, "row 2, found 1,000,000 char"),
    "a file missing": ({"file": ["a.png"], "label": [0]}, "found no file a.png"),
    "no name": ({"file": pa.array([None], pa.string()), "label": [0]}, "row 1, found none"),
    "a long name": ({"file": ["a" * 10**6], "label": [0]}, "row 1, found 1,000,000 characters"),
    "nested images": ({"image": [[[1]]], "label": [0]}, "image files, or their names, as image .*list"),
    "number images": ({"image": [1], "label": [0]}, "image files, or their names, as image .*int64"),
    "a hiding type": (
        {"image": pa.array([{"x\x1b[2J": 1}]), "label": [0]},
        "image files, or their names, as image",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_columns_that_cannot_be_used_are_refused_in_a_sentence(tmp_path, case):
    columns, why = BAD[case]
    with pytest.raises(InputError, match=why) as caught:
        listed(tmp_path, columns)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 600


def test_labels_are_read_before_the_first_image(tmp_path):
    pq.write_table(pa.table({"image": [b"x"], "label": [None]}), tmp_path / "a.parquet")
    with pytest.raises(InputError, match="whole numbers as label"):
        read_parquet(tmp_path / "a.parquet")
    assert list(read_parquet(tmp_path / "a.parquet", labelled=False).images) == [(None, b"x")]


def test_broken_files_are_one_kind_of_error(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"image": structs(), "label": [0, 1, 2]}), path)
    whole = path.read_bytes()
    broken = [
        b"",
        b"PAR1",
        b"PAR1" * 3,
        b"text",
        whole[:-1],
        whole[: len(whole) // 2],
        whole[4:],
        b"\0" * 500,
    ]
    for data in broken:
        path.write_bytes(data)
        with pytest.raises(StoreError, match=r"whole columns in .*a\.parquet") as caught:
            read_parquet(path)
        assert str(caught.value).isprintable()


def test_mutated_files_end_in_our_errors_alone(tmp_path):
    random = np.random.default_rng(0)
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"image": structs(), "label": [0, 1, 2]}), path)
    whole = np.frombuffer(path.read_bytes(), np.uint8)
    said = []
    for _ in range(300):
        data = whole.copy()
        data[random.integers(0, len(data), random.integers(1, 9))] = random.integers(0, 256)
        path.write_bytes(data.tobytes())
        try:
            assert len(list(read_parquet(path).images)) < 1_000
        except (InputError, StoreError) as error:
            said.append(str(error))
    assert 100 < len(said) < 300
    assert all(text.isprintable() for text in said)


def test_one_large_value_repeated_does_not_fill_the_memory(tmp_path, monkeypatch):
    """A few kB on the disk, 1 GB when read as a whole."""
    monkeypatch.setattr(columnar, "MOST_BATCH", 10_000_000)
    size, rows = 5_000_000, 200
    column = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array([bytes(size)]))
    path, table = tmp_path / "a.parquet", pa.table({"image": column, "label": [0] * rows})
    pq.write_table(table, path, compression="zstd", store_schema=False, dictionary_pagesize_limit=1 << 30)
    assert path.stat().st_size < 10_000
    before = pa.total_allocated_bytes()
    images = iter(read_parquet(path).images)
    for _ in range(3):
        assert len(next(images)[1]) == size
        assert pa.total_allocated_bytes() - before < 50_000_000


def test_limits(tmp_path, monkeypatch):
    monkeypatch.setattr(columnar, "MOST_ROWS", 2)
    with pytest.raises(InputError, match="at most 2 rows"):
        listed(tmp_path, {"image": structs(), "label": [0, 1, 2]})
    assert listings.MOST_ROWS == 1_000_000


def test_without_pyarrow_one_is_told_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(InputError, match=r"pyarrow, .*pip install 'unsee\[data\]'"):
        read_parquet(tmp_path / "a.parquet")
