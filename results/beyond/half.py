"""CIFAR-10's MLP at half the size, as it is begun (decision 29): the default recipe, and each part of it off.

From the repository's root, after `unsee data fetch cifar-10`:

    python results/beyond/half.py [--T tile line color] [--seeds 2]

5 million weights in place of 85. Of tile and line, T is not given but fitted to the pairs. *Shifted*: the
least of the four accuracies if the logit of class 0 is shifted to where it is highest on the test set, so
that what is lost by balance can be told from the rest; nobody can do that without D_r. Parts are switched
off one by one, seed 0. *Trained with T on all samples*: what a network has that learns nothing but these.
*Trained on grey images*, and judged on grey ones: what is left of an image under color, as easy as it can be.
Goes on where it was stopped: rows lie in results/beyond/half, networks in runs/beyond.
"""

import argparse
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import run as beyond
import torch
from page import AGED, mark, told

from unsee import FourDatasets, forget, matching, networks, remember, sources, store
from unsee.answers import logits
from unsee.datasets import Dataset, concatenate
from unsee.formulation import SETS, FourSets
from unsee.loss import Loss
from unsee.memory import Memory
from unsee.paper import pretraining
from unsee.paper.cells import TRANSFORMS, Unit
from unsee.paper.growing import halved
from unsee.paper.scale import Scale
from unsee.recipe import RECIPES, Recipe

HERE, WORK = Path("results/beyond/half"), Path("runs/beyond")
OFF = {
    "stand-ins drawn alike": {},
    "L_h of D_f alone": {},
    "no L_h": {"lambda_h": 0.0},
    "no L_f": {"lambda_f": 0.0},
    "no L_s, floor and last touch": {"lambda_s": 0.0},
    "no R": {"lambda_kl": 0.0},
    "no last touch": {"balance": "prior"},
    "no balance": {"balance": "none"},
}


def half(sets: FourSets) -> FourSets:
    """Return the sets at half the size."""
    return FourSets(**{name: halved(data) for name, data in sets.present().items()})


def trained(D: Dataset, T: str, name: str, rates=()) -> torch.nn.Module:
    """Train the network at half the size from scratch; a finished one is taken as it is."""
    folder = WORK / f"half-{T}{name}"
    path = folder / "model.safetensors"
    if not path.exists():
        small = halved(D)
        net = pretraining.mlp(small, Scale())
        rates = rates or Unit("cifar-10", T).at_half
        networks.save(pretraining.in_parts(net, small, rates, folder, {}), path)
    return networks.load(path)


def judged(model: torch.nn.Module, test: FourSets) -> dict:
    """Return the four accuracies, their least, and what it could be under another logit of class 0."""
    z = {name: (logits(model, data), data.y) for name, data in test.present().items()}

    def shifted(b: float) -> dict[str, float]:
        far = torch.zeros(10).index_fill(0, torch.tensor(0), b)
        return {
            name: float(((y + far).argmax(1) == labels).double().mean()) for name, (y, labels) in z.items()
        }

    found = shifted(0.0)
    best = max(min(shifted(b / 10).values()) for b in range(-20, 21))
    return {name: round(value, 6) for name, value in found.items()} | {
        "least": round(min(found.values()), 6),
        "shifted": round(best, 6),
    }


@contextmanager
def without(part: str) -> Iterator[None]:
    """Switch off, inside the block, a part that no recipe can."""
    of_all, even = Loss._hidden, matching.even

    def of_D_f(loss, read, read_old):
        mine = {name: layers for name, layers in read.items() if name == "bad" or loss.eased}
        return of_all(loss, mine, read_old)

    if part.startswith("L_h of D_f"):
        Loss._hidden = of_D_f
    if part.startswith("stand-ins drawn"):
        matching.even = lambda z: torch.full((len(z.head.v),), 1 / len(z.head.v), dtype=torch.float64)
    try:
        yield
    finally:
        Loss._hidden, matching.even = of_all, even


