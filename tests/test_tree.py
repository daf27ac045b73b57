"""The tree itself under test: layers, sizes, exports, and the one door for bytes."""

import ast
import importlib
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

import unsee

ROOT = Path(unsee.__file__).parent
MODULES = sorted(path for path in ROOT.rglob("*.py") if not path.name.startswith("__"))

# A module imports only from those above it; under a star, as many as there are, none from another.
LAYERS = [
    *("errors", "progress", "randomness", "layout", "store", "resting", "retreat", "holding", "checkpoint"),
    *("weights.zips", "weights.scanning", "weights.plain", "weights.opening", "weights.files"),
    *("kinds", "datasets", "data.archives", "data.pictures", "data.published", "data.bringing"),
    *("data.known.*", "data.catalogue", "data.fetching", "sources"),
    *("data.listings", "data.labels", "data.columnar", "data.hugging_face", "data.reading", "data.samples"),
    *("layers", "networks", "answers"),
    *("transforms", "columns", "phrases", "parsing", "filling", "conditions", "formulation", "twins"),
    *("rules", "tiers", "fisher", "sketch", "wordcounts", "memory"),
    *("terms", "paper.reported", "recipe", "standins", "replay", "matching"),
    *(
        "succession",
        "plan",
        "firmness",
        "updating",
        "descent",
        "training",
        "loss",
        "balance",
        "floor",
        "setting",
        "lineage",
        "forgetting",
    ),
    *("scores", "evaluation"),
    *("study", "trials", "tuning"),
    *("report.figures", "report.words", "report.rates", "report.saliency", "report.variations"),
    *("report.examples", "report.facts", "report.run", "report.tables", "report.verdict"),
    *("report.charts", "report.page"),
    *("origin", "runs", "demo"),
    *("paper.cells", "paper.rows", "paper.growing", "paper.scale", "paper.pretraining", "paper.running"),
    *("paper.claims", "paper.choices", "paper.drawing", "paper.page", "paper.experiments"),
    *(
        "cases.notation",
        "cases.case",
        "cases.prepared",
        "cases.pretrained",
        "cases.models",
        "cases.gathering",
        "cases.examining",
        "cases.repairing",
    ),
    *("view.runs", "view.sprite", "view.opening", "view.trying", "view.turns", "view.guard"),
    *("view.pages", "view.benches", "view.server"),
    *("bench.result", "bench.timing", "bench.subjects", "bench.fisher", "bench.forgetting", "bench.growth"),
    *("bench.footprint", "bench.startup", "bench.drawing", "bench.page"),
    *("command_line.options", "command_line.asking", "command_line.telling"),
    *("command_line.making", "command_line.treating", "command_line.viewing", "command_line.benching"),
    *("command_line.sharing", "command_line.verbs", "cli"),
]


