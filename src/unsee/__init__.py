"""Make a trained PyTorch classifier unsee what it should never have learnt.

A table of contents; each name is imported when it is first used, so that `unsee --help` needs no torch.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # of typing, which takes long to open, and of which nothing is needed to run
if TYPE_CHECKING:
    from typing import Any

    from unsee import networks, sources, transforms
    from unsee.datasets import Dataset
    from unsee.errors import UnseeError
    from unsee.evaluation import evaluate, evaluator
    from unsee.forgetting import Forgotten, forget
    from unsee.formulation import FourDatasets, FourSets, Request, Validation
    from unsee.memory import Memory, remember
    from unsee.recipe import Recipe
    from unsee.training import train
    from unsee.transforms import line, tile
    from unsee.tuning import tune

__version__ = "0.1.0"

__all__ = [
    # material
    "Dataset",
    "networks",
    "sources",
    "train",
    # formulation
    "transforms",
    "line",
    "tile",
    "FourDatasets",
    "FourSets",
    "Request",
    "Validation",
    # remembering
    "Memory",
    "remember",
    # forgetting
    "Recipe",
    "Forgotten",
    "forget",
    "tune",
    # judgement
    "evaluate",
    "evaluator",
    # everything that can go wrong
    "UnseeError",
]  # fmt: skip

_HOME = {
    "Dataset": "datasets",
    "train": "training",
    "line": "transforms",
    "tile": "transforms",
    "FourDatasets": "formulation",
    "FourSets": "formulation",
    "Request": "formulation",
    "Validation": "formulation",
    "Memory": "memory",
    "remember": "memory",
    "Recipe": "recipe",
    "Forgotten": "forgetting",
    "forget": "forgetting",
    "evaluate": "evaluation",
    "evaluator": "evaluation",
    "tune": "tuning",
    "UnseeError": "errors",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"unsee.{_HOME[name]}"), name)
    if name in __all__:
        return import_module(f"unsee.{name}")
    raise AttributeError(f"module 'unsee' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
