"""The Fisher pass beside BackPACK's and opacus', in one run, in an environment of its own.

    python benchmarks/peers.py [--quick] [--out benchmarks]

Makes runs/peers, an environment that sees the packages of the one it is called from, and installs the two
libraries into it without their dependencies: these would replace torch. The project's own environment is
left as it is. Where they cannot be installed or do not serve a network, the result says so.
"""

import argparse
import importlib
import json
import subprocess
import sys
import sysconfig
import venv
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

HOME = Path("runs/peers")
LIBRARIES = ["backpack-for-pytorch==1.7.1", "opacus==1.6.0"]
NEEDED = ["einops==0.8.2", "opt-einsum==3.4.0", "unfoldNd==0.2.3"]  # by BackPACK and opacus, beside torch


def environment() -> str:
    """Return the interpreter of the environment, which is made where there is none."""
    python = HOME / "bin" / "python"
    if not python.exists():
        venv.create(HOME, with_pip=False)
    site = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    # Behind its own packages, it sees those of the environment that this script was called from.
    unsee = str(Path(importlib.import_module("unsee").__file__ or "").parent.parent)
    (Path(site) / "callers.pth").write_text("\n".join([sysconfig.get_paths()["purelib"], unsee, ""]))
    words = ["install", "--quiet", "--no-deps", "--disable-pip-version-check", *LIBRARIES, *NEEDED]
    subprocess.run([sys.executable, "-m", "pip", "--python", str(python), *words], check=True)
    return str(python)


