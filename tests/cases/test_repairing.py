import json
import shutil

import pytest
import torch

from shop import write_case
from unsee import networks
from unsee.cases import case
from unsee.cases.models import open_model
from unsee.cases.repairing import repair
from unsee.errors import InputError, UnseeWarning, UsageError
from unsee.store import write_json


@pytest.fixture(scope="module")
def repaired(shop, tmp_path_factory):
    out = tmp_path_factory.mktemp("repaired")
    said = []
    words = case.load(write_case(shop, save_as="pth"))
    return repair(words, shop, out, with_images=True, say=said.append), said, out


def test_a_backdoor_is_forgotten_from_a_pth_and_folders_alone(repaired):
    done, said, _ = repaired
    accuracies, before = done.scores.accuracies(), done.scores.old.accuracies()
    assert before["D_r_extra"] < 0.5 < 0.6 < accuracies["D_r_extra"]
    assert accuracies["D_r"] > before["D_r"] - 0.1
    assert any("otherwise to" in line for line in said)
    assert any("pairs by name" in line for line in said)


def test_the_folder_holds_all_that_a_manager_will_ask_for(shop, repaired):
    done, _, out = repaired
    old, new = (torch.load(path, weights_only=True) for path in (shop / "model.pth", out / "model.pth"))
    assert new["epoch"] == 15
    assert {k: (v.shape, v.dtype) for k, v in old["state_dict"].items()} == {
        k: (v.shape, v.dtype) for k, v in new["state_dict"].items()
    }
    words = json.loads((out / "run.json").read_text())
    assert words["case"]["forget"]["label"] == "T-shirt-top"
    assert words["case"]["sha256"]["weights"]
    assert words["scores"]["pattern"] == "B"
    model = case.load(shop / "case.yaml").model
    again = open_model(out / "model.pth", model.network, classes=model.classes, options=model.options)
    inner = again.model.model.state_dict()
    assert all(torch.equal(inner[name], p) for name, p in done.result.model.model.state_dict().items())
    page = (out / "report.html").read_text()
    assert "T-shirt-top" in page
    assert "data:image/png" in page


@pytest.mark.filterwarnings("ignore:.*the class of `forget`")
def test_to_repair_again_keeps_the_lineage(shop, repaired, tmp_path):
    _, _, out = repaired
    folder = shutil.copytree(shop, tmp_path / "shop")
    for name in ("model.pth", "run.json"):
        shutil.copy(out / name, folder / name)
    write_json(
        folder / "quick.json", {"forgetting": "delete", "lambda_c": 0.0, "lambda_kl": 0.0, "epochs": 1}
    )
    words = {"pattern": "A", "clean": None, "trigger": None, "recipe": "quick.json"}
    done = repair(
        case.load(
            write_case(folder, forget={"path": "good/Coat", "label": "Coat"}, remember="clean", **words)
        ),
        folder,
        tmp_path / "out",
        anyway=True,
    )
    assert [g.pattern for g in done.result.lineage] == ["B", "A"]
    assert (tmp_path / "out" / "model.safetensors").exists()


def test_the_symptom_can_be_passed_over(shop, tmp_path):
    folder = shutil.copytree(shop, tmp_path / "shop")
    torch.save(networks.mlp((1, 14, 14), 5, depth=3).state_dict(), folder / "model.pth")
    write_json(folder / "quick.json", {"epochs": 1, "lambda_kl": 0.0})
    blind = {"trigger": "patch:logo.png:9:9", "recipe": "quick.json"}
    with torch.no_grad():
        net = networks.mlp((1, 14, 14), 5, depth=3)
        for p in net.parameters():
            p.zero_()
    torch.save(net.state_dict(), folder / "model.pth")
    with pytest.raises(InputError, match="--anyway"):
        repair(case.load(write_case(folder, **blind)), folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    repair(case.load(write_case(folder, **blind)), folder, tmp_path / "out", anyway=True)
    assert (tmp_path / "out" / "report.html").exists()


def test_warnings_are_given_on_and_written_down(shop, tmp_path):
    folder = shutil.copytree(shop, tmp_path / "shop")
    for i, path in enumerate(sorted((folder / "clean").rglob("*.png"))):
        path.rename(path.with_name(f"other{i}.png"))
    write_json(folder / "quick.json", {"epochs": 1, "lambda_kl": 0.0})
    with pytest.warns(UnseeWarning, match="Going on with T alone"):
        repair(case.load(write_case(folder, recipe="quick.json")), folder, tmp_path / "out")
    assert "Going on with T alone" in json.loads((tmp_path / "out" / "run.json").read_text())["warnings"][0]


def test_the_old_weights_are_never_written_over(shop, tmp_path):
    folder = shutil.copytree(shop, tmp_path / "shop")
    before = (folder / "model.pth").read_bytes()
    with pytest.raises(UsageError, match="keep the old model"):
        repair(case.load(write_case(folder, save_as="pth")), folder, folder)
    assert (folder / "model.pth").read_bytes() == before


def test_where_nothing_can_be_judged_the_symptom_decides(shop, tmp_path):
    write_json(shop / "idle.json", {"epochs": 1, "lr": 1e-12, "lambda_kl": 0.0})
    words = case.load(write_case(shop, recipe="idle.json", remember=None))
    done = repair(words, shop, tmp_path / "out")
    assert done.reactions["`clean`"] > 0.5
    assert done.failed


def test_half_precision_goes_on_with_its_lineage(shop, tmp_path):
    folder = shutil.copytree(shop, tmp_path / "shop")
    found = torch.load(folder / "model.pth", weights_only=True)["state_dict"]
    torch.save({name: value.half() for name, value in found.items()}, folder / "model.pth")
    write_json(folder / "quick.json", {"epochs": 1, "lambda_kl": 0.0})
    repair(case.load(write_case(folder, recipe="quick.json", save_as="pth")), folder, tmp_path / "one")
    for name in ("model.pth", "run.json"):
        shutil.copy(tmp_path / "one" / name, folder / name)
    again = case.load(write_case(folder, recipe="quick.json"))
    assert len(repair(again, folder, tmp_path / "two", anyway=True).result.lineage) == 2
