"""The committed pages are what their scripts make of the committed rows."""

import importlib
import shutil
import sys
from pathlib import Path
from statistics import fmean

import pytest
import torch

from unsee import store
from unsee.paper.page import text
from unsee.paper.rows import Rows
from unsee.paper.scale import Scale

ROOT = Path(__file__).parent.parent
POISONED = {"D_r": 0.86, "misled": 0.9, "D_r_extra": 0.1}


@pytest.fixture
def copied(tmp_path, monkeypatch):
    """A copy of the results, in which their scripts may write."""
    for name in ("beyond", "paper", "search"):
        shutil.copytree(ROOT / "results" / name, tmp_path / "results" / name)
        monkeypatch.syspath_prepend(str(tmp_path / "results" / name))
    for page in tmp_path.rglob("*.md"):
        page.unlink()
    monkeypatch.chdir(tmp_path)
    before, products = set(sys.modules), torch.get_float32_matmul_precision()
    yield tmp_path / "results"
    torch.set_float32_matmul_precision(products)  # run.py chooses another
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def test_the_pages_beyond_the_paper(copied):
    script = importlib.import_module
    script("page").write(script("run").__doc__.strip())
    script("classes").write()
    script("poison").write()
    script("asked").write()
    script("half").write()
    script("bound").write()
    script("cost").write(script("cost").RETRAINING * 54_600)  # D_r and D_f,clean
    for name in ("fisher", "lacking"):
        rows = store.read_json(copied / "beyond" / f"{name}.json")
        store.write_bytes(copied / "beyond" / f"{name}.md", script(name).page(rows).encode())
    written = {path.name: path.read_text() for path in (copied / "beyond").glob("*.md")}
    committed = {path.name: path.read_text() for path in (ROOT / "results" / "beyond").glob("*.md")}
    assert written == committed


def test_a_limit_holds_if_the_mean_holds_it_and_whether_every_run_does_is_said(copied):
    limit = importlib.import_module("asked").Limit
    for sign, bound, found, said in (
        ("≥", 0.5, (0.5, 0.6), "yes"),
        ("≥", 0.5, (0.49, 0.6), "yes, in the mean"),
        ("≥", 0.5, (0.49, 0.5), "**no**"),
        (">", 0.5, (0.5, 0.5), "**no**"),
        ("≤", 0.5, (0.49, 0.52), "**no**"),
        ("≤", 0.5, (0.4, 100 * (0.856 - 0.851)), "yes"),
        ("≤", 0.5, (0.4,), "so far, 1 of 2 runs"),
        ("≤", 0.5, (0.6,), "**no**, so far, 1 of 2 runs"),
        ("≤", 0.5, (), "not run yet"),
        ("≥", None, (0.4, 0.4), "not run yet"),
    ):
        assert limit("case", "sketch", "D_r", sign, bound, found, 2).holds == said


