"""The one loss, at one step: L = lambda_c L_c + lambda_f L_f + lambda_h L_h + lambda_s L_s + lambda_KL R."""

from dataclasses import InitVar, dataclass, field

import torch
from torch import Tensor, nn

from unsee import firmness, networks, replay, terms
from unsee.answers import answers, as_input, logits, reading
from unsee.datasets import Dataset
from unsee.errors import InputError
from unsee.fisher import FisherSum, fisher_sum
from unsee.formulation import Request
from unsee.memory import Memory
from unsee.plan import Plan
from unsee.randomness import cycle, stream
from unsee.recipe import Recipe
from unsee.replay import Replay
from unsee.succession import goes_as_a_whole
from unsee.terms import Against
from unsee.transforms import Transform
from unsee.twins import Twins
from unsee.updating import Remembering

Parts = dict[str, Tensor]
Read = dict[str, list[Tensor | None]]
REMEMBERED = 1000  # stand-ins, where there is no memory
TWINS = {"bad": "clean", "replay": "replay", "T(replay)": "replay"}  # what layers are to read as what


@dataclass(eq=False)
class Loss:
    """The gradient of all terms but R at a step, which is a function of theta and the step's number.

    `model` is theta, `old` theta_old; `memory` is of D_r where the recipe wants it so, and is not kept.
    """

    model: nn.Module
    old: nn.Module
    request: Request
    recipe: Recipe
    plan: Plan
    memory: InitVar[Memory | None]
    twins: Twins | None
    replay: Replay | None
    classes: int
    seed: int
    own: terms.Term | None = None
    theta: list[Tensor] = field(init=False)
    R: Remembering | None = field(init=False, default=None)
    eta: nn.Module | None = field(init=False, default=None)
    eased: bool = field(init=False, default=False)
    """Whether T may change what layers read, and only the answers count, with T twice (decision 37)."""

    def __post_init__(self, memory: Memory | None) -> None:
        named = {name: p for name, p in self.model.named_parameters() if p.requires_grad}
        self.theta = list(named.values())
        before = dict(self.old.named_parameters())
        theta_old = [before[name].detach() for name in named]
        self.L_f, self.against = self._term() if self.own is None else (self.own, Against.OLD)
        if self.against is Against.RANDOM_NETWORK:
            self.eta = networks.fresh(self.model, self.seed).eval().to(self.theta[0])
        classes = self.request.D_f.y.unique()
        # In C, labels other than D_f's own would fight the arrow on D_f (docs/decisions/0005).
        all_labels = self.recipe.labels == "all" or (self._falls_back() and self.request.pattern.name == "C")
        own = [] if all_labels else classes.tolist()
        self.gone = classes.to(self.theta[0].device) if goes_as_a_whole(self.request, memory) else None
        others = [label for label in range(self.classes) if label not in own]
        self.labels = others or list(range(self.classes))
        self.length = float(nn.utils.get_total_norm(theta_old))
        self.hidden = bool(self.recipe.lambda_h and self.twins)
        self.breadth = self.request.breadth(self.classes)
        self.lambda_h = self.recipe.lambda_h * firmness.of_layers(self.plan, self.breadth)
        self.lambda_c, self.level = self._balance(memory)
        self.remembered = memory.level() if memory else None
        self.R = self._remembering(memory, theta_old, list(named))

    @property
    def T(self) -> Transform | None:
        """T as far as it is known: given, or fitted to the twins."""
        return self.twins.T if self.twins else self.request.T

    def __call__(self, step: int) -> dict[str, Tensor]:
        """Put the gradients of all but R into theta and return the losses, unweighted, by their names."""
        losses, total = self._losses(step)
        total.backward()
        if self.recipe.stride is not None:
            nn.utils.clip_grad_norm_(self.theta, self.recipe.stride * self.length / self.plan.lr)
        if self.recipe.settle is not None:
            losses["L"] = total
        return {name: loss.detach() for name, loss in losses.items()}

    def ease(self) -> None:
        """Let go of what layers read under T: T may leave too little of a sample for them."""
        self.eased = True

    def _losses(self, step: int) -> tuple[dict[str, Tensor], Tensor]:
        """Return the losses on this step's samples, each by its name, and their weighted sum."""
        x, labels = self.samples(step)
        self.model.eval()  # whatever an evaluator has left behind
        # One pass for all: fewer small matrix products, and BatchNorm is frozen anyway.
        y, read = self._answered(self.model, x)
        y_old, read_old = self._old_answers(x)
        recipe, found = self.recipe, {}
        if "replay" in x:
            wanted = self.wanted(y_old["replay"], labels.get("replay"))
            # Once eased, T counts twice.
            names = ("replay", "T(replay)", "T(replay)") if self.eased else ("replay", "T(replay)")
            parts = [terms.distil(y[name], wanted) for name in names if name in y]
            found["L_s"] = recipe.lambda_s * len(parts), torch.stack(parts).mean()
        if "clean" in x and self.lambda_c:
            rest = found["L_s"][1] if "L_s" in found else torch.zeros(())
            found["L_c"] = self.lambda_c, self._correction(y, labels["clean"], float(rest.detach()))
        if "bad" in x and recipe.lambda_f and recipe.forgetting != "none":
            found["L_f"] = recipe.lambda_f, self._forgetting(x["bad"], y, y_old, labels["bad"], step)
        if self.hidden and (parts := self._hidden(read, read_old)):
            found["L_h"] = self.lambda_h * len(parts), torch.stack(parts).mean()
        total = torch.stack([weight * loss for weight, loss in found.values()]).sum()
        return {name: loss for name, (_, loss) in found.items()}, total

    def _correction(self, y: Parts, labels: Tensor, rest: float) -> Tensor:
        """Return L_c; balanced, it asks that D_f,clean be answered as well as the rest is now, not better.

        How well that is: the memory's mean loss of D_r, and what the replayed samples have lost since.
        """
        L_c = terms.correction(y["clean"], labels)
        if self.recipe.balance == "none":
            return L_c
        L_c = terms.above(L_c, self.level + rest)
        return L_c + terms.above(terms.correction(y["bad"], labels), self.level + rest) if self.twins else L_c

    def _hidden(self, read: Read, read_old: Read) -> list[Tensor]:
        """Return L_h of D_f, and of replayed samples with T and without, as far as layers can be compared.

        The first layer reads the sample itself, which no weight can change. A phrase moves the words after
        it: of texts, only layers that read them whole are compared.
        """
        words = bool(self.request.D_f.kind.vocabulary)
        parts = []
        twins = {"replay": "replay"} if self.eased else TWINS
        for name, twin in twins.items():
            pairs = [
                (h, h_old)
                for h, h_old in zip(read.get(name, ()), read_old[twin] if name in read else (), strict=True)
                if h is not None and h_old is not None and h.requires_grad and not (words and h.ndim > 2)
            ]
            parts += [terms.hidden(*zip(*pairs, strict=True))] if pairs else []
        return parts

    def samples(self, step: int) -> tuple[Parts, Parts]:
        """Return the step's samples as the model takes them, and their labels, by the part they play."""
        drawn: dict[str, tuple[Tensor, Tensor | None]] = {}
        if self.twins:
            rows = torch.as_tensor(cycle(self.seed, "twins", len(self.twins), *self.plan.span(step)))
            drawn["clean"] = self.twins.D_f_clean.x[rows], self.twins.D_f_clean.y[rows]
            drawn["bad"] = self.twins.D_f.x[rows], self.twins.D_f.y[rows]
        else:
            if self.request.D_f_clean is not None and self.recipe.lambda_c:
                drawn["clean"] = self._drawn("D_f_clean", self.request.D_f_clean, step)
            if self.recipe.forgetting != "none" and self.recipe.lambda_f > 0:
                drawn["bad"] = self._drawn("D_f", self.request.D_f, step)
        if self.replay:
            n = self.plan.span(step)[1]
            x, labels = self.replay.draw(n, stream(self.seed, "replay", step))
            drawn["replay"] = x, labels
            if self.T:
                drawn["T(replay)"] = self.T.pixels(x.clone()), None
        device = self.theta[0].device
        x = {name: as_input(part, self.model) for name, (part, _) in drawn.items()}
        return x, {name: y.to(device) for name, (_, y) in drawn.items() if y is not None}

    def _drawn(self, name: str, data: Dataset, step: int) -> tuple[Tensor, Tensor]:
        """Draw from a set by a stream of its own: D_f and D_f,clean may be of different lengths."""
        rows = torch.as_tensor(cycle(self.seed, name, len(data), *self.plan.span(step)))
        return data.x[rows], data.y[rows]

    @torch.no_grad()
    def _old_answers(self, x: Parts) -> tuple[Parts, Read]:
        """Return what the old model answers and reads, of the parts that some term compares with."""
        compared = self.hidden and not self.eased
        wanted = {"replay", "clean"} if compared or self.against is Against.OLD_TWINS else {"replay"}
        if self.against is Against.OLD:
            wanted.add("bad")
        used = {name: part for name, part in x.items() if name in wanted}
        if not used:
            return {}, {}
        return self._answered(self.old, used)

    def _answered(self, model: nn.Module, x: Parts) -> tuple[Parts, Read]:
        """Return a model's answers by part, and what its layers read, where some term looks at that."""
        whole, sizes = torch.cat(list(x.values())), [len(part) for part in x.values()]
        if not self.hidden:
            return dict(zip(x, model(whole).split(sizes), strict=True)), {}
        y, read = reading(model, whole)
        # What a layer reads of all samples at once, as where time comes first, is no sample's own.
        rows = [h.split(sizes) if len(h) == len(whole) else [None] * len(sizes) for h in read]
        by_part = {name: [parts[i] for parts in rows] for i, name in enumerate(x)}
        return dict(zip(x, y.split(sizes), strict=True)), by_part

    def _term(self) -> tuple[terms.Term, Against]:
        """Return the recipe's L_f; RLD, where it needs twins and there are none, or where none is wanted."""
        name = self.recipe.forgetting
        return terms.TERMS["rld" if name == "none" or self._falls_back() else name]

    def _falls_back(self) -> bool:
        return self.recipe.forgetting in terms.PAIRED and not self.twins

    def _forgetting(self, x: Tensor, y: Parts, y_old: Parts, labels: Tensor, step: int) -> Tensor:
        """Return L_f, of the answers to D_f and what the term sets against them."""
        match self.against:
            case Against.OLD:
                against = y_old["bad"]
            case Against.OLD_TWINS:
                against = y_old["clean"]
            case Against.TWINS:
                against = y["clean"]
            case Against.RANDOM_LABELS:
                against = terms.random_labels(len(x), self.labels, stream(self.seed, "rld", step)).to(
                    x.device
                )
            case Against.RANDOM_NETWORK:
                assert self.eta is not None
                with torch.no_grad():
                    against = self.eta(x)
            case Against.NOTHING:
                against = labels
        return _scalar(self.L_f(y["bad"], against, labels))

    def wanted(self, y_old: Tensor, labels: Tensor | None) -> Tensor:
        """Return how replayed samples are to be answered; of a class that is to be forgotten, not at all."""
        worn = self.replay.worn if self.replay else None
        wanted = replay.targets(y_old, labels, self.recipe.trust, worn.classes if worn else None)
        return wanted if self.gone is None else wanted.index_fill(1, self.gone, -1e4)

    def _remembering(
        self, memory: Memory | None, theta_old: list[Tensor], names: list[str]
    ) -> Remembering | None:
        """Return R by the memory; where there is none and theta is averaged, by stand-ins (decision 33)."""
        kept: Memory | FisherSum | None = memory
        lambda_kl, proximal = self.recipe.lambda_kl, self.recipe.remembering == "proximal"
        if memory is None and self.replay and self.plan.average and lambda_kl:
            kept = self._fisher_of(self.replay)
        if not (kept and kept.sums and lambda_kl):
            return None
        # One by one: the memory's own are twice as large as these.
        fisher = [(kept.sums[name] / kept.n).to(p) for name, p in zip(names, self.theta, strict=True)]
        if memory is None:
            lambda_kl *= firmness.LOOSE
        elif proximal:  # the paper's penalty counts lambda_KL times, as it is given
            lambda_kl *= firmness.of_R(self.plan, self.breadth, fisher)
        return Remembering(theta_old, fisher, lambda_kl, proximal)

    def _fisher_of(self, replay: Replay) -> FisherSum:
        """Return F over replayed samples, their labels drawn from the answers that are wanted of them.

        With it R is L_s around theta_old to second order (Martens 2020, arXiv 1412.1193, section 9), as far
        as a diagonal can be, of a thousand samples at once, where a step draws a few.
        """
        generator = stream(self.seed, "stand-ins' Fisher")
        x, _ = replay.draw(REMEMBERED, generator)
        drawn = self.request.D_f.with_(x=x, y=torch.zeros(len(x), dtype=torch.long))
        y_old = logits(self.old, drawn).to(self.theta[0].device)
        p = self.wanted(y_old, None).double().softmax(1).cpu()
        u = torch.as_tensor(generator.random((len(x), 1)))
        return fisher_sum(self.old, drawn.with_(y=(p.cumsum(1) < u).sum(1).clamp_max(self.classes - 1)))

    def _balance(self, memory: Memory | None) -> tuple[float, float]:
        """Return the weight of L_c and the level below which it has nothing to gain.

        That level is the mean loss of D_r where a sketch holds D_r in its place. Stand-ins hold it less
        firmly, and the level is then how unsure the old model is of D_f,clean itself, its mean entropy.
        """
        recipe, clean = self.recipe, self.request.D_f_clean
        if recipe.balance == "none" or clean is None:
            return recipe.lambda_c, 0.0
        stand_ins = self.replay is not None and self.replay.sketch is None
        level = memory.level() if memory and memory.sketch and not stand_ins else None
        share = len(self.request.corrected) / self.classes
        if level is None:
            level = float(torch.special.entr(answers(self.old, clean)).sum(1).mean())
        return recipe.lambda_c * share, level


def _scalar(loss: Tensor) -> Tensor:
    if not isinstance(loss, Tensor) or loss.numel() != 1:
        found = f"shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else type(loss).__name__
        raise InputError("one number from L_f, as a tensor", found, "take the mean over the samples")
    if not loss.requires_grad:
        raise InputError("L_f of the new answers", "a number without a gradient", "compute it of them")
    return loss.reshape(())
