import pytest
import torch
from torch import nn

from unsee import networks
from unsee.datasets import Dataset
from unsee.report import saliency
from unsee.transforms import custom, tile


class Linear(nn.Module):
    """Logits that are sums over the left and the right half of an image."""

    def forward(self, x):
        left, right = x[..., :2].sum((1, 2, 3)), x[..., 2:].sum((1, 2, 3))
        return torch.stack([left, right], 1)


def test_of_a_linear_model_each_pixel_has_its_own_share():
    x = torch.tensor([[[[4.0, 1.0, 0.0, 0.0], [2.0, 3.0, 0.0, 1.0]]]])
    found = saliency.attributions(Linear(), x, torch.ones(1, 2, 4))
    assert torch.allclose(found[0], torch.tensor([[3.0, 0.0, 0.0, 0.0], [1.0, 2.0, 0.0, 0.0]]), atol=1e-5)


def test_attributions_add_up_to_what_the_answer_gained(model, four):
    """Integrated gradients are complete: their sum is f(x) - f(baseline), for raw pixels from 0 to 255."""
    x, baseline = four.test.D_r.x[:4], four.test.D_r.x.float().mean(0)
    found = saliency.attributions(model, x, baseline)
    with torch.no_grad():
        gained = model(x.float()) - model(baseline[None])
    gained = gained.gather(1, model(x.float()).argmax(1, keepdim=True))[:, 0]
    assert torch.allclose(found.sum((1, 2)), gained, rtol=0.15, atol=0.3)


class InPlace(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(196, 3)

    def forward(self, x):
        return self.layer(x.div_(255).flatten(1).relu_())


class Rounding(nn.Module):
    """No gradient leads through it to the input."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(196, 3)

    def forward(self, x):
        return self.layer((x > 100).float().flatten(1))


def test_batch_norm_in_place_work_frozen_weights_and_modes(data):
    net = networks.network("resnet", data.train, width=4, blocks=1).train()
    net[2].eval()
    statistics = net[2].running_mean.clone()
    for model in (net, InPlace(), networks.Truncated(net, 3), net.requires_grad_(False)):
        found = saliency.attributions(model, data.test.x[:3], data.test.x.float().mean(0))
        assert found.shape == (3, 14, 14)
        assert bool((found != 0).any())
    assert net.training
    assert not net[2].training
    assert torch.equal(net[2].running_mean, statistics)
    assert all(p.grad is None for p in net.parameters())
    assert data.test.x.dtype == torch.uint8


def test_it_works_where_gradients_are_switched_off(model, data):
    with torch.no_grad():
        assert saliency.attributions(model, data.test.x[:2], data.test.x.float().mean(0)) is not None


def test_a_model_without_gradients_has_none(data):
    assert saliency.attributions(Rounding(), data.test.x[:2], data.test.x.float().mean(0)) is None
    assert saliency.looks_of(Rounding(), Rounding(), tile(), data.test, 0) is None


def test_looks_tell_a_model_that_looks_at_T_from_one_that_does_not():
    class At(nn.Module):
        """Answers by one row of pixels."""

        def __init__(self, row):
            super().__init__()
            self.row, self.scale = row, nn.Parameter(torch.ones(1))

        def forward(self, x):
            seen = self.scale * x[:, 0, self.row].sum(1)
            return torch.stack([seen, 200 - seen], 1)

    def mark(x):
        x[..., 1, :] = 200
        return x

    x = torch.arange(40 * 36).reshape(40, 1, 6, 6) % 90
    data = Dataset(x.to(torch.uint8), [0, 1] * 20)
    looks = saliency.looks_of(At(1), At(4), custom(mark, "row 1"), data, 0)
    assert looks.n == 32
    assert looks.area == pytest.approx(1 / 6)
    assert looks.before > 0.99
    assert looks.after < 0.01
    assert looks.clean_after < 0.01


def test_what_is_no_image_or_a_large_one_is_not_looked_at():
    numbers = Dataset(torch.rand(4, 6), [0, 1, 0, 1])
    large = Dataset(torch.zeros(2, 1, 65, 65, dtype=torch.uint8), [0, 1])
    for data in (numbers, large):
        assert saliency.looks_of(Linear(), Linear(), tile(), data, 0) is None


@pytest.mark.parametrize("side", [6, 28, 100])
def test_the_picture_glows_where_the_answer_comes_from(side):
    found = torch.zeros(side, side)
    found[: side // 3, : side // 3] = 1
    found[-1, -1] = -50
    picture = saliency.picture(found, torch.full((side, side), 0.5))
    assert picture.shape == (3, side, side)
    assert float(picture.min()) >= 0
    assert float(picture.max()) <= 1
    assert picture[0, 0, 0] > 0.9
    assert torch.allclose(picture[:, -1, -1], torch.tensor(0.2))
    dark = saliency.picture(torch.zeros(side, side), torch.full((side, side), 0.5))
    assert torch.allclose(dark, torch.tensor(0.2))
