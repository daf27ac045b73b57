import copy

import pytest
import torch.nn.functional as F

from unsee.bench import forgetting, subjects
from unsee.descent import descend
from unsee.networks import identity
from unsee.updating import Update


@pytest.fixture(scope="module")
def loss():
    subject = subjects.mlp(32, side=6, depth=3)
    return forgetting._loss(subject, forgetting._request(subject, 16), forgetting.PAPERS, 8, 2)


def test_it_has_all_three_terms(loss):
    assert loss.R is not None
    assert set(loss(0)) == {"L_c", "L_f"}


def test_making_a_step_by_its_parts_is_making_it(loss):
    one, other = copy.deepcopy(loss), copy.deepcopy(loss)
    before = identity(one.model)
    descend(one.model, one, one.plan, R=one.R)
    update = Update(other.theta, other.plan.momentum, other.R)
    for step in range(other.plan.steps):
        parts = forgetting._parts(other, update, step)
    assert identity(one.model) == identity(other.model) != before
    assert list(parts) == [
        "drawing and converting",
        "forward",
        "backward",
        "length of the step",
        "R, momentum and weights",
    ]


def test_products_are_counted_as_they_are_made():
    from torch.utils.flop_counter import FlopCounterMode

    subject = subjects.mlp(4, side=5, depth=3)
    with FlopCounterMode(display=False) as counted:
        F.cross_entropy(subject.model(subject.data.x.float()), subject.data.y).backward()
    assert counted.get_total_flops() == 4 * forgetting._products(subject.model)


def test_the_result(results):
    result = results("forget")
    steps, batches, shares, updates, beside = result.tables.values()
    assert [row["shape"] for row in updates] == ["32x32"]
    assert [row["samples a step"] for row in steps] == [16, 32]
    assert len(batches) == 5
    for row in shares:
        assert sum(value for name, value in row.items() if name != "recipe") == pytest.approx(100, abs=0.5)
    assert {row["what"] for row in beside} == {
        "evaluating",
        "drawing and converting samples",
        "the Fisher of D_f",
    }
    assert [limit.found for limit in result.limits] == [steps[0]["ratio"]]
