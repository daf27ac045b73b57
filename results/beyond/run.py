"""Beyond the paper, the MLP on whole data sets: the default recipe with a sketch, with the Fisher only,
without any memory, beside the paper's recipe and beside retraining from scratch.

From the repository's root, after `unsee data fetch fashion-mnist`:

    python results/beyond/run.py [--data fashion-mnist] [--T tile line]

and for CIFAR-10, whose networks and rows of the paper's recipe are those of the reproduction, after
`unsee data fetch cifar-10` and `unsee reproduce figure-4 figure-s1 figure-s2 --data cifar-10`:

    python results/beyond/run.py --data cifar-10 [--T tile line color]

Retrained with T in training: on Fashion-MNIST three epochs over all samples with T and all without; on
CIFAR-10 as long as in pretraining, at smaller rates, T on half of the samples. The activation is continuous
on Fashion-MNIST, as printed on CIFAR-10.

Goes on where it was stopped: rows lie in results/beyond/rows, networks in runs/beyond and runs/paper.
"""

import argparse
import sys
import warnings
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import page
import torch
import torch.nn.functional as F
from page import ABLATION, CASES, HERE, OURS, SCRATCH, WAYS, case_of

from unsee import FourDatasets, evaluate, forget, networks, remember, sources, store, train
from unsee.datasets import Dataset, concatenate
from unsee.forgetting import Forgotten
from unsee.formulation import TABLE_1, FourSets
from unsee.memory import Memory
from unsee.paper import pretraining
from unsee.paper.cells import TRANSFORMS, Unit
from unsee.paper.scale import Scale
from unsee.randomness import stream
from unsee.recipe import METHOD, RECIPES, Recipe
from unsee.sketch import Sketch
from unsee.transforms import Transform

# Products by oneDNN: as exact as MKL's, twice as fast where MKL has no AVX-512; under AMX, bfloat16 (LAB.md).
torch.set_float32_matmul_precision("medium")
WORK, PAPERS = Path("runs/beyond"), Path("runs/paper")
SEEDS = {"fashion-mnist": 5, "cifar-10": 3}
# On CIFAR-10, with T: at the rates of pretraining the network at half the size hardly learns (LAB.md).
GENTLY = ((10, 0.01), (3, 0.003), (2, 0.001))


