import numpy as np
import pytest
import torch

from unsee.randomness import chances, cycle, seeded, stream


def test_streams_differ_by_seed_name_and_step():
    draws = {
        tuple(stream(seed, name, step).integers(2**62, size=4).tolist())
        for seed in range(5)
        for name in ("rld", "D_f")
        for step in range(50)
    }
    assert len(draws) == 5 * 2 * 50


def test_seeded_is_repeatable_and_leaves_the_global_generator_alone():
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    with seeded(0, "mlp"):
        first = torch.rand(3)
    assert torch.equal(torch.rand(3), expected)
    with seeded(0, "mlp"):
        assert torch.equal(torch.rand(3), first)
    with seeded(1, "mlp"):
        assert not torch.equal(torch.rand(3), first)


@pytest.mark.parametrize("n", [1, 7, 64])
@pytest.mark.parametrize("count", [1, 7, 64, 600])
def test_cycle_uses_every_sample_equally_often(n, count):
    used = np.concatenate([cycle(3, "D_f", n, start, 5) for start in range(0, 5 * count, 5)])
    times = np.bincount(used, minlength=n)
    assert times.sum() == 5 * count
    assert set(times.tolist()) <= {5 * count // n, -(-5 * count // n)}


def test_cycle_is_a_function_of_the_position():
    whole = cycle(0, "D", 10, 0, 35)
    assert np.array_equal(cycle(0, "D", 10, 13, 9), whole[13:22])


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.float32, torch.float64, torch.float16])
def test_chances_belong_to_the_sample_and_are_even(dtype):
    x = torch.as_tensor(np.random.default_rng(0).integers(0, 200, (4000, 3, 2))).to(dtype)
    u = chances(x, 0, "place")
    assert torch.equal(chances(x[[9, 4]], 0, "place"), u[[9, 4]])
    assert float(u.min()) >= 0
    assert float(u.max()) < 1
    assert torch.histc(u.float(), 10, 0, 1).sub(400).abs().max() < 80
    other = chances(x, 0, "size")
    assert abs(float(torch.corrcoef(torch.stack([u, other]))[0, 1])) < 0.05
    assert not torch.equal(chances(x, 1, "place"), u)
