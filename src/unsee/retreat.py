"""The last good state of a descent, and the way back to it, no farther than the floor asks for."""

import copy
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from unsee.resting import Resting

WAY, BACK_TO, TOO_FAR = "of the way", "back to", "went too far to"  # in a row: what is kept, and why
SHARES = (0.95, 0.9, 0.85, 0.8, 0.7, 0.6, 0.5)  # with less of the way, too little is forgotten


class LastGood:
    """A state of a model, and after which step it was so; with a place, it rests there, on the disk."""

    def __init__(self, place: Path | None = None) -> None:
        self.place, self.step = place, 0
        self.kept: dict[str, Tensor] | Resting = {}

    def keep(self, state: Mapping[str, Tensor], step: int) -> None:
        """Keep this state, in the room of the one before: there may not be more."""
        self.step = step
        if self.place:
            self.kept = Resting(state, self.place)
        elif isinstance(self.kept, dict) and self.kept:
            for name, value in self.kept.items():
                value.copy_(state[name])
        else:
            self.kept = copy.deepcopy(dict(state))

    def state(self) -> dict[str, Tensor]:
        """Return the state."""
        return self.kept if isinstance(self.kept, dict) else self.kept.back()


@torch.no_grad()
def retreat(model: nn.Module, good: Mapping[str, Tensor], holds: Callable[[], bool]) -> float | None:
    """Go back towards the last good state until the floor is held; return the share of the way that is kept.

    theta <- theta_good + share (theta - theta_good),  share = 0.95, 0.9, ..., 0.5

    Weights between those of before and those of after lose less of what was known than of what was learnt
    (Wortsman et al. 2022, arXiv 2109.01903; docs/decisions/0038). Where even half of the way is too far, the
    model is the last good state, and the share None.
    """
    before = 1.0
    for share in SHARES:
        for name, p in model.named_parameters():
            if p.requires_grad:
                p.lerp_(good[name].to(p), 1 - share / before)
        before = share
        if holds():
            return share
    model.load_state_dict(good)
    return None