def main() -> None:
    """Measure in the environment, and write down what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default="benchmarks", help="where results and the page go")
    parser.add_argument("--quick", action="store_true", help="tiny subjects: does it run?")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    a = parser.parse_args()
    if a.measure:
        sys.stdout.write(json.dumps(measure(quick=a.quick)))
        return
    from unsee import store
    from unsee.bench import page

    words: dict[str, Any] = {"command": f"python benchmarks/peers.py{' --quick' if a.quick else ''}"}
    try:
        python = environment()
    except (OSError, subprocess.CalledProcessError) as error:
        note = f"Not measured: {', '.join(LIBRARIES)} could not be installed ({error})."
        words |= {"note": note, "rows": []}
    else:
        call = [python, __file__, "--measure", *(["--quick"] if a.quick else [])]
        found = subprocess.run(call, check=True, stdout=subprocess.PIPE, text=True)
        words |= json.loads(found.stdout)
    store.write_json(Path(a.out) / "results" / "peers.json", words)
    sys.stdout.write(f"Written: {page.write(Path(a.out))}\n")


def measure(*, quick: bool) -> dict[str, Any]:
    """Return the rows: each library on each network, in plain passes, and how far it is from ours."""
    import torch

    from unsee.bench import subjects
    from unsee.bench.timing import machine

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # what is left out is found by comparing
    here = machine()
    tried = [
        subjects.mlp(32 if quick else 256, side=6 if quick else 28, batch_size=32),
        subjects.resnet_18(4 if quick else 32, width=4 if quick else 64, batch_size=4 if quick else 16),
        subjects.vit(
            4 if quick else 64, 16 if quick else 192, 1 if quick else 6, batch_size=4 if quick else 32
        ),
    ]
    rows = [row for subject in tried for row in compared(subject, 1 if quick else 3)]
    note = (
        "In forward + backward passes over the same samples, the checks of ours before a pass left out; "
        "`off by` is the largest difference from the loop over samples, in its largest entry. "
        f"{', '.join(LIBRARIES)}; torch {here['torch']}, {here['processor']}, one thread, load before "
        f"{here['load before']}."
    )
    return {"note": note, "rows": rows}


def compared(subject: Any, rounds: int) -> list[dict[str, Any]]:
    """Return the rows of one network."""
    from unsee.bench.fisher import one_by_one, plain_pass
    from unsee.bench.timing import in_turns
    from unsee.tiers import by_loop

    few = subject.data.subset(range(subject.batch_size))
    truth = one_by_one(subject, few, by_loop)
    ways: dict[str, Callable[[Any], dict[str, Any]]] = {
        "unsee": by_unsee,
        "BackPACK": by_backpack,
        "opacus": by_opacus,
    }
    rows: list[dict[str, Any]] = []
    able: dict[str, Callable[[], object]] = {"plain": lambda: plain_pass(subject)}
    off: dict[str, float] = {}
    for name, way in ways.items():
        try:
            found = way(type(subject)(subject.name, subject.model, few, subject.batch_size))
            missing = truth.keys() - found.keys()
            if missing:
                raise NotImplementedError(f"leaves out {', '.join(sorted(missing))}")
            top = max(float(values.max()) for values in truth.values())
            off[name] = max(float((found[n].double() - truth[n]).abs().max()) for n in truth) / top
            able[name] = lambda way=way: way(subject)
        except Exception as error:  # what a library refuses is a result too
            rows.append(_row(subject, name, None, f"refused: {str(error).splitlines()[0][:90]}"))
    seconds = in_turns(able, rounds)
    for name in off:
        pairs = zip(seconds[name], seconds["plain"], strict=True)
        rows.append(_row(subject, name, round(median(a / b for a, b in pairs), 2), f"{off[name]:.1e}"))
    return sorted(rows, key=lambda row: row["library"] != "unsee")


@cache
def _tiers(model: Any) -> dict[str, str]:
    from unsee.bench.subjects import images
    from unsee.tiers import tiers_of

    side = 32 if not hasattr(model, "spec") else model.spec["shape"][-1]
    few = images(3, (1 if hasattr(model, "spec") else 3, side, side))
    return tiers_of(model, few.x.float(), few.y)


def by_unsee(subject: Any) -> dict[str, Any]:
    """Return the sums by our rules, without the checks before a pass."""
    from unsee.fisher import _squares

    sums: dict[str, Any] = {}
    for x, y in _batches(subject):
        for name, squares in _squares(subject.model, x, y, _tiers(subject.model))[0].items():
            sums[name] = sums.get(name, 0) + squares.double()
    return sums


def by_backpack(subject: Any) -> dict[str, Any]:
    """Return the sums by BackPACK's SumGradSquared."""
    import copy

    import torch
    from backpack import backpack, extend
    from backpack.extensions import SumGradSquared

    model = extend(copy.deepcopy(subject.model))
    loss_of = extend(torch.nn.CrossEntropyLoss(reduction="sum"))
    sums: dict[str, Any] = {}
    for x, y in _batches(subject):
        model.zero_grad()
        with backpack(SumGradSquared()):
            loss_of(model(x), y).backward()
        for name, p in model.named_parameters():
            if hasattr(p, "sum_grad_squared"):
                sums[name] = sums.get(name, 0) + p.sum_grad_squared
                del p.sum_grad_squared
    return sums


def by_opacus(subject: Any) -> dict[str, Any]:
    """Return the sums of opacus' per-sample gradients, squared."""
    import copy

    import torch.nn.functional as F
    from opacus import GradSampleModule

    # It looks on only while training; what behaves otherwise then, such as BatchNorm, it refuses itself.
    model = GradSampleModule(copy.deepcopy(subject.model).train(), loss_reduction="sum")
    sums: dict[str, Any] = {}
    for x, y in _batches(subject):
        model.zero_grad()
        F.cross_entropy(model(x), y, reduction="sum").backward()
        for name, p in model.named_parameters():
            if (per_sample := getattr(p, "grad_sample", None)) is not None:
                name = name.removeprefix("_module.")
                sums[name] = sums.get(name, 0) + per_sample.square().sum(0)
                p.grad_sample = None
    return sums


def _batches(subject: Any) -> Any:
    from unsee.answers import as_input
    from unsee.bench.subjects import CLASSES
    from unsee.datasets import batches

    for x, y in batches(subject.data, subject.batch_size, CLASSES):
        yield as_input(x, subject.model), y


def _row(subject: Any, library: str, ratio: float | None, off: str) -> dict[str, Any]:
    return {"network": subject.name, "library": library, "ratio": ratio if ratio else "-", "off by": off}


if __name__ == "__main__":
    main()
