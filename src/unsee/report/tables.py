"""Tables of a report: rows made from a run, sorted so that what matters stands first, and cut where long."""

from collections.abc import Sequence
from dataclasses import dataclass

from unsee.report.facts import OTHER, Facts, Layer
from unsee.report.rates import Shift
from unsee.report.run import Run
from unsee.report.variations import Variation

FEW_CLASSES = 24
MOST_CLASSES = 1000
MOST_LAYERS = 40
MOST_CONFUSED = 10
MOST_ANSWERS = 12


@dataclass(frozen=True)
class ClassRow:
    """A class: accuracy on D_r before and after, and on D_r,extra."""

    number: int | None
    name: str
    n: int | None
    before: float | None
    after: float | None
    change: float | None
    shift: Shift | None = None
    extra: Shift | None = None


def classes_of(run: Run) -> list[ClassRow]:
    """Return a row for each class of D_r, the one that lost most first."""
    numbers = {name: number for number, name in enumerate(run.classes)}
    rows = []
    if run.facts:
        extra = run.facts.sets.get("D_r_extra", {})
        for label, shift in run.facts.sets.get("D_r", {}).items():
            figures = (shift.n, shift.before.value, shift.after.value, shift.change, shift, extra.get(label))
            rows.append(ClassRow(label, run.facts.classes[label], *figures))
    elif "D_r" in run.sets:
        for name, after in run.sets["D_r"].by_class.items():
            change = run.changes.get(name)
            before = None if change is None else after - change
            rows.append(ClassRow(numbers.get(name), name, None, before, after, change))
    return sorted(rows, key=lambda row: (row.change or 0.0, row.number if row.number is not None else -1))


def shortened(rows: Sequence[ClassRow], most: int) -> list[ClassRow]:
    """Return the rows at both ends, two thirds of them those that lost most."""
    worst = 2 * most // 3
    return list(rows) if len(rows) <= most else [*rows[:worst], *rows[worst - most :]]


def reach(rows: Sequence[ClassRow]) -> float:
    """Return how far a bar must reach to show every change, a tenth at least."""
    return max(0.1, *(abs(row.change or 0.0) for row in rows))


@dataclass(frozen=True)
class Confused:
    """Samples of one class that were answered with another, in counts before and after."""

    true: str
    answer: str
    before: int
    after: int


def confused(facts: Facts, name: str) -> list[Confused]:
    """Return the wrong answers whose number changed most."""
    named = {**dict(enumerate(facts.classes)), OTHER: "another answer"}
    wrong = [row for row in facts.confusion.get(name, ()) if row[0] != row[1]]
    wrong.sort(key=lambda row: (-abs(row[3] - row[2]), -row[3], row[:2]))
    return [Confused(named[t], named[a], before, after) for t, a, before, after in wrong[:MOST_CONFUSED]]


@dataclass(frozen=True)
class AnswerRow:
    """A class and the mean probability that D_f's samples get for it."""

    name: str
    before: float | None
    after: float


def softmax_of(run: Run) -> tuple[list[AnswerRow], AnswerRow | None]:
    """Return the classes that D_f's samples are answered with most, and all the others together."""
    if run.facts and run.facts.softmax:
        pairs = zip(run.facts.classes, run.facts.softmax, strict=True)
        rows = [AnswerRow(name, before, after) for name, (before, after) in pairs]
    else:
        rows = [AnswerRow(name, None, after) for name, after in zip(run.classes, run.softmax, strict=False)]
    rows.sort(key=lambda row: -max(row.before or 0.0, row.after))
    rest = rows[MOST_ANSWERS:]
    if not rest:
        return rows, None
    before = sum(row.before or 0.0 for row in rest) if rest[0].before is not None else None
    others = AnswerRow(f"{len(rest)} other classes", before, sum(row.after for row in rest))
    return rows[:MOST_ANSWERS], others


def layers_of(facts: Facts) -> tuple[list[Layer], int]:
    """Return the layers in the model's order, of many those that moved most, and how many were left out."""
    if len(facts.layers) <= MOST_LAYERS:
        return list(facts.layers), 0
    least = sorted((layer.moved for layer in facts.layers), reverse=True)[MOST_LAYERS - 1]
    kept = [layer for layer in facts.layers if layer.moved >= least][:MOST_LAYERS]
    return kept, len(facts.layers) - len(kept)


def worst_variation(run: Run) -> Variation | None:
    """Return the variation of T on which the new model is right least often, T itself left aside."""
    varied = run.facts.variations[1:] if run.facts else ()
    return min(varied, key=lambda one: one.shift.after.value, default=None)


def missing(run: Run) -> list[tuple[str, str]]:
    """Return the parts that a report has and this one has not, each with its reason."""
    facts, without = run.facts, run.without_facts
    found = []
    if not run.sets:
        found.append(("the four accuracies", "run.json holds no scores"))
    elif all(one.before is None for one in run.sets.values()):
        found.append(("accuracies before", "the scores in run.json were taken without the old model"))
    if not run.trajectory:
        found.append(("accuracy per epoch", "run.json holds no trajectory, as where nothing was trained"))
    elif not any(name.startswith("D_") for row in run.trajectory for name in row):
        found.append(("accuracy per epoch", "no accuracies were taken on the way"))
    if facts is None:
        parts = "examples, confusion, answers to D_f before, layers, variations of T"
        return [*found, (parts, without)]
    if not facts.examples:
        found.append(("examples", "there were no test samples to show"))
    elif not any(view.picture or view.words for example in facts.examples for view in example.views):
        found.append(("samples themselves", "images, rows and texts are shown only when asked for"))
    elif not any(view.looks_after or view.words for example in facts.examples for view in example.views):
        found.append(("saliency", "no gradient leads through this model to its input"))
    if not facts.confusion:
        found.append(("confusion", "there was no D_r to judge on"))
    if not facts.softmax:
        found.append(("answers to D_f", "there was no D_f to judge on, or a model answered NaN"))
    if not facts.layers:
        found.append(("how far each layer moved", "the two models do not have the same parameters"))
    if not facts.variations and run.pattern.name != "A":
        found.append(("variations of T", "T is not known as a map of samples, or there was no D_r"))
    return found


def comparable(runs: Sequence[Run]) -> str:
    """Say what several runs have in common or not, so that nobody compares what cannot be compared."""
    inputs = {"model before": "the model they start from", "D_f": "D_f", "memory": "the memory"}
    differ = [what for key, what in inputs.items() if len({dict(run.hashes).get(key) for run in runs}) > 1]
    if len({run.pattern.name for run in runs}) > 1:
        differ.append("the pattern, so that their arrows ask different things")
    sizes = [{name: one.after.n for name, one in run.sets.items()} for run in runs]
    if any(size != sizes[0] for size in sizes):
        differ.append("the sizes of their test sets")
    if not differ:
        return "All start from the same model, with the same D_f and memory."
    return f"Compare with care: the runs differ in {'; in '.join(differ)}."
