import json

import pytest

from unsee.bench.result import Limit, Result
from unsee.errors import InputError

RESULT = Result(
    "startup",
    "unsee bench startup",
    {"cores": 2},
    [Limit("a", 1.0, 2.0), Limit("b", 3.0, 2.0)],
    {"T": [{"x": 1}]},
)


def test_what_is_saved_is_loaded(tmp_path):
    path = RESULT.save(tmp_path)
    assert path.name == "startup.json"
    assert Result.load(path) == RESULT
    assert [limit["met"] for limit in json.loads(path.read_text())["limits"]] == [True, False]


@pytest.mark.parametrize(
    "words", [[], {"limits": 3}, {"limits": [{}]}, {"limits": [], "name": "x", "other": 1}]
)
def test_something_else_is_refused(tmp_path, words):
    (tmp_path / "x.json").write_text(json.dumps(words))
    with pytest.raises(InputError, match="a benchmark's result"):
        Result.load(tmp_path / "x.json")
