"""Every kind of model that a numerical function has to get right: small, and built the same each time.

`case(name)` gives a float32 model and its data. What a case is named after is in it; most have a
Linear layer at the end for their logits.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from unsee.datasets import Dataset
from unsee.randomness import seeded, stream

CLASSES = 3
TOKENS = 11
Case = tuple[nn.Module, Dataset]


def numbers(*shape: int, n: int = 70) -> Dataset:
    random = stream(0, "numbers")
    x = torch.from_numpy(random.standard_normal((n, *shape))).float()
    return Dataset(x, random.integers(0, CLASSES, n), ("a", "b", "c"))


def tokens(length: int, n: int = 70) -> Dataset:
    random = stream(0, "tokens")
    ids = torch.from_numpy(random.integers(0, TOKENS, (n, length)))
    return Dataset(ids, random.integers(0, CLASSES, n), ("a", "b", "c"))


class Mean(nn.Module):
    """The mean over the second axis."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean(1)


class Pooled(nn.Sequential):
    """Layers that keep the number of channels c, the mean over all positions, and logits."""

    def __init__(self, c: int, *layers: nn.Module) -> None:
        super().__init__(*layers, nn.ReLU(), nn.Flatten(2), nn.AdaptiveAvgPool1d(1), nn.Flatten(), head(c))


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.RNNBase]) -> None:
        super().__init__()
        self.rnn, self.head = kind(4, 5, batch_first=True), head(5)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.rnn(x)[0][:, -1])


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention, self.head = nn.MultiheadAttention(8, 2, batch_first=True), head(8)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.attention(x, x, x)[0].mean(1))


class Einsum(nn.Module):
    """A parameter that belongs to no layer."""

    def __init__(self) -> None:
        super().__init__()
        self.core, self.head = nn.Parameter(torch.randn(4, 4, 5)), head(5)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.einsum("ni,ijk,nj->nk", x, self.core, x))


class ViT(nn.Module):
    """Patches, a cls token and learnt positions."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Conv2d(1, 8, 4, 4)
        self.cls, self.pos = nn.Parameter(torch.randn(1, 1, 8)), nn.Parameter(torch.randn(1, 5, 8))
        self.block = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True)
        self.head = head(8)

    def forward(self, x: Tensor) -> Tensor:
        patches = self.patch(x).flatten(2).mT
        x = torch.cat([self.cls.expand(len(x), -1, -1), patches], 1) + self.pos
        return self.head(self.block(x)[:, 0])


class Twice(nn.Module):
    """One layer, used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = nn.Linear(6, 6), head(6)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layer(torch.tanh(self.layer(x))))


class Tied(nn.Module):
    """An embedding whose weight comes again through F.linear, past any layer's own forward."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(TOKENS, 6), head(TOKENS)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(F.linear(torch.tanh(self.embedding(x).mean(1)), self.embedding.weight))


class TiedLater(nn.Module):
    """A weight that only samples with a large second number use again: not the first three."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = nn.Linear(6, 6), head(6)

    def forward(self, x: Tensor) -> Tensor:
        h, large = torch.tanh(self.layer(x)), x[:, 1] > 0.8
        return self.head(torch.where(large[:, None], F.linear(h, self.layer.weight), h) if large.any() else h)


class InPlace(nn.Module):
    """Work in place: on the input, and on what layers gave."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), head(4)

    def forward(self, x: Tensor) -> Tensor:
        x.mul_(0.5).add_(0.1)
        h = F.relu(self.norm(self.conv(x).add_(1)), inplace=True) * 2
        h += 0.5
        return self.head(h.mean((2, 3)))


class Branching(nn.Module):
    """Each sample takes its own way."""

    def __init__(self) -> None:
        super().__init__()
        self.low, self.high, self.head = nn.Linear(6, 6), nn.Linear(6, 6), head(6)

    def forward(self, x: Tensor) -> Tensor:
        rows = [self.high(row) if row.sum().item() > 0 else self.low(row) for row in x]
        return self.head(torch.tanh(torch.stack(rows)))


class Routed(nn.Module):
    """A layer that sees some of the samples: by chance all of the first three, and none at times."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.expert, self.head = nn.Linear(6, 6), nn.Linear(6, 6), head(6)

    def forward(self, x: Tensor) -> Tensor:
        chosen = x[:, 1] < 0.4
        h = torch.tanh(self.layer(x))
        if not chosen.any():
            return self.head(h)
        return self.head(h.index_put((chosen.nonzero().flatten(),), self.expert(h[chosen])))


