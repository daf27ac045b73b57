"""The README's commands and its Python run as they stand."""

import json
import re
import runpy
import shlex
from pathlib import Path

import pytest

from unsee.cli import main

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


@pytest.mark.timeout(600)
@pytest.mark.filterwarnings("ignore::unsee.errors.UnseeWarning")  # of the floor: two epochs are few
def test_the_readmes_commands_and_python_run_in_order(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```bash\n(.*?)```", README, re.DOTALL)
    commands = [line for block in blocks for line in block.splitlines()]
    assert len(commands) >= 9
    for command in commands:
        program, *words = shlex.split(command, comments=True)
        if program == "source":
            continue
        if program == "python":
            monkeypatch.setattr("sys.argv", words)
            runpy.run_path(str(ROOT / words[0]), run_name="__main__")
        else:
            assert program == "unsee"
            assert main(words) in (0, 1), command
    capsys.readouterr()
    exec(re.search(r"```python\n(.*?)```", README, re.DOTALL)[1], {})
    assert "Pattern B: forget a backdoor" in capsys.readouterr().out


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
