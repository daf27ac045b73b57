"""Checkpoints: a killed run goes on to the same bits, and never goes on as another run.

One file in the run's folder holds the state after some step, and the one before it is kept until
the next is whole. They are written by elapsed time, so that a large model does not spend its day
on writing. One process at a time works on a run.
"""

import contextlib
import platform
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from unsee import holding, store
from unsee.errors import HostileError, InputError, StoreError, UnseeWarning

_SHARE = 0.05


@dataclass(frozen=True, eq=False)
class State:
    """All that a run is after `step` steps; randomness is a function of the step and needs no saving."""

    step: int
    tensors: Mapping[str, Tensor]
    log: Mapping[str, Any]
    exact: bool = True
    last: bool = False
    """Whether the run had ended here: nothing of it is computed any more, whatever would end it today."""


@dataclass(eq=False)
class Checkpoints:
    """The states of one run in one folder. `identity` says which run: model, data, recipe, seed.

    A new state is due `seconds` after the last one, and never so often that writing takes more than
    a twentieth of the time.
    """

    folder: Path
    identity: Mapping[str, Any]
    seconds: float = 30.0
    device: str = "cpu"
    _last: float = field(default_factory=time.monotonic)
    _cost: float = 0.0
    _newest_is_whole: bool = False

    def alone(self) -> contextlib.AbstractContextManager[None]:
        """Hold the folder while the block runs; where another process does, refuse and say who."""
        return holding.alone(self.folder)

    @property
    def due(self) -> bool:
        """Whether enough time has gone by since the last state was written."""
        return time.monotonic() - self._last >= max(self.seconds, self._cost / _SHARE)

    def write(self, state: State, *, last: bool = False) -> None:
        """Put the state where `read` finds it, keeping the one before, unless this is the last."""
        start = time.monotonic()
        about = {
            "step": state.step,
            "log": state.log,
            "exact": state.exact,
            "last": last,
            "identity": self.identity,
            "environment": _environment(self.device),
        }
        newest, previous = self._paths()
        # A broken state must not take the place of the good one before it.
        if newest.exists() and self._newest_is_whole:
            store.rename(newest, previous)
        store.write_tensors(newest, state.tensors, about)
        self._newest_is_whole = True
        if last:
            previous.unlink(missing_ok=True)
        self._last = time.monotonic()
        # With no interval at all, as in tests, every step is written whatever it costs.
        self._cost = self._last - start if self.seconds else 0.0

    def read(self) -> State | None:
        """Return the newest whole state of this run, or None where there is none yet."""
        store.sweep(self._paths()[0])
        broken: list[StoreError | HostileError] = []
        state = None
        for path in self._paths():
            try:
                state = self._read(path) if path.exists() else None
            except (StoreError, HostileError) as error:
                broken.append(error)
            if state:
                self._newest_is_whole = path == self._paths()[0]
                break
        for error in broken:
            then = f"Going on from the state after step {state.step}." if state else "Beginning anew."
            warnings.warn(f"{error} {then}", UnseeWarning, stacklevel=2)
        return state

    def _read(self, path: Path) -> State:
        tensors, about = store.read_tensors(path)
        try:
            identity, environment = dict(about["identity"]), dict(about["environment"])
            last = bool(about.get("last"))
            state = State(int(about["step"]), tensors, dict(about["log"]), bool(about["exact"]), last)
        except (KeyError, TypeError, ValueError):
            raise StoreError(f"the state of a run at {path}", "something else", "remove that file") from None
        refuse_another_run(identity, self.identity, self.folder)
        exact = last or self._same_environment(environment)
        return state if exact else replace(state, exact=False)

    def _paths(self) -> tuple[Path, Path]:
        return self.folder / "checkpoint.safetensors", self.folder / "checkpoint.previous.safetensors"

    def _same_environment(self, found: Mapping[str, Any]) -> bool:
        here = _environment(self.device)
        changed = [
            f"{name} was {found.get(name)}, is {value}"
            for name, value in here.items()
            if ({"products": "highest"} | dict(found)).get(name) != value
        ]
        if changed:
            message = f"This run goes on, but not bit-exact: {'; '.join(changed)}."
            warnings.warn(message, UnseeWarning, stacklevel=4)
        return not changed


def refuse_another_run(found: Mapping[str, Any], given: Mapping[str, Any], folder: Path) -> None:
    """Refuse to go on in a folder with other inputs than it was begun with, naming the first that differs."""
    old, new = _flat(found), _flat(given)
    if "method" in new and old.get("method") != new["method"]:
        expected = f"a run that this version of unsee began in {folder}"
        raise InputError(expected, "one that another began", "choose another folder, or remove what is there")
    for name in [*old, *new]:
        if old.get(name) != new.get(name):
            expected = f"{_shown(name)} = {_shown(old.get(name))} to go on with the run in {folder}"
            do = "give the same again or choose another folder"
            raise InputError(expected, _shown(new.get(name)), do)


def _shown(value: Any) -> str:
    """Return a file's word for a message: not too long, and unable to steer a terminal."""
    text = str(value)[:200]
    return text if text.isprintable() else ascii(text)


def _environment(device: str) -> dict[str, Any]:
    """What the last bits of a float depend on."""
    return {
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "machine": f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}",
        "device": device,
        "products": torch.get_float32_matmul_precision(),
    }


def _flat(words: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in words.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat
