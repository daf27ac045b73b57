import pytest
import torch
from torch import nn

from unsee.bench import subjects


@pytest.mark.parametrize(
    ("subject", "parameters"),
    [
        # Counted by hand: 9 (784 x 784 + 784) + 784 x 10 + 10 is the paper's.
        (subjects.mlp(2), 5_546_810),
        # 11,173,962 is what everybody's ResNet-18 for ten classes at 32 pixels has.
        (subjects.resnet_18(2), 11_173_962),
        (subjects.vit(2, dim=16, depth=1), None),
    ],
    ids=["mlp", "resnet-18", "vit"],
)
def test_networks_answer_their_data(subject, parameters):
    assert parameters in (None, subject.parameters)
    assert not subject.model.training
    with torch.no_grad():
        y = subject.model(subject.data.x.float())
    assert y.shape == (2, subjects.CLASSES)
    assert y.std() > 0


def test_batchnorm_is_frozen():
    model = subjects.resnet_18(1, width=4).model
    norms = [layer for layer in model.modules() if isinstance(layer, nn.BatchNorm2d)]
    assert len(norms) == 20
    assert not any(layer.training for layer in norms)


def test_images_are_the_same_each_time():
    assert subjects.images(4, (1, 3, 3)).fingerprint == subjects.images(4, (1, 3, 3)).fingerprint
    assert subjects.images(4, (1, 3, 3)).fingerprint != subjects.images(4, (1, 3, 3), seed=1).fingerprint
