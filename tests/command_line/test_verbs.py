import argparse

import pytest

from unsee.cases.case import Case, ModelWords
from unsee.cli import build_parser


def parsed(*words):
    return build_parser().parse_args(words)


def test_forget_takes_a_model_or_a_case():
    assert parsed("forget", "case.yaml").out is None
    found = parsed("forget", "m.safetensors", "--pattern", "B", "--out", "x", "--lambda-kl", "1e3")
    assert (found.lambda_kl, found.allow_code, found.anyway, found.with_images) == (1e3, False, False, False)


def test_init_has_a_file_and_report_one_run_or_several():
    assert build_parser("init").parse_args(["init"]).case == "case.yaml"
    assert parsed("report", "a", "b").runs == ["a", "b"]
    with pytest.raises(SystemExit):
        parsed("report")


def test_a_place_without_a_name_is_refused(capsys):
    with pytest.raises(SystemExit):
        parsed("train", "--out", " ")
    assert "a name is needed" in capsys.readouterr().err


def test_every_option_has_a_help_text():
    for asked in (None, "init"):  # whose options are in the fields of a case
        parser = build_parser(asked)
        verbs = next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
        for name, verb in verbs.choices.items():
            for action in verb._actions:
                assert action.help, f"{name} {action.option_strings}"


def test_only_the_verb_that_is_asked_for_gets_options():
    parser = build_parser("forget")
    assert parser.parse_args(["forget", "m", "--lr", "1"]).lr == 1
    assert "evaluate" in parser.format_help()
    with pytest.raises(SystemExit):
        parser.parse_args(["evaluate", "m"])


def test_the_help_of_init_is_that_of_the_fields():
    parser = build_parser("init")
    verbs = next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    helps = {action.dest: action.help for action in verbs.choices["init"]._actions}
    assert helps["forget"] == Case.model_fields["forget"].description
    assert helps["weights"] == ModelWords.model_fields["weights"].description
    found = build_parser("init").parse_args(["init", "--weights", "x", "--classes", "a,b"])
    assert (found.weights, found.classes) == ("x", "a,b")
