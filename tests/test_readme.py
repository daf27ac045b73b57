"""The README's commands and its Python run as they stand."""

import re
import shlex
from pathlib import Path

import pytest

from unsee.cli import main

README = (Path(__file__).parent.parent / "README.md").read_text()


@pytest.mark.timeout(600)
def test_the_readmes_commands_and_python_run_in_order(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    commands = re.search(r"```bash\n(.*?)```", README, re.DOTALL)[1].splitlines()
    assert len(commands) >= 6
    for command in commands:
        words = shlex.split(command, comments=True)
        assert words[0] == "unsee"
        assert main(words[1:]) in (0, 1), command
    capsys.readouterr()
    exec(re.search(r"```python\n(.*?)```", README, re.DOTALL)[1], {})
    assert "Pattern B: forget a backdoor" in capsys.readouterr().out


def test_the_files_it_links_to_exist():
    links = re.findall(r"\]\((?!http)([^)#]+)\)", README)
    assert [link for link in links if not (Path(__file__).parent.parent / link).exists()] == []
