"""The loss at one step, and the recipes that need all of it, through forget()."""

import copy
import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import reference
from unsee import firmness, networks, terms
from unsee.answers import accuracy, reading
from unsee.datasets import Dataset
from unsee.errors import InputError, UnseeWarning
from unsee.evaluation import evaluator
from unsee.forgetting import forget
from unsee.formulation import FourDatasets, Request
from unsee.loss import REMEMBERED, Loss
from unsee.memory import Memory, remember
from unsee.plan import Plan
from unsee.randomness import cycle, stream
from unsee.recipe import FORGETTING, RECIPES, Recipe
from unsee.replay import replay_of
from unsee.terms import PAIRED, TERMS
from unsee.training import train
from unsee.transforms import tile
from unsee.twins import twins_of
from unsee.updating import Update

OURS = RECIPES["unsee"]
SHORT = replace(OURS, epochs=1, settle=None, floor=None, stride=None)
PAPERS = replace(RECIPES["fashion-mnist/tile/B"], epochs=1, batch_size=16, lr=1e-3, lambda_kl=1e3)


@pytest.fixture(scope="module")
def recalling(model, four):
    """A memory with a sketch, of D."""
    return remember(model, four.pretraining, sketch=32)


@pytest.fixture(scope="module")
def exact(model):
    """theta_old in float64, and theta some way from it."""
    old = copy.deepcopy(model).double().eval()
    new, generator = copy.deepcopy(old), torch.Generator().manual_seed(0)
    with torch.no_grad():
        for p in new.parameters():
            p += 0.01 * torch.randn(p.shape, generator=generator, dtype=p.dtype)
    return new, old


def loss_of(exact, request, recipe, memory=None, seed=0, *, average=False):
    new, old = (copy.deepcopy(net) for net in exact)
    twins = twins_of(request) if recipe.forgetting in PAIRED else None
    sketch = memory.sketch if memory else None
    replay = replay_of(old, request, sketch) if recipe.lambda_s else None
    plan = Plan(recipe.lr, recipe.momentum, 1, len(request.D_f), recipe.batch_size, average=average)
    return Loss(new, old, request, recipe, plan, memory, twins, replay, 10, seed)


def gradients(loss, step=0):
    """The losses at a step and the gradients that it leaves, added to nothing."""
    loss.model.zero_grad()
    values = loss(step)
    return values, [p.grad.clone() for p in loss.theta]


def assert_alike(found, expected):
    for a, b in zip(found, expected, strict=True):
        assert float((a - b).abs().max()) <= 1e-10 * max(1.0, float(b.abs().max()))


# ---- the paper's terms --------------------------------------------------------------------------


@pytest.mark.parametrize("pattern", ["B", "C"])
@pytest.mark.parametrize("forgetting", ["rld", "rnd"])
def test_the_papers_gradient_is_that_of_its_printed_sum(exact, four, pattern, forgetting):
    old, request = exact[1], four.request(pattern)
    memory = remember(old, four.train.D_r)
    recipe = Recipe("paper", forgetting, 0.7, 1.3, 40.0, batch_size=25)
    loss = loss_of(exact, request, recipe, memory, seed=3)
    for step, (start, count) in enumerate([(0, 25), (25, 25), (50, 10)]):
        values, found = gradients(loss, step)
        new = copy.deepcopy(exact[0])
        clean, bad = (cycle(3, name, 60, start, count) for name in ("D_f_clean", "D_f"))
        y = new(request.D_f.x[bad].double())
        L_c = F.cross_entropy(new(request.D_f_clean.x[clean].double()), request.D_f_clean.y[clean])
        if forgetting == "rld":
            L_f = F.cross_entropy(y, terms.random_labels(count, range(1, 10), stream(3, "rld", step)))
        else:
            eta = networks.fresh(old, 3).double().eval()
            L_f = (y - eta(request.D_f.x[bad].double()).detach()).square().sum(1).mean()
        R = terms.remembering(new.parameters(), list(old.parameters()), list(memory.fisher().values()))
        expected = torch.autograd.grad(0.7 * L_c + 1.3 * L_f + 40.0 * R, list(new.parameters()))
        stepped = copy.deepcopy(loss)
        for p, g in zip(stepped.theta, found, strict=True):
            p.grad = g
        values["R"] = Update(stepped.theta, 0.0, stepped.R)(1.0)
        moved = [was.detach() - p.detach() for was, p in zip(loss.theta, stepped.theta, strict=True)]
        assert_alike(moved, expected)
        assert list(values) == ["L_c", "L_f", "R"]
        assert [v.item() for v in values.values()] == pytest.approx([L_c.item(), L_f.item(), R.item()])
        assert not any(v.requires_grad for v in values.values())


