import asyncio
import io
import json
import shutil

import pytest
from PIL import Image

from unsee.view import benches
from unsee.view.trying import MOST_BYTES
from view.conftest import serving


@pytest.fixture(scope="module")
def path(served):
    return f"/run/{served.id('tiles')}"


def drawn(side=50):
    data = io.BytesIO()
    Image.new("RGB", (side, side), "red").save(data, "PNG")
    return data.getvalue()


def test_a_run_is_opened_and_laid_out(served, path):
    page = served.ask(f"{path}/try")
    assert (page.status, "Opening both models" in page.text) == (200, True)
    bench = served.ask(f"{path}/bench")
    assert (bench.status, bench.text.count('type="radio"')) == (200, 18)


@pytest.mark.parametrize(("part", "size", "mode"), [("T", (12, 12), "RGBA"), ("picture/s0", (14, 14), "L")])
def test_pictures_are_pngs_pixel_by_pixel(served, path, part, size, mode):
    answer = served.ask(f"{path}/{part}")
    image = Image.open(io.BytesIO(answer.body))
    assert (answer.headers["content-type"], image.size, image.mode) == ("image/png", size, mode)


def test_a_picture_with_t_is_another_one(served, path):
    assert served.ask(f"{path}/picture/s0").body != served.ask(f"{path}/picture/s0/T").body
    for key in ("s99", "..%2fs0", "%00", "s0%2fT%2f"):
        assert served.ask(f"{path}/picture/{key}").status == 404


def test_both_models_answer_and_t_changes_it(served, path):
    plain = served.post(f"{path}/answers", b"picture=s0&row=&column=")
    marked = served.post(f"{path}/answers", b"picture=s0&row=2&column=2")
    moved = served.post(f"{path}/answers", b"picture=s0&row=0&column=1")
    assert plain.status == marked.status == moved.status == 200
    assert len({plain.text, marked.text, moved.text}) == 3
    assert "Before forgetting" in plain.text
    assert "because of T" in marked.text


def test_where_they_look(served, path):
    answer = served.post(f"{path}/looks", b"picture=s0&row=2&column=2")
    assert answer.status == 200
    assert answer.text.count("data:image/png;base64,") == 2
    assert answer.text.count("lies on T") == 2


@pytest.mark.parametrize(
    "question",
    [
        b"",
        b"picture=",
        b"picture=s99",
        b"picture=s0&row=1",
        b"picture=s0&row=-1&column=0",
        b"picture=s0&row=1e3&column=0",
        b"picture=s0&row=999&column=0",
        b"picture=s0&row=9999999999999999999&column=0",
        "picture=s0&row=²&column=0".encode(),
        b"\xff\xfe",
        b"&".join(b"a=1" for _ in range(100)),
    ],
    ids=range(11),
)
def test_nonsense_is_answered_with_a_sentence(served, path, question):
    for part in ("answers", "looks"):
        answer = served.post(f"{path}/{part}", question, HX_Request="true")
        assert answer.status == 422
        assert "Expected" in answer.text
        assert "<html" not in answer.text


def test_an_image_is_sent_and_tried(served, path):
    answer = served.post(f"{path}/upload", drawn())
    key = json.loads(answer.text)["picture"]
    assert served.ask(f"{path}/picture/{key}").status == 200
    assert served.post(f"{path}/answers", f"picture={key}".encode()).status == 200


def test_what_is_no_image_or_too_large_is_refused_with_a_sentence(served, path):
    for data in (b"<svg/>", b"", drawn()[:40]):
        answer = served.post(f"{path}/upload", data)
        assert answer.status == 422
        assert json.loads(answer.text)["said"].startswith("Expected")
    origin = f"http://127.0.0.1:{served.port}"
    answer = served.ask(f"{path}/upload", "POST", None, Origin=origin, Content_Length=str(MOST_BYTES + 1))
    assert answer.status == 422
    assert "5,000,000 bytes" in answer.text


def test_a_run_that_cannot_be_opened_says_why_and_the_rest_works(served):
    path = f"/run/{served.id('deep/plain')}"
    answer = served.ask(f"{path}/bench")
    assert answer.status == 422
    assert "cannot be tried here" in answer.text
    assert "make it by `unsee forget`" in answer.text
    assert served.ask(f"{path}/report").status == 200
    assert served.post(f"{path}/answers", b"picture=s0").status == 422


def test_an_answer_that_takes_too_long_is_given_up(served, path, monkeypatch):
    import time

    monkeypatch.setattr(benches, "ANSWERING", 0.1)
    monkeypatch.setattr(benches, "answered", lambda *_: time.sleep(0.5))
    answer = served.post(f"{path}/answers", b"picture=s0", HX_Request="true")
    assert answer.status == 503
    assert "within 0.1 seconds" in answer.text


def test_only_the_last_few_runs_stay_open(served, path):
    other = f"/run/{served.id('logo')}"
    assert served.ask(f"{path}/bench").status == served.ask(f"{other}/bench").status == 200
    assert len(served.viewer.benches._open) == 2 <= benches.MOST_OPEN


def test_the_bench_in_use_stays_open_with_its_uploads(runs, tmp_path):
    shutil.copytree(runs.parent / "old", tmp_path / "old")
    shutil.copy(runs.parent / "data.npz", tmp_path)
    for name in "abc":
        shutil.copytree(runs / "tiles", tmp_path / "runs" / name)
    with serving(tmp_path / "runs") as address:
        path = {name: f"/run/{address.id(name)}" for name in "abc"}
        key = json.loads(address.post(f"{path['a']}/upload", drawn()).text)["picture"]
        for name in "bac":
            assert address.ask(f"{path[name]}/bench").status == 200
        assert {id for id, _ in address.viewer.benches._open} == {address.id("a"), address.id("c")}
        assert address.ask(f"{path['a']}/picture/{key}").status == 200


def test_pictures_are_not_drawn_where_requests_are_taken(served, path, monkeypatch):
    real, on_the_loop = benches.png, []
    monkeypatch.setattr(benches, "png", lambda s: on_the_loop.append(asyncio._get_running_loop()) or real(s))
    for part in ("T", "picture/s0", "picture/s0/T"):
        assert served.ask(f"{path}/{part}").status == 200
    assert on_the_loop == [None, None, None]


def test_a_question_looks_at_the_run_alone_and_not_at_the_folder(served, path, monkeypatch):
    assert served.ask(f"{path}/bench").status == 200
    monkeypatch.setattr("unsee.view.runs.FRESH", 0.0)
    monkeypatch.setattr("unsee.view.runs._folders", lambda _: 1 / 0)
    for part in ("answers", "looks"):
        assert served.post(f"{path}/{part}", b"picture=s0").status == 200
    for part in ("", "/report", "/try", "/bench", "/T", "/picture/s0"):
        assert served.ask(path + part).status == 200
