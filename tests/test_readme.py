"""The README's and the docs' commands and Python run as they stand, and the docs build."""

import json
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from unsee.cli import main

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def run_as_it_stands(text):
    """Run the shell's lines of a page, then its Python."""
    commands = [
        line for block in re.findall(r"```bash\n(.*?)```", text, re.DOTALL) for line in block.splitlines()
    ]
    for command in commands:
        program, *words = shlex.split(command, comments=True)
        if program == "source" or command.startswith("unsee demo "):
            continue  # the demo: test_wheel.py runs it, from the wheel
        if program == "python":
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("sys.argv", words)
                runpy.run_path(str(ROOT / words[0]), run_name="__main__")
        else:
            assert program == "unsee"
            assert main(words) in (0, 1), command
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(block, {})
    return len(commands)


@pytest.mark.timeout(600)
@pytest.mark.filterwarnings("ignore::unsee.errors.UnseeWarning")  # of the floor: two epochs are few
def test_the_readmes_commands_and_python_run_in_order(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run_as_it_stands(README) >= 9
    assert "Pattern B: forget a backdoor" in capsys.readouterr().out


@pytest.mark.timeout(600)
@pytest.mark.filterwarnings("ignore::unsee.errors.UnseeWarning")
def test_the_how_to_runs_in_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run_as_it_stands((ROOT / "docs" / "how-to.md").read_text()) >= 6


def test_the_documentation_builds_without_a_warning(tmp_path):
    words = ["-q", "-W", "--keep-going", "-c", str(ROOT / "docs"), str(ROOT), str(tmp_path / "built")]
    command = [sys.executable, "-m", "sphinx", "-d", str(tmp_path / "doctrees"), *words]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "lambda_KL" in (tmp_path / "built" / "docs" / "api.html").read_text()


def test_its_figures_are_those_of_the_committed_result():
    words = json.loads((ROOT / "results" / "demo" / "run.json").read_text())["scores"]
    ticks = {True: " ✓", False: " ✗", None: ""}
    sets = words["sets"].values()
    before = [f"{row['old']:.3f}" for row in sets]
    after = [f"{row['accuracy']:.3f}{ticks[row['met']]}" for row in sets]
    assert f"| before | {' | '.join(before)} |" in README
    assert f"| after | {' | '.join(after)} | {words['score']:.3f} |" in README
    assert f"| n | {' | '.join(str(row['n']) for row in sets)} |" in README


def test_the_files_it_links_to_exist():
    links = re.findall(r"\]\((?!http)([^)#]+)\)", README)
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_search_came_to_no_less_than_the_papers_values_within_an_hour_and_a_tenth_of_the_samples():
    found = json.loads((ROOT / "results" / "search" / "search.json").read_text())
    first, protocol = found["trials"][0], 200 * found["trials"][0]["samples"]
    assert found["score"] >= first["score"]
    assert found["seconds"] <= 3600
    assert found["samples"] <= protocol / 10


def test_the_scorecard_has_the_figures_of_the_committed_results():
    text = README.split("## Scorecard")[1].split("\n## ")[0]
    limits = {
        limit["what"]: (f"{limit['found']:g}", f"{limit['most']:g}")
        for path in (ROOT / "benchmarks" / "results").glob("*.json")
        for limit in json.loads(path.read_text()).get("limits", ())
    }
    ordeals = {
        row["what"]: (f"{row['held']:,}", f"{row['n']:,}")
        for path in (ROOT / "results" / "torture").glob("*.json")
        for row in json.loads(path.read_text())["ordeals"]
    }
    known = limits | ordeals
    rows = re.findall(r"^\| (.+?) \| ([\d.,]+) \| ([\d.,]+) \|$", text, re.MULTILINE)
    assert {what: found for what, *found in rows} == {what: list(known[what]) for what, *_ in rows}
    assert len(rows) >= 16