def test_a_step_is_a_function_of_its_number_and_the_seed(exact, four, recalling):
    for recipe in (PAPERS, SHORT):
        one = loss_of(exact, four.request("B"), replace(recipe, lambda_kl=0.0), recalling)
        again = loss_of(exact, four.request("B"), replace(recipe, lambda_kl=0.0), recalling)
        other = loss_of(exact, four.request("B"), replace(recipe, lambda_kl=0.0), recalling, seed=1)
        gradients(one, 5)
        found, expected = gradients(one, 2)[1], gradients(again, 2)[1]
        assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
        assert not torch.equal(found[0], gradients(other, 2)[1][0])


# ---- ours ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("eased", [False, True])
@pytest.mark.parametrize("forgetting", ["twin", "invariance"])
def test_our_gradient_is_that_of_the_slow_sum(exact, four, forgetting, eased):
    """Drawn by hand, with the twins of reference.py for the values and autograd for the gradient."""
    new, old = (copy.deepcopy(net) for net in exact)
    request, memory = four.request("B"), remember(old, four.train.D_r, sketch=32)
    recipe = replace(SHORT, forgetting=forgetting, batch_size=20, lambda_f=0.3, lambda_h=2.0, lambda_s=1.5)
    loss = loss_of(exact, request, recipe, memory, seed=4)
    if eased:
        loss.ease()
    values, found = gradients(loss, 1)

    rows = cycle(4, "twins", 60, 20, 20)
    labels = request.D_f_clean.y[rows]
    clean, bad = request.D_f_clean.x[rows].double(), request.D_f.x[rows].double()
    x, drawn = memory.sketch.draw(20, stream(4, "replay", 1))
    marked = four.T.pixels(x.clone()).double()
    wanted = 0.2 * old(x.double()).softmax(1).detach() + 0.8 * F.one_hot(drawn, 10)

    def kl(wanted, y):
        return (torch.xlogy(wanted, wanted) - wanted * y.log_softmax(1)).sum(1).mean()

    of_T = 2 if eased else 1
    L_s = (kl(wanted, new(x.double())) + of_T * kl(wanted, new(marked))) / (1 + of_T)
    level = memory.loss / memory.n + L_s.item()
    y, (_, *read) = reading(new, bad)
    _, (_, *read_old) = reading(old, clean)
    L_c = sum((F.cross_entropy(answer, labels) - level).clamp_min(0) for answer in (new(clean), y))
    if forgetting == "invariance":
        L_f = kl(new(clean).softmax(1).detach(), y)
        assert L_f.item() == pytest.approx(reference.distil(y, new(clean)))
    else:
        kept = old(clean).detach().softmax(1).scatter(1, labels[:, None], 0)
        L_f = kl(kept / kept.sum(1, keepdim=True), y)
        assert L_f.item() == pytest.approx(reference.masked(y, old(clean), request.D_f.y[rows]))
    _, (_, *of_replayed) = reading(old, x.double())
    pairs = [(read, read_old)] + [(reading(new, part)[1][1:], of_replayed) for part in (x.double(), marked)]
    pairs, n = (pairs[1:2], 1) if eased else (pairs, 3)
    L_h = sum(terms.hidden(mine, [h.detach() for h in theirs]) for mine, theirs in pairs) / n
    assert L_h.item() == pytest.approx(sum(reference.hidden(*pair) for pair in pairs) / n)
    total = 0.1 * L_c + 0.3 * L_f + 2.0 * n * L_h + 1.5 * (1 + of_T) * L_s
    expected = torch.autograd.grad(total, list(new.parameters()))
    assert {name: v.item() for name, v in values.items()} == pytest.approx(
        {"L_s": L_s.item(), "L_c": L_c.item(), "L_f": L_f.item(), "L_h": L_h.item()}, rel=1e-6
    )
    for a, b in zip(found, expected, strict=True):
        # Targets are floored at 1e-8, and labels are told apart from 0 by no more.
        assert float((a - b).abs().max()) <= 1e-5 * float(b.abs().max())


