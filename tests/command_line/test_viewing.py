import json

import pytest

from calling import run
from unsee.command_line import viewing


@pytest.fixture
def opened(monkeypatch):
    """What was served and which pages a browser was sent to, without either."""
    seen = {"pages": []}

    def serve(folder, port, *, ready):
        seen.update(folder=folder, port=port)
        ready("http://127.0.0.1:8642/secret/")

    class Now:
        def __init__(self, target, args, daemon):
            self.start = lambda: target(*args)

    monkeypatch.setattr(viewing, "serve", serve)
    monkeypatch.setattr(viewing.threading, "Thread", Now)
    monkeypatch.setattr(viewing.webbrowser, "open", seen["pages"].append)
    monkeypatch.setenv("DISPLAY", ":0")
    return seen


def test_it_serves_a_folder_and_opens_a_browser(opened, capsys):
    assert run("view", "mine", "--port", 8001) == 0
    assert (opened["folder"], opened["port"]) == ("mine", 8001)
    assert opened["pages"] == ["http://127.0.0.1:8642/secret/"]
    assert "http://127.0.0.1:8642/secret/" in capsys.readouterr().out


def test_by_default_runs_and_any_port(opened, capsys):
    assert run("view", "--no-browser", "--json") == 0
    assert (opened["folder"], opened["port"], opened["pages"]) == ("runs", None, [])
    assert json.loads(capsys.readouterr().out)["address"].startswith("http://127.0.0.1:")


def test_without_a_screen_no_browser_takes_the_terminal(opened, monkeypatch):
    monkeypatch.delenv("DISPLAY")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setattr(viewing.sys, "platform", "linux")
    assert run("view") == 0
    assert opened["pages"] == []


def test_an_interrupt_is_its_end(opened, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(viewing, "serve", interrupted)
    assert run("view") == 0


def test_a_missing_folder_is_one_sentence(tmp_path, capsys):
    assert run("view", tmp_path / "none", "--no-browser") == 3
    assert "unsee demo" in capsys.readouterr().err


def test_no_other_address_can_be_asked_for(capsys):
    with pytest.raises(SystemExit):
        run("view", "--host", "0.0.0.0")
    assert "--host" in capsys.readouterr().err
