"""Going on: asked to stop, asked twice at once, asked with something else than before."""

import os
import random
import re
import shutil
import signal
import socket
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from torture.children import Counter, ended, forked, started
from torture.ordeal import Attempt, refusal
from torture.small import RECIPES_HERE, Small, small
from unsee import checkpoint, networks
from unsee.command_line.telling import stopping
from unsee.errors import InputError, Interrupted, StoreError, UnseeWarning
from unsee.forgetting import forget
from unsee.formulation import Request, Validation
from unsee.memory import remember
from unsee.recipe import Recipe
from unsee.transforms import line


def signalled(folder: Path) -> Attempt:
    """Ask a run to stop by SIGTERM or SIGINT, as a terminal or a cluster does."""
    here = small()
    whole = networks.identity(here.forget(0).model)

    def attempt(number: int) -> dict[str, float]:
        place, begun = folder / str(number), Counter()

        def work() -> None:
            with stopping() as stop:

                def slowly() -> bool:
                    begun.value = 1
                    time.sleep(0.02)
                    return stop()

                try:
                    here.forget(0, folder=place, stop=slowly)
                except Interrupted as error:
                    os._exit(error.exit_code)

        child = forked(work)
        while not begun.value:
            time.sleep(0.002)
        time.sleep(random.Random(number).uniform(0, 0.2))
        start = time.monotonic()
        os.kill(child, (signal.SIGTERM, signal.SIGINT)[number % 2])
        code, seconds = ended(child), time.monotonic() - start
        assert code == 130, f"exit code {code}"
        assert seconds <= 5, f"{seconds} seconds"
        again = here.forget(0, folder=place)
        assert networks.identity(again.model) == whole, "other bits"
        assert again.exact
        shutil.rmtree(place)
        return {"seconds to its end": seconds}

    return attempt


def two_at_once(folder: Path) -> Attempt:
    """Let two processes begin one run at the same time."""
    here = small()
    expected = networks.identity(here.forget(0).model)

    def attempt(number: int) -> None:
        place, ready, told = folder / str(number), Counter(), Counter()

        def wait() -> bool:
            """Go on as soon as the other one was told: nobody is to have ended before both have begun."""
            end = time.monotonic() + 30
            while not told.value and time.monotonic() < end:
                time.sleep(0.002)
            return False

        def run() -> str:
            while not ready.value:
                time.sleep(0.0005)
            try:
                return networks.identity(here.forget(0, folder=place, stop=wait).model)
            except StoreError:
                told.value = 1
                raise

        children = [started(run) for _ in range(2)]
        ready.value = 1
        answers = [child.answer() for child in children]
        (winner,) = [c.pid for c, answer in zip(children, answers, strict=True) if answer.value == expected]
        (loser,) = [answer for answer in answers if answer.error == "StoreError"]
        said = rf"process {winner} on {re.escape(socket.gethostname())} since \d{{4}}-\d\d-\d\dT"
        assert re.search(said, loser.text), loser.text
        shutil.rmtree(place)

    return attempt


Change = Callable[[Small], dict[str, Any]]


def _changed_recipe(**words: Any) -> Change:
    return lambda _: {"recipe": replace(RECIPES_HERE[1], **words)}


def _relabelled(here: Small) -> Request:
    r = here.four.request("B")
    classes = ("shirt", *r.D_f.classes[1:])
    return Request("B", r.D_f.with_(classes=classes), r.D_f_clean.with_(classes=classes), r.T)


def _moved(here: Small) -> dict[str, Any]:
    model = networks.fresh(here.model, 5)
    return {"model": model, "memory": remember(model, here.four.pretraining, sketch=2)}


def _cut(here: Small, **parts: Any) -> Request:
    r = here.four.request("B")
    return replace(r, **{name: getattr(r, name).subset(rows) for name, rows in parts.items()})


