"""Runs and facts made up for pages: as many classes as wanted, and any text in every place for text."""

import base64
import io
from dataclasses import replace

import numpy as np
from PIL import Image

from unsee.report.examples import Answer, Example, View
from unsee.report.facts import Facts, Layer
from unsee.report.rates import Shift
from unsee.report.run import Run, read_words
from unsee.report.saliency import Looks
from unsee.report.variations import Variation

HASH = "0123456789abcdef" * 4


def png(side: int = 4, seed: int = 0) -> str:
    pixels = np.random.default_rng(seed).integers(0, 255, (side, side, 3), dtype=np.uint8)
    data = io.BytesIO()
    Image.fromarray(pixels).save(data, "PNG")
    return base64.b64encode(data.getvalue()).decode()


def made_facts(classes, *, n=20, text="", images=True, side=4) -> Facts:
    """Facts in which class 0 is D_f's; `text` stands in the places for other names."""
    count, random = len(classes), np.random.default_rng(0)
    shifts = {c: Shift(n, n - 9, int(random.integers(5)), int(random.integers(5))) for c in range(1, count)}
    others = {c: Shift(n, 0, n - 2, 0) for c in range(1, count)}
    confusion = [(c, c, n - 3, n - 4) for c in range(1, count)]
    confusion += [(c, int(random.integers(count - 1) + c + 1) % count, 3, 4) for c in range(1, count)]
    picture = png(side) if images else None
    top = tuple(Answer(classes[c], p) for c, p in ((0, 0.9), (1, 0.06), (count - 1, 0.04)))
    views = tuple(View(with_T, top, top, picture, picture, picture) for with_T in (False, True))
    return Facts(
        tuple(classes),
        HASH,
        HASH[::-1],
        0,
        {
            "D_r": shifts,
            "D_r_extra": others,
            "D_f": {0: Shift(n, n, 0, 0)},
            "D_f_clean": {0: Shift(n, 0, n, 0)},
        },
        {"D_r": tuple(sorted(confusion)), "D_r_extra": tuple((c, 0, n, 1) for c in range(1, count))},
        tuple((1 / count, 1 / count) for _ in classes),
        tuple(Layer(f"{text}{i}", f"Linear{text}", 100, 0.01 * i) for i in range(4)),
        tuple(Variation(f"{text or 'moved'}{i}", Shift(n, 9, 5, 2), (9, 1)) for i in range(4)),
        Looks(32, 0.18, 0.78, 0.32, 0.2, 0.17),
        tuple(Example(of, i, classes[0], classes[1] + text, views) for i, of in enumerate(("D_r", "D_f"))),
    )


def made_words(classes, *, pattern="B", n=20, text="") -> dict:
    """What run.json says of a run on these classes, with `text` in the places for names."""
    name = text or "tile"
    rest = dict.fromkeys(classes[1:], 0.8)
    one = {"n": n, "interval": [0, 1], "class_mean": 0.5, "threshold": 0.78, "met": True}
    sets = {
        "D_r": {**one, "accuracy": 0.8, "old": 0.8, "arrow": "up", "by_class": rest},
        "D_f": {
            **one,
            "accuracy": 0.85,
            "old": 1.0,
            "arrow": None,
            "threshold": None,
            "by_class": {classes[0]: 0.85},
        },
        "D_f_clean": {**one, "accuracy": 0.75, "old": 0.0, "arrow": "up", "by_class": {classes[0]: 0.75}},
        "D_r_extra": {**one, "accuracy": 0.9, "old": 0.05, "arrow": "up", "by_class": rest},
    }
    generation = {
        **dict.fromkeys(("model_before", "model_after", "D_f"), text or HASH), "pattern": text or "B",
        "n": n, "recipe": name, "seed": 0, "moved": 0.02, "measured": name, "before": 0.9, "after": 0.89,
    }  # fmt: skip
    rows = [
        {"epoch": e, "L": 1.5, "utility": 0.9, text or "x": 1.0, **dict.fromkeys(sets, 0.2 * e)}
        for e in range(4)
    ]
    return {
        "unsee": text or "0.1.0",
        "torch": text or "2.13.0",
        "threads": 2,
        "bit_exact": True,
        "inputs": {
            "model": text or HASH, "pattern": pattern, "D_f": text or HASH, "D_f_clean": text or HASH,
            "classes": list(classes), "T": name, "memory": text or HASH,
            "recipe": {"name": name, "lr": 0.003, text or "more": text or "more"}, "seed": 0, "D_r_val": None,
        },
        "setting": {
            "memory": text or "Fisher", "twins": True, "T": name, "replayed": name,
            "within the paper's setting": False, "floor": {"of": name, "least": 0.88}, "shift": {name: 0.237},
            "samples passed": 16800, "weaker": name, "eased": 2,
        },
        "back_to": None,
        "lineage": [generation, generation],
        "model": HASH[::-1],
        "trajectory": rows,
        "scores": {
            "pattern": pattern, "score": 0.75, "all_met": False, "margin": 0.02, "sets": sets,
            "changes_on_D_r": dict.fromkeys(classes[1:], 0.0),
            "softmax_D_f": [1 / len(classes)] * len(classes),
        },
        "warnings": [text or "nothing is wrong"],
        "case": {"model": {"weights": name, text or "key": [text or "value", 1, None, True]}},
    }  # fmt: skip


def made_run(classes=("cat", "dog", "owl"), *, name="run", text="", images=True, **options) -> Run:
    """A whole run, in its folder of that name."""
    run = read_words(name, made_words(classes, text=text, **options))
    return replace(run, facts=made_facts(classes, text=text, images=images), without_facts="")
