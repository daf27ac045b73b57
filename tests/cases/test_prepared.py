import pytest
import torch
from torch import nn

from unsee import networks
from unsee.cases.prepared import Opened, Prepared, Preprocessing
from unsee.errors import InputError
from unsee.weights import files as weights


@pytest.fixture
def net():
    return networks.resnet((3, 8, 8), 3, width=4, blocks=1, seed=3).eval()


def test_pixels_are_divided_resized_and_standardised(net):
    how = Preprocessing(2.0, (8, 8), (1.0, 2.0, 3.0), (4.0, 5.0, 6.0))
    x = torch.rand(2, 3, 16, 16) * 255
    small = nn.functional.interpolate(x / 2, (8, 8), mode="bilinear", antialias=True)
    mean, std = (torch.tensor(v).reshape(3, 1, 1) for v in (how.mean, how.std))
    assert torch.allclose(Prepared(net, how)(x), net((small - mean) / std))


@pytest.mark.parametrize("words", [{"divide_by": 0.0}, {"std": (0.0,)}, {"mean": (1.0, 2.0)}])
def test_preprocessing_that_makes_no_sense(words):
    with pytest.raises(InputError):
        Preprocessing(**words)


def test_another_preprocessing_is_another_model(net):
    plain = networks.identity(Prepared(net, Preprocessing()))
    for how in (Preprocessing(1.0), Preprocessing(size=(8, 8)), Preprocessing(mean=(0.5,), std=(1.0,))):
        assert networks.identity(Prepared(net, how)) != plain


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_half_precision_is_judged_as_it_is_written(net, tmp_path, kind):
    half = {k: v.to(kind) if v.is_floating_point() else v for k, v in net.state_dict().items()}
    torch.save(half, tmp_path / "half.pth")
    opened = Opened(Prepared(net, Preprocessing()), weights.read(tmp_path / "half.pth"), ())
    rounded = opened.as_written(opened.model)
    assert networks.identity(rounded) != networks.identity(opened.model)
    opened.write(tmp_path / "new.pth", rounded)
    again = weights.read(tmp_path / "new.pth").tensors
    for name, value in rounded.model.state_dict().items():
        assert torch.equal(again[name].to(value.dtype), value)


def test_full_precision_stays_as_it_is(net, tmp_path):
    torch.save(net.state_dict(), tmp_path / "net.pth")
    opened = Opened(Prepared(net, Preprocessing()), weights.read(tmp_path / "net.pth"), ())
    assert opened.as_written(opened.model) is opened.model
