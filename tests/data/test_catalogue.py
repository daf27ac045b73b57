import pytest

from unsee import sources
from unsee.data.catalogue import KNOWN, published_in
from unsee.errors import InputError

FILE = """
from unsee.data.published import Published

def _here(progress):
    raise NotImplementedError

LETTERS = Published("letters", "two letters", (2,), (1, 1), ("a", "b"), {}, ways={"here": _here})
"""


def test_a_source_is_one_file(tmp_path, monkeypatch):
    (tmp_path / "shelf").mkdir()
    (tmp_path / "shelf" / "letters.py").write_text(FILE)
    (tmp_path / "shelf" / "_notes.py").write_text("raise SystemExit")
    (tmp_path / "shelf" / "README.md").write_text("no module")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert list(published_in("shelf")) == ["letters"]
    monkeypatch.setitem(KNOWN, "letters", published_in("shelf")["letters"])
    assert "letters" in [row.name for row in sources.listing()]
    with pytest.raises(InputError, match="fetch it with `unsee data fetch letters`"):
        sources.open_source("letters")


def test_those_of_the_package_come_first():
    assert list(KNOWN)[:3] == ["bundled", "bundled-adult", "bundled-spam"]
    assert list(KNOWN)[3:] == ["adult", "cifar-10", "fashion-mnist", "spam"]


@pytest.mark.parametrize("published", KNOWN.values(), ids=lambda data: data.name)
def test_every_array_is_pinned_and_can_be_had(published):
    wanted = {"x_train", "y_train", "x_test", "y_test"}
    assert set(published.sha256) - {"vocabulary"} == wanted
    assert all(len(digest) == 64 for digest in published.sha256.values())
    assert len(published.classes) == len(set(published.classes)) > 1
    assert len(published.columns) in (0, *published.shape)
    assert bool(published.ways) != bool(published.file)
    assert all((published.what, *published.counts))
