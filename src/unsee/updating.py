"""The update: R, momentum and weights in one pass over memory, block by block."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.optim.sgd import sgd

from unsee import terms
from unsee.errors import InputError
from unsee.terms import Room

# Numbers in a block. A step goes through seven arrays of them (those of Block, and room for two): 28 MB in
# single precision, which a server's cache holds. Smaller ones cost more in calls than they save.
BLOCK = 1 << 20


@dataclass(frozen=True, eq=False)
class Remembering:
    """R as the update takes it: theta_old and F(theta_old) tensor by tensor, how strong, and in which way."""

    theta_old: Sequence[Tensor]
    fisher: Sequence[Tensor]
    lambda_kl: float
    proximal: bool = False


class Block(NamedTuple):
    """A part of a parameter, or all of it, with what belongs to it; without a gradient R alone moves it."""

    theta: Tensor
    g: Tensor | None
    v: Tensor | None
    theta_old: Tensor
    fisher: Tensor


class Update:
    """SGD with momentum, and R, a block at a time: what R has read, the cache still has for the rest.

    g <- dL/dtheta + 2 lambda_KL F (theta - theta_old)   (R by its gradient)
    v <- momentum v + g
    theta <- theta - lr v
    theta <- (theta + a theta_old) / (1 + a), a = 2 lambda_KL lr / (1 - momentum) F   (R in closed form)
    """

    def __init__(self, theta: Sequence[Tensor], momentum: float, R: Remembering | None = None) -> None:
        self.theta, self.momentum, self.R = list(theta), momentum, R
        self.v: list[Tensor | None] = [None] * len(self.theta)
        self.rooms: dict[tuple[torch.dtype, torch.device], Room] = {}
        self.views: dict[tuple[torch.dtype, torch.device, torch.Size], Room] = {}
        shapes = [p.shape for p in self.theta]
        if R and not shapes == [old.shape for old in R.theta_old] == [f.shape for f in R.fisher]:
            raise InputError("theta_old and F in theta's shapes", "others", "give those of this model")

    @torch.no_grad()
    def __call__(self, lr: float) -> Tensor | None:
        """Make a step with the gradients there are and let go of them; return R, where it has a gradient.

        R is added up block by block: its last bits depend on them, those of theta do not.
        """
        if self.R is None:
            self._move(lr, [(p.detach(), *self._taken(i, p)) for i, p in enumerate(self.theta)])
            return None
        parts: list[Tensor] = []
        gathered: list[Block] = []
        size = 0
        for block in self._blocks(self.R):
            if size + block.theta.numel() > BLOCK:
                parts += self._step(self.R, lr, gathered)
                gathered, size = [], 0
            gathered.append(block)
            size += block.theta.numel()
        parts += self._step(self.R, lr, gathered)
        return torch.stack(parts).sum() if parts else None

    def _blocks(self, R: Remembering) -> Iterator[Block]:
        for i, p in enumerate(self.theta):
            if p.grad is None and not R.proximal:
                p.grad = torch.zeros_like(p)  # for R's own to be added to
            yield from _split(Block(p.detach(), *self._taken(i, p), R.theta_old[i], R.fisher[i]))

    def _step(self, R: Remembering, lr: float, blocks: list[Block]) -> list[Tensor]:
        """Make the step of some blocks and return their parts of R, where it has a gradient."""
        parts = []
        for theta, g, _, theta_old, fisher in blocks:
            if g is not None and not R.proximal:
                parts.append(terms.pull_(g, theta, theta_old, fisher, R.lambda_kl, self._room(theta)))
        self._move(lr, [block[:3] for block in blocks])
        if R.proximal:
            # Momentum repeats every step 1 / (1 - momentum) times.
            strength = 2 * R.lambda_kl * lr / (1 - self.momentum)
            for theta, _, _, theta_old, fisher in blocks:
                terms.proximal_(theta, theta_old, fisher, strength, self._room(theta))
        return parts

    def _move(self, lr: float, rows: list[tuple[Tensor, Tensor | None, Tensor | None]]) -> None:
        """Let momentum and weights take their step, where there is a gradient."""
        moving = [row for row in rows if row[1] is not None]
        if moving:
            theta, g, v = (list(column) for column in zip(*moving, strict=True))
            unused = {"weight_decay": 0.0, "dampening": 0.0, "nesterov": False, "maximize": False}
            sgd(theta, g, v, fused=True, lr=lr, momentum=self.momentum, **unused)

    def _taken(self, i: int, p: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Take a parameter's gradient away, as what follows needs the room; return it, and the momentum.

        Both in the parameter's own order in memory, as torch's SGD goes through all three alike.
        """
        g, p.grad = p.grad, None
        if g is not None and (g.is_sparse or g.stride() != p.stride()):
            g = torch.empty_like(p).copy_(g.to_dense())
        if g is not None and self.momentum and self.v[i] is None:
            self.v[i] = torch.zeros_like(p)
        return g, self.v[i]

    def _room(self, like: Tensor) -> Room:
        """Return room for two tensors like this one, the same room whatever it is for.

        Fresh room costs more than what is computed in it: the system hands it out page by page.
        """
        known = self.views.get((like.dtype, like.device, like.shape))
        if known:
            return known
        kind, n = (like.dtype, like.device), like.numel()
        if kind not in self.rooms or len(self.rooms[kind][0]) < n:
            most = max(n, min(BLOCK, max(p.numel() for p in self.theta)))
            self.rooms[kind] = like.new_empty(most), like.new_empty(most)
        first, second = self.rooms[kind]
        found = self.views[*kind, like.shape] = first[:n].view(like.shape), second[:n].view(like.shape)
        return found


class Mean:
    """theta_bar, the mean of theta over the way, in which each step counts more than the one before.

    theta_bar <- theta_bar + 4 / (step + 3) (theta - theta_bar), step = 1, 2, ...

    That is polynomial decay with eta = 3 (Shamir and Zhang 2013, arXiv 1212.1824): nobody need know the end.

    >>> theta = torch.nn.Parameter(torch.zeros(1))
    >>> mean = Mean([theta])
    >>> for step in (1, 2, 3):
    ...     _ = theta.data.fill_(step)
    ...     mean.add(step)
    >>> [round(bar.item(), 6) for bar in mean.bar]
    [2.6]
    """

    def __init__(self, theta: Sequence[Tensor]) -> None:
        self.theta = list(theta)
        self.bar = [p.detach().clone() for p in self.theta]

    @torch.no_grad()
    def add(self, step: int) -> None:
        """Let theta as it is after this step, the first being 1, count in the mean."""
        for bar, p in zip(self.bar, self.theta, strict=True):
            bar.lerp_(p.detach(), 4 / (step + 3))

    @torch.no_grad()
    def start_again(self) -> None:
        """Be what the model is now."""
        for bar, p in zip(self.bar, self.theta, strict=True):
            bar.copy_(p)

    def swap(self) -> None:
        """Let the model be the mean, and the mean keep what the model was; and the other way about."""
        for i, p in enumerate(self.theta):
            p.data, self.bar[i] = self.bar[i], p.data


def _split(whole: Block) -> Iterator[Block]:
    """Yield a parameter in blocks; whole, if it is small or something of it does not lie row by row."""
    if whole.theta.numel() <= BLOCK or not all(t.is_contiguous() for t in whole if t is not None):
        yield whole
        return
    n = -(-whole.theta.numel() // BLOCK)
    columns = ([None] * n if tensor is None else tensor.view(-1).split(BLOCK) for tensor in whole)
    yield from map(Block, *columns)
