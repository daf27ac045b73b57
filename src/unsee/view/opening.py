"""Opening a run to be tried: both models, T, and some of its data, each checked to be what it was.

No code that a case names is ever run here, whatever the run itself was allowed.
"""

import hashlib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from unsee import networks, sources, transforms, twins
from unsee.cases import case as cases
from unsee.cases import examining
from unsee.cases.gathering import Gathering
from unsee.cases.prepared import Opened, Prepared
from unsee.datasets import PIXELS, Dataset, concatenate
from unsee.errors import InputError, StoreError, UnseeError, UnseeWarning
from unsee.formulation import FourDatasets, FourSets
from unsee.origin import Origin
from unsee.randomness import stream
from unsee.report.words import Words
from unsee.transforms import Transform
from unsee.view.runs import Found
from unsee.view.sprite import Sprite, sprite_of

SHOWN = {"D_r": 12, "D_f_clean": 6}  # samples of each set
SHOWN_A = {"D_f": 6, "D_r": 12}


@dataclass(frozen=True, eq=False)
class Bench:
    """A run laid out to be tried: both models, samples and their sets, T, and T as a picture if it is one.

    `said` are sentences on what is missing. Samples may be none, and still tell shape and range of images.
    """

    old: nn.Module
    new: nn.Module
    samples: Dataset
    sets: tuple[str, ...]
    T: Transform | None
    sprite: Sprite | None
    baseline: Tensor
    said: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Parts:
    """What the words of a run lead to, before it is checked."""

    old: nn.Module
    new: nn.Module
    four: FourDatasets | None
    T: Transform | None
    said: tuple[str, ...] = ()


def open_bench(found: Found) -> Bench:
    """Open a run's models, T and samples; an error says in one sentence why that cannot be."""
    words = Words(found.words, "run.json")
    began = words.perhaps("origin")
    if began is None:
        do = "make it by `unsee forget`, which writes that down"
        raise InputError("a run that says where its old model is", "one that does not", do)
    origin = Origin.read(began)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnseeWarning)  # they were said when the run was made
            parts = _of_case(found, origin) if origin.case else _of_words(found, origin)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise StoreError("the files that the run began with", reason, "bring them back") from None
    _check(parts.old, words.at("inputs").at("model").text(), "old model")
    _check(parts.new, words.at("model").text(), "new model")
    T, said = _checked_T(parts, words.at("inputs"))
    samples, sets = _samples(parts, found.run.classes, SHOWN_A if found.run.pattern.name == "A" else SHOWN)
    baseline = samples.x.float().mean(0) if len(samples) else _middle(samples)
    sprite = sprite_of(T, samples) if T else None
    return Bench(parts.old.eval(), parts.new.eval(), samples, sets, T, sprite, baseline, said)


def _of_words(found: Found, origin: Origin) -> Parts:
    """Open a run of a network of this package, by the words of its command."""
    if origin.model is None:
        raise InputError("the old model's file in run.json", "none", "run it again")
    old = networks.load(_there(origin.at(found.folder, origin.model)))
    new = networks.load(found.folder / "model.safetensors")
    said: list[str] = []
    T = four = None
    try:
        T = transforms.parse(origin.T, origin.at(found.folder, ".")) if origin.T else None
    except UnseeError as error:
        said.append(f"T is not at hand. {error}")
    try:
        four = _four(found, origin, T)
    except UnseeError as error:
        said.append(f"There are no samples. {error}")
    return Parts(old, new, four, T or _fitted(four), tuple(said))


def _four(found: Found, origin: Origin, T: Transform | None) -> FourDatasets:
    classes = found.run.classes
    if origin.sets:
        paths = {name: _there(origin.at(found.folder, path)) for name, path in origin.sets.items()}
        read = {name: sources.images(path, classes).with_(name=name) for name, path in paths.items()}
        return FourDatasets.of_sets(FourSets(**read), T)
    if origin.data is None or origin.label is None:
        raise InputError("data and a class in run.json", "none", "run it again")
    path = origin.at(found.folder, origin.data)
    source = sources.open_source(str(_there(path)) if path.exists() else origin.data, classes)
    label = origin.label if origin.label in classes or not origin.label.isdecimal() else int(origin.label)
    return FourDatasets.of_class(source, label, T, share=1.0 if origin.share is None else origin.share)


def _of_case(found: Found, origin: Origin) -> Parts:
    """Open a run of a case by its file, which may have changed since: what it leads to is checked after."""
    assert origin.case is not None
    file = _there(origin.at(found.folder, origin.case))
    case = cases.load(file)
    said = []
    if hashlib.sha256(file.read_bytes()).hexdigest() != origin.sha256:
        said.append("The case file was changed since this run.")
    _refuse_code(case)
    weights = found.folder / f"model.{case.save_as}"
    if _there(file.parent / case.model.weights).is_dir():
        weights = found.folder  # of a Hugging Face folder, the run's is one too
    old = examining.opened(case, file.parent)
    new = examining.opened(case, file.parent, weights=weights)
    four, why = _gathered(case, file.parent, old)
    return Parts(old.model, new.model, four, four.T if four else None, (*said, *why))


