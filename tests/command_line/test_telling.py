import argparse
import json
import os
import signal

import pytest

from unsee.command_line.telling import stopping, tell, tell_unjudged
from unsee.formulation import TABLE_1
from unsee.scores import Accuracy, Scores

SETTING = {
    "memory": "none",
    "T": None,
    "replayed": "stand-ins",
    "within the paper's setting": False,
    "weaker": "without a memory",
    "eased": 2,
}


def test_the_first_signal_is_a_question_and_the_second_stops():
    before = signal.getsignal(signal.SIGTERM)
    with stopping() as asked:
        assert not asked()
        os.kill(os.getpid(), signal.SIGTERM)
        assert asked()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before


def test_where_no_loop_asks_the_first_signal_stops(monkeypatch):
    monkeypatch.setattr("unsee.command_line.telling.HEARS", -1.0)
    with stopping(), pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGTERM)


def test_words_for_machines_and_for_people(capsys):
    words = {"setting": SETTING, "inputs": {"recipe": {"name": "[red]mine"}}}
    tell(argparse.Namespace(json=True), words, None, "x")
    assert json.loads(capsys.readouterr().out) == {**words, "written": ["x"]}
    tell(argparse.Namespace(json=False), words, None, "place[/]")
    text = capsys.readouterr().out
    assert "Recipe: [red]mine" in text
    assert "memory: none; no T; replayed: stand-ins (with T on" in " ".join(text.split())
    assert "Weaker: without a memory." in text
    assert "Eased after epoch 2: the floor was not held" in text
    assert "in vain" not in text
    for back_to, vain in ((0, True), (2, True), (3, False)):
        tell(argparse.Namespace(json=False), words | {"back_to": back_to}, None)
        assert ("in vain" in capsys.readouterr().out) == vain
    assert "Written: place[/]" in text


def test_arrows_that_could_not_be_judged_are_named(capsys):
    scores = Scores({"D_r": Accuracy(1, 2, {"a": 0.5})}, (), ("a", "b"), TABLE_1["B"])
    tell_unjudged(TABLE_1["B"], scores)
    assert "D_r, D_f_clean, D_r_extra" in capsys.readouterr().err
    tell_unjudged(None, scores)
    assert capsys.readouterr().err == ""
