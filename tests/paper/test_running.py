import os
import threading
import time
from dataclasses import asdict, replace

import pytest

from unsee import sources, store
from unsee.errors import InputError, Interrupted
from unsee.holding import grabbed
from unsee.paper.cells import METHODS, Cell, Unit
from unsee.paper.rows import Rows
from unsee.paper.running import remaining, run_all, write_scratch
from unsee.paper.scale import QUICK, Scale

TILE, PLAIN = Unit("fashion-mnist", "tile"), Unit("fashion-mnist", None)
TINY = replace(QUICK, pretraining_epochs=1, epochs=1, limit=20)


@pytest.fixture(autouse=True)
def small(monkeypatch, data, tmp_path):
    monkeypatch.setattr(sources, "bundled", lambda: data)
    monkeypatch.setenv("UNSEE_CACHE", str(tmp_path / "cache"))


def test_what_is_finished_is_never_run_again(tmp_path):
    cells = [Cell(TILE, "B", "CE"), Cell(TILE, "C", "CE + Fisher + RLD")]
    rows, said = Rows(tmp_path / "rows"), []
    assert run_all(cells, rows, TINY, tmp_path / "work", said.append) == []
    assert len(said) == 3
    before = {cell: rows.read(cell) for cell in cells}
    run_all([*cells, Cell(TILE, "B", "CE + RLD")], rows, TINY, tmp_path / "work", said.append)
    remain = "Runs that remain: 1 in fashion-mnist-tile, about 0 minutes"
    assert said[3:] == [remain, f"fashion-mnist-tile-B-ce-rld, seed 0. {remain}"]
    assert len(said) == 5
    assert before == {cell: rows.read(cell) for cell in cells}
    run = before[cells[0]][0]
    assert [row["epoch"] for row in run["trajectory"]] == [0, 1]
    assert run["scores"]["D_r"]["n"] == 180  # the last epoch is judged on the whole test set


def test_how_long_it_will_take_is_told_by_runs_on_the_same_data(tmp_path):
    rows, line = Rows(tmp_path), Cell(Unit("fashion-mnist", "line"), "B", "CE")
    cells = {TILE: [Cell(TILE, pattern, "CE") for pattern in "BC"], line.unit: [line]}
    told = lambda: remaining(cells, rows, TINY, tmp_path / "work")  # noqa: E731
    after = ", after its network"
    assert told() == f"Runs that remain: 2 in fashion-mnist-tile{after}; 1 in fashion-mnist-line{after}"
    rows.add(cells[TILE][0], {"network": "net"}, 0, {"seconds": 1200})
    store.write_json(tmp_path / "fashion-mnist-tile-pretrained.json", {"network": "net", "seconds": 600})
    store.write_json(tmp_path / "work" / "fashion-mnist-tile" / "memory.safetensors", {})  # is there
    tile, other = (f"1 in fashion-mnist-{T}, about 20 minutes" for T in ("tile", "line"))
    assert told() == f"Runs that remain: {tile}; {other}{after}, about 10 minutes"


def test_unless_told_there_are_ten_runs_and_three_on_cifar_10(tmp_path):
    cells = {unit: [Cell(unit, "B", "CE")] for unit in (TILE, Unit("cifar-10", "tile"))}
    text = remaining(cells, Rows(tmp_path), Scale(), tmp_path)
    assert "10 in fashion-mnist-tile" in text
    assert "3 in cifar-10-tile" in text


def test_more_seeds_are_added_and_truncation_has_one(tmp_path):
    cells = [Cell(PLAIN, "A", method) for method in METHODS]
    rows = Rows(tmp_path / "rows")
    for seeds in (1, 2):
        run_all(cells, rows, replace(TINY, seeds=seeds), tmp_path / "work", lambda _: None)
    assert [len(rows.read(cell)) for cell in cells] == [2, 2, 2, 2, 1]


def test_data_that_was_not_fetched_is_listed_as_skipped(tmp_path):
    skipped = run_all([Cell(Unit("cifar-10", "tile"), "B", "CE")], Rows(tmp_path), TINY, tmp_path, print)
    assert len(skipped) == 1
    assert "unsee data fetch cifar-10" in skipped[0]


