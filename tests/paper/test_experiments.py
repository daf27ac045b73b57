"""The quick run from end to end, with the pages and pictures it leaves."""

import json

import pytest

from unsee import sources
from unsee.cli import main
from unsee.errors import UsageError
from unsee.paper.experiments import reproduce


@pytest.fixture
def small(monkeypatch, data, tmp_path):
    monkeypatch.setattr(sources, "bundled", lambda: data)
    monkeypatch.setenv("UNSEE_CACHE", str(tmp_path / "cache"))


def test_the_quick_run_leaves_every_table_and_figure(tmp_path, small, capsys):
    words = [
        "reproduce",
        "all",
        "--quick",
        "--out",
        str(tmp_path / "paper"),
        "--work",
        str(tmp_path / "work"),
    ]
    assert main(words) == 0
    out, err = capsys.readouterr()
    assert "left in fashion-mnist-tile" in out
    assert err.count("skipped cifar-10") == 4
    for name in ("figure-2", "figure-3", "figure-4", "figure-s1"):
        for ending in ("png", "svg"):
            assert (tmp_path / "paper" / f"{name}.{ending}").stat().st_size > 1000
    page = (tmp_path / "paper" / "README.md").read_text()
    for part in (
        "A quick run",
        "0.144 ± 0.205",
        "CE + Fisher + RLD",
        "not run yet",
        "Skipped: cifar-10",
        "batch size",
    ):
        assert part in page
    table = json.loads((tmp_path / "paper" / "table-2.json").read_text())
    assert [row["method"] for row in table][:3] == ["pretrained", "RND", "RLD"]
    assert table[-1]["ours"]["D_f"] is None
    lines = json.loads((tmp_path / "paper" / "figure-4.json").read_text())
    assert len(lines) == 2 * 4 * 4
    assert len(json.loads((tmp_path / "paper" / "table-s1.json").read_text())) == 10
    assert len(json.loads((tmp_path / "paper" / "figure-3.json").read_text())) == 5
    capsys.readouterr()
    assert main(words) == 0
    assert "left in" not in capsys.readouterr().out  # a second run repeats nothing


def test_an_unknown_name_is_refused(tmp_path):
    with pytest.raises(UsageError, match="all or some of table-2"):
        reproduce(["figure-9"], tmp_path)
