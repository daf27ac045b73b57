import os

import pytest

from unsee.data import listings
from unsee.data.listings import few, inside, read_csv
from unsee.errors import InputError, StoreError, UnseeWarning


@pytest.fixture
def photos(tmp_path):
    """A folder with three files beside which listings are written."""
    folder = tmp_path / "photos"
    for name in ("a.png", "cats/b.png", "cats/c, d.png"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"no image, and not opened here")
    (tmp_path / "private.png").write_bytes(b"secret")
    return folder


def listed(folder, text, name="list.csv", **how):
    (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    listing = read_csv(folder / name, **how)
    return [name for name, _ in listing.images], listing.labels


PLAIN = (["a.png", "cats/b.png"], ["dog", "cat"])

WRITTEN = {
    "plain": "file,label\na.png,dog\ncats/b.png,cat\n",
    "no last newline": "file,label\na.png,dog\ncats/b.png,cat",
    "CRLF": "file,label\r\na.png,dog\r\ncats/b.png,cat\r\n",
    "old Mac": "file,label\ra.png,dog\rcats/b.png,cat\r",
    "BOM": "\ufefffile,label\na.png,dog\ncats/b.png,cat\n",
    "BOM and quotes": '\ufeff"file","label"\n"a.png","dog"\n"cats/b.png","cat"\n',
    "blank lines": "file,label\n\na.png,dog\n\ncats/b.png,cat\n\n",
    "blanks": " file , label \n a.png , dog \n cats/b.png ,cat\n",
    "capitals": "File,LABEL\na.png,dog\ncats/b.png,cat\n",
    "more columns": "id,label,file,note\n7,dog,a.png,\n8,cat,cats/b.png,x\n",
    "other words": "file_name,class\na.png,dog\ncats/b.png,cat\n",
    "semicolons": "file;label\na.png;dog\ncats/b.png;cat\n",
    "backslashes": "path,target\na.png,dog\ncats\\b.png,cat\n",
    "dots": "image,y\n./a.png,dog\ncats/./b.png,cat\n",
}


@pytest.mark.parametrize("case", WRITTEN)
def test_listings_as_people_write_them(photos, case):
    assert listed(photos, WRITTEN[case]) == PLAIN


def test_tabs_and_quoted_separators(photos):
    assert listed(photos, "file\tlabel\na.png\tdog\ncats/b.png\tcat\n", "list.tsv") == PLAIN
    assert listed(photos, "file\tlabel\ncats/c, d.png\tcat\n", "list.TSV") == (["cats/c, d.png"], ["cat"])
    assert listed(photos, 'file,label\n"cats/c, d.png",cat\n') == (["cats/c, d.png"], ["cat"])


def test_the_paths_lie_beside_the_listing(photos):
    (photos / "list.csv").write_text("file,label\na.png,dog\n")
    assert list(read_csv(photos / "list.csv").images) == [("a.png", photos / "a.png")]


def test_labels_need_no_column_where_they_are_known(photos):
    assert listed(photos, "file\na.png\n", labelled=False) == (["a.png"], None)
    assert listed(photos, "file,label\na.png,\n", labelled=False) == (["a.png"], None)


BAD = {
    "empty": ("", r"a column for the file \(file, path, .*\) in .*, found no columns"),
    "a header alone": ("file,label\n", "rows in .*, found none"),
    "no header": ("a.png,dog\n", r"a column for the file .*, found a\.png, dog: rename"),
    "no file": ("name,label\na.png,dog\n", "for the file .*, found name, label"),
    "no label": ("file,kind\na.png,dog\n", r"for the label \(label, class, target, y\).*, found file, kind"),
    "a column twice": ("file,label,Label\na.png,dog,cat\n", "one column label in .*, found 2"),
    "short row": ("file,label\na.png,dog\ncats/b.png\n", "2 columns in .*list.csv, row 2, found 1"),
    "long row": ("file,label\ncats/c, d.png,cat\n", "2 columns in .*row 1, found 3: quote"),
    "open quote": ('file,label\n"a.png,dog\n', "plain rows of text"),
    "text behind a quote": ('file,label\n"a"b,dog\n', "plain rows of text"),
    "NUL": ("file,label\na.png\0,dog\n", "plain rows of text|1 to 1,024 characters"),
    "a long field": ("file,label\n" + "a" * 1_000_000 + ",dog\n", "plain rows of text.*field"),
    "a long path": ("file,label\n" + "a" * 2_000 + ",dog\n", r"1 to 1,024 characters .*\(2,000 char"),
    "a long name": ("file,label\n" + "a" * 300 + ",dog\n", "no file "),
    "no name": ("file,label\n ,dog\n", "a file's name of 1 to 1,024 characters in .*row 1"),
    "UTF-16": ("file,label\na.png,dog\n".encode("utf-16"), "UTF-8 text in .*, found byte 0xff"),
    "Latin-1": (b"file,label\n\xe9.png,dog\n", "UTF-8 text in .*, found byte 0xe9"),
    "a missing file": ("file,label\na.png,dog\nz.png,cat\n", "the files that .* lists, found no file z.png"),
    "many missing": (
        "file,label\n" + "".join(f"{i}.png,cat\n" for i in range(9)),
        "no file 0.png, 1.png, 2.png and 6 more",
    ),
    "a folder": ("file,label\ncats,dog\n", "no file cats"),
    "itself": ("file,label\n.,dog\n", r"no file \."),
    "two labels": ("file,label\na.png,dog\na.png,cat\n", "one label a file .*'dog' and 'cat' for 'a.png'"),
    "binary": (os.urandom(3) + b"\x00\xff\xfe" * 50, "UTF-8 text|plain rows|a column"),
}


@pytest.mark.parametrize("case", BAD)
def test_listings_that_cannot_be_used_are_refused_in_a_sentence(photos, case):
    text, why = BAD[case]
    with pytest.raises(InputError, match=why) as caught:
        listed(photos, text)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 1_000


def test_rows_that_name_a_file_again_are_left_out_aloud(photos):
    with pytest.warns(UnseeWarning, match=r"2 rows of .*list.csv name a file again"):
        assert listed(photos, "file,label\na.png,dog\n./a.png,dog\ncats/b.png,cat\na.png,dog\n") == PLAIN


TRICKS = [
    "../private.png",
    "cats/../../private.png",
    "cats\\..\\..\\private.png",
    "..",
    "cats/..",
    "/etc/passwd",
    "//server/share/a.png",
    "\\\\server\\share\\a.png",
    "\\private.png",
    "C:\\private.png",
    "C:private.png",
    "file:///etc/passwd",
    "https://there/a.png",
    "s3://bucket/a.png",
    "cats/b.png::http://there/",
    "./../private.png",
]


@pytest.mark.parametrize("trick", TRICKS)
def test_a_listing_never_leads_out_of_its_folder(photos, trick):
    with pytest.raises(
        InputError, match=r"a file in .*photos in .*row 1, found .*, which leads elsewhere: put"
    ):
        listed(photos, f"file,label\n{trick},dog\n")


def test_absolute_paths_are_refused_even_into_the_folder(photos):
    with pytest.raises(InputError, match="leads elsewhere"):
        listed(photos, f"file,label\n{photos / 'a.png'},dog\n")


def test_links_may_not_lead_out_of_the_folder(photos):
    (photos / "inner.png").symlink_to(photos / "a.png")
    assert listed(photos, "file,label\ninner.png,dog\n")[0] == ["inner.png"]
    (photos / "link.png").symlink_to(photos.parent / "private.png")
    (photos / "up").symlink_to(photos.parent)
    (photos / "there").symlink_to(photos / "link.png")
    (photos / "gone.png").symlink_to(photos.parent / "nothing.png")
    for name in ("link.png", "up/private.png", "there", "gone.png"):
        with pytest.raises(InputError, match="a link out of it: copy the file"):
            listed(photos, f"file,label\n{name},dog\n")


def test_rings_and_pipes_are_no_files_and_nobody_waits(photos):
    (photos / "ring.png").symlink_to(photos / "ring.png")
    os.mkfifo(photos / "pipe.png")
    for name in ("ring.png", "pipe.png"):
        with pytest.raises(InputError, match=f"no file {name}"):
            listed(photos, f"file,label\n{name},dog\n")


@pytest.mark.parametrize("name", ["a\x1b[2J.png", "a\rb.png", "a\x00.png", "a\x85.png"])
def test_a_name_cannot_steer_the_terminal(photos, name):
    with pytest.raises(InputError) as caught:
        inside(photos, name, "row 1")
    assert str(caught.value).isprintable()


def test_names_with_odd_blanks_are_names(photos):
    name = "Screenshot 9.41\u202fAM.png"
    (photos / name).write_bytes(b"")
    assert listed(photos, f"file,label\n{name},dog\n")[0] == [name]


def test_limits(photos, monkeypatch):
    monkeypatch.setattr(listings, "MOST_ROWS", 1)
    assert listed(photos, "file,label\na.png,dog\n")[0] == ["a.png"]
    with pytest.raises(InputError, match="at most 1 rows"):
        listed(photos, WRITTEN["plain"])
    monkeypatch.setattr(listings, "MOST_LISTED", 10)
    with pytest.raises(InputError, match="a listing of at most 10 bytes, found 21 bytes"):
        listed(photos, "file,label\na.png,dog\n")


def test_a_listing_that_may_not_be_read(photos, monkeypatch):
    def refused(path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(listings, "_rows", refused)
    with pytest.raises(StoreError, match=r"a readable file at .*list.csv, found Permission denied"):
        listed(photos, WRITTEN["plain"])


def test_few_names_are_short_and_printable():
    assert few(["a"]) == "a"
    assert few(["a", "b", "c"]) == "a, b, c"
    assert few(list("abcde"), 2) == "a, b and 3 more"
    assert few(["a\nb"]) == r"'a\nb'"
    assert len(few(["x" * 1_000_000])) < 100
