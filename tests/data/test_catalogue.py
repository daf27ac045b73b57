from pathlib import Path

import pytest

from unsee import sources
from unsee.data import catalogue
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
    (tmp_path / "shelf" / "README.md").write_text("no module")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert list(published_in("shelf")) == ["letters"]
    monkeypatch.setitem(KNOWN, "letters", published_in("shelf")["letters"])
    assert "letters" in [row.name for row in sources.listing()]
    with pytest.raises(InputError, match="fetch it with `unsee data fetch letters`"):
        sources.open_source("letters")


def test_those_of_the_package_come_first_and_each_has_a_name_of_its_own():
    names = [(not data.file, data.name) for data in KNOWN.values()]
    assert names == sorted(names)
    assert next(iter(KNOWN)) == "bundled"
    assert {"adult", "cifar-10", "fashion-mnist", "spam"} <= set(KNOWN)
    folder = Path(catalogue.__file__).parent / "known"
    defined = sum(file.read_text().count(" = Published(") for file in folder.glob("*.py"))
    assert defined == len(KNOWN)


@pytest.mark.parametrize("published", KNOWN.values(), ids=lambda data: data.name)
def test_every_array_is_pinned_and_can_be_had(published):
    wanted = {"x_train", "y_train", "x_test", "y_test"}
    assert set(published.sha256) - {"vocabulary"} == wanted
    assert all(len(digest) == 64 for digest in published.sha256.values())
    assert len(published.classes) == len(set(published.classes)) > 1
    assert len(published.columns) in (0, *published.shape)
    assert bool(published.ways) != bool(published.file)
    assert all((published.what, *published.counts))
