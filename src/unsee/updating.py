"""The update: R, momentum and weights in one pass over memory, block by block."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.optim.sgd import sgd

from unsee import terms
from unsee.terms import Room

# Numbers in a block: few enough that what a step does with them finds them in the cache, many enough that
# calls are few (docs/speed.md).
BLOCK = 1 << 20


@dataclass(frozen=True, eq=False)
class Remembering:
    """R as the update takes it: theta_old and F(theta_old) tensor by tensor, how strong, and in which way."""

    theta_old: Sequence[Tensor]
    fisher: Sequence[Tensor]
    lambda_kl: float
    proximal: bool = False


class Update:
    """SGD with momentum, and R. Every number is brought from memory once a step.

    g <- dL/dtheta + 2 lambda_KL F (theta - theta_old)   (R by its gradient)
    v <- momentum v + g
    theta <- theta - lr v
    theta <- (theta + a theta_old) / (1 + a), a = 2 lambda_KL lr / (1 - momentum) F   (R in closed form)
    """

    def __init__(self, theta: Sequence[Tensor], momentum: float, R: Remembering | None = None) -> None:
        self.theta, self.momentum, self.R = list(theta), momentum, R
        self.v: list[Tensor | None] = [None] * len(self.theta)
        self.rooms: dict[tuple[torch.dtype, torch.device], Room] = {}

    @torch.no_grad()
    def __call__(self, lr: float) -> Tensor | None:
        """Make a step with the gradients there are and let go of them; return R, where it has a gradient."""
        parts: list[Tensor | None] = []
        for i, p in enumerate(self.theta):
            if p.grad is None and self.R is None:
                continue
            g = torch.zeros_like(p) if p.grad is None else p.grad.to_dense() if p.grad.is_sparse else p.grad
            v = self.v[i] = torch.zeros_like(p) if (v := self.v[i]) is None else v
            if self.R is None:
                self._move(lr, p, g, v)
            else:
                whole = (p.detach(), g, v, self.R.theta_old[i], self.R.fisher[i])
                parts += [self._remember(self.R, lr, *block) for block in _blocks(*whole)]
            p.grad = None  # at once: what follows needs room of its own
        found = [part for part in parts if part is not None]
        return torch.stack(found).sum() if found else None

    def _remember(
        self,
        R: Remembering,
        lr: float,
        theta: Tensor,
        g: Tensor,
        v: Tensor,
        theta_old: Tensor,
        fisher: Tensor,
    ) -> Tensor | None:
        """Make the step of a block and return its part of R, where R has a gradient."""
        room = self._room(theta)
        if not R.proximal:
            part = terms.pull_(g, theta, theta_old, fisher, R.lambda_kl, room)
            self._move(lr, theta, g, v)
            return part
        self._move(lr, theta, g, v)
        # Momentum repeats every step 1 / (1 - momentum) times.
        strength = 2 * R.lambda_kl * lr / (1 - self.momentum)
        terms.proximal_(theta, theta_old, fisher, strength, room)
        return None

    def _move(self, lr: float, theta: Tensor, g: Tensor, v: Tensor) -> None:
        unused = {"weight_decay": 0.0, "dampening": 0.0, "nesterov": False, "maximize": False}
        sgd([theta], [g], [v], fused=True, lr=lr, momentum=self.momentum, **unused)

    def _room(self, like: Tensor) -> Room:
        """Return room for two tensors like this one, the same room whatever it is for.

        Fresh room costs more than what is computed in it: the system hands it out page by page.
        """
        kind = like.dtype, like.device
        if kind not in self.rooms or len(self.rooms[kind][0]) < like.numel():
            n = max(like.numel(), min(BLOCK, max(p.numel() for p in self.theta)))
            self.rooms[kind] = like.new_empty(n), like.new_empty(n)
        first, second = self.rooms[kind]
        return first[: like.numel()].view(like.shape), second[: like.numel()].view(like.shape)


def _blocks(*tensors: Tensor) -> Iterable[tuple[Tensor, ...]]:
    """Return tensors of one shape a block at a time; whole, if small or if one does not lie row by row."""
    if tensors[0].numel() <= BLOCK or not all(tensor.is_contiguous() for tensor in tensors):
        return [tensors]
    return zip(*(tensor.view(-1).split(BLOCK) for tensor in tensors), strict=True)
