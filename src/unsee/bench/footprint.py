"""Footprint: the most memory that a process takes to remember and to forget, and whether data leaves a trace.

Each measured thing is done by a process of its own, from files to files as the command line does it, and the
system says how much it took at its peak. The network is the paper's MLP for CIFAR-10, of 85 million
parameters; its weights and data are drawn, which takes as much room as any others.
"""

import json
import math
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from unsee import networks
from unsee.bench import subjects
from unsee.bench.result import Limit, Result
from unsee.bench.timing import machine
from unsee.datasets import concatenate
from unsee.forgetting import forget
from unsee.formulation import TABLE_1, Request
from unsee.memory import Memory, remember, remember_at
from unsee.randomness import seeded
from unsee.recipe import RECIPES
from unsee.transforms import tile

BESIDE = 500e6  # bytes that may be taken beside the parameters' own
MOST = {"remember": 6, "forget": 6, "forget, the paper's": 6, "forget, RND": 7}  # times the parameters' bytes
RECIPE = {"forget": "unsee", "forget, the paper's": "cifar-10/tile/B", "forget, RND": "pattern-a/rnd"}
QUICK = ("nothing", "remember", "forget, RND")
SAMPLES = 1_000_000
TRACE = 32.0  # bytes: a memory keeps 8 of each sample's hash, and puts them together at the end


def run(command: str, *, quick: bool = False) -> Result:
    """Let processes remember and forget, and let one remember a million samples."""
    here, side, names = machine(), 8 if quick else 32, QUICK if quick else ("nothing", *MOST)
    with tempfile.TemporaryDirectory() as folder:
        size = make(Path(folder), side)
        rows = [_row(name, _in_a_process(name, folder, side)[0], size) for name in names]
        samples = 10_000 if quick else SAMPLES
        most, points = _in_a_process("stream", folder, samples)
    limits = [
        Limit(f"{name}, in times the parameters' bytes + 500 MB", row["less 500 MB"], MOST[name])
        for row in rows[1:]
        for name in (row["what"],)
    ]
    limits.append(Limit("bytes that stay of a sample that is remembered", slope(points), TRACE))
    points.append({"samples": samples, "MB": round(most / 1e6, 2)})  # at its peak, the hashes put together
    tables = {"At the peak, MB and in times the parameters' bytes": rows, "Remembering a stream": points}
    return Result("memory", command, here, limits, tables, quick)


def slope(points: list[dict[str, Any]]) -> float:
    """Return the bytes by which the process grew a sample, by least squares over the second half.

    >>> slope([{"samples": n, "MB": 90 + n / 1e6} for n in range(10)])
    1.0
    """
    later = [(point["samples"], 1e6 * point["MB"]) for point in points[len(points) // 2 :]]
    mean_x, mean_y = (sum(values) / len(later) for values in zip(*later, strict=True))
    rise = sum((x - mean_x) * (y - mean_y) for x, y in later)
    return round(rise / sum((x - mean_x) ** 2 for x, _ in later), 1)


def _row(name: str, most: int, size: int) -> dict[str, Any]:
    return {
        "what": name,
        "MB": round(most / 1e6),
        "times": round(most / size, 2),
        "less 500 MB": round(max(0.0, most - BESIDE) / size, 2),
    }


def _in_a_process(task: str, folder: str, size: int) -> tuple[int, Any]:
    """Return the most bytes that a process took to do a task, and what it said."""
    code = "import sys; from unsee.bench.footprint import do; do(*sys.argv[1:])"
    words = [sys.executable, "-c", code, task, folder, str(size), str(torch.get_num_threads())]
    found = subprocess.run(words, stdout=subprocess.PIPE, check=True, text=True)
    most, said = json.loads(found.stdout)
    return most, said


def do(task: str, folder: str, size: str, threads: str) -> None:
    """Do one task, in the process that was started for it, and say how much that took."""
    torch.set_num_threads(int(threads))
    tasks: dict[str, Callable[[Path, int], Any]] = {
        "nothing": lambda *_: None,
        "remember": _remember,
        "stream": _stream,
    }
    said = tasks.get(task, lambda path, side: _forget(task, path, side))(Path(folder), int(size))
    sys.stdout.write(json.dumps([_most(), said]))


def make(folder: Path, side: int) -> int:
    """Write the MLP for colour images of this side, and return the parameters' bytes.

    Orthogonal weights would take minutes to draw.
    """
    shape = (3, side, side)
    with torch.device("meta"):
        model = networks.mlp(shape, subjects.CLASSES, mean=(127.5,) * 3, std=(73.9,) * 3)
    spec, model = model.spec, model.to_empty(device="cpu")
    with seeded(0, "footprint"):
        for name, tensor in model.state_dict().items():
            known = {"mean": 127.5, "std": 73.9, "bias": 0.0}.get(name.split(".")[-1])
            tensor.normal_(0, math.prod(shape) ** -0.5) if known is None else tensor.fill_(known)
    model.spec, model.labels = spec, tuple(map(str, range(subjects.CLASSES)))
    networks.save(model, folder / "model.safetensors")
    return sum(p.nbytes for p in model.parameters())


def _request(side: int, pattern: str) -> Request:
    clean, T = subjects.images(128, (3, side, side), seed=1), tile()
    D_f = T(clean).with_(y=torch.zeros_like(clean.y))
    return Request(TABLE_1["A"], D_f) if pattern == "A" else Request(TABLE_1[pattern], D_f, clean, T)


def _remember(folder: Path, side: int) -> None:
    D = concatenate([subjects.images(512, (3, side, side)), _request(side, "A").D_f], "D")
    remember_at(folder / "memory.safetensors", networks.load(folder / "model.safetensors"), D, batch_size=128)


def _forget(task: str, folder: Path, side: int) -> None:
    recipe = replace(RECIPES[RECIPE[task]], epochs=1)
    request = _request(side, "A" if recipe.name.startswith("pattern-a") else "B")
    out = folder / task
    result = forget(
        networks.load(folder / "model.safetensors"),
        request,
        Memory.load(folder / "memory.safetensors"),
        recipe,
        folder=out,
    )
    networks.save(result.model, out / "model.safetensors")
    assert result.memory is not None
    result.memory.save(out / "memory-after.safetensors")


def _stream(_: Path, samples: int) -> list[dict[str, Any]]:
    stream = Stream(samples)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.Tanh(), nn.Linear(16, subjects.CLASSES))
    remember(model, stream)
    return stream.points


class Stream:
    """Samples that are made when they are asked for; it writes down how large the process is meanwhile."""

    def __init__(self, n: int) -> None:
        self.n, self.points = n, []

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> tuple[Tensor, int]:
        """Return the i-th sample, 8 by 8 numbers, and its label."""
        if i % (self.n // 20) == 0 and i and (not self.points or self.points[-1]["samples"] < i):
            self.points.append({"samples": i, "MB": round(_resident() / 1e6, 2)})
        return torch.full((8, 8), i / self.n), i % subjects.CLASSES


def _most() -> int:
    """Return the most bytes that this process has taken so far.

    The system's own count for a process begins with those of the one that started it.
    """
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _resident() -> int:
    """Return the bytes that this process takes now."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
