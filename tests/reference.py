"""Slow twins in float64: a loop over samples, a loop over parameters. What they give is correct."""

import copy
import math
from fractions import Fraction

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unsee import networks
from unsee.datasets import Dataset
from unsee.memory import remember
from unsee.randomness import cycle, stream


def fisher_sum(model: nn.Module, data: Dataset) -> dict[str, Tensor]:
    """Sum over (x, l) of (d L_cls(f_theta(x), l) / d theta_i)^2, for each parameter."""
    model = copy.deepcopy(model).double().eval()
    parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
    sums = {name: torch.zeros_like(p) for name, p in parameters.items()}
    for x, label in data:
        x = x.double() if x.is_floating_point() or x.dtype == torch.uint8 else x.clone()
        model.zero_grad()
        F.cross_entropy(model(x[None]), label[None]).backward()
        for name, p in parameters.items():
            if p.grad is not None:
                sums[name] += p.grad.to_dense() ** 2
    return sums


def expected_fisher_of_last(model: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    """The Fisher of the last layer's weight and bias over x, each label l counting by softmax(f(x))_l."""
    model = copy.deepcopy(model).double().eval()
    last = [layer for layer in model.modules() if isinstance(layer, nn.Linear)][-1]
    sums = [torch.zeros_like(last.weight), torch.zeros_like(last.bias)]
    for one in x.double():
        p = model(one[None]).softmax(1)[0].tolist()
        for label, share in enumerate(p):
            model.zero_grad()
            F.cross_entropy(model(one[None]), torch.tensor([label])).backward()
            for total, parameter in zip(sums, (last.weight, last.bias), strict=True):
                total.data += share * parameter.grad**2 / len(x)
    return sums[0].detach(), sums[1].detach()


def cross_entropy(y, labels):
    """-log(exp(y_l) / sum_j exp(y_j)), a sample and a class at a time, mean over samples."""
    total = 0.0
    for row, label in zip(y.double().tolist(), labels.tolist(), strict=True):
        total -= math.log(math.exp(row[label]) / sum(math.exp(value) for value in row))
    return total / len(y)


def squared_distance(y, other):
    """|| y - other ||_2^2, a class at a time, mean over samples."""
    rows = zip(y.double().tolist(), other.double().tolist(), strict=True)
    return sum((a - b) ** 2 for one, two in rows for a, b in zip(one, two, strict=True)) / len(y)


def softmax(row):
    total = sum(math.exp(value) for value in row)
    return [math.exp(value) / total for value in row]


def distil(y, y_old):
    """sum_j p_old_j log(p_old_j / p_j), a sample and a class at a time, mean over samples."""
    total = 0.0
    for row, old in zip(y.double().tolist(), y_old.double().tolist(), strict=True):
        total += sum(q * math.log(q / p) for p, q in zip(softmax(row), softmax(old), strict=True))
    return total / len(y)


def masked(y, y_old, labels):
    """The same, with the label struck from the old answer and the rest scaled to 1 again."""
    total = 0.0
    rows = zip(y.double().tolist(), y_old.double().tolist(), labels.tolist(), strict=True)
    for row, old, label in rows:
        p, q = softmax(row), softmax(old)
        rest = sum(q[j] for j in range(len(q)) if j != label)
        total += sum(q[j] / rest * math.log(q[j] / rest / p[j]) for j in range(len(q)) if j != label)
    return total / len(y)


def ascent(y, labels, bound):
    """-min(-log p_l, bound), a sample at a time, mean over samples."""
    rows = zip(y.double().tolist(), labels.tolist(), strict=True)
    return sum(-min(-math.log(softmax(row)[label]), bound) for row, label in rows) / len(y)


def hidden(read, read_old):
    """|| h - h_old ||^2 / || h_old ||^2, a layer and a value at a time, mean over layers."""
    shares = []
    for h, old in zip(read, read_old, strict=True):
        pairs = list(zip(h.double().flatten().tolist(), old.double().flatten().tolist(), strict=True))
        shares.append(sum((a - b) ** 2 for a, b in pairs) / sum(b**2 for _, b in pairs))
    return sum(shares) / len(shares)


def proximal(theta, theta_old, fisher, strength):
    """(theta + a theta_old) / (1 + a) with a = strength F, a parameter at a time, in exact fractions."""
    found = []
    for p, old, f in zip(theta.tolist(), theta_old.tolist(), fisher.tolist(), strict=True):
        a = Fraction(strength) * Fraction(f)
        found.append(float((Fraction(p) + a * Fraction(old)) / (1 + a)))
    return torch.tensor(found, dtype=torch.float64)


def remembering_and_gradient(theta, theta_old, fisher):
    """R and dR/dtheta, a parameter at a time: F (theta - old)^2 and 2 F (theta - old)."""
    value, gradients = 0.0, []
    for p, old, f in zip(theta, theta_old, fisher, strict=True):
        gradient = torch.zeros(p.numel(), dtype=torch.float64)
        rows = zip(p.flatten().tolist(), old.flatten().tolist(), f.flatten().tolist(), strict=True)
        for i, (new, before, weight) in enumerate(rows):
            value += weight * (new - before) ** 2
            gradient[i] = 2 * weight * (new - before)
        gradients.append(gradient.reshape(p.shape))
    return value, gradients


def forgetting_step(model, request, memory, recipe, seed, steps):
    """theta after some steps of forgetting, every sample on its own, momentum and R by hand."""
    D_r = memory.subtract(remember(model, request.D_f)).fisher()
    old = {name: p.detach().clone() for name, p in model.named_parameters()}
    new, eta = copy.deepcopy(model).eval(), networks.fresh(model, seed).double().eval()
    velocity = {name: torch.zeros_like(p) for name, p in old.items()}
    subset, n, b = list(range(1, 10)), len(request.D_f), recipe.batch_size
    for step in range(steps):
        start, count = step * b, min(b, n - step * b)
        u = np.asarray(subset)[stream(seed, "rld", step).integers(9, size=count)]
        clean, bad = (
            cycle(seed, name, len(data), start, count)
            for name, data in (("D_f_clean", request.D_f_clean), ("D_f", request.D_f))
        )
        new.zero_grad()
        for k in range(count):
            x, label = request.D_f_clean[int(clean[k])]
            loss = recipe.lambda_c * _log_loss(new(x[None].double())[0], int(label))
            x_f = request.D_f[int(bad[k])][0][None].double()
            if recipe.forgetting == "rld":
                loss = loss + recipe.lambda_f * _log_loss(new(x_f)[0], int(u[k]))
            if recipe.forgetting == "rnd":
                loss = loss + recipe.lambda_f * ((new(x_f) - eta(x_f).detach()) ** 2).sum()
            (loss / count).backward()
        with torch.no_grad():
            for name, p in new.named_parameters():
                gradient = p.grad + recipe.lambda_kl * 2 * D_r[name] * (p - old[name])
                velocity[name] = recipe.momentum * velocity[name] + gradient
                p -= recipe.lr * velocity[name]
    return {name: p.detach() for name, p in new.named_parameters()}


def _log_loss(y, label):
    return -torch.log(y[label].exp() / y.exp().sum())