def test_the_proximal_step_is_Rs_own(exact, four):
    memory = remember(exact[1], four.train.D_r)
    recipe = replace(SHORT, lambda_kl=30.0, momentum=0.9)
    loss = loss_of(exact, four.request("B"), recipe, memory)
    lambda_kl = loss.R.lambda_kl
    before = [p.detach().clone() for p in loss.theta]
    for p in loss.theta:
        p.grad = torch.zeros_like(p)
    assert Update(loss.theta, 0.9, loss.R)(0.01) is None
    for p, was, old, f in zip(loss.theta, before, loss.R.theta_old, memory.fisher().values(), strict=True):
        a = 2 * lambda_kl * 0.01 / (1 - 0.9) * f
        assert torch.allclose(p.detach(), (was + a * old) / (1 + a), rtol=0, atol=1e-12)
        assert torch.equal(p.detach() == was, f == 0)
    assert not loss_of(exact, four.request("B"), replace(recipe, remembering="penalty"), memory).R.proximal
    assert loss_of(exact, four.request("B"), replace(recipe, lambda_kl=0.0), memory).R is None


@pytest.mark.parametrize("average", [True, False])
@pytest.mark.parametrize(
    ("lacking", "s"),
    [(range(0), 1.0), ([3], 8 / 9), (range(1, 10), 0.0)],  # [3]: the attacker's own class, as a rule
)
def test_how_firmly_R_and_layers_hold_goes_by_the_classes_of_D_f_clean(
    exact, data, memory, lacking, s, average
):
    """A poison's D_f,clean holds D_r by itself, be it large or small."""
    four = FourDatasets.of_poison(data, range(0, len(data.train), 7), tile(), 0)
    clean = four.request("B").D_f_clean
    assert len(clean.y.unique()) == 10
    rows = torch.nonzero(~torch.isin(clean.y, torch.tensor([*lacking]))).flatten()
    request = Request("B", four.request("B").D_f.subset(rows), clean.subset(rows), four.T)
    loss = loss_of(exact, request, SHORT, memory, average=average)
    times = firmness.of_R(loss.plan, s, loss.R.fisher)
    assert loss.R.lambda_kl == pytest.approx(times * SHORT.lambda_kl)
    losses, total = loss._losses(0)
    rest = replace(SHORT, lambda_h=0.0)
    without = loss_of(exact, request, rest, memory, average=average)._losses(0)[1]
    lambda_h = SHORT.lambda_h * firmness.of_layers(loss.plan, s)
    assert (total - without).item() == pytest.approx(3 * lambda_h * losses["L_h"].item())
    assert loss_of(exact, request, PAPERS, memory).R.lambda_kl == PAPERS.lambda_kl


def test_no_step_is_longer_than_the_stride(exact, four):
    """The gradient keeps its direction, and a short one stays as it is."""
    length = math.sqrt(sum(p.detach().square().sum().item() for p in exact[1].parameters()))
    _, free = gradients(loss_of(exact, four.request("B"), SHORT))
    norm = math.sqrt(sum(g.square().sum().item() for g in free))
    share = SHORT.lr * norm / length
    for stride in (0.1 * share, 0.9 * share):
        _, found = gradients(loss_of(exact, four.request("B"), replace(SHORT, stride=stride)))
        for a, b in zip(found, free, strict=True):
            assert torch.allclose(a, stride / share * b, rtol=1e-5, atol=0)
    _, found = gradients(loss_of(exact, four.request("B"), replace(SHORT, stride=min(0.99, 1.1 * share))))
    assert all(torch.equal(a, b) for a, b in zip(found, free, strict=True))


