"""The setting of a result: what forgetting leaned on, what it is weaker for, and what it took."""

from typing import Any

from unsee.balance import shifts
from unsee.descent import Descent
from unsee.floor import Floor, retreat_of
from unsee.loss import Loss
from unsee.memory import Memory


def leaned_on(memory: Memory | None) -> str:
    """Name what the memory holds."""
    return "none" if memory is None else "Fisher and sketch" if memory.sketch else "Fisher"


def setting_of(by: str, loss: Loss, floor: Floor, done: Descent, unknown: int = 0) -> dict[str, Any]:
    """Return what a result says of how it came about; `unknown` samples of D_f the memory does not hold."""
    replay, T = loss.replay, loss.T
    last = done.rows[-1] if done.back_to is None else {}
    return {
        "memory": by,
        "twins": loss.twins is not None,
        "T": T.name if T else None,
        "replayed": replay.source if replay else None,
        # Replayed samples with T on are a surrogate of D_r,extra, which the paper's setting does not have.
        "within the paper's setting": not (replay and T),
        "floor": {"of": floor.name, "least": floor.least} if floor.utility else None,
        # After this epoch T was to change no answer, twice as firmly, and no longer what layers read.
        "eased": done.eased,
        # By so much the logits of D_f,clean's classes were lifted in the end (unsee.balance).
        "shift": shifts(last, loss.request.D_f.classes),
        # So much of the way from the end of this epoch is kept: farther on, the floor was not held.
        "retreat": {"of the way": retreat[0], "from": retreat[1]} if (retreat := retreat_of(last)) else None,
        "weaker": "; ".join(_weaker(by, loss, unknown)) or None,
        # What the recipe came to for this much of D_f (unsee.plan).
        "plan": {
            "lr": loss.plan.lr,
            "batch_size": loss.plan.batch_size,
            "steps_per_epoch": loss.plan.steps_per_epoch,
            "lambda_kl": loss.R.lambda_kl if loss.R else 0.0,
            "lambda_h": loss.lambda_h if loss.hidden else 0.0,
            "average": loss.plan.average,
        },
        # In the descent: of D_f, of D_f,clean, and those replayed, with T and without.
        "samples passed": done.rows[-1]["epoch"] * loss.plan.n * len(loss.samples(0)[0]),
    }


def _weaker(by: str, loss: Loss, unknown: int) -> list[str]:
    """Say what the result is weaker for, by what it could not lean on."""
    said, replay = [], loss.replay
    if by == "none":
        holds = "stand-ins made of what is at hand hold" if replay else "nothing holds"
        said += [f"without a memory {holds} D_r in its place (a memory is taken by `remember`)"]
    if unknown:
        why = "never trained on, forgotten before, or there under other labels"
        said += [f"{unknown:,} samples of D_f are not in the memory: {why}"]
    if by == "Fisher and sketch" and replay and replay.source == "stand-ins":
        said += [
            "the old model does not know the sketch's samples for what they are: stand-ins took their place"
        ]
    if by != "Fisher and sketch" and loss.gone is not None and replay:
        said += ["D_f is taken for all of its class, as only a sketch would know of more"]
    return said
