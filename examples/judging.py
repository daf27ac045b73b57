"""What the examples say at the end: four accuracies, the dependence on T, and where the report lies."""

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from torch import nn

from unsee import FourDatasets, evaluate, store
from unsee.evaluation import dependence
from unsee.forgetting import Forgotten
from unsee.formulation import pattern_of
from unsee.runs import report_run, write_run
from unsee.transforms import Transform


@dataclass
class Telling:
    """The parts of an example, told one after the other and kept in `folder`/result.json."""

    folder: Path
    command: str
    parts: dict[str, Any] = field(default_factory=dict)

    def say(self, text: str) -> None:
        """Print a sentence."""
        sys.stdout.write(f"{text}\n")

    def judge(
        self, name: str, pattern: str, four: FourDatasets, old: nn.Module, result: Forgotten, T: Transform
    ) -> None:
        """Judge a part: print accuracies and dependence, write its run and its report."""
        scores = evaluate(result.model, four, pattern, old=old)
        depends = {
            when: dependence(m, four.test.D_r, T) for when, m in (("before", old), ("after", result.model))
        }
        Console(highlight=False).print(scores.table())
        self.say(
            f"Answers on D_r that change when T is put on: {depends['before']:.1%} before, "
            f"{depends['after']:.1%} after. (T = {T.name})"
        )
        words = write_run(self.folder / name, result, scores)
        page = report_run(self.folder / name, old, result.model, four, pattern_of(pattern), with_images=True)
        self.say(f"Report: {page}\n")
        self.parts[name] = {
            "pattern": pattern,
            "T": T.name,
            "dependence": depends,
            **{
                key: words[key]
                for key in ("scores", "setting", "back_to", "inputs", "unsee", "torch", "threads")
            },
        }
        store.write_json(self.folder / "result.json", {"command": self.command, "parts": self.parts})

    def compare(self, name: str, model: nn.Module, four: FourDatasets, T: Transform) -> None:
        """Add what a model does that never saw T, to hold the dependence after against."""
        scores, depends = evaluate(model, four), dependence(model, four.test.D_r, T)
        self.say(f"It has {scores.to_dict()['sets']['D_r']['accuracy']:.3f} on D_r; T changes {depends:.1%}.")
        self.parts[name]["never saw T"] = {"dependence": depends, "scores": scores.to_dict()}
        store.write_json(self.folder / "result.json", {"command": self.command, "parts": self.parts})
