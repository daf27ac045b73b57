"""The quick run from end to end, with the pages and pictures it leaves."""

import json
import re

import pytest
import torch

from unsee import sources
from unsee.cli import main
from unsee.errors import UsageError
from unsee.paper.cells import Cell, Unit
from unsee.paper.experiments import reproduce
from unsee.paper.rows import Rows
from unsee.paper.running import run_all
from unsee.paper.scale import QUICK


@pytest.fixture
def small(monkeypatch, data, tmp_path):
    monkeypatch.setattr(sources, "bundled", lambda: data)
    monkeypatch.setenv("UNSEE_CACHE", str(tmp_path / "cache"))


def test_the_quick_run_leaves_every_table_and_figure(tmp_path, capsys, monkeypatch):
    """On the bundled data itself."""
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("UNSEE_CACHE", str(tmp_path / "cache"))
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
    said = " ".join(out.split())
    assert re.search(r"seed 0\. Runs that remain: [^.]*1 in fashion-mnist-tile, about \d+ minutes", said)
    assert err.count("skipped cifar-10") == 4
    for shown in ("Table 2: Pattern A", "0.144 ± 0.205", "Figure 4: tile", "CE + Fisher + RLD", "4.11e+04"):
        assert shown in out
    assert re.search(
        r"CE alone forgets D_r \(fashion-mnist, tile, B\): (holds|does not hold)\. D_r: before", out
    )
    assert "to trained on D_r" in out
    assert re.search(r"Of the paper's claims \d+ hold here, \d+ do not, \d+ are not run yet", out)
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
    assert "seed 0" not in capsys.readouterr().out  # a second run repeats nothing


def test_a_quick_run_on_colour_images_once_they_are_fetched(tmp_path, monkeypatch, capsys):
    """Of CIFAR-10's size."""

    def colour(part):
        x = torch.nn.functional.pad(part.x, (2, 2, 2, 2))
        return part.with_(x=torch.cat([x, x.flip(3), x.flip(2)], 1))

    bundled = sources.bundled()
    fetched = sources.TrainTest(colour(bundled.train), colour(bundled.test))
    monkeypatch.setattr(sources, "open_source", lambda _: fetched)
    words = ["--data", "cifar-10", "--quick", "--out", str(tmp_path / "paper"), "--work", str(tmp_path / "w")]
    assert main(["reproduce", "figure-4", "figure-s1", "figure-s2", "table-2", *words]) == 0
    assert "skipped" not in capsys.readouterr().err
    page = (tmp_path / "paper" / "README.md").read_text()
    for title in ("Figure 4: tile", "Figure S1: line", "Figure S2: color"):
        assert title in page
    assert page.count("| cifar-10 | C | CE + Fisher + RLD |") == 3
    assert "| cifar-10 | truncation |" in page


def test_an_unknown_name_is_refused(tmp_path):
    with pytest.raises(UsageError, match="all or some of table-2"):
        reproduce(["figure-9"], tmp_path)


@pytest.mark.parametrize("words", [["--data", "cifar10"], ["--seeds", "0"], ["--seeds", "-3"]])
def test_slips_are_refused_before_anything_is_written(tmp_path, words, capsys):
    assert main(["reproduce", "table-s1", "--out", str(tmp_path / "paper"), *words]) in (2, 3)
    assert len(capsys.readouterr().err.strip().splitlines()) == 1
    assert not (tmp_path / "paper").exists()


def test_a_quick_run_keeps_away_from_the_committed_rows(tmp_path, small, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", "table-s1", "--quick"]) == 0
    assert (tmp_path / "runs/quick/README.md").exists()
    assert not (tmp_path / "results").exists()


def test_what_the_rows_had_drawn_before_is_drawn_anew_and_nothing_else(tmp_path, small):
    rows = Rows(tmp_path / "rows")
    run_all([Cell(Unit("fashion-mnist", "tile"), "B", "CE")], rows, QUICK, tmp_path / "work", print)
    for name in ("figure-2", "figure-4"):
        (tmp_path / f"{name}.png").write_bytes(b"of long ago")
    reproduce(["table-s1"], tmp_path)
    assert (tmp_path / "figure-4.png").stat().st_size > 1000
    assert (tmp_path / "figure-2.png").read_bytes() == b"of long ago"  # its image may not be here
    assert not list(tmp_path.glob("figure-[3s]*"))


def test_data_that_was_not_fetched_is_no_matter_for_figure_3(tmp_path, small):
    words = reproduce(["figure-3"], tmp_path, work=tmp_path / "work")
    assert [reason.split(":")[0] for reason in words["skipped"]] == ["fashion-mnist-plain"]
    assert (tmp_path / "README.md").exists()


def test_a_figure_that_a_data_set_does_not_have_is_said(tmp_path, small):
    said = []
    reproduce(
        ["figure-s2"], tmp_path, work=tmp_path / "w", scale=QUICK, only="fashion-mnist", say=said.append
    )
    assert said[0] == "figure-s2 has nothing on fashion-mnist"
