"""Lineage: the requests that a model has been through, one after the other, and what each has cost it."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self

from torch import nn

from unsee import store
from unsee.datasets import Dataset
from unsee.errors import InputError, UnseeError, UnseeWarning
from unsee.networks import identity


@dataclass(frozen=True)
class Generation:
    """One request: from which model to which (hashes), on what, and how far the model moved.

    `moved` is |theta - theta_before| / |theta_before|. `before` and `after` are what `measured` names, the
    measure of the floor, where the run had one. `gone` is the class that went as a whole, if one did.
    """

    model_before: str
    model_after: str
    pattern: str
    D_f: str
    n: int
    recipe: str
    seed: int
    moved: float
    measured: str | None = None
    before: float | None = None
    after: float | None = None
    gone: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain words for a JSON file."""
        return asdict(self)

    @classmethod
    def from_dict(cls, words: Mapping[str, Any]) -> Self:
        """Read what `to_dict` wrote; words of later versions are left out."""
        return cls(**{field.name: words[field.name] for field in fields(cls) if field.name in words})


def distance(new: nn.Module, old: nn.Module) -> float:
    """Return |theta - theta_old| / |theta_old|, over all parameters."""
    pairs = zip(new.parameters(), old.parameters(), strict=True)
    moved, whole = zip(
        *(
            (float((p - q).detach().double().square().sum()), float(q.detach().double().square().sum()))
            for p, q in pairs
        ),
        strict=True,
    )
    return (sum(moved) / sum(whole)) ** 0.5 if sum(whole) else 0.0


def check(lineage: Sequence[Generation], model: nn.Module) -> None:
    """Refuse a lineage that does not lead to this model."""
    chain = [g.model_after for g in lineage[:-1]], [g.model_before for g in lineage[1:]]
    if chain[0] != chain[1] or (lineage and lineage[-1].model_after != identity(model)):
        found = f"one that ends at {lineage[-1].model_after[:12]}"
        do = "give the lineage of the run that made this model, or none"
        raise InputError(f"a lineage that leads to this model ({identity(model)[:12]})", found, do)


def say_what_returns(lineage: Sequence[Generation], D_f_clean: Dataset | None) -> None:
    """Say that a class which the model was made to forget is about to be learnt again."""
    labels = D_f_clean.y.tolist() if D_f_clean is not None else []
    for label in sorted({g.gone for g in lineage if g.gone is not None} & set(labels)):
        assert D_f_clean is not None
        text = f"D_f,clean has {labels.count(label):,} samples of {D_f_clean.classes[label]}"
        do = "it is learnt again; take them out, if it is to stay forgotten"
        warnings.warn(
            f"{text}, which an earlier request made the model forget: {do}.", UnseeWarning, stacklevel=4
        )


def beside(path: Path | str, model: nn.Module) -> tuple[Generation, ...]:
    """Return the lineage in the run.json beside a model's file, if that run made this very model."""
    path = Path(path)
    words = (path if path.is_dir() else path.parent) / "run.json"
    if not words.exists():
        return ()
    try:
        run = store.read_json(words)
        lineage = tuple(Generation.from_dict(entry) for entry in run.get("lineage", ()))
        check(lineage, model)
        if lineage:
            drift(lineage)  # which needs every word of it to be what it should be
        if not all(isinstance(g.gone, int | None) for g in lineage):
            return ()
    except (AttributeError, TypeError, ValueError, UnseeError):
        return ()
    return lineage


def drift(lineage: Sequence[Generation]) -> str:
    """Say what all requests together have done to the model.

    >>> first = Generation("a" * 64, "b" * 64, "B", "f", 100, "unsee", 0, 0.01, "accuracy", 0.88, 0.87)
    >>> second = Generation("b" * 64, "c" * 64, "A", "f", 100, "unsee/A", 0, 0.02, "accuracy", 0.87, 0.86)
    >>> drift([first, second])
    '2 requests since aaaaaaaaaaaa: moved by 1.00 %, 2.00 % of its length; accuracy 0.880 → 0.870 → 0.860'
    """
    moves = ", ".join(f"{100 * g.moved:.2f} %" for g in lineage)
    times = "1 request" if len(lineage) == 1 else f"{len(lineage)} requests"
    said = f"{times} since {lineage[0].model_before[:12]}: moved by {moves} of its length"
    if lineage[0].measured and all(g.measured == lineage[0].measured for g in lineage):
        said += f"; {lineage[0].measured} {lineage[0].before:.3f}"
        last = lineage[0].before
        for g in lineage:
            # Measured on other samples, what one request left need not be what the next began with.
            said += ("" if g.before == last else f", then {g.before:.3f}") + f" → {g.after:.3f}"
            last = g.after
    return said