class TimeFirst(nn.Module):
    """Layers see (time, sample, ...), with as many times as the tiers are checked on samples."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = nn.Linear(4, 5), head(5)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.layer(x.transpose(0, 1))).mean(0))


class Scrambled(nn.Module):
    """A layer sees as many rows as there are samples, each of them with a bit of several samples."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = nn.Linear(4, 5), head(5)

    def forward(self, x: Tensor) -> Tensor:
        n, t, _ = x.shape
        h = torch.tanh(self.layer(x.transpose(0, 1).reshape(x.shape)))
        return self.head(h.reshape(t, n, -1).mean(0))


class Unused(nn.Module):
    """One layer is never called, and one has its output thrown away."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.idle, self.aside, self.head = nn.Linear(6, 5), nn.Linear(5, 5), head(5), head(5)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.layer(x))
        self.aside(h)
        return self.head(h)


class Recomputing(torch.autograd.Function):
    """A layer run without a graph, and run again backwards: its gradients bypass the model's graph."""

    @staticmethod
    def forward(ctx, x: Tensor, layer: nn.Module) -> Tensor:
        ctx.layer = layer
        ctx.save_for_backward(x)
        return layer(x)

    @staticmethod
    def backward(ctx, delta: Tensor):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        with torch.enable_grad():
            torch.autograd.backward(ctx.layer(x), delta)
        return x.grad, None


class Reversible(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.layer, self.head = nn.Linear(6, 6), nn.Linear(6, 6), head(6)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(Recomputing.apply(self.stem(x), nn.Sequential(self.layer, nn.Tanh())))


class Checkpointed(nn.Module):
    """A layer whose activations are not kept, in the way that torch.autograd.grad refuses."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.layer, self.head = nn.Linear(6, 6), nn.Linear(6, 6), head(6)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(checkpoint(self.layer, self.stem(x), use_reentrant=True)))


class Residual(nn.Module):
    """A residual network with BatchNorm, and ReLU in place as everyone has it."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.conv1, self.norm1 = nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.conv2, self.norm2 = nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.relu, self.head = nn.ReLU(inplace=True), head(8)

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.norm(self.stem(x)))
        y = self.relu(self.norm1(self.conv1(x)))
        return self.head(self.relu(self.norm2(self.conv2(y)) + x).mean((2, 3)))


class Bert(nn.Module):
    """Hugging Face's BERT; token 0 is padding, and masked."""

    def __init__(self) -> None:
        from transformers import BertConfig, BertForSequenceClassification

        super().__init__()
        sizes = {"hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
        config = BertConfig(vocab_size=TOKENS, max_position_embeddings=8, num_labels=CLASSES, **sizes)
        self.bert = BertForSequenceClassification(config)

    def forward(self, x: Tensor) -> Tensor:
        return self.bert(x, attention_mask=(x != 0).long()).logits


def head(c: int) -> nn.Linear:
    return nn.Linear(c, CLASSES)


def lived_in(model: nn.Module) -> nn.Module:
    """Give norms the weights and running statistics of a model that has seen data."""
    for module in model.modules():
        if getattr(module, "running_mean", None) is not None:
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2)
        if "Norm" in type(module).__name__:
            for p in module.parameters(recurse=False):
                nn.init.normal_(p, 1, 0.3)
    return model


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 8), nn.ReLU(), head(8))


def strided() -> nn.Module:
    return Pooled(6, nn.Conv2d(4, 6, 3, stride=(2, 1), dilation=(1, 2), groups=2, padding=(1, 2)))


def padded() -> nn.Module:
    return Pooled(4, nn.Conv2d(2, 4, (3, 2), padding="same", padding_mode="circular"))


def weight_norm() -> nn.Module:
    return nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(6, 5)), nn.Tanh(), head(5))


