import json

from unsee import evaluate, forget, networks
from unsee.formulation import TABLE_1
from unsee.origin import Origin
from unsee.runs import report_run, write_run


def test_a_run_names_its_inputs_by_hash(tmp_path, model, four):
    result = forget(model, four.request("A"), recipe="truncation")
    origin = Origin.of_words(tmp_path, tmp_path / "old.safetensors", data="bundled", here=tmp_path)
    write_run(tmp_path, result, evaluate(result.model, four, "A", old=model), origin=origin)
    words = json.loads((tmp_path / "run.json").read_text())
    assert words["origin"] == {"folder": ".", "model": "old.safetensors", "data": "bundled"}
    assert words["inputs"]["model"] == networks.identity(model)
    assert words["inputs"]["D_f"] == four.train.D_f.fingerprint
    assert words["inputs"]["recipe"]["forgetting"] == "truncation"
    assert words["model"] == networks.identity(networks.load(tmp_path / "model.safetensors"))
    assert words["scores"]["sets"]["D_f"]["accuracy"] == 0


def test_a_module_of_ones_own_leaves_its_scores(tmp_path, model, four):
    from torch import nn

    own = nn.Sequential(*model)
    result = forget(own, four.request("A"), recipe="truncation")
    result = type(result)(own, (), result.recipe, result.identity)
    write_run(tmp_path, result, None)
    assert json.loads((tmp_path / "run.json").read_text())["scores"] is None
    back = networks.load(tmp_path / "model.safetensors", into=own)
    assert networks.identity(back) == networks.identity(own)


def test_images_that_were_asked_for_once_stay(tmp_path, model, four):
    result = forget(model, four.request("A"), recipe="truncation")
    write_run(tmp_path, result, evaluate(result.model, four, "A", old=model))

    def illustrated(**words):
        page = report_run(tmp_path, model, result.model, four, TABLE_1["A"], **words)
        return "data:image" in page.read_text()

    assert not illustrated()
    assert illustrated(with_images=True)
    assert illustrated()
    (tmp_path / "facts.json").write_text("{}")
    assert not illustrated()
