"""Memory: what is kept of D when D is gone. Taken once, at training time, and shipped with the model.

It holds sums and n rather than means, so that memories of two parts merge and a part subtracts:
F over D minus F over D_f *is* F over D_r, although nobody knew D_f when the memory was taken.
"""

import shutil
import sys
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from unsee import store
from unsee.answers import check_fit
from unsee.checkpoint import Checkpoints, State
from unsee.datasets import Dataset, batches
from unsee.errors import InputError
from unsee.fisher import FisherSum, fisher_sum
from unsee.kinds import PLAIN
from unsee.networks import identity
from unsee.progress import bar
from unsee.resting import Resting
from unsee.sketch import Sketch
from unsee.wordcounts import WordCounts

DEFINITION = "diagonal Fisher: sum over samples of the squared gradient of each sample's cross entropy"

# Two sums over the same samples in other batches differ by rounding: of an entry, or, where a sample falls
# on the other side of a kink or a gradient is zero but for rounding, of its tensor or of the whole.
_OF_ENTRY, _OF_TENSOR, _OF_ALL = 1e-4, 1e-6, 1e-12


@dataclass(frozen=True, eq=False)
class Memory:
    """The diagonal Fisher of one model over some data, as sums by parameter (float64) and n.

    `samples` is a hash of each sample, by which a part is known to be one; `model` is the hash of
    theta_old; `data` lists what went in (+) and what was taken out (-). `loss` is the sum of the samples'
    losses, unknown to memories of before; `sketch` is there if it was asked for. Where `model` is one that
    forgetting made, `taken_of` is the one before it, whose Fisher this still is.
    """

    sums: Mapping[str, Tensor]
    samples: Tensor
    model: str
    data: tuple[str, ...]
    loss: float | None = None
    sketch: Sketch | WordCounts | None = None
    taken_of: str | None = None

    def __post_init__(self) -> None:
        if self.n < 1:
            raise InputError("a memory of at least one sample", "none", "remember the data that remains")
        for name, values in self.sums.items():
            if not bool(torch.isfinite(values).all()):
                raise InputError("a finite Fisher", f"NaN or Inf in {name}", "take the memory anew")
            if bool((values < 0).any()):
                raise InputError("a Fisher of no negative entry", f"some in {name}", "take the memory anew")
        if not any(bool(values.any()) for values in self.sums.values()):
            raise InputError("a Fisher that is not all zero", "zeros", "the model's outputs may be constant")

    def __repr__(self) -> str:
        return f"Memory(n={self.n:,}, {len(self.sums)} parameters, model={self.model[:12]})"

    @property
    def n(self) -> int:
        """How many samples are remembered."""
        return len(self.samples)

    def fisher(self) -> dict[str, Tensor]:
        """Return F(theta_old)_ii by parameter: the sums divided by n."""
        return {name: values / self.n for name, values in self.sums.items()}

    def level(self) -> float | None:
        """Return the mean loss of what is remembered: how well theta_old has learnt it."""
        return None if self.loss is None else max(self.loss, 0.0) / self.n

    def merge(self, other: "Memory", *, using_up: bool = False) -> Self:
        """Return the memory over both data, as if taken in one pass; `using_up` the other, in its room."""
        self._check_same_model(other)
        theirs, room = other.sums, other.sums if using_up else {}
        sums = {name: torch.add(ours, theirs[name], out=room.get(name)) for name, ours in self.sums.items()}
        samples = torch.cat([self.samples, other.samples])
        sketch: Any = self.sketch
        sketch = sketch.merge(other.sketch) if sketch and other.sketch else None
        loss = None if self.loss is None or other.loss is None else self.loss + other.loss
        taken_of = self.taken_of or other.taken_of
        return type(self)(sums, samples, self.model, self.data + other.data, loss, sketch, taken_of)

    def subtract(self, part: "Memory", *, using_up: bool = False) -> Self:
        """Return the memory without a part of its data: F(D) - F(D_f) = F(D_r).

        `using_up` the part, it takes the part's own room, which then holds what is left.
        """
        self._check_same_model(part)
        samples = _without(self.samples, part.samples)
        sums, top = {}, max(float(values.max()) for values in self.sums.values())
        for name, values in self.sums.items():
            left = torch.sub(values, part.sums[name], out=part.sums[name] if using_up else None)
            rounding = (_OF_ENTRY * values).add_(max(_OF_TENSOR * float(values.max()), _OF_ALL * top))
            # Taken of the model before, it need not hold all of a part's share as the present one has it.
            if self.taken_of is None and bool((left < rounding.neg_()).any()):
                found = f"one whose share of {name} exceeds the whole"
                raise InputError("a part of this memory's data", found, "subtract only what was remembered")
            sums[name] = left.clamp_min_(0)
        out = tuple({"+": "-", "-": "+"}[entry[0]] + entry[1:] for entry in part.data)
        sketch: Any = self.sketch
        sketch = sketch.subtract(part.sketch) if sketch and part.sketch else None
        loss = None if self.loss is None or part.loss is None else self.loss - part.loss
        return type(self)(sums, samples, self.model, self.data + out, loss, sketch, self.taken_of)

    def of(self, model: nn.Module) -> Self:
        """Return this memory as that of a model which forgetting has made, to forget again with."""
        new = identity(model)
        return self if new == self.model else replace(self, model=new, taken_of=self.taken_of or self.model)

    def check(self, model: nn.Module) -> None:
        """Refuse a model other than the one this memory was taken of."""
        shapes = {name: p.shape for name, p in model.named_parameters() if p.requires_grad}
        wrong = [f"{name} missing" for name in shapes if name not in self.sums]
        wrong += [f"{name} unknown to the model" for name in self.sums if name not in shapes]
        wrong += [
            f"{name} of shape {tuple(self.sums[name].shape)} for {tuple(shape)}"
            for name, shape in shapes.items()
            if name in self.sums and self.sums[name].shape != shape
        ]
        if wrong:
            raise InputError("a memory of this model", "; ".join(wrong[:3]), "take it anew with `remember`")
        if identity(model) != self.model:
            found = f"one of a model with other weights ({self.model[:12]})"
            do = "give the memory of the run that made this model, or take it anew"
            raise InputError(f"a memory of this model ({identity(model)[:12]})", found, do)

    @property
    def id(self) -> str:
        """The SHA-256 of what is remembered."""
        recalled = {f"sketch/{name}": values for name, values in self._sketched().items()}
        return store.digest({**self.sums, "samples of the memory": self.samples, **recalled})

    def resting(self, folder: Path | str) -> "Callable[[], Memory]":
        """Put the sums into a nameless file in `folder`, and return what brings the memory back."""
        sums, others = Resting(self.sums, folder), {**vars(self)}
        del others["sums"]
        return lambda: Memory(sums=sums.back(), **others)  # of `self` nothing may be left in here

    def _sketched(self) -> dict[str, Tensor]:
        return self.sketch.tensors() if self.sketch else {}

    def save(self, path: Path | str) -> None:
        """Write the memory as one safetensors file."""
        about: dict[str, Any] = {
            "model": self.model,
            "data": list(self.data),
            "definition": DEFINITION,
            "loss": self.loss,
            "taken_of": self.taken_of,
        }
        if self.sketch:
            about["sketch"] = self.sketch.words()
        tensors = {f"fisher/{name}": values for name, values in self.sums.items()}
        tensors |= {f"sketch/{name}": values for name, values in self._sketched().items()}
        store.write_tensors(path, {**tensors, "samples": self.samples}, {"memory": about})

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Read a memory that `save` wrote."""
        tensors, about = store.read_tensors(path)
        memory: Any = about.get("memory")
        try:
            if memory["definition"] != DEFINITION:
                raise KeyError
            # The small ones apart: a part of a file in use keeps all of it in memory.
            tensors |= {name: t.clone() for name, t in tensors.items() if not name.startswith("fisher/")}
            samples = tensors.pop("samples")
            words = memory.get("sketch")
            taken = WordCounts if words and words.get("of") == "words" else Sketch
            sketch = taken.from_file(store.under("sketch/", tensors), words) if words else None
            sums, model, data = store.under("fisher/", tensors), str(memory["model"]), memory["data"]
            loss, taken_of = memory.get("loss"), memory.get("taken_of")
            if samples.dtype != torch.int64 or {values.dtype for values in sums.values()} != {torch.float64}:
                raise TypeError
            loss, taken_of = loss if loss is None else float(loss), taken_of and str(taken_of)
            return cls(sums, samples.flatten(), model, tuple(map(str, data)), loss, sketch, taken_of)
        except (KeyError, TypeError, ValueError, IndexError, RuntimeError, AttributeError, OverflowError):
            raise InputError(
                f"a memory at {path}", "something else", "take one with `unsee remember`"
            ) from None

    def _check_same_model(self, other: "Memory") -> None:
        if self.model != other.model or self.sums.keys() != other.sums.keys():
            found = f"{self.model[:12]} and {other.model[:12]}"
            raise InputError("two memories of one model", found, "take both of the same weights")


def remember(
    model: nn.Module,
    data: Any,
    *,
    sketch: Sketch | WordCounts | float | None = None,
    batch_size: int = 512,
    folder: Path | str | None = None,
    checkpoint_seconds: float = 30.0,
    progress: bool = False,
) -> Memory:
    """Take the memory of D that forgetting will lean on: F(theta_old), exact, for any module.

    F_ii = |D|^-1 sum over (x, l) in D of (d L_cls(f_theta(x), l) / d theta_i)^2   (paper, eq. 7)

    `data` is a Dataset or any map-style torch data set, read a batch at a time. With `sketch`, so many
    megabytes may go to a sketch of the classes, taken in the same pass (`unsee.sketch` says what it
    reveals); given a sketch, one of its kind is taken. With a `folder`, the same call goes on after a
    kill and ends in the same bits.
    """
    new = _begun(sketch, model, data) if sketch else None
    words = {"model": identity(model), "definition": DEFINITION, "batch_size": batch_size}
    words |= {"sketch": {**new.words(), "classes": len(new.counts)} if new else None}
    run = Checkpoints(Path(folder), words, checkpoint_seconds, _device(model)) if folder else None
    with (
        run.alone() if run else nullcontext(),
        bar("remembering" if progress else None, len(data) if hasattr(data, "__len__") else 0) as advance,
    ):
        begun, new = _restored(run, new) if run else (None, new)
        taken = fisher_sum(
            model,
            data,
            batch_size=batch_size,
            progress=advance,
            seen=new.add if new else None,
            begun=begun,
            after=partial(_keep, run, new) if run else None,
        )
    data_of = (f"+{taken.data}:{taken.n}",)
    return Memory(taken.sums, taken.samples, identity(model), data_of, taken.loss, new)


def remember_at(path: Path | str, model: nn.Module, data: Any, **how: Any) -> Memory:
    """Take the memory and write it to `path`; killed in between, the same call goes on."""
    part = Path(f"{path}.part")
    memory = remember(model, data, folder=part, **how)
    memory.save(path)
    shutil.rmtree(part, ignore_errors=True)
    return memory


def _keep(run: Checkpoints, sketch: Sketch | WordCounts | None, taken: FisherSum) -> None:
    """Write down the sums so far, when that is due."""
    if run.due:
        tensors = {f"fisher/{name}": values for name, values in taken.sums.items()}
        tensors |= {f"sketch/{name}": t for name, t in (sketch.tensors() if sketch else {}).items()}
        run.write(State(taken.n, tensors, {"data": taken.data, "loss": taken.loss, "tiers": taken.tiers}))


def _restored(
    run: Checkpoints, sketch: Sketch | WordCounts | None
) -> tuple[FisherSum | None, Sketch | WordCounts | None]:
    """Return the sums and the sketch of a pass that died, or nothing and an empty one."""
    if (state := run.read()) is None:
        return None, sketch
    sums, log = store.under("fisher/", state.tensors), state.log
    begun = FisherSum(sums, state.step, log["data"], torch.empty(0).long(), log["tiers"], log["loss"])
    moments = store.under("sketch/", state.tensors)
    return begun, type(sketch).from_file(moments, sketch.words()) if sketch else None


def _begun(sketch: Sketch | WordCounts | float, model: nn.Module, data: Any) -> Sketch | WordCounts:
    """Return an empty sketch for this data: of a given kind, or within so many megabytes."""
    if isinstance(sketch, Sketch):
        return sketch.subtract(sketch)
    if isinstance(sketch, WordCounts):
        return sketch.subtract(sketch)
    if (first := next(batches(data, 1, sys.maxsize), None)) is None:
        raise InputError("at least one sample", "none", "give the data that the model was trained on")
    x, classes = first[0], check_fit(model, Dataset(*first))
    span, kind = (data.value_range, data.kind) if isinstance(data, Dataset) else (None, PLAIN)
    if kind.vocabulary:
        return WordCounts.empty(classes, len(kind.vocabulary), x.shape[1], sketch)
    return Sketch.empty(x, classes, span, sketch, tuple(len(column.values) for column in kind.columns))


def _device(model: nn.Module) -> str:
    return str(next((p.device for p in model.parameters()), "cpu"))


def _without(whole: Tensor, part: Tensor) -> Tensor:
    """Return the samples of `whole` less those of `part`, which must all be there, as often as in it."""
    values, place = np.unique(np.concatenate([whole, part]), return_inverse=True)
    left = np.bincount(place[: len(whole)], minlength=len(values))
    left -= np.bincount(place[len(whole) :], minlength=len(values))
    if (left < 0).any():
        found = f"{-left[left < 0].sum():,} of {len(part):,} samples that are not in it"
        do = "subtract only what was remembered and is still there"
        raise InputError("a part of the memory's data", found, do)
    return torch.as_tensor(np.repeat(values, left))