def test_strides_bound_the_way(model, four):
    """Without momentum, twenty steps lead no further than twenty strides."""
    wild = replace(SHORT, lr=10.0, momentum=0.0, lambda_kl=0.0, stride=1e-3, batch_size=3)
    new = forget(model, four.request("B"), None, wild).model
    pairs = list(zip(model.parameters(), new.parameters(), strict=True))
    moved = math.sqrt(sum((a - b).detach().square().sum().item() for a, b in pairs))
    length = math.sqrt(sum(a.detach().square().sum().item() for a, _ in pairs))
    assert 1e-3 < moved / length <= 20 * 1e-3 * 1.001


def test_the_balance_asks_for_no_more_than_the_memory_has(exact, four):
    """Once D_f,clean is answered as well as the rest, L_c is 0 and gives no gradient."""
    sketched = remember(exact[1], four.train.D_r, sketch=32)
    recipe = replace(SHORT, lambda_f=0.0, lambda_h=0.0, lambda_s=0.0)
    easy = Memory(sketched.sums, sketched.samples, sketched.model, sketched.data, 1e6, sketched.sketch)
    values, found = gradients(loss_of(exact, four.request("B"), recipe, easy))
    assert values["L_c"].item() == 0
    assert not any(g.any() for g in found)
    values, found = gradients(loss_of(exact, four.request("B"), recipe, sketched))
    assert values["L_c"].item() > 0
    assert any(g.any() for g in found)
    loss = loss_of(exact, four.request("B"), recipe, sketched)
    assert loss.level == sketched.level()
    assert loss.lambda_c == pytest.approx(0.1)  # one class of ten


def test_without_a_sketch_the_level_is_how_unsure_the_old_model_is(exact, four, recalling):
    p = exact[1](four.train.D_f_clean.x.double()).softmax(1)
    entropy = -sum(math.log(v) * v for row in p.tolist() for v in row if v) / len(p)
    plain = Memory(recalling.sums, recalling.samples, recalling.model, recalling.data, 5.0)
    for memory in (None, plain):
        loss = loss_of(exact, four.request("B"), replace(SHORT, lambda_kl=0.0), memory)
        assert loss.level == pytest.approx(entropy, rel=1e-6)
    unbalanced = loss_of(exact, four.request("B"), replace(SHORT, balance="none", lambda_c=0.7))
    assert (unbalanced.lambda_c, unbalanced.level) == (0.7, 0.0)


def test_a_class_to_be_forgotten_is_never_the_wanted_answer(exact, four):
    recipe = replace(RECIPES["unsee/A"], lambda_kl=0.0)
    loss = loss_of(exact, four.request("A"), recipe)
    wanted = loss.wanted(torch.zeros(4, 10), None).softmax(1)
    assert torch.allclose(wanted[:, 1:], torch.tensor(1 / 9))
    assert not wanted[:, 0].any()
    B = loss_of(exact, four.request("B"), SHORT)
    assert torch.allclose(B.wanted(torch.zeros(4, 10), None).exp(), torch.tensor(0.1))


def test_nor_is_it_where_a_sketch_still_holds_the_class(exact, four):
    """With fisher_over = D, D_f's share of the sketch is not taken out."""
    recipe = replace(RECIPES["unsee/A"], lambda_kl=0.0, fisher_over="D")
    loss = loss_of(exact, four.request("A"), recipe, remember(exact[1], four.pretraining, sketch=32))
    wanted = loss.wanted(torch.zeros(2, 10), torch.tensor([0, 3])).softmax(1)
    assert float(wanted[:, 0].max()) < 0.01


