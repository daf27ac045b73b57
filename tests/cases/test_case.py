import pytest
import yaml

from unsee.cases import case
from unsee.cases.case import Case
from unsee.errors import InputError, UnseeError, UsageError

PLAIN = {
    "model": {"weights": "m.pth", "network": "resnet", "classes": ["a", "b"]},
    "pattern": "B",
    "forget": "bad",
    "clean": "clean",
}


def written(tmp_path, words):
    path = tmp_path / "case.yaml"
    path.write_text(words if isinstance(words, str) else yaml.safe_dump(words))
    return path


def test_a_case_as_people_write_it(tmp_path):
    found = case.load(written(tmp_path, {**PLAIN, "forget": {"path": "bad", "label": "a"}, "floor": 0.05}))
    assert found.forget.label == "a"
    assert found.clean.path == "clean"
    assert found.clean.label is None
    assert (found.seed, found.save_as, found.floor) == (0, "safetensors", 0.05)


def test_what_init_writes_is_what_load_reads(tmp_path):
    text = case.written({**PLAIN, "trigger": "patch:logo.png:2:2"})
    assert case.load(written(tmp_path, text)) == Case(**PLAIN, trigger="patch:logo.png:2:2")
    assert "# memory:" in text
    assert "D_f,clean" in text
    for field in Case.model_fields.values():
        assert " ".join(field.description.split()[:4]) in text


def test_the_schema_says_what_the_help_says():
    schema = case.schema()
    assert schema["properties"]["forget"]["description"] == Case.model_fields["forget"].description
    assert schema["additionalProperties"] is False
    assert set(schema["required"]) == {"model", "pattern", "forget"}


BROKEN = {
    "nothing": ("", "a case: keys such as"),
    "a list": ("[1, 2]", "a case: keys such as"),
    "a word": ("hello", "a case: keys such as"),
    "a number": ("3", "a case: keys such as"),
    "no YAML": ("model: [", "YAML"),
    "a tab": ("model:\n\tweights: x", "YAML"),
    "two documents": ("pattern: B\n---\npattern: C", "YAML"),
    "python object": ("model: !!python/object/apply:os.system ['true']", "without YAML tags"),
    "python name": ("model: !!python/name:os.system", "without YAML tags"),
    "unknown tag": ("model: !odd 3", "without YAML tags"),
    "tagged int": ("seed: !!int ''", "without YAML tags"),
    "tagged float": ("floor: !!float ''", "without YAML tags"),
    "tagged bool": ("seed: !!bool q", "without YAML tags"),
    "tagged time": ("seed: !!timestamp q", "without YAML tags"),
    "merged keys": ("<<: {pattern: C}\npattern: B", "without merged keys"),
    "alias": ("a: &x [1]\nmodel: *x", "without YAML aliases"),
    "laughs": ("a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]", "without YAML aliases"),
    "key twice": ("pattern: A\npattern: B", "'pattern' twice"),
    "inner key twice": ("model: {weights: a, weights: b}", "'weights' twice"),
    "binary": ("model: !!binary x", "without YAML tags"),
    "control characters": ("model: \x01", "YAML"),
    "typo": ({**PLAIN, "patern": "B"}, "did you mean 'pattern'"),
    "typo below": ({**PLAIN, "model": {"weight": "m"}}, "did you mean 'weights'"),
    "typo in a set": ({**PLAIN, "forget": {"pth": "x", "path": "y"}}, "did you mean 'path'"),
    "paper's name": ({**PLAIN, "D_f": "bad"}, "did you mean 'forget'"),
    "no model": ({k: v for k, v in PLAIN.items() if k != "model"}, "`model`"),
    "no pattern": ({k: v for k, v in PLAIN.items() if k != "pattern"}, "`pattern`.*A samples or a class"),
    "no forget": ({k: v for k, v in PLAIN.items() if k != "forget"}, "`forget`.*D_f"),
    "no clean": ({k: v for k, v in PLAIN.items() if k != "clean"}, "`clean`"),
    "clean in A": ({**PLAIN, "pattern": "A"}, "found `clean`"),
    "extra in A": ({**PLAIN, "pattern": "A", "clean": None, "extra": "x"}, "found `extra`"),
    "pattern D": ({**PLAIN, "pattern": "D"}, "'A', 'B' or 'C' as `pattern`"),
    "small letter": ({**PLAIN, "pattern": "b"}, "'A', 'B' or 'C' as `pattern`"),
    "pattern a number": ({**PLAIN, "pattern": 2}, "as `pattern`"),
    "forget a number": ({**PLAIN, "forget": 3}, "path, label below `forget`"),
    "forget a list": ({**PLAIN, "forget": ["a", "b"]}, "below `forget`"),
    "forget null": ({**PLAIN, "forget": None}, "below `forget`"),
    "model a word": ({**PLAIN, "model": "m.pth"}, "weights, network.* below `model`"),
    "classes a word": ({**PLAIN, "model": {"weights": "m", "classes": "cat"}}, "as `model.classes`"),
    "floor 2": ({**PLAIN, "floor": 2}, "less than 1 as `floor`"),
    "floor negative": ({**PLAIN, "floor": -0.1}, "greater than or equal to 0 as `floor`"),
    "floor a word": ({**PLAIN, "floor": "low"}, "number.*as `floor`"),
    "floor nan": ({**PLAIN, "floor": float("nan")}, "as `floor`"),
    "seed negative": ({**PLAIN, "seed": -1}, "as `seed`"),
    "seed huge": ({**PLAIN, "seed": 2**64}, "as `seed`"),
    "seed true": ({**PLAIN, "seed": True}, "integer as `seed`"),
    "seed a word": ({**PLAIN, "seed": "one"}, "as `seed`"),
    "save_as onnx": ({**PLAIN, "save_as": "onnx"}, "'safetensors' or 'pth' as `save_as`"),
    "divide by 0": ({**PLAIN, "preprocess": {"divide_by": 0}}, "greater than 0 as `preprocess.divide_by`"),
    "size one": ({**PLAIN, "preprocess": {"size": [3]}}, "`preprocess.size.1`"),
    "long": ({**PLAIN, "trigger": "x" * 5000}, "4096"),
    "deep": ("[" * 3000, "YAML"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_case_is_one_helpful_sentence(tmp_path, name):
    words, said = BROKEN[name]
    with pytest.raises((InputError, UsageError), match=said) as error:
        case.load(written(tmp_path, words))
    text = str(error.value)
    assert text.startswith("Expected ")
    assert ", found " in text
    assert "\n" not in text
    assert len(text) < 700
    assert error.value.exit_code in (2, 3)


def test_there_are_forty_of_them():
    assert len(BROKEN) >= 40


def test_files_that_are_none(tmp_path):
    with pytest.raises(InputError, match="check the path"):
        case.load(tmp_path / "none.yaml")
    (tmp_path / "odd.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="UTF-8"):
        case.load(tmp_path / "odd.yaml")
    (tmp_path / "big.yaml").write_text("#" * (case.MOST_BYTES + 1))
    with pytest.raises(InputError, match="at most"):
        case.load(tmp_path / "big.yaml")
    with pytest.raises(UnseeError):
        case.load(tmp_path)