def test_the_limits_are_those_that_were_asked(copied):
    """By rows made up for it, and nothing is held where there is none."""
    asked = importlib.import_module("asked")
    for path in copied.glob("beyond/*/*.json"):
        path.unlink()
    every = [limit for limits, _ in asked.PARTS.values() for limit in limits()]
    assert {limit.holds for limit in every} == {"not run yet"}

    leasts = {"least B": 0.5, "least C": 0.4}
    for case in ("tile", "line", "cifar-10 tile", "cifar-10 line", "cifar-10 color"):
        row = copied / "beyond/rows" / case
        store.write_json(f"{row}, pretrained.json", {"D_r": 0.9})
        store.write_json(f"{row}, {asked.SCRATCH[0]}.json", {"least B": 0.7, "least C": 0.8})
        store.write_json(f"{row}, {asked.SCRATCH[1]}.json", {"least B": 0.6, "least C": 0.95})
    row = {**leasts, "setting": {}, "recipe": "unsee", "method": None}
    store.write_json(copied / "beyond/rows/tile, ours, sketch, 0.json", row)
    for case in (f"{T}-{share}" for T in ("patch", "blend") for share in (0.05, 0.01)):
        store.write_json(copied / f"beyond/poison/{case}, pretrained.json", POISONED)
        for way in ("sketch, 50", "no memory, 500"):
            row = {"D_r": 0.85, "D_r_extra": 0.83}
            store.write_json(copied / f"beyond/poison/{case}, {way} known, 0.json", row)
    for data in ("fashion-mnist", "cifar-10"):
        store.write_json(copied / f"beyond/classes/{data}, pretrained.json", {"D_r": 0.9})
    store.write_json(copied / "beyond/cost/546, 0.json", {**leasts, "samples": 2730})

    found = {
        (limit.case, limit.given, limit.what, limit.sign): limit
        for limits, _ in asked.PARTS.values()
        for limit in limits()
    }
    bounds = {key: limit.bound and round(limit.bound, 6) for key, limit in found.items()}
    expected = {}
    for T in ("tile", "line"):
        for name, again in (("least B", 0.7), ("least C", 0.95)):
            expected[f"fashion-mnist, {T}", "sketch", name, "≥"] = 0.88
            expected[f"fashion-mnist, {T}", "sketch", name, ">"] = again
            expected[f"fashion-mnist, {T}", "Fisher", name, "≥"] = 0.8
    for T in ("tile", "line", "color"):
        for name, least in (("least B", 0.6), ("least C", 0.88)):
            expected[f"cifar-10, {T}", "sketch", name, "≥"] = least
            expected[f"cifar-10, {T}", "Fisher", name, "≥"] = 0.84
    for T in ("patch", "blend"):
        for share, most in ((0.05, {2500: (0.5, 1.5), 250: (0.5, 1.5)}), (0.01, {500: (0.5, 1.5)})):
            expected[f"{T}-{share}", "pretrained", "D_r", "≥"] = 0.85
            expected[f"{T}-{share}", "pretrained", "misled", "≥"] = 0.5
            for known, (lost, below) in (most | {50: (1.0, 3.0)}).items():
                case = f"{T}-{share}, {known:,} known"
                for given, bound in (("sketch", (lost, below)), ("no memory", (1.5, 3.0))):
                    expected[case, given, "D_r lost, points", "≤"] = bound[0]
                    expected[case, given, "D_r,extra below, points", "≤"] = bound[1]
    for data in ("fashion-mnist", "cifar-10"):
        for given in ("sketch", "Fisher"):
            expected[data, given, "D_f", "≤"] = 0.02
            expected[data, given, "D_r", "≥"] = 0.89
    cost = "fashion-mnist, tile, 546 of D_f", "sketch"
    expected[*cost, "samples passed, of retraining", "≤"] = 0.02
    expected[*cost, "least B", "≥"] = 0.68
    expected[*cost, "least C", "≥"] = 0.93
    assert bounds == expected

    aged = found["fashion-mnist, tile", "sketch", "least B", "≥"]
    assert (aged.found, aged.aged, aged.holds) == ((), (0.5,), "not run yet")
    few = found["patch-0.05, 50 known", "sketch", "D_r lost, points", "≤"]
    assert few.found == (pytest.approx(1.0),)
    assert few.holds == "so far, 1 of 3 runs"
    assert found["blend-0.01, 500 known", "no memory", "D_r,extra below, points", "≤"].found == (
        pytest.approx(2.0),
    )
    assert found[*cost, "samples passed, of retraining", "≤"].found == (0.01,)
    for extra, shown in ((0.83, 2), (0.82, 10)):
        row = {"D_r": 0.86, "misled": 0.1, "D_r_extra": extra}
        store.write_json(copied / "beyond/poison/blend-0.01, pretrained.json", row)
        said = [one.holds for one in asked.poison() if one.case.startswith("blend-0.01")]
        assert (len(said), said[:2]) == (shown, ["yes", "**no**"])
    assert found[*cost, "least C", "≥"].holds.startswith("**no**")


def test_the_readme_has_the_figures_of_the_rows(copied):
    page, said = importlib.import_module("page"), " ".join((ROOT / "README.md").read_text().split())
    rows = {T: page.rows_of("fashion-mnist", T, "ours, sketch") for T in ("tile", "line")}
    assert [len(found) for found in rows.values()] == [5, 5]
    tile, line = (fmean(row["least B"] for row in found) for found in rows.values())
    again = [
        max(row["least B"] for way in page.SCRATCH for row in page.rows_of("fashion-mnist", T, way))
        for T in rows
    ]
    assert f"is {tile:.3f} with tiles and {line:.3f} with lines (means of five seeds)" in said
    assert not any(page.mark(found) for found in rows.values())
    assert f"comes to {again[0]:.3f} and {again[1]:.3f} at best" in said


def test_the_page_of_the_paper_and_its_readings(copied):
    papers = ROOT / "results" / "paper"
    assert text(Rows(papers / "rows"), Scale(), []) == (papers / "README.md").read_text()
    readings = importlib.import_module("readings")
    page = readings.page(store.read_json(copied / "paper" / "readings.json"))
    assert page == (papers / "readings.md").read_text()


def test_decision_5_has_the_figures_of_the_readings():
    [decision] = (ROOT / "docs" / "decisions").glob("0005*.md")
    rows, text = store.read_json(ROOT / "results" / "paper" / "readings.json"), decision.read_text()
    for name in ("as chosen", "RLD draws from the classes other than 0", "RLD's labels drawn once"):
        for column in ("D_r_extra", "D_f"):
            assert f"{rows[f'C: {name}'][column]:.3f}" in text


def test_the_page_of_the_search(copied):
    importlib.import_module("write").main()
    assert (copied / "search/README.md").read_text() == (ROOT / "results/search/README.md").read_text()


def test_a_row_of_another_network_or_recipe_is_made_anew(copied):
    run, made = importlib.import_module("run"), []

    def make():
        made.append(1)
        return {"D_r": len(made)}

    path = copied / "row.json"
    for key, D_r in (({"network": "a"}, 1), ({"network": "a"}, 1), ({"network": "b"}, 2), ({"method": 3}, 3)):
        assert run.once(path, make, **key)["D_r"] == D_r
