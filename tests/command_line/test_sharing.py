import argparse

import pytest

from unsee.command_line.sharing import CODES, place, verb_of


def test_a_verb_has_what_all_have():
    verbs = argparse.ArgumentParser().add_subparsers()
    help_ = verb_of(verbs, "forget", "make it forget", "unsee forget x").format_help()
    assert "make it forget" in help_
    assert CODES in help_
    found = verbs.choices["forget"].parse_args(["--json", "--seed", "3"])
    assert (found.room, found.json, found.seed, found.device) == ("treating", True, 3, "auto")
    plain = verb_of(verbs, "data", "list", "unsee data list", run=False).parse_args([])
    assert plain.room == "making"
    assert not hasattr(plain, "seed")


def test_a_place_needs_a_name():
    assert place("runs/new") == "runs/new"
    with pytest.raises(argparse.ArgumentTypeError, match="a name is needed"):
        place("  ")
