"""A run's folder: the model, one JSON file that says what was run and what came out, and the report."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from unsee import __version__, networks, store
from unsee.errors import UnseeError
from unsee.forgetting import Forgotten
from unsee.formulation import FourDatasets, Pattern
from unsee.origin import Origin
from unsee.report.facts import Facts, facts_of
from unsee.report.page import write_report
from unsee.scores import Scores


def write_run(
    folder: Path | str, result: Forgotten, scores: Scores | None, *, origin: Origin | None = None
) -> dict[str, Any]:
    """Write `model.safetensors`, `memory-after.safetensors` and `run.json`; return what the latter says."""
    write_model(folder, result)
    return write_words(folder, result, scores, origin=origin)


def write_model(folder: Path | str, result: Forgotten) -> None:
    """Write the new model, and the memory to forget again with, if there is one."""
    networks.save(result.model, Path(folder) / "model.safetensors")
    write_memory(folder, result)


def write_memory(folder: Path | str, result: Forgotten) -> None:
    """Write the memory as it holds for the new model, to forget again with, if there is one."""
    if result.memory:
        result.memory.save(Path(folder) / "memory-after.safetensors")


def write_words(
    folder: Path | str,
    result: Forgotten,
    scores: Scores | None,
    *,
    case: dict[str, Any] | None = None,
    warnings: Sequence[str] = (),
    origin: Origin | None = None,
) -> dict[str, Any]:
    """Write `run.json` alone, where the model was saved before it was judged.

    `case` is what was read, with hashes; `warnings` are the sentences that came along; `origin` says where
    the old model, T and the data are, to try both models again.
    """
    words = {
        "unsee": __version__,
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "products": torch.get_float32_matmul_precision(),
        "bit_exact": result.exact,
        "inputs": result.identity,
        "setting": dict(result.setting),
        "back_to": result.back_to,
        "lineage": [generation.to_dict() for generation in result.lineage],
        "model": networks.identity(result.model),
        "trajectory": list(result.trajectory),
        "scores": scores.to_dict() if scores else None,
        **({"case": case} if case else {}),
        **({"warnings": list(warnings)} if warnings else {}),
        **({"origin": origin.to_dict()} if origin else {}),
    }
    store.write_json(Path(folder) / "run.json", words)
    return words


def report_run(
    folder: Path | str,
    old: nn.Module,
    new: nn.Module,
    four: FourDatasets,
    pattern: Pattern | None,
    *,
    with_images: bool = False,
) -> Path:
    """Gather what a report shows while both models are at hand, and write it beside `run.json`.

    Images that were asked for once stay: the same command without that word must not take them away.
    """
    folder = Path(folder)
    facts = facts_of(old, new, four, pattern, with_images=with_images or _illustrated(folder))
    store.write_json(folder / "facts.json", facts.to_dict())
    write_report([folder], folder / "report.html")
    return folder / "report.html"


def _illustrated(folder: Path) -> bool:
    """Say whether the folder's report has images already."""
    file = folder / "facts.json"
    try:
        facts = Facts.from_dict(store.read_json(file)) if file.exists() else None
    except UnseeError:  # of another version, or spoilt: it is about to be replaced
        facts = None
    return facts is not None and any(view.picture for example in facts.examples for view in example.views)