def variations(T: Transform) -> dict[str, Transform]:
    """T as it was never shown: moved by two pixels, at half its brightness, a pixel wider all around.

    Of a colour: green in place of blue, half way there, on the upper half of the image alone.
    """
    if T.name == "color":
        return {
            "moved": Transform("moved", lambda x: T.pixels(x)[:, [0, 2, 1]]),
            "dimmed": Transform("dimmed", lambda x: x // 2 + T.pixels(x.clone()) // 2),
            "resized": Transform("resized", upper_half),
        }

    def put(shape, value):
        def pixels(x):
            mask = T.pixels(torch.zeros_like(x[:1])) > 0
            return torch.where(shape(mask), torch.tensor(value, dtype=x.dtype), x)

        return pixels

    wider = lambda m: F.max_pool2d(m.float(), 3, 1, 1) > 0  # noqa: E731
    return {
        "moved": Transform("moved", put(lambda m: m.roll((2, 2), (-2, -1)), 255)),
        "dimmed": Transform("dimmed", put(lambda m: m, 128)),
        "resized": Transform("resized", put(wider, 255)),
    }


def upper_half(x: torch.Tensor) -> torch.Tensor:
    """Put the colour on the upper half of the images alone."""
    half = x.shape[-2] // 2
    x[..., :half, :] = TRANSFORMS["color"]().pixels(x[..., :half, :].clone())
    return x


def judged(model, four: FourDatasets) -> dict:
    """The four accuracies, D_r,extra under variations of T, and the score of B and C."""
    found = {name: round(value, 6) for name, value in evaluate(model, four).accuracies().items()}
    for name, T in variations(four.T).items():
        alone = FourSets(D_r_extra=T(four.test.D_r))
        found[f"D_r_extra, {name}"] = round(evaluate(model, alone).accuracies()["D_r_extra"], 6)
    return found | {f"least {p}": min(found[s] for s in TABLE_1[p].arrows) for p in "BC"}


def written(result: Forgotten, said: list[warnings.WarningMessage]) -> dict:
    """Return what a row says of a run, beside its accuracies."""
    return {
        "recipe": result.recipe.name,
        "values": result.recipe.words(),
        "setting": dict(result.setting),
        "last epoch": {k: round(v, 6) for k, v in result.trajectory[-1].items()},
        "back_to": result.back_to,
        "said": [str(w.message) for w in said],
    }


def once(path: Path, make, **key) -> dict:
    """Return the row at `path`, made if it is not there, or is of another key: network, method or recipe."""
    found = store.read_json(path) if path.exists() else {}
    if not found or any(found.get(name) != value for name, value in key.items()):
        sys.stderr.write(f"{path.stem}\n")
        store.write_json(path, make() | key)
    return store.read_json(path)


def method(recipe: Recipe) -> dict:
    """Return what a row is known by, besides its network: the recipe, and what `forget` makes of it."""
    return {"method": METHOD, "values": recipe.words()}


def ready(data: str, T: str) -> tuple[FourDatasets, torch.nn.Module, Memory]:
    """Return the sets, the pretrained network and its memory with a sketch."""
    if data == "cifar-10":  # 85 million parameters: those of the reproduction
        found = pretraining.pretrained(Unit(data, T), Scale(), PAPERS)
        return found.four, found.model, sketched(found)
    four = FourDatasets.of_class(sources.fashion_mnist(), 0, TRANSFORMS[T]())
    D = four.pretraining
    model = train(networks.network("mlp", D), D, epochs=5, folder=WORK / f"fashion-mnist-{T}").model
    path = WORK / f"fashion-mnist-{T}" / "sketch.safetensors"
    if not path.exists():
        remember(model, D, sketch=32).save(path)
    return four, model, Memory.load(path)


def sketched(found: pretraining.Pretrained) -> Memory:
    """Return the memory of a network of the reproduction, with a sketch beside its Fisher."""
    D = found.four.pretraining
    sketch = Sketch.empty(D.x, len(D.classes), D.value_range, 32)
    for rows in torch.arange(len(D)).split(1000):
        sketch.add(D.x[rows], D.y[rows])
    return replace(found.memory, sketch=sketch)


def run(data: str, T: str, seeds: int, ways: Collection[str]) -> None:
    """Rows of one case; what is retrained from scratch needs no pretrained network."""
    if mine := [way for way in ways_of(data) if way in ways]:
        treated(data, T, seeds, mine)
    for way in SCRATCH:
        if way in ways:
            path = HERE / "rows" / f"{case_of(data, T)}, {way}.json"
            once(path, lambda w=way: scratch(w, data, T))


def ways_of(data: str) -> list[str]:
    """Return how a network can be treated here; of CIFAR-10, the paper's recipe is the reproduction's."""
    return [way for way in dict.fromkeys((*OURS, *WAYS)) if way in OURS or data == "fashion-mnist"]


def treated(data: str, T: str, seeds: int, ways: list[str]) -> None:
    """The rows of a pretrained network: as it is, and after forgetting in these ways, seed by seed."""
    (four, model, whole), case = ready(data, T), case_of(data, T)
    memories = {"no memory": None, "Fisher": replace(whole, sketch=None), "sketch": whole}
    network = networks.identity(model)
    once(HERE / "rows" / f"{case}, pretrained.json", lambda: judged(model, four), network=network)

    def forgotten(way: str, seed: int, recipe: Recipe) -> dict:
        ours = way.startswith("ours")
        memory, pattern = memories[way.split(", ")[1] if ours else "Fisher"], "B" if ours else way[-1]
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            result = forget(model, four.request(pattern), memory, recipe, seed=seed, again=False)
        return judged(result.model, four) | written(result, said)

    for seed in range(seeds):
        for way in ways:
            path, recipe = HERE / "rows" / f"{case}, {way}, {seed}.json", recipe_of(way, T)
            make = lambda w=way, s=seed, r=recipe: forgotten(w, s, r)  # noqa: E731
            once(path, make, network=network, **method(recipe))


def recipe_of(way: str, T: str) -> Recipe:
    """Return the recipe of a way; Table S1's tile C diverges with the continuous activation (decision 4)."""
    if way.startswith("ours"):
        return replace(RECIPES["unsee"], balance="prior") if way == ABLATION else RECIPES["unsee"]
    return RECIPES["fashion-mnist/line/C" if way[-1] == "C" else f"fashion-mnist/{T}/B"]


def scratch(way: str, data: str, T: str) -> dict:
    """Retrain from scratch as in pretraining; with T, samples with it and without, on CIFAR-10 either."""
    four = FourDatasets.of_class(sources.open_source(data), 0, TRANSFORMS[T]())
    D, with_T = concatenate([four.train.D_r, four.train.D_f_clean], "D_r and D_f,clean"), "in training" in way
    if data == "cifar-10":
        if with_T:
            D = half_with(four.T, D)
        folder = WORK / (f"{data}-{T}-with-T" if with_T else f"{data}-retrained")  # that is of every T
        rates = GENTLY if with_T else ()
        return judged(pretraining.trained(Unit(data, T), D, Scale(), folder, at_half=rates), four)
    if with_T:
        D = concatenate([D, four.T(D)], "with and without T")
    return judged(train(networks.network("mlp", D), D, epochs=3 if with_T else 5).model, four)


def half_with(T: Transform, D: Dataset) -> Dataset:
    """Put T on half of the samples, by chance."""
    order = stream(0, "with T").permutation(len(D)).tolist()
    half = len(D) // 2
    return concatenate([D.subset(sorted(order[half:])), T(D.subset(sorted(order[:half])))], "half with T")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", choices=CASES, default="fashion-mnist")
    parser.add_argument("--T", choices=TRANSFORMS, nargs="*", help="all that the data set has")
    parser.add_argument("--seeds", type=int, help="5 on Fashion-MNIST, else 3")
    parser.add_argument("--ways", nargs="*", choices=(*WAYS, *SCRATCH), help="only these rows")
    parser.add_argument("--page", action="store_true", help="only write the page again")
    given = parser.parse_args()
    known = [*ways_of(given.data), *SCRATCH]
    if set(given.T or ()) - set(CASES[given.data]) or set(given.ways or ()) - set(known):
        parser.error(f"{given.data} has {', '.join(CASES[given.data])}; and: {'; '.join(known)}")
    for name in () if given.page else given.T or CASES[given.data]:
        run(given.data, name, given.seeds or SEEDS[given.data], given.ways or known)
    page.write(__doc__.strip())
