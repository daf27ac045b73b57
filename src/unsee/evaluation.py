"""Judgement: a model on the four test sets. The only verb that ever holds all four."""

from collections.abc import Callable

from torch import Tensor, nn

from unsee.answers import accuracy, answers, guesses
from unsee.datasets import Dataset
from unsee.errors import InputError
from unsee.formulation import FourDatasets, FourSets, Pattern, pattern_of
from unsee.networks import Truncated
from unsee.scores import MARGIN, Accuracy, Scores
from unsee.transforms import Transform


def evaluate(
    model: nn.Module,
    four: FourDatasets | FourSets,
    pattern: str | Pattern | None = None,
    *,
    old: "nn.Module | Scores | None" = None,
    margin: float = MARGIN,
    ceiling: float | None = None,
) -> Scores:
    """Judge a model on the test sets that are there; with the old model, every arrow gets its verdict.

    An arrow up is met at the old model's accuracy on D_r minus `margin`, an arrow down at the `ceiling`,
    which is 1/C where none is given.
    """
    sets = four.test if isinstance(four, FourDatasets) else four
    present = {name: data for name, data in sets.present().items() if len(data)}
    if not present:
        raise InputError("at least one of the four sets", "none", "give D_r, D_f, D_f,clean or D_r,extra")
    row = pattern_of(pattern) if pattern is not None else None
    if row and not row.arrows.keys() & present.keys():
        wanted = f"some of {', '.join(row.arrows)} to judge Pattern {row.name} (Table 1)"
        raise InputError(wanted, "none", "give those sets too")
    if not 0 <= margin <= 1:
        raise InputError("a margin from 0 to 1", f"{margin}", "give a share such as 0.02")
    before = evaluate(old, sets, margin=margin) if isinstance(old, nn.Module) else old
    given = {name: answers(model, data) for name, data in present.items()}
    results = {name: _accuracy(guesses(given[name]), data) for name, data in present.items()}
    softmax = given["D_f"].mean(0).tolist() if "D_f" in given else []
    truncated = model.label if isinstance(model, Truncated) else None
    classes = next(iter(present.values())).classes
    return Scores(results, tuple(softmax), classes, row, before, margin, ceiling, truncated)


def dependence(model: nn.Module, data: Dataset, T: Transform) -> float:
    """Return how far a model depends on T: the share of answers that change when T is put on.

    >>> from unsee.transforms import custom
    >>> data = Dataset([[1.0, 0.0], [0.0, 1.0]], [0, 1])
    >>> dependence(nn.Identity(), data, custom(lambda x: x * 0 + data.x[:1], "the first"))
    0.5
    """
    without, with_T = (guesses(answers(model, each)) for each in (data, T(data)))
    return float((without != with_T).double().mean())


def judged_by(pattern: Pattern, four: FourDatasets) -> Pattern | None:
    """Return the pattern, if there is test data for one of its arrows at least."""
    there = {name for name, data in four.test.present().items() if len(data)}
    return pattern if pattern.arrows.keys() & there else None


def evaluator(
    four: FourDatasets | FourSets, limit: int | None = None
) -> Callable[[nn.Module], dict[str, float]]:
    """Return a function that gives the accuracy on each test set, for a trajectory's rows.

    With a `limit`, only the first so many samples of each set are used.
    """
    sets = (four.test if isinstance(four, FourDatasets) else four).present()
    used = {
        name: data if limit is None else data.subset(range(min(limit, len(data))))
        for name, data in sets.items()
    }
    return lambda model: {name: accuracy(model, data) for name, data in used.items() if len(data)}


def _accuracy(guesses: Tensor, data: Dataset) -> Accuracy:
    right = guesses == data.y
    by_class = {data.classes[c]: float(right[data.y == c].double().mean()) for c in data.y.unique().tolist()}
    return Accuracy(int(right.sum()), len(data), by_class)