def test_a_stop_loses_no_finished_run(tmp_path):
    cells, rows = [Cell(TILE, "B", line) for line in ("CE", "CE + RLD")], Rows(tmp_path / "rows")
    scale = replace(TINY, batch_size=16)
    run_all(cells[:1], rows, scale, tmp_path / "work", lambda _: None)
    with pytest.raises(Interrupted):
        run_all(cells, rows, scale, tmp_path / "work", lambda _: None, stop=lambda: True)
    assert [len(rows.read(cell)) for cell in cells] == [1, 0]


def test_a_run_goes_on_where_it_was_stopped(tmp_path):
    cell = Cell(TILE, "B", "CE + RLD")
    calls = 0

    def stop() -> bool:
        nonlocal calls
        calls += 1
        return calls % 3 == 0

    stopped = Rows(tmp_path / "stopped")
    for _ in range(20):
        try:
            run_all([cell], stopped, replace(TINY, batch_size=16), tmp_path / "work", print, stop=stop)
            break
        except Interrupted:
            pass
    assert calls > 3
    whole = Rows(tmp_path / "whole")
    run_all([cell], whole, replace(TINY, batch_size=16), tmp_path / "work", print)
    found, expected = ({**rows.read(cell)[0], "seconds": None} for rows in (stopped, whole))
    assert found == expected
    assert not (tmp_path / "work" / TILE.name / f"{cell.name}-0").exists()


def test_training_from_scratch_on_D_r(tmp_path):
    rows = Rows(tmp_path / "rows")
    write_scratch(PLAIN, rows, replace(TINY, pretraining_epochs=5), tmp_path / "work")
    path = tmp_path / "rows" / "fashion-mnist-plain-scratch.json"
    before = path.stat().st_mtime_ns
    scores = store.read_json(path)["scores"]
    assert scores["D_f"]["accuracy"] == 0.0  # class 0 was never seen
    assert scores["softmax_D_f"][0] < 0.05 < scores["D_r"]["accuracy"]
    write_scratch(PLAIN, rows, TINY, tmp_path / "work")
    assert path.stat().st_mtime_ns == before


def test_a_run_that_diverges_is_written_down_as_such(tmp_path, monkeypatch):
    from unsee.paper import cells as module
    from unsee.paper.page import text

    monkeypatch.setitem(module.LINES, "CE", {"lambda_f": 0.0, "lambda_kl": 0.0, "lr": 3e38})
    rows, cell = Rows(tmp_path / "rows"), Cell(TILE, "B", "CE")
    run_all([cell], rows, TINY, tmp_path / "work", lambda _: None)
    assert "kept the state after step 0" in rows.read(cell)[0]["diverged"]
    (tmp_path / "figure-4.png").write_bytes(b"")
    assert "| 1, 1 diverged |" in text(rows, TINY, [])


def test_rows_of_another_recipe_are_refused_those_of_another_network_left_as_they_are(tmp_path):
    rows, cell = Rows(tmp_path / "rows"), Cell(TILE, "B", "CE")
    run_all([cell], rows, TINY, tmp_path / "work", print)
    before = rows.read(cell)
    said = []
    with pytest.raises(InputError, match=r"epochs = 2 of the runs in .*, found runs with 1"):
        run_all(
            [Cell(PLAIN, "A", "RLD"), cell], rows, replace(TINY, epochs=2), tmp_path / "work", said.append
        )
    assert not said  # before anything is run
    more = [cell, Cell(TILE, "C", "CE")]
    run_all([cell], Rows(tmp_path / "others"), replace(TINY, pretraining_epochs=2), tmp_path / "other", print)
    [reason] = run_all(more, rows, replace(TINY, pretraining_epochs=2), tmp_path / "other", print)
    assert "found network" in reason
    assert rows.read(cell) == before
    assert not rows.read(more[1])


def test_a_network_that_is_gone_is_made_anew_and_its_rows_gone_on_with(tmp_path):
    """As on another machine of the same kind: only the rows came along."""
    rows, cells = Rows(tmp_path / "rows"), [Cell(TILE, pattern, "CE") for pattern in "BC"]
    run_all(cells[:1], rows, TINY, tmp_path / "work", print)
    before, said = rows.read(cells[0]), []
    assert run_all(cells, rows, TINY, tmp_path / "elsewhere", said.append) == []
    assert "after its network" in said[0]
    assert rows.read(cells[0]) == before
    assert len(rows.read(cells[1])) == 1


