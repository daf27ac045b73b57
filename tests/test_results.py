"""The committed pages are what their scripts make of the committed rows."""

import importlib
import shutil
import sys
from pathlib import Path

import pytest

from unsee import store
from unsee.paper.page import text
from unsee.paper.rows import Rows
from unsee.paper.scale import Scale

ROOT = Path(__file__).parent.parent


@pytest.fixture
def copied(tmp_path, monkeypatch):
    """A copy of the results, in which their scripts may write."""
    for name in ("beyond", "paper", "search"):
        shutil.copytree(ROOT / "results" / name, tmp_path / "results" / name)
        monkeypatch.syspath_prepend(str(tmp_path / "results" / name))
    for page in tmp_path.rglob("*.md"):
        page.unlink()
    monkeypatch.chdir(tmp_path)
    before = set(sys.modules)
    yield tmp_path / "results"
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def test_the_pages_beyond_the_paper(copied):
    script = importlib.import_module
    script("page").write(script("run").__doc__.strip())
    script("classes").write()
    script("poison").write()
    script("cost").write(script("cost").RETRAINING * 54_600)  # D_r and D_f,clean
    for name in ("fisher", "lacking"):
        rows = store.read_json(copied / "beyond" / f"{name}.json")
        store.write_bytes(copied / "beyond" / f"{name}.md", script(name).page(rows).encode())
    written = {path.name: path.read_text() for path in (copied / "beyond").glob("*.md")}
    committed = {path.name: path.read_text() for path in (ROOT / "results" / "beyond").glob("*.md")}
    assert written == committed


def test_the_page_of_the_paper_and_its_readings(copied):
    papers = ROOT / "results" / "paper"
    assert text(Rows(papers / "rows"), Scale(), []) == (papers / "README.md").read_text()
    readings = importlib.import_module("readings")
    page = readings.page(store.read_json(copied / "paper" / "readings.json"))
    assert page == (papers / "readings.md").read_text()


def test_decision_5_has_the_figures_of_the_readings():
    [decision] = (ROOT / "docs" / "decisions").glob("0005*.md")
    rows, text = store.read_json(ROOT / "results" / "paper" / "readings.json"), decision.read_text()
    for name in ("as chosen", "RLD draws from the classes other than 0", "RLD's labels drawn once"):
        for column in ("D_r_extra", "D_f"):
            assert f"{rows[f'C: {name}'][column]:.3f}" in text


def test_the_page_of_the_search(copied):
    importlib.import_module("write").main()
    assert (copied / "search/README.md").read_text() == (ROOT / "results/search/README.md").read_text()


def test_a_row_of_another_network_or_recipe_is_made_anew(copied):
    run, made = importlib.import_module("run"), []

    def make():
        made.append(1)
        return {"D_r": len(made)}

    path = copied / "row.json"
    for key, D_r in (({"network": "a"}, 1), ({"network": "a"}, 1), ({"network": "b"}, 2), ({"method": 3}, 3)):
        assert run.once(path, make, **key)["D_r"] == D_r
