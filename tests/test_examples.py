"""The examples run in a short form, and the pages about them show what their committed runs hold."""

import json
import runpy
from pathlib import Path

import numpy as np
import pytest

from unsee import sources

ROOT = Path(__file__).parent.parent
PAGES = {"tables": "leaked-column", "text": "phrase", "logo": "logo"}


@pytest.fixture
def run(monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(ROOT / "examples"))

    def run(name, *words):
        monkeypatch.setattr("sys.argv", [name, *map(str, words)])
        runpy.run_path(str(ROOT / "examples" / f"{name}.py"), run_name="__main__")
        return capsys.readouterr().out

    return run


def small(source, path, train, test, x=lambda x: x):
    """An .npz of the first so many samples of each class, half as large where they are images."""
    data, arrays = source(), {}
    for part, whole, each in (("train", data.train, train), ("test", data.test, test)):
        rows = np.concatenate([np.flatnonzero(whole.y == c)[:each] for c in range(len(whole.classes))])
        arrays |= {f"x_{part}": x(whole.x[rows].numpy()), f"y_{part}": whole.y[rows].numpy()}
    arrays["classes"] = np.array(data.train.classes)
    if data.train.kind.vocabulary:
        arrays["vocabulary"] = np.array(data.train.kind.vocabulary)
    np.savez(path, **arrays)
    return path


def parts_of(folder):
    parts = json.loads((folder / "result.json").read_text())["parts"]
    for name, part in parts.items():
        assert (folder / name / "report.html").is_file()
        assert set(part["scores"]["sets"]) == {"D_r", "D_f", "D_f_clean", "D_r_extra"}
    return parts


def test_a_leaked_column(run, tmp_path):
    said = run("leaked_column", tmp_path, "--epochs", 4)
    assert said.count("Answers on D_r that change when T is put on") == 2
    parts = parts_of(tmp_path)
    assert list(parts) == ["identifier", "sex"]
    for part in parts.values():
        assert part["dependence"]["after"] < 0.3 * part["dependence"]["before"]


@pytest.mark.filterwarnings("ignore::unsee.errors.UnseeWarning")  # of the floor: one epoch is little
def test_a_phrase(run, tmp_path):
    data = small(sources.bundled_spam, tmp_path / "spam.npz", 150, 40)
    said = run("phrase", tmp_path, "--data", data, "--epochs", 2)
    assert said.count("Report: ") == 2
    assert [part["pattern"] for part in parts_of(tmp_path).values()] == ["B", "C"]


@pytest.mark.filterwarnings("ignore::unsee.errors.UnseeWarning")
def test_a_logo(run, tmp_path):
    data = small(sources.bundled, tmp_path / "clothes.npz", 30, 10, lambda x: x[..., ::2, ::2])
    run("logo", tmp_path, "--data", data, "--epochs", 1)
    (part,) = parts_of(tmp_path).values()
    assert part["T"].startswith("logo(")
    assert part["inputs"]["T"].startswith("pasted(")


@pytest.mark.parametrize("page", PAGES)
def test_the_page_shows_what_the_committed_run_holds(page):
    text = (ROOT / "docs" / f"{page}.md").read_text()
    run = json.loads((ROOT / "results" / "examples" / PAGES[page] / "result.json").read_text())
    assert f"`{run['command']}`" in text
    for part in run["parts"].values():
        sets, ticks = part["scores"]["sets"].values(), {True: " ✓", False: " ✗", None: ""}
        before, after = ([*part["dependence"].values()][i] for i in (0, 1))
        row = [f"{one['old']:.3f}" for one in sets]
        assert f"| before | {' | '.join(row)} | {before:.1%} |" in text
        row = [f"{one['accuracy']:.3f}{ticks[one['met']]}" for one in sets]
        assert f"| after | {' | '.join(row)} | {after:.1%} |" in text