def encoder() -> nn.Module:
    return nn.Sequential(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), Mean(), head(8))


def words(embedding: nn.Module) -> nn.Module:
    return nn.Sequential(embedding, Mean(), head(5))


def norm(layer: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(4, 6), layer, nn.Tanh(), Mean(), head(6))


_BUILD: dict[str, tuple[Callable[[], nn.Module], Callable[[], Dataset]]] = {
    "linear": (mlp, lambda: numbers(6)),
    "linear 3-d": (lambda: nn.Sequential(nn.Linear(4, 5), nn.Tanh(), Mean(), head(5)), lambda: numbers(7, 4)),
    "conv1d": (lambda: Pooled(4, nn.Conv1d(2, 4, 3)), lambda: numbers(2, 9)),
    "conv2d": (lambda: Pooled(4, nn.Conv2d(2, 4, 3, padding=1)), lambda: numbers(2, 6, 5)),
    "conv3d": (lambda: Pooled(4, nn.Conv3d(2, 4, 2)), lambda: numbers(2, 4, 3, 4)),
    "conv grouped, dilated, strided": (strided, lambda: numbers(4, 7, 8)),
    "conv same, circular": (padded, lambda: numbers(2, 5, 6)),
    "conv transposed": (lambda: Pooled(4, nn.ConvTranspose2d(2, 4, 3, stride=2)), lambda: numbers(2, 3, 3)),
    "batch norm": (lambda: Pooled(4, nn.Conv2d(2, 4, 2), nn.BatchNorm2d(4)), lambda: numbers(2, 4, 4)),
    "layer norm": (lambda: norm(nn.LayerNorm(6)), lambda: numbers(5, 4)),
    "group norm": (lambda: Pooled(4, nn.Conv1d(2, 4, 2), nn.GroupNorm(2, 4)), lambda: numbers(2, 6)),
    "rms norm": (lambda: norm(nn.RMSNorm(6)), lambda: numbers(5, 4)),
    "prelu": (lambda: Pooled(4, nn.Conv1d(2, 4, 2), nn.PReLU(4), nn.PReLU()), lambda: numbers(2, 6)),
    "embedding": (lambda: words(nn.Embedding(TOKENS, 5, padding_idx=0)), lambda: tokens(8)),
    "embedding bag": (lambda: nn.Sequential(nn.EmbeddingBag(TOKENS, 5), head(5)), lambda: tokens(8)),
    "multihead attention": (Attention, lambda: numbers(4, 8)),
    "transformer encoder layer": (encoder, lambda: numbers(4, 8)),
    "lstm": (lambda: Recurrent(nn.LSTM), lambda: numbers(5, 4)),
    "gru": (lambda: Recurrent(nn.GRU), lambda: numbers(5, 4)),
    "raw parameter": (Einsum, lambda: numbers(4)),
    "vit": (ViT, lambda: numbers(1, 8, 8)),
    "used twice": (Twice, lambda: numbers(6)),
    "tied": (Tied, lambda: tokens(5)),
    "tied later": (TiedLater, lambda: numbers(6)),
    "weight norm": (weight_norm, lambda: numbers(6)),
    "in place": (InPlace, lambda: numbers(2, 5, 5)),
    "branching": (Branching, lambda: numbers(6)),
    "routed": (Routed, lambda: numbers(6)),
    "unused": (Unused, lambda: numbers(6)),
    "reversible": (Reversible, lambda: numbers(6)),
    "checkpointed": (Checkpointed, lambda: numbers(6)),
    "dropout": (lambda: nn.Sequential(nn.Linear(6, 8), nn.Dropout(), head(8)), lambda: numbers(6)),
    "bert": (Bert, lambda: tokens(6, n=24)),
    "residual": (Residual, lambda: numbers(3, 6, 6)),
    "time first": (TimeFirst, lambda: numbers(3, 4)),
    "scrambled": (Scrambled, lambda: numbers(3, 4)),
}


def case(name: str) -> Case:
    model, data = _BUILD[name]
    with seeded(0, name):
        return lived_in(model()), data()


CASES = tuple(_BUILD)
