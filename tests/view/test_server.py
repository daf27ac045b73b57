import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from unsee.errors import InputError, UsageError
from unsee.view import server
from unsee.view.server import LOOPBACK, MOST_COMPARED, listen, serve
from view.conftest import serving


def test_the_pages_of_a_run(served):
    id = served.id("tiles")
    frame = served.ask(f"/run/{id}")
    assert f'src="{served.viewer.base}/run/{id}/report"' in frame.text
    report = served.ask(f"/run/{id}/report")
    assert report.headers["content-type"].startswith("text/html")
    assert "Forgetting a backdoor" in report.text
    assert "<script" not in report.text


def test_a_filter_changes_a_part_and_the_address(served):
    answer = served.ask("/?filter=tiles&sort=D_r&down=0", HX_Request="true")
    assert "<html" not in answer.text
    assert answer.headers["hx-replace-url"] == f"{served.viewer.base}/?sort=D_r&down=0&filter=tiles"
    split = served.ask("/?filter=%0d%0aSet-Cookie:x", HX_Request="true")
    assert "set-cookie" not in split.headers
    assert served.ask(f"/?filter={'x' * 5000}").status == 200


def test_several_runs_side_by_side(served):
    one, two = served.id("tiles"), served.id("logo")
    frame = served.ask(f"/compare?run={one}&run={two}")
    assert "2 runs side by side" in frame.text
    report = served.ask(f"/compare/report?run={one}&run={two}")
    assert report.status == 200
    assert "tiles" in report.text
    assert "logo" in report.text
    for query in ("", f"?run={one}", f"?run={one}&run={one}", f"?run={one}&run=..", "?run="):
        for path in ("/compare", "/compare/report"):
            answer = served.ask(path + query)
            assert answer.status == 422
            assert "two runs or more" in answer.text
    many = "&".join(f"run={i}" for i in range(MOST_COMPARED + 1))
    assert "choose fewer" in served.ask(f"/compare?{many}").text


def test_what_is_not_there_is_said_as_a_page_or_as_a_part(served):
    for path in ("/nothing", "/run/0/report", "/run/0/try", "/run/0/bench", "/run/0"):
        answer = served.ask(path)
        assert answer.status == 404
        assert "There is nothing at this address" in answer.text
        assert "<html" in answer.text
    assert "<html" not in served.ask("/run/0/bench", HX_Request="true").text


def test_a_bug_of_ours_is_said_and_the_viewer_lives_on(served, monkeypatch, capfd):
    monkeypatch.setattr(server.pages, "trying", lambda *_: 1 / 0)
    answer = served.ask(f"/run/{served.id('tiles')}/try")
    assert answer.status == 500
    assert "bug in unsee" in answer.text
    assert "ZeroDivisionError" not in answer.text
    assert served.ask("/").status == 200


def test_a_run_that_comes_or_goes_while_it_is_watched(runs, tmp_path, monkeypatch):
    monkeypatch.setattr("unsee.view.runs.FRESH", 0.0)
    folder = tmp_path / "runs"
    folder.mkdir()
    with serving(folder) as address:
        assert "No runs here yet" in address.ask("/").text
        shutil.copytree(runs / "tiles", folder / "new")
        id = address.id("new")
        assert "1 of 1 run" in address.ask("/").text
        assert address.ask(f"/run/{id}/report").status == 200
        (folder / "new" / "facts.json").unlink()
        os.mkfifo(folder / "new" / "facts.json")
        assert address.ask(f"/run/{id}/report").status == 422
        shutil.rmtree(folder / "new")
        assert address.ask(f"/run/{id}/report").status == 404


def test_it_listens_on_this_machine_alone(served):
    wanted = f"{served.port:04X}"
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    six = Path("/proc/net/tcp6")
    lines += six.read_text().splitlines()[1:] if six.exists() else []
    listening = [line.split()[1] for line in lines if line.split()[3] == "0A"]
    places = [place for place in listening if place.endswith(f":{wanted}")]
    assert places == [f"0100007F:{wanted}"]


def test_a_port_that_is_taken():
    with listen(0) as first:
        port = first.getsockname()[1]
        assert first.getsockname()[0] == LOOPBACK
        with pytest.raises(UsageError, match="--port"):
            listen(port)
    for port in (-1, 70_000):
        with pytest.raises(UsageError, match="--port"):
            listen(port)


def test_without_a_number_any_port_will_do(monkeypatch):
    with listen(0) as first:
        monkeypatch.setattr(server, "PORT", first.getsockname()[1])
        with listen() as second:
            assert second.getsockname()[1] != first.getsockname()[1]


def test_a_folder_must_be_there(tmp_path):
    with pytest.raises(InputError, match="unsee demo"):
        serve(tmp_path / "none", ready=lambda _: None)


def test_it_ends_well_when_it_is_interrupted(runs):
    words = [sys.executable, "-m", "unsee", "view", str(runs), "--no-browser", "--port", "0"]
    child = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        lines = [child.stdout.readline() for _ in range(3)]
        assert re.search(r"http://127\.0\.0\.1:\d+/[\w-]{20,}/", "".join(lines))
        time.sleep(0.3)
        child.send_signal(signal.SIGINT)
        _, said = child.communicate(timeout=20)
        assert (child.returncode, said) == (0, "")
    finally:
        child.kill()
        child.wait()