def _gathered(case: cases.Case, folder: Path, old: Opened) -> tuple[FourDatasets | None, list[str]]:
    """Return a case's sets; where T stands in the way, without it: then it is fitted to the twins."""
    try:
        return Gathering(case, folder, old).four(), []
    except UnseeError as error:
        first = error
    try:
        four = Gathering(case.model_copy(update={"trigger": None}), folder, old).four()
    except UnseeError:
        return None, [f"There are no samples. {first}"]
    code = first.expected.startswith("--allow-code")
    why = "It is code, which the viewer does not run." if code else f"{first}"
    return four, [f"T is not at hand{': here it is fitted to the twins' if four.T else ''}. {why}"]


def _there(path: Path) -> Path:
    """Return a path at which a file or a folder lies; a pipe or a device could be read without end."""
    if not path.is_file() and not path.is_dir():
        raise InputError(f"a file at {path}", "something else" if path.exists() else "none", "bring it back")
    return path


def _refuse_code(case: cases.ModelCase) -> None:
    network = case.model.network or ""
    if ":" in network:
        do = "try it from Python"
        raise InputError("a model that opens without running code", f"one that {network} builds", do)


def _check(model: nn.Module, expected: str, which: str) -> None:
    if networks.identity(model) != expected:
        raise StoreError(f"the {which} of this run", "another one in its place", "run it again")


def _checked_T(parts: Parts, inputs: Words) -> tuple[Transform | None, tuple[str, ...]]:
    """Return T if it is the run's own or fitted to its twins; where samples are forgotten, there is none."""
    T, name = parts.T, inputs.perhaps("T")
    if inputs.at("pattern").value == "A":
        return None, tuple(text for text in parts.said if not text.startswith("T "))
    if T is None and not any(text.startswith("T ") for text in parts.said):
        return None, (*parts.said, "There is no T that could be put on.")
    if T is not None and T.name != "fitted" and (name is None or T.name != name.text()):
        return None, (*parts.said, "T is left out: what lies in its place is not the T of this run.")
    return T, parts.said


def _fitted(four: FourDatasets | None) -> Transform | None:
    """Return T as it fits the twins, where nobody named it."""
    sets = four.test if four else FourSets()
    if sets.D_f is None or sets.D_f_clean is None or len(sets.D_f) != len(sets.D_f_clean):
        return None
    return twins.fitted(sets.D_f_clean.x, sets.D_f.x)


def _samples(
    parts: Parts, classes: Sequence[str], shown: Mapping[str, int]
) -> tuple[Dataset, tuple[str, ...]]:
    """Return some samples of the test sets, of as many classes as there are, and the set of each."""
    test = parts.four.test.present() if parts.four else {}
    present = {name: count for name, count in shown.items() if name in test and len(test[name])}
    drawn = [(name, _drawn(test[name], count, name)) for name, count in present.items()]
    if drawn:
        data = concatenate([part for _, part in drawn], "samples")
        sets = tuple(name for name, part in drawn for _ in range(len(part)))
    else:
        x = torch.empty(0, *_shape(parts.old), dtype=torch.uint8)
        data, sets = Dataset(x, torch.empty(0, dtype=torch.long), tuple(classes), PIXELS), ()
    if data.x.ndim != 4 or data.x.shape[1] not in (1, 3):
        found = f"samples of shape {tuple(data.x.shape[1:])}"
        raise InputError("images, grey or RGB, to try", found, "use Python for other data")
    return data, sets


def _drawn(data: Dataset, count: int, name: str) -> Dataset:
    """Return random samples, each class once before any comes twice, class by class."""
    order = stream(0, f"tried of {name}").permutation(len(data)).tolist()
    turns: dict[int, int] = {}
    turn = {}
    for row in order:
        label = int(data.y[row])
        turn[row] = turns[label] = turns.get(label, -1) + 1
    rows = sorted(order, key=lambda row: turn[row])[:count]
    return data.subset(sorted(rows, key=lambda row: (turn[row], int(data.y[row]))))


def _shape(model: nn.Module) -> tuple[int, ...]:
    """Return the shape of images that a model takes, as far as it says so itself."""
    inner: Any = getattr(model, "model", model)
    spec = getattr(inner, "spec", None)
    if spec:
        return tuple(spec["shape"])
    if isinstance(model, Prepared) and model.how.size:
        return (len(model.how.mean) if len(model.how.mean) > 1 else 3, *model.how.size)
    raise InputError("samples, or a model that says which images it takes", "neither", "bring the data back")


def _middle(samples: Dataset) -> Tensor:
    low, high = samples.value_range or PIXELS
    return torch.full(tuple(samples.x.shape[1:]), (low + high) / 2)
