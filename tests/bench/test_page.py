import json

import pytest

from unsee.bench import page
from unsee.bench.result import Limit
from unsee.errors import UsageError


def test_names():
    assert page.chosen(["all"]) == list(page.BENCHES) == list(page.TITLES)
    assert page.chosen(["memory", "fisher", "memory"]) == ["fisher", "memory"]
    with pytest.raises(UsageError, match="one of fisher, forget"):
        page.chosen(["fishers"])


def test_a_limit_says_whether_it_is_met():
    assert page.limit_row(Limit("a", 1.0, 2.0))[""] == "✓"
    assert page.limit_row(Limit("a", 2.1, 2.0))[""] == "✗"


def test_bars_do_not_break_a_table():
    lines = page.table([{"|D_f|": 1024, "seconds": 0.5}]).splitlines()
    assert lines == ["| \\|D_f\\| | seconds |", "| --- | --- |", "| 1,024 | 0.5 |"]


def test_the_page_has_the_command_beside_each_table(results, tmp_path):
    for name in ("startup", "growth"):
        results(name).save(tmp_path / "results")
    text = page.write(tmp_path).read_text()
    assert "    unsee bench startup --quick\n" in text
    assert text.index("## How cost grows") < text.index("## Start-up")
    assert "## The Fisher pass" not in text
    assert page.QUICK in text
    for name in ("startup", "growth"):
        assert f"({name}.png)" in text
        assert (tmp_path / f"{name}.png").exists()
        assert f"(results/{name}.json)" in text


def test_what_peers_say_is_on_it_too(tmp_path):
    (tmp_path / "results").mkdir()
    words = {
        "command": "python benchmarks/peers.py",
        "note": "Not here.",
        "rows": [{"library": "x", "ratio": 2.0}],
    }
    (tmp_path / "results" / "peers.json").write_text(json.dumps(words))
    text = page.write(tmp_path).read_text()
    assert "## Beside other libraries" in text
    assert "| x | 2.0 |" in text
