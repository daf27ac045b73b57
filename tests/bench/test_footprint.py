import json
import shutil
import subprocess

import pytest

from unsee import networks
from unsee.bench import footprint
from unsee.memory import Memory


def test_the_slope_is_that_of_the_second_half():
    points = [{"samples": n, "MB": 100.0 if n < 500 else 0.002 * n} for n in range(0, 1000, 50)]
    assert footprint.slope(points) == 2000.0


def test_the_stream_is_made_when_it_is_asked_for():
    stream = footprint.Stream(100)
    x, label = stream[7]
    assert x.shape == (8, 8)
    assert (float(x[0, 0]), label) == (pytest.approx(0.07), 7)
    for i in range(len(stream)):
        stream[i]
    stream[50]  # a sample that is asked for again is not another point
    assert [point["samples"] for point in stream.points] == list(range(5, 100, 5))


def test_a_process_that_fails_is_said(monkeypatch):
    monkeypatch.setattr("sys.executable", shutil.which("false"))
    with pytest.raises(subprocess.CalledProcessError):
        footprint._in_a_process("remember", "nowhere", 4)


def test_the_model_and_its_memory(tmp_path, capsys):
    size = footprint.make(tmp_path, 6)
    footprint.do("remember", str(tmp_path), "6", "1")
    most, said = json.loads(capsys.readouterr().out)
    assert (most > 50e6, said) == (True, None)
    model = networks.load(tmp_path / "model.safetensors")
    memory = Memory.load(tmp_path / "memory.safetensors")
    memory.check(model)
    assert size == 4 * (9 * (108 * 108 + 108) + 108 * 10 + 10)
    assert memory.n == 640


def test_the_result(results):
    result = results("memory")
    peaks, points = result.tables.values()
    assert [row["what"] for row in peaks] == list(footprint.QUICK)
    assert all(row["MB"] >= peaks[0]["MB"] > 50 for row in peaks)
    assert [limit.most for limit in result.limits] == [6, 7, footprint.TRACE]
    assert len(points) == 20