def test_a_class_of_which_a_sketch_knows_more_does_not_go(exact, four):
    """D_f may be a few samples of it, whose owner wants them forgotten."""
    recipe, whole = replace(RECIPES["unsee/A"], lambda_kl=0.0), four.train.D_f
    request, memory = Request("A", whole.subset(range(5))), remember(exact[1], whole, sketch=32)
    left = memory.subtract(remember(exact[1], request.D_f, sketch=memory.sketch))
    assert loss_of(exact, request, recipe, left).gone is None
    assert loss_of(exact, request, replace(recipe, fisher_over="D"), memory).gone is None
    # As in a search, which takes D_f's share out once for all trials: what is left is no part of D_f.
    many = Request("A", whole.subset(range(len(whole) - 5)))
    rest = memory.subtract(remember(exact[1], many.D_f, sketch=memory.sketch))
    assert loss_of(exact, many, replace(recipe, fisher_over="D"), rest).gone is None
    for known in (None, replace(left, sketch=None)):
        assert loss_of(exact, request, recipe, known).gone.tolist() == [0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnseeWarning)
        found = forget(copy.deepcopy(exact[1]).float(), request, None, replace(recipe, epochs=1)).setting[
            "weaker"
        ]
    assert found.endswith("D_f is taken for all of its class, as only a sketch would know of more")


# ---- through forget() ---------------------------------------------------------------------------


def test_of_a_class_that_T_was_taken_off_the_label_alone_is_wanted(exact, four, recalling):
    request, recipe = four.request("B"), replace(SHORT, trust=0.0)
    loss = loss_of(exact, request, recipe, recalling)
    loss.replay = replay_of(loss.old, request, recalling.sketch, T=four.T)
    assert loss.replay.worn.classes.tolist() == [0]
    y_old, labels = torch.randn(6, 10, dtype=torch.float64), torch.tensor([0, 3, 0, 5, 1, 0])
    wanted = loss.wanted(y_old, labels).exp()
    assert torch.allclose(wanted[labels == 0], F.one_hot(torch.tensor([0] * 3), 10).double(), atol=1e-6)
    assert torch.allclose(wanted[labels != 0], y_old.softmax(1)[labels != 0])


def test_all_terms_are_in_the_trajectory(model, four, recalling):
    result = forget(model, four.request("B"), recalling, replace(OURS, epochs=2, floor=0.9))
    assert result.recipe.name == "unsee"
    for row in result.trajectory[1:]:
        assert {"L_c", "L_f", "L_h", "L_s", "L", "utility"} <= row.keys()
        assert all(math.isfinite(value) for value in row.values())
    assert result.setting["memory"] == "Fisher and sketch"
    assert result.setting["replayed"] == "sketch"


def test_it_forgets_a_backdoor_with_a_sketch_and_without_any_memory(model, four, recalling):
    before = evaluator(four)(model)
    for memory in (recalling, None):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnseeWarning)  # of a floor that was reached
            result = forget(model, four.request("B"), memory, replace(OURS, epochs=4, lr=6e-3))
        after = evaluator(four)(result.model)
        assert before["D_r_extra"] < 0.1 < 0.4 < after["D_r_extra"]
        assert before["D_f_clean"] < 0.1 < 0.5 < after["D_f_clean"]
        assert after["D_r"] > before["D_r"] - 0.15
        assert {"L_c", "L_f", "L_h", "L_s", "L"} <= result.trajectory[1].keys()
    assert result.setting["memory"] == "none"
    assert result.setting["replayed"] == "stand-ins"


def test_without_a_memory_R_is_the_curvature_of_L_s_where_theta_is_averaged(exact, four, memory):
    request = four.request("B")
    loss = loss_of(exact, request, OURS, average=True)
    assert loss.R is not None
    assert loss.R.lambda_kl < OURS.lambda_kl < loss_of(exact, request, OURS, memory, average=True).R.lambda_kl
    assert loss_of(exact, request, OURS).R is None
    assert loss_of(exact, request, replace(OURS, lambda_kl=0.0), average=True).R is None
    assert loss_of(exact, request, replace(OURS, lambda_s=0.0), average=True).R is None
    # The second derivative of KL(old || new) along a bias is the mean of p (1 - p).
    x, _ = loss.replay.draw(4000, stream(1, "x"))
    p = loss.old(x.double()).softmax(1).detach()
    expected = (p * (1 - p)).mean(0)
    assert torch.allclose(loss.R.fisher[-1], expected, rtol=0.3, atol=0.3 * float(expected.mean()))


def test_of_a_class_that_goes_no_label_is_drawn_for_R(exact, four):
    loss = loss_of(exact, four.request("A"), RECIPES["unsee/A"], average=True)
    x, _ = loss.replay.draw(REMEMBERED, stream(0, "stand-ins' Fisher"))
    p = loss.old(x.double()).softmax(1).detach()[:, 0]
    assert float(loss.R.fisher[-1][0]) == pytest.approx(float((p**2).mean()))