def name_of(path):
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def imported(path):
    """All modules of ours that a module imports, wherever in it the import stands."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            assert not [alias for alias in node.names if alias.name.startswith("unsee.")], (
                "write `from unsee`"
            )
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "unsee":
            base = node.module.removeprefix("unsee").removeprefix(".")
            for alias in node.names:
                whole = f"{base}.{alias.name}".removeprefix(".")
                yield whole if whole in LAYERS else base


def layer_of(name):
    star = name.rpartition(".")[0] + ".*"
    return star if star in LAYERS else name


def test_every_module_has_a_layer():
    assert sorted(LAYERS) == sorted({layer_of(name_of(path)) for path in MODULES})


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_imports_only_from_layers_above(path):
    place = LAYERS.index(layer_of(name_of(path)))
    below = [name for name in imported(path) if name and LAYERS.index(layer_of(name)) >= place]
    assert below == []


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_modules_and_functions_are_short(path):
    text = path.read_text()
    assert len(text.splitlines()) <= 300
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            assert node.end_lineno - node.lineno < 60, f"{node.name} in {path.name}"


def test_what_scripts_import_of_unsee_is_there():
    top = ROOT.parents[1]
    scripts = [
        path
        for folder in ("tools", "examples", "benchmarks", "results", "torture")
        for path in (top / folder).rglob("*.py")
    ]
    assert len(scripts) > 20
    for path in scripts:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "unsee":
                module = importlib.import_module(node.module)
                for alias in node.names:
                    found = hasattr(module, alias.name) or importlib.util.find_spec(
                        f"{node.module}.{alias.name}"
                    )
                    assert found, f"{alias.name} in {path.name}"


def test_every_module_has_its_tests():
    tests = Path(__file__).parent
    missing = [name for name in map(name_of, MODULES) if not _test_of(tests, name).exists()]
    assert missing == []


def _test_of(tests, name):
    *folders, last = name.split(".")
    return tests.joinpath(*folders, f"test_{last}.py")


def test_the_table_of_contents():
    assert len(unsee.__all__) == len(set(unsee.__all__)) <= 20
    for name in unsee.__all__:
        assert getattr(unsee, name) is not None
    assert set(dir(unsee)) == set(unsee.__all__)
    with pytest.raises(AttributeError):
        _ = unsee.amnesia


# The one place where a pickle is read, in a process of its own, and the one where one is written.
PICKLES = {"weights.opening": {r"torch\.load\(", r"weights_only"}, "weights.files": {r"torch\.save\("}}

# Where os.open writes nothing: a folder or a file that is locked, and one that is read if it is no pipe.
HANDLES = {"holding": {"os.open"}, "weights.files": {"os.open"}}


def writing(text):
    """All calls in a module that may write a file, wherever the mode stands."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call):
            name, given = ast.unparse(node.func), [*node.args, *(word.value for word in node.keywords)]
            modes = [str(one.value) for one in given if isinstance(one, ast.Constant)]
            mode = r"[rwaxbt+]*[wax+][rwaxbt+]*([:|]\w*)?"
            opened = name.endswith("open") and any(re.fullmatch(mode, one) for one in modes)
            written = name.endswith((".write_bytes", ".write_text")) and name != "store.write_bytes"
            if opened or written or name == "os.open":
                yield name


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("os.open(path, os.O_WRONLY)", ["os.open"]),
        ("os.fdopen(handle, 'wb')", ["os.fdopen"]),
        ("open(str(path), 'w')", ["open"]),
        ("open(path, 'r+b', 0)", ["open"]),
        ("open(path, encoding='utf-8', mode='w+')", ["open"]),
        ("path.open('a')", ["path.open"]),
        ("tarfile.open(path, 'w:gz')", ["tarfile.open"]),
        ("path.write_text('')", ["path.write_text"]),
        ("store.write_bytes(path, b'')", []),
        ("open(path, 'rb')", []),
        ("open(path, encoding='ascii', newline='')", []),
        ("tarfile.open(fileobj=file, mode='r|')", []),
    ],
)
def test_a_call_that_writes_is_noticed(text, found):
    assert list(writing(text)) == found


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_one_door_for_bytes(path):
    text = path.read_text()
    forbidden = [
        r"torch\.load\(",
        r"torch\.save\(",
        r"\bpickle\b\.",
        r"extractall",
        r"weights_only",
        r"allow_pickle=True",
    ]
    found = {word for word in forbidden if re.search(word, text)}
    assert found - PICKLES.get(name_of(path), set()) == set()
    assert path.name == "store.py" or set(writing(text)) == HANDLES.get(name_of(path), set())


def test_a_pickle_is_only_ever_read_with_torchs_restricted_unpickler():
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text())):
            words = ast.unparse(node) if isinstance(node, ast.Call) else ""
            if words.startswith("torch.load("):
                assert "weights_only=True" in words.replace(" ", "")
            loaders = r"(pickle|marshal|dill|cloudpickle|joblib|shelve|torch\.jit|torch\.package)\.\w*load"
            assert not re.match(loaders, words)


def test_torch_is_still_the_pinned_one():
    """Some packages would replace it by a build of several gigabytes."""
    import torch

    pinned = re.search(r"^torch==(\S+)$", (ROOT.parent.parent / "constraints.txt").read_text(), re.MULTILINE)
    assert torch.__version__.split("+")[0] == pinned[1]


def test_help_imports_no_torch():
    code = (
        "import sys; from unsee import cli\n"
        "try: cli.main(['forget', '--help'])\n"
        "except SystemExit: pass\n"
        "heavy = ('torch', 'numpy', 'rich', 'matplotlib', 'scipy', 'starlette', 'uvicorn')\n"
        "sys.exit(any(m in sys.modules for m in heavy))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, capture_output=True).returncode == 0