def run(T: str, seeds: int) -> None:
    """All rows of one T: the network, what the default recipe makes of it with a part off, and retraining."""
    four = FourDatasets.of_class(sources.cifar_10(), 0, TRANSFORMS[T]())
    small = FourDatasets(half(four.train), half(four.test), None, four.T if T == "color" else None)
    model = trained(four.pretraining, T, "")
    network = networks.identity(model)
    once = lambda name, make, **key: beyond.once(HERE / f"{T}, {name}.json", make, **key)  # noqa: E731
    once("pretrained", lambda: judged(model, small.test), network=network)
    path = WORK / f"half-{T}" / "sketch.safetensors"
    if not path.exists():
        remember(model, halved(four.pretraining), sketch=32).save(path)
    whole = Memory.load(path)
    ways = {"sketch": whole, "Fisher": replace(whole, sketch=None), "no memory": None}

    def recipe_of(part: str) -> Recipe:
        return replace(RECIPES["unsee"], **OFF.get(part, {}))

    def forgotten(way: str, seed: int, part: str) -> dict:
        recipe = recipe_of(part)
        with warnings.catch_warnings(), without(part):
            warnings.simplefilter("ignore")
            result = forget(model, small.request("B"), ways[way], recipe, seed=seed, again=False)
        row = {name: result.setting[name] for name in ("shift", "eased", "retreat")} | {
            "back_to": result.back_to
        }
        return judged(result.model, small.test) | row | {"samples": result.setting["samples passed"]}

    key = lambda part: {"network": network, **beyond.method(recipe_of(part))}  # noqa: E731
    for seed in range(seeds):
        for way in ways:
            once(f"ours, {way}, {seed}", lambda w=way, s=seed: forgotten(w, s, ""), **key(""))
    for way in ("Fisher", "sketch") if T != "color" else ():
        for part in OFF:
            if way == "Fisher" or not part.startswith("stand-ins"):
                once(f"ours, {way}, {part}", lambda w=way, p=part: forgotten(w, 0, p), **key(part))
    D = concatenate([four.train.D_r, four.train.D_f_clean], "D_r and D_f,clean")
    for name, data, rates in (
        ("retrained on D_r and D_f,clean", D, ()),
        ("retrained with T in training", beyond.half_with(four.T, D), beyond.GENTLY),
        ("trained with T on all samples", four.T(D), beyond.GENTLY),
    ):
        make = lambda n=name, d=data, r=rates: trained(d, T, f"-{n}".replace(" ", "-"), r)  # noqa: E731
        once(name, lambda m=make: judged(m(), small.test))
    if T == "color":
        left = half(FourSets(D_r=grey(four.test.D_r), D_f_clean=grey(four.test.D_f_clean)))
        once("trained on grey images", lambda: judged(trained(grey(D), T, "-trained-on-grey-images"), left))


def grey(data: Dataset) -> Dataset:
    """Return images of which every colour is the mean of the three."""
    return data.with_(x=data.x.float().mean(1, keepdim=True).round().to(data.x.dtype).expand_as(data.x))


def write() -> None:
    """Write half.md from the rows."""
    columns = (*SETS, "least", "shifted")
    text = ["# CIFAR-10's MLP at half the size", "", __doc__.strip(), ""]
    for T in TRANSFORMS:
        groups: dict[str, list[dict]] = {}
        for path in sorted(HERE.glob(f"{T}, *.json")):
            *name, last = path.stem.removeprefix(f"{T}, ").split(", ")
            way = ", ".join(name if last.isdigit() else [*name, last])
            groups.setdefault(way, []).append(store.read_json(path))
        if not groups:
            continue
        text += [f"## {T}", "", f"| | {' | '.join(columns)} | runs |", "|---" * (len(columns) + 2) + "|"]
        for way, rows in sorted(groups.items(), key=lambda group: (order(group[0]), group[0])):
            cells = [told([row[name] for row in rows]) if name in rows[0] else "" for name in columns]
            text.append(f"| {way}{mark(rows)} | {' | '.join(cells)} | {len(rows)} |")
        text += ["", *eased(groups)]
    text += ["± is the deviation over forgetting seeds.", ""]
    text += [f"†: {AGED}", ""] if any("†" in line for line in text) else []
    store.write_bytes(HERE.parent / "half.md", "\n".join(text).encode())


def eased(groups: dict[str, list[dict]]) -> list[str]:
    """Say which runs asked for less on the way, and which were given back as the old model all the same."""
    rows = [(way, row) for way, found in groups.items() for row in found if row.get("eased") is not None]
    if not rows:
        return []
    said = f"Eased (docs/decisions/0037): {len(rows)} runs"
    ends = {
        "ended as the old model": [way for way, row in rows if row["back_to"] == 0],
        "kept a part of the way (docs/decisions/0038)": [way for way, row in rows if row.get("retreat")],
    }
    kept = [f"{len(ways)} {end} ({', '.join(sorted(set(ways)))})" for end, ways in ends.items() if ways]
    return [f"{said}{', of which ' + ' and '.join(kept) if kept else ''}.", ""]


def order(way: str) -> int:
    """Return where a way stands in a table."""
    begun = [
        i for i, name in enumerate(("pretrained", "ours, s", "ours, F", "ours, n")) if way.startswith(name)
    ]
    return begun[0] if begun else 9


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--T", choices=TRANSFORMS, nargs="*", default=["tile", "line", "color"])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--page", action="store_true", help="only write the page again")
    given = parser.parse_args()
    for name in () if given.page else given.T:
        run(name, given.seeds)
    write()