def test_a_class_is_forgotten_with_our_recipe_for_A(model, four, recalling):
    for memory in (recalling, None):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnseeWarning)
            recipe = replace(RECIPES["unsee/A"], epochs=4, lr=0.01)
            result = forget(model, four.request("A"), memory, recipe)
        assert evaluator(four)(model)["D_f"] > 0.9
        assert evaluator(four)(result.model)["D_f"] < 0.5
        assert {"L_f", "L_s", "L"} <= result.trajectory[1].keys()


@pytest.mark.parametrize("label", [5, 8])  # sandals and bags, which most stand-ins are taken for
def test_any_class_is_forgotten_without_a_memory(data, label):
    D = data.train
    net = train(networks.network("mlp", D, depth=3), D, epochs=8, lr=0.02, batch_size=32).model
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnseeWarning)
        result = forget(net, Request("A", D.of_class(label)))
    assert result.back_to is None
    assert accuracy(net, data.test.of_class(label)) >= 0.8
    assert accuracy(result.model, data.test.of_class(label)) < 0.1
    rest = data.test.subset(torch.nonzero(data.test.y != label).flatten())
    assert accuracy(result.model, rest) > accuracy(net, rest) - 0.05


def test_in_C_random_labels_in_place_of_twins_are_of_all_classes(exact, four):
    clean = four.train.D_f_clean
    for pattern, labels in (("B", list(range(1, 10))), ("C", list(range(10)))):
        request = Request(pattern, four.train.D_f, clean.subset(torch.arange(len(clean)).roll(7)))
        with pytest.warns(UnseeWarning, match="answered less well" if pattern == "C" else r"twins\.$"):
            assert loss_of(exact, request, replace(SHORT, lambda_kl=0.0)).labels == labels


@pytest.mark.parametrize("name", FORGETTING)
@pytest.mark.parametrize("recipe", [PAPERS, SHORT], ids=["paper's", "ours"])
def test_every_forgetting_term_runs(model, four, recalling, name, recipe):
    request = four.request("A" if name == "truncation" else "B")
    result = forget(model, request, recalling, replace(recipe, forgetting=name))
    assert networks.identity(result.model) != networks.identity(model)
    if name == "truncation":
        assert result.trajectory == ()
        assert not (result.model(four.test.D_f.x.float()).argmax(1) == 0).any()
        return
    row = result.trajectory[1]
    assert ("L_f" in row) == (name != "none")
    assert "L_c" in row
    assert ("L_h" in row) == (recipe is SHORT)
    assert ("L_s" in row) == (recipe is SHORT)
    assert all(math.isfinite(value) for value in row.values())


@pytest.mark.parametrize("name", [name for name in TERMS if name not in PAIRED])
@pytest.mark.parametrize("recipe", ["pattern-a/rld", "unsee/A"])
def test_forgetting_terms_in_pattern_A(model, four, recalling, name, recipe):
    recipe = replace(RECIPES[recipe], forgetting=name, epochs=1, lr=1e-3, lambda_kl=10.0, settle=None)
    result = forget(model, four.request("A"), recalling, replace(recipe, floor=None))
    assert math.isfinite(result.trajectory[1]["L_f"])
    assert networks.identity(result.model) != networks.identity(model)


@pytest.mark.parametrize("name", PAIRED)
def test_pairs_need_D_f_clean(model, four, name):
    with pytest.raises(InputError, match=f"D_f,clean for L_f = {name}, found Pattern A"):
        forget(model, four.request("A"), None, replace(RECIPES["unsee/A"], forgetting=name))


def test_the_forgetting_terms_differ_from_each_other(exact, four):
    found = {}
    for name in FORGETTING:
        if name not in ("none", "truncation"):
            recipe = replace(SHORT, forgetting=name, lambda_kl=0.0, lambda_s=0.0, lambda_h=0.0)
            found[name] = gradients(loss_of(exact, four.request("B"), recipe))[0]["L_f"].item()
    assert len({round(value, 6) for value in found.values()}) == len(found) >= 6


