import json

import torch

from calling import run


def test_bench_writes_results_and_a_page(tmp_path, capsys):
    threads = torch.get_num_threads()
    assert run("bench", "startup", "--quick", "--out", tmp_path) in (0, 1)
    assert "unsee --help to the interpreter's own start" in capsys.readouterr().out
    result = json.loads((tmp_path / "results" / "startup.json").read_text())
    assert result["command"] == "unsee bench startup --quick"
    assert "unsee bench startup --quick" in (tmp_path / "README.md").read_text()
    assert torch.get_num_threads() == threads


def test_bench_for_machines(tmp_path, capsys):
    assert run("bench", "startup", "--quick", "--json", "--out", tmp_path) in (0, 1)
    (found,) = json.loads(capsys.readouterr().out)
    assert found["name"] == "startup"


def test_slips(tmp_path, capsys):
    assert run("bench", "fishers", "--out", tmp_path) == 2
    assert "one of fisher, forget, growth, memory, startup or all" in capsys.readouterr().err
    assert run("bench", "startup", "--threads", "0", "--out", tmp_path) == 2
    assert not (tmp_path / "results").exists()