def test_what_is_all_there_needs_neither_data_nor_network(tmp_path, monkeypatch):
    rows, cell, said = Rows(tmp_path / "rows"), Cell(TILE, "B", "CE"), []
    run_all([cell], rows, TINY, tmp_path / "work", print)
    monkeypatch.setattr(sources, "bundled", None)
    assert run_all([cell], rows, TINY, tmp_path / "elsewhere", said.append) == []
    assert said[0] == "Runs that remain: none"
    assert "all runs are there" in said[1]


def test_a_run_that_was_stopped_counts_what_it_took_before(tmp_path):
    rows, cell, scale = Rows(tmp_path / "rows"), Cell(TILE, "B", "CE"), replace(TINY, batch_size=16)
    run_all([Cell(TILE, "C", "CE")], rows, scale, tmp_path / "work", lambda _: None)
    with pytest.raises(Interrupted):
        run_all([cell], rows, scale, tmp_path / "work", lambda _: None, stop=lambda: True)
    spent = tmp_path / "work" / TILE.name / f"{cell.name}-0" / "spent.json"
    assert 0 < store.read_json(spent)["seconds"] < 60
    store.write_json(spent, {"seconds": 600.0})
    run_all([cell], rows, scale, tmp_path / "work", lambda _: None)
    assert 600 <= rows.read(cell)[0]["seconds"] < 660


def test_who_waits_for_another_process_can_be_stopped(tmp_path):
    rows, cell, begun = Rows(tmp_path / "rows"), Cell(TILE, "B", "CE"), time.monotonic()
    run_all([Cell(TILE, "C", "CE")], rows, TINY, tmp_path / "work", lambda _: None)
    lock = grabbed(tmp_path / "work" / TILE.name / f"{cell.name}-0.lock")
    with pytest.raises(Interrupted, match="another process"):
        run_all([cell], rows, TINY, tmp_path / "work", print, stop=lambda: time.monotonic() > begun + 1)
    os.close(lock)


@pytest.mark.parametrize("does_it", [False, True])
def test_what_another_process_is_at_is_waited_for_and_taken_over_if_it_dies(tmp_path, does_it):
    cells, rows = [Cell(TILE, "B", line) for line in ("CE", "CE + RLD")], Rows(tmp_path / "rows")
    (tmp_path / "work" / TILE.name).mkdir(parents=True)
    path = tmp_path / "work" / TILE.name / f"{cells[0].name}-0.lock"
    lock = grabbed(path)

    def other() -> None:
        while not rows.read(cells[1]):  # meanwhile what nobody is at is done
            time.sleep(0.01)
        if does_it:
            key = store.read_json(rows.path(cells[1]))["key"] | asdict(TINY.recipe(cells[0]))
            rows.add(cells[0], key, 0, {"seconds": 7})
            path.unlink()  # who dies leaves it there
        os.close(lock)

    thread = threading.Thread(target=other, daemon=True)
    thread.start()
    run_all(cells, rows, TINY, tmp_path / "work", lambda _: None)
    thread.join()
    assert [len(rows.read(cell)) for cell in cells] == [1, 1]
    assert (rows.read(cells[0])[0] == {"seconds": 7}) == does_it
    assert not list(tmp_path.rglob("*-0.lock"))


def test_two_processes_begun_at_once_share_the_network_and_the_runs(tmp_path):
    cells, rows = [Cell(TILE, "B", line) for line in ("CE", "CE + RLD")], Rows(tmp_path / "rows")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            run_all(cells, rows, TINY, tmp_path / "work", lambda _: None)
            code = 0
        finally:
            os._exit(code)
    run_all(cells, rows, TINY, tmp_path / "work", lambda _: None)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert [len(rows.read(cell)) for cell in cells] == [1, 1]


def test_a_folder_of_another_run_is_refused_and_not_called_skipped(tmp_path):
    cell, rows = Cell(TILE, "B", "CE"), Rows(tmp_path / "rows")
    run_all([cell], rows, TINY, tmp_path / "work", lambda _: None)
    others = Rows(tmp_path / "others")
    with pytest.raises(InputError, match="to go on with the run"):
        run_all([cell], others, replace(TINY, pretraining_epochs=2), tmp_path / "work", lambda _: None)