def test_unpaired_sets_without_T_fall_back_to_random_labels(model, four):
    request = Request("B", four.train.D_f, four.train.D_f_clean.subset(range(20)))
    with pytest.warns(UnseeWarning, match="random labels"):
        result = forget(model, request, None, SHORT)
    assert {"L_c", "L_f", "L_s"} <= result.trajectory[1].keys()
    assert "L_h" not in result.trajectory[1]
    assert result.setting["twins"] is False


def test_D_r_never_appears(model, four, recalling):
    """Whatever the network is shown in forget() is D_f, D_f,clean or made up."""
    shown = []
    watched = copy.deepcopy(model)
    watched.register_forward_pre_hook(lambda _, args: shown.append(args[0].detach().clone()))
    for pattern, recipe in (("B", OURS), ("A", RECIPES["unsee/A"])):
        for memory in (recalling, None):
            forget(watched, four.request(pattern), memory, replace(recipe, epochs=1, floor=0.9))
    forget(watched, four.request("B"), recalling, PAPERS)
    rows = {row.numpy().tobytes() for part in shown for row in part.float()}
    assert len(rows) > 2000
    assert {row.numpy().tobytes() for row in four.train.D_f.x.float()} <= rows
    for D_r in (four.train.D_r, four.validation.D_r, four.validation.D_r_extra, four.test.D_r_extra):
        assert not {row.numpy().tobytes() for row in D_r.x.float()} & rows


def test_the_seed_decides(model, four, recalling):
    for memory in (recalling, None):
        runs = [forget(model, four.request("B"), memory, SHORT, seed=seed).model for seed in (0, 0, 1)]
        ids = [networks.identity(run) for run in runs]
        assert ids[0] == ids[1] != ids[2]


def test_inputs_are_never_mutated(model, four, recalling):
    request = four.request("B")
    sets = request.D_f, request.D_f_clean
    before = networks.identity(model), recalling.id, [data.x.clone() for data in sets]
    generator = torch.get_rng_state()
    model.train()
    for memory in (recalling, None):
        forget(model, request, memory, replace(OURS, epochs=1, floor=0.9))
    assert model.training
    model.eval()
    assert (networks.identity(model), recalling.id) == before[:2]
    assert all(torch.equal(data.x, x) for data, x in zip(sets, before[2], strict=True))
    assert all(p.grad is None and p.requires_grad for p in model.parameters())
    assert all(not m._forward_pre_hooks for m in model.modules())
    assert torch.equal(torch.get_rng_state(), generator)


def test_a_T_on_replayed_samples_is_owned_up_to(model, four, recalling):
    """Replay with T on is a surrogate of D_r,extra, which the paper's setting does not have."""
    assert forget(model, four.request("B"), recalling, SHORT).setting["within the paper's setting"] is False
    assert forget(model, four.request("B"), recalling, PAPERS).setting["within the paper's setting"] is True
    both = replace(PAPERS, lambda_s=1.0)  # RLD, which has no twins, and replay
    assert forget(model, four.request("B"), recalling, both).setting["within the paper's setting"] is False


# ---- anyone's module, anyone's data --------------------------------------------------------------


class Bare(nn.Module):
    """Somebody's module, without a layer that anything could be read of."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.full((196, 10), 1e-3))

    def forward(self, x):
        return x.flatten(1) / 255 @ self.weight


class Named(nn.Module):
    """Somebody's module, whose layers are called by the names of their arguments."""

    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(196, 20), nn.Linear(20, 10)

    def forward(self, x):
        return self.head(input=torch.relu(self.body(input=x.flatten(1) / 255)))


@pytest.mark.parametrize(
    "make",
    [lambda: nn.Sequential(nn.Flatten(), nn.Linear(196, 10)), Bare, Named],
    ids=["linear", "bare", "named"],
)
def test_modules_of_which_little_can_be_read(four, make):
    net = make()
    result = forget(net, four.request("B"), None, SHORT)
    assert networks.identity(result.model) != networks.identity(net)


