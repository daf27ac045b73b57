"""Pattern A beyond the paper: a class forgotten by the default recipe, with a sketch, with the Fisher only,
without any memory, beside training from scratch without the class.

From the root, after `unsee reproduce table-2 figure-3`, whose networks it takes:

    python results/beyond/classes.py [--data fashion-mnist] [--seeds 5]
    python results/beyond/classes.py --data cifar-10 --seeds 3

Goes on where it was stopped: rows lie in results/beyond/classes.
"""

import argparse
import statistics
import warnings
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import run as beyond
from page import floors, mark, told

from unsee import evaluate, forget, store
from unsee.paper import pretraining
from unsee.paper.cells import DATA, Unit
from unsee.paper.scale import Scale
from unsee.recipe import RECIPES

WAYS = ("sketch", "Fisher", "no memory")
HERE, PAPERS = Path("results/beyond"), Path("results/paper/rows")


def judged(model, four) -> dict:
    """The two accuracies of Pattern A."""
    found = evaluate(model, four).accuracies()
    return {name: round(found[name], 6) for name in ("D_r", "D_f")}


def run(data: str, seeds: int, ways: Collection[str]) -> None:
    """The rows of one data set, treated in these ways."""
    ready = pretraining.pretrained(Unit(data, None), Scale(), Path("runs/paper"))
    whole = beyond.sketched(ready)
    memories = {"sketch": whole, "Fisher": replace(whole, sketch=None), "no memory": None}
    place = HERE / "classes"
    pretrained = lambda: judged(ready.model, ready.four)  # noqa: E731
    beyond.once(place / f"{data}, pretrained.json", pretrained, network=ready.id)

    def forgotten(way: str, seed: int) -> dict:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            result = forget(ready.model, ready.four.request("A"), memories[way], seed=seed, again=False)
        return judged(result.model, ready.four) | beyond.written(result, said)

    for seed in range(seeds):
        for way in ways:
            name = f"{data}, ours, {way}, {seed}.json"
            key = {"network": ready.id, **beyond.method(RECIPES["unsee/A"])}
            beyond.once(place / name, lambda w=way, s=seed: forgotten(w, s), **key)


def rows_of(data: str, way: str) -> list[dict]:
    """Return the rows of one way; training from scratch is that of Figure 3."""
    if way == "trained on D_r alone":
        path = PAPERS / f"{data}-plain-scratch.json"
        scores = store.read_json(path)["scores"] if path.exists() else None
        return [{name: scores[name]["accuracy"] for name in ("D_r", "D_f")}] if scores else []
    paths = sorted((HERE / "classes").glob(f"{data}, {way}*.json"))
    return [store.read_json(path) for path in paths]


def write() -> None:
    """Write classes.md from the rows."""
    text = ["# A class forgotten", "", __doc__.strip(), "", "D_f ↓ and D_r ↑ on the test set.", ""]
    for data in DATA:
        if not rows_of(data, "pretrained"):
            continue
        text += [f"## {data}", "", "| | D_r ↑ | D_f ↓ | passed | runs |", "|---|---|---|---|---|"]
        ways = ("pretrained", "ours, sketch", "ours, Fisher", "ours, no memory", "trained on D_r alone")
        for way in ways:
            if rows := rows_of(data, way):
                cells = [told([row[name] for row in rows]) for name in ("D_r", "D_f")]
                passed = [row["setting"]["samples passed"] for row in rows if "setting" in row]
                cells.append(f"{statistics.mean(passed):,.0f}" if passed else "")
                text.append(f"| {way}{mark(rows)} | {' | '.join(cells)} | {len(rows)} |")
        text.append("")
    text += ["± is the deviation over forgetting seeds. Passed: samples, in the descent.", ""]
    text += floors((HERE / "classes").glob("*, ours, *.json"))
    store.write_bytes(HERE / "classes.md", ("\n".join(text) + "\n").encode())


def main() -> None:
    """Make the rows that are missing, and the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", choices=DATA, default="fashion-mnist")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--ways", nargs="*", choices=WAYS, default=WAYS, help="only these rows")
    given = parser.parse_args()
    run(given.data, given.seeds, given.ways)
    write()


if __name__ == "__main__":
    main()
