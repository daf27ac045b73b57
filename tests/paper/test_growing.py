import pytest
import torch

from unsee import networks
from unsee.errors import InputError
from unsee.paper.growing import grown, halved


def test_the_mean_of_each_two_by_two_pixels(data):
    small = halved(data.test)
    assert small.x.shape[2:] == (7, 7)
    assert small.x[3, 0, 1, 2] == data.test.x[3, 0, 2:4, 4:6].float().mean().round()
    floats = halved(data.test.with_(x=data.test.x / 255, value_range=(0.0, 1.0)))
    assert torch.equal(floats.x[3, 0, 1, 2], (data.test.x[3, 0, 2:4, 4:6] / 255).mean())
    with pytest.raises(InputError, match="even height and width, found 13 x 14"):
        halved(data.test.with_(x=data.test.x[:, :, 1:]))


def test_the_grown_network_answers_as_the_small_one(data):
    x = data.test.x
    whole = data.test.with_(x=torch.cat([x, x.flip(3) // 2, 255 - x], 1))
    half = halved(whole)
    for printed in (True, False):
        small = networks.network("mlp", half, depth=4, printed=printed, seed=5)
        large = grown(small, whole)
        assert large.spec["shape"] == [3, 14, 14]
        x = whole.x[:50].float()
        y = small(torch.nn.functional.avg_pool2d(x, 2))
        torch.testing.assert_close(large(x), y, atol=2e-4, rtol=1e-4)
        torch.set_num_threads(2)  # a run goes on with any number of threads
        assert networks.identity(grown(small, whole)) == networks.identity(large)
        torch.set_num_threads(1)


def test_what_is_new_is_orthogonal_and_learns(data):
    large = grown(networks.network("mlp", halved(data.test), depth=3), data.test)
    _, _, first, _, second, _, last = large
    for layer, n in ((first, 49), (second, 49)):
        new = layer.weight[n:].detach()
        torch.testing.assert_close(new @ new.T, torch.eye(len(new)), atol=1e-5, rtol=0)
    torch.nn.functional.cross_entropy(large(data.test.x.float()), data.test.y).backward()
    assert last.weight.grad[:, 49:].abs().sum() > 0
    assert second.weight.grad[:49, 49:].abs().sum() > 0