class TimeFirst(nn.Module):
    """A transformer's layer as torch has it by default: not the samples come first, but the places."""

    def __init__(self):
        super().__init__()
        self.words = nn.Linear(49, 8)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0)
        self.head = nn.Linear(8, 10)

    def forward(self, x):
        places = self.words(x.flatten(1).view(len(x), 4, 49) / 255).transpose(0, 1)
        return self.head(self.layer(places.repeat(4, 1, 1)).mean(0))


def test_what_is_read_place_by_place_is_not_compared(four):
    n = 8  # 16 places: as many as samples in a pass of the old model; as in one of both, in the last batch
    net, request = TimeFirst(), Request("B", four.train.D_f, four.train.D_f_clean, four.T)
    result = forget(net, request, None, replace(SHORT, batch_size=n, floor=None))
    assert {"L_f", "L_h", "L_s"} <= result.trajectory[1].keys()


def test_a_convolutional_network_of_ours(four):
    net = networks.network("resnet", four.pretraining, width=4, blocks=1)
    memory = remember(net, four.pretraining, sketch=32)
    result = forget(net, four.request("B"), memory, SHORT)
    assert {"L_c", "L_f", "L_h", "L_s"} <= result.trajectory[1].keys()
    assert all(torch.equal(a, b) for a, b in zip(net.buffers(), result.model.buffers(), strict=True))


def test_floats_in_another_range(four, model):
    span = (-1.0, 1.0)
    D_f, clean = (data.rescaled(*span) for data in (four.train.D_f, four.train.D_f_clean))
    net = nn.Sequential(nn.Flatten(), nn.Linear(196, 20), nn.Tanh(), nn.Linear(20, 10))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnseeWarning)  # T is fitted
        result = forget(
            net, Request("B", D_f, clean), remember(net, D_f, sketch=1), replace(SHORT, fisher_over="D")
        )
    assert math.isfinite(result.trajectory[1]["L_s"])


def test_rows_of_numbers_are_forgotten_without_stand_ins(four):
    rows = four.pretraining.with_(x=four.pretraining.x.flatten(1).float() - 99, value_range=None)
    net = nn.Sequential(nn.Linear(196, 20), nn.Tanh(), nn.Linear(20, 10))
    with pytest.warns(UnseeWarning, match="the floor is not watched"):
        result = forget(net, Request("A", rows.of_class(1)), None, replace(RECIPES["unsee/A"], epochs=1))
    assert result.setting["weaker"].startswith("without a memory nothing holds D_r")
    assert "L_s" not in result.trajectory[1]
    assert "utility" not in result.trajectory[1]
    memory = remember(net, rows, sketch=32)
    result = forget(
        net, Request("A", rows.of_class(1)), memory, replace(RECIPES["unsee/A"], epochs=1, floor=0.9)
    )
    assert {"L_s", "utility"} <= result.trajectory[1].keys()


class Words(nn.Module):
    """Reads numbers of words."""

    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(1000, 8), nn.Linear(8, 2)

    def forward(self, x):
        return self.head(self.embedding(x).mean(1))


def test_tokens_are_forgotten_with_a_memory_without_a_sketch():
    """The mean of two words is no word: a sketch of them is refused."""
    x = torch.randint(1000, (40, 5), generator=torch.Generator().manual_seed(0))
    tokens, net = Dataset(x, torch.arange(40) % 2, 2), Words()
    recipe = replace(RECIPES["unsee/A"], epochs=1, floor=None)
    assert forget(net, Request("A", tokens.of_class(0)), remember(net, tokens), recipe).trajectory
    with pytest.raises(InputError, match="numbers or pixels for a sketch"):
        remember(net, tokens, sketch=1)


def test_D_f_of_all_classes(model, data, four):
    """Without twins there is no label of another class left to draw: all are drawn from."""
    D_f = four.T(data.train)
    clean = data.train.subset(np.random.default_rng(0).permutation(len(data.train)))
    result = forget(model, Request("B", D_f, data.train, four.T), None, SHORT)
    assert "L_f" in result.trajectory[1]
    with pytest.warns(UnseeWarning, match="random labels"):
        result = forget(model, Request("B", D_f, clean), None, SHORT)
    assert "L_f" in result.trajectory[1]
