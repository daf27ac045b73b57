import pytest
import torch

import reference
from unsee.bench import fisher, subjects
from unsee.fisher import fisher_sum
from unsee.tiers import by_loop, by_vmap


@pytest.fixture(params=["mlp", "resnet_18", "vit"])
def subject(request):
    tiny = {"mlp": {"side": 5, "depth": 3}, "resnet_18": {"width": 2}, "vit": {"dim": 8, "depth": 1}}
    return getattr(subjects, request.param)(4, batch_size=2, **tiny[request.param])


def test_all_ways_that_are_compared_give_the_same(subject):
    truth = reference.fisher_sum(subject.model, subject.data)
    ways = {
        "Fisher": fisher_sum(subject.model, subject.data, batch_size=2).sums,
        "loop": fisher.one_by_one(subject, subject.data, by_loop),
        "vmap": fisher.one_by_one(subject, subject.data, by_vmap),
    }
    top = max(float(sums.max()) for sums in truth.values())
    for way, found in ways.items():
        for name, sums in truth.items():
            assert torch.allclose(found[name], sums, rtol=1e-3, atol=1e-6 * top), f"{way}: {name}"


def test_a_plain_pass_leaves_no_gradients(subject):
    fisher.plain_pass(subject)
    assert all(p.grad is None for p in subject.model.parameters())


def test_the_vit_needs_no_map_over_samples():
    subject = subjects.vit(4, dim=8, depth=1)
    assert set(fisher_sum(subject.model, subject.data).tiers.values()) == {"rule", "copy"}


def test_the_result(results):
    result = results("fisher")
    (rows,) = result.tables.values()
    assert [row["served by"] for row in rows] == ["rule", "rule", "copy and rule"]
    assert [limit.most for limit in result.limits] == [1.1, 1.6, 1.7]
    assert [limit.found for limit in result.limits] == [row["Fisher"] for row in rows]
    assert result.quick