# Each by the field that must be named.
OTHERS: dict[str, Change] = {
    "model": _moved,
    "pattern": lambda h: {"request": h.four.request("C")},
    "D_f": lambda h: {"request": _cut(h, D_f=range(30))},
    "D_f ": lambda h: {"request": _cut(h, D_f=range(39, -1, -1))},
    "D_f_clean": lambda h: {"request": _cut(h, D_f_clean=range(39, -1, -1))},
    "classes": lambda h: {"request": _relabelled(h)},
    "T": lambda h: {"request": replace(h.four.request("B"), T=line())},
    "T ": lambda h: {"request": replace(h.four.request("B"), T=None)},
    "memory": lambda h: {"memory": h.plain},
    "memory ": lambda _: {"memory": None},
    "D_r_val": lambda h: {"validation": Validation(h.four.validation.D_r.subset(range(30)))},
    "seed": lambda _: {"seed": 1},
    "recipe.name": _changed_recipe(name="another"),
    "recipe.forgetting": _changed_recipe(forgetting="twin"),
    "recipe.lambda_c": _changed_recipe(lambda_c=2.0),
    "recipe.lambda_f": _changed_recipe(lambda_f=2.0),
    "recipe.lambda_kl": _changed_recipe(lambda_kl=2.0),
    "recipe.lr": _changed_recipe(lr=1e-4),
    "recipe.momentum": _changed_recipe(momentum=0.5),
    "recipe.batch_size": _changed_recipe(batch_size=7),
    "recipe.epochs": _changed_recipe(epochs=9),
    "recipe.labels": _changed_recipe(labels="all"),
    "recipe.fisher_over": _changed_recipe(fisher_over="D"),
    "recipe.remembering": _changed_recipe(remembering="penalty"),
    "recipe.lambda_h": _changed_recipe(lambda_h=1.0),
    "recipe.lambda_s": _changed_recipe(lambda_s=2.0),
    "recipe.trust": _changed_recipe(trust=0.5),
    "recipe.balance": _changed_recipe(balance="none"),
    "recipe.stride": _changed_recipe(stride=0.5),
    "recipe.settle": _changed_recipe(settle=0.5),
    "recipe.average": _changed_recipe(average=False),
    "recipe.floor": _changed_recipe(floor=0.5),
}


def _begun(here: Small, place: Path) -> None:
    asked = iter([False, True])
    try:
        here.forget(1, folder=place, stop=lambda: next(asked))
    except Interrupted:
        return
    raise AssertionError("it had ended before it was stopped")


def something_else(folder: Path) -> Attempt:
    """Go on with another model, other data, another recipe, another seed."""
    here = small()
    _begun(here, folder / "run")

    def attempt(number: int) -> None:
        field = list(OTHERS)[number]
        given: dict[str, Any] = {
            "model": here.model,
            "request": here.four.request("B"),
            "memory": here.sketched,
            "recipe": RECIPES_HERE[1],
            "validation": here.four.validation,
        }
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            given |= OTHERS[field](here)
            said = refusal(InputError, lambda: forget(**given, folder=folder / "run"))
        assert said.startswith(f"Expected {field.strip()} = "), said
        assert " to go on with the run in " in said, said

    return attempt


ELSEWHERE = {
    "threads": (2, 4, 8, 64),
    "torch": ("2.10.0", "2.13.1+cpu", "3.0.0"),
    "machine": ("aarch64 DEFAULT", "x86_64 DEFAULT"),
    "device": ("cuda:0", "mps"),
}
PLACES = [(word, value) for word, values in ELSEWHERE.items() for value in values]


def elsewhere(folder: Path) -> Attempt:
    """Go on with what was begun with other threads, another torch, on another machine or device."""
    here = small()
    real = checkpoint._environment

    def attempt(number: int) -> None:
        word, value = PLACES[number % len(PLACES)]
        place = folder / str(number)
        checkpoint._environment = lambda device: real(device) | {word: value}
        try:
            _begun(here, place)
        finally:
            checkpoint._environment = real
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            again = here.forget(1, folder=place)
        assert not again.exact, "no mark"
        said = [str(one.message) for one in caught if issubclass(one.category, UnseeWarning)]
        assert any(f"not bit-exact: {word} was {value}, is " in text for text in said), f"{said}"
        assert all(bool(torch.isfinite(p).all()) for p in again.model.parameters())
        shutil.rmtree(place)

    return attempt


assert set(OTHERS) >= {f"recipe.{name}" for name in Recipe.__dataclass_fields__}, (
    "a field that nobody changes"
)
