import subprocess
import sys

import pytest

from unsee import cli

VERBS = ("demo", "data", "train", "remember", "init", "forget", "evaluate", "report", "tune", "reproduce")


def test_help_names_every_verb_and_exit_code(capsys):
    assert cli.main([]) == 0
    text = capsys.readouterr().out
    for part in (*VERBS, "130 interrupted", "6 diverged", "unsee demo"):
        assert part in text


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_with_examples(verb, capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main([verb, "--help"])
    text = capsys.readouterr().out
    assert caught.value.code == 0
    assert f"unsee {verb}" in text.split("examples:")[1]
    assert "--json" in text


@pytest.mark.parametrize(
    "words", [["forgot"], ["forget"], ["train"], ["data", "burn"], ["train", "--epochs", "x"]]
)
def test_usage_errors_exit_with_2(words, capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(words)
    assert caught.value.code == 2
    assert "Traceback" not in capsys.readouterr().err


def test_the_entry_point_runs():
    done = subprocess.run(
        [sys.executable, "-m", "unsee", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("unsee ")


def test_control_characters_are_shown_and_not_obeyed():
    assert cli._plain("a\x1b[31mb\nc") == "a\\x1b[31mb\\nc"
