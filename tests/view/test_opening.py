import json
import shutil

import pytest
import torch

from unsee import networks
from unsee.errors import InputError, StoreError, UnseeError
from unsee.view.opening import open_bench
from unsee.view.runs import Shelf
from view.conftest import shop_case


def bench_of(folder):
    (found,) = Shelf(folder).look().runs.values()
    return open_bench(found)


@pytest.fixture
def ours(forgot, tmp_path):
    return shutil.copytree(forgot, tmp_path / "ours")


@pytest.fixture
def theirs(repaired, tmp_path):
    return shutil.copytree(repaired, tmp_path / "theirs")


def change(folder, **words):
    file = folder / "run" / "run.json"
    old = json.loads(file.read_text())
    file.write_text(json.dumps({**old, **words}))


def test_a_run_of_ours_is_open_with_t_and_samples(forgot, model):
    bench = bench_of(forgot / "run")
    assert networks.identity(bench.old) == networks.identity(model) != networks.identity(bench.new)
    assert (bench.T.name, bench.said) == ("tile", ())
    assert (bench.sprite.row, bench.sprite.column) == (2, 2)
    assert bench.sets == ("D_r",) * 12 + ("D_f_clean",) * 6
    assert set(bench.samples.y[:9].tolist()) == set(range(1, 10))
    assert set(bench.samples.y[12:].tolist()) == {0}
    assert (bench.old.training, bench.new.training) == (False, False)


def test_a_run_of_a_case_is_open_too(repaired):
    bench = bench_of(repaired / "run")
    assert bench.T.name.startswith("patch(")
    assert (bench.sprite.row, bench.sprite.column, bench.sprite.height) == (9, 9, 4)
    assert (len(bench.samples), bench.said) == (18, ())


def test_moved_together_it_still_opens(ours, theirs):
    assert len(bench_of(ours / "run").samples) == len(bench_of(theirs / "run").samples) == 18


def test_a_run_that_does_not_say_where_it_began(ours):
    change(ours, origin=None)
    with pytest.raises(InputError, match="make it by"):
        bench_of(ours / "run")


def test_another_model_in_its_place_is_refused(ours, model):
    other = networks.load(ours / "run" / "model.safetensors")
    networks.save(other, ours / "old" / "model.safetensors")
    with pytest.raises(StoreError, match="old model of this run"):
        bench_of(ours / "run")
    networks.save(model, ours / "old" / "model.safetensors")
    networks.save(model, ours / "run" / "model.safetensors")
    with pytest.raises(StoreError, match="new model of this run"):
        bench_of(ours / "run")


def test_a_missing_model_is_one_sentence(ours, theirs):
    (ours / "old" / "model.safetensors").unlink()
    (theirs / "shop" / "model.safetensors").unlink()
    for folder in (ours, theirs):
        with pytest.raises(UnseeError, match=r"^Expected .* found "):
            bench_of(folder / "run")


def test_without_data_images_can_still_be_uploaded(ours, theirs):
    (ours / "data.npz").unlink()
    bench = bench_of(ours / "run")
    assert (len(bench.samples), tuple(bench.samples.x.shape[1:])) == (0, (1, 14, 14))
    assert bench.sprite is not None
    assert "no samples" in bench.said[0]
    shutil.rmtree(theirs / "shop" / "bad")
    bench = bench_of(theirs / "run")
    assert tuple(bench.samples.x.shape) == (0, 1, 14, 14)
    assert "no samples" in bench.said[0]


def test_another_t_in_its_place_is_left_out(theirs):
    shutil.copy(next((theirs / "shop" / "good").rglob("*.png")), theirs / "shop" / "logo.png")
    shop_case(theirs / "shop", trigger="patch:logo.png:0:0")
    bench = bench_of(theirs / "run")
    assert bench.T is None
    assert any("not the T of this run" in text for text in bench.said)
    assert any("changed since" in text for text in bench.said)


def test_a_lost_t_is_fitted_to_the_twins(theirs):
    (theirs / "shop" / "logo.png").unlink()
    bench = bench_of(theirs / "run")
    assert bench.T.name == "fitted"
    assert (bench.sprite.row, bench.sprite.column) == (9, 9)
    assert "fitted to the twins" in bench.said[0]


def test_code_that_a_case_names_is_never_run(theirs, tmp_path, monkeypatch):
    (tmp_path / "canary.py").write_text(
        "import pathlib\n"
        f"pathlib.Path({str(tmp_path / 'sang')!r}).touch()\n"
        "def T(x): return x\n"
        "def build(**_): raise SystemExit\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    shop_case(theirs / "shop", trigger="canary:T")
    bench = bench_of(theirs / "run")
    assert bench.T.name == "fitted"
    assert any("code, which the viewer does not run" in text for text in bench.said)
    names = [entry.name for entry in sorted((theirs / "shop" / "clean").iterdir())]
    model = {"weights": "model.safetensors", "network": "canary:build", "classes": names}
    shop_case(theirs / "shop", model=model)
    with pytest.raises(InputError, match="without running code"):
        bench_of(theirs / "run")
    assert not (tmp_path / "sang").exists()


def test_samples_are_forgotten_without_any_t(ours):
    words = json.loads((ours / "run" / "run.json").read_text())
    change(ours, inputs={**words["inputs"], "pattern": "A"})
    bench = bench_of(ours / "run")
    assert (bench.T, bench.sprite, bench.said) == (None, None, ())
    assert bench.sets[:6] == ("D_f",) * 6


@pytest.mark.parametrize("path", ["/dev/zero", "/etc/passwd", "../../../../../../dev/random", "x" * 3000])
def test_a_path_of_a_stranger_leads_to_a_sentence(ours, path):
    for words in ({"model": path}, {"case": path, "sha256": "x"}):
        change(ours, origin={"folder": ".", **words})
        with pytest.raises(UnseeError, match=r"^Expected"):
            bench_of(ours / "run")


def test_sets_of_ones_own(ours, four, data):
    from PIL import Image

    for name in ("D_f", "D_f_clean", "D_r"):
        part = getattr(four.test, name)
        for i, (x, y) in enumerate(zip(part.x[:30], part.y[:30].tolist(), strict=True)):
            place = ours / name / data.train.classes[y].replace("/", "-")
            place.mkdir(parents=True, exist_ok=True)
            Image.fromarray(x[0].numpy()).save(place / f"{i:03d}.png")
    words = json.loads((ours / "run" / "run.json").read_text())
    names = [name.replace("/", "-") for name in data.train.classes]
    inputs = {**words["inputs"], "classes": names, "T": None}
    sets = {name: name for name in ("D_f", "D_f_clean", "D_r")}
    change(ours, inputs=inputs, origin={"folder": "..", "model": "old/model.safetensors", "sets": sets})
    bench = bench_of(ours / "run")
    assert set(bench.sets) == {"D_r", "D_f_clean"}
    assert bench.T.name == "fitted"
    assert torch.isfinite(bench.baseline).all()
