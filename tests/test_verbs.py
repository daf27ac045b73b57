import argparse

import pytest

from unsee.cli import build_parser


def parsed(*words):
    return build_parser().parse_args(words)


def test_forget_takes_a_model_or_a_case():
    assert parsed("forget", "case.yaml").out is None
    found = parsed("forget", "m.safetensors", "--pattern", "B", "--out", "x", "--lambda-kl", "1e3")
    assert (found.lambda_kl, found.allow_code, found.anyway, found.with_images) == (1e3, False, False, False)


def test_init_has_a_file_and_report_one_run_or_several():
    assert parsed("init").case == "case.yaml"
    assert parsed("report", "a", "b").runs == ["a", "b"]
    with pytest.raises(SystemExit):
        parsed("report")


def test_a_place_without_a_name_is_refused(capsys):
    with pytest.raises(SystemExit):
        parsed("train", "--out", " ")
    assert "a name is needed" in capsys.readouterr().err


def test_every_option_has_a_help_text():
    verbs = next(a for a in build_parser()._actions if isinstance(a, argparse._SubParsersAction))
    for name, verb in verbs.choices.items():
        for action in verb._actions:
            assert action.help, f"{name} {action.option_strings}"
