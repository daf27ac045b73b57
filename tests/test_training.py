import pytest
import torch
from torch import nn

from unsee import networks
from unsee.errors import Diverged, Interrupted
from unsee.evaluation import evaluator
from unsee.training import train


def test_training_learns_and_leaves_its_input_alone(four):
    start = networks.network("resnet", four.pretraining, width=8, blocks=1)
    before = networks.identity(start)
    result = train(start, four.pretraining, epochs=2, lr=0.05, batch_size=50, evaluator=evaluator(four))
    assert networks.identity(start) == before
    assert result.trajectory[-1]["L_cls"] < result.trajectory[1]["L_cls"]
    assert result.trajectory[-1]["D_r"] > 0.3
    statistics = [m.running_mean for m in result.model.modules() if isinstance(m, nn.BatchNorm2d)]
    assert all(s.any() for s in statistics)
    assert not result.model.training
    assert result.identity["data"] == four.pretraining.fingerprint


def test_the_same_seed_gives_the_same_bits(four):
    start = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(196, 10))
    runs = [train(start, four.pretraining, epochs=1, seed=seed).model for seed in (0, 0, 1)]
    ids = [networks.identity(model) for model in runs]
    assert torch.rand(1) != torch.rand(1)
    assert ids[0] == ids[1] != ids[2]


def test_divergence_keeps_the_last_good_state(four):
    start = networks.network("mlp", four.pretraining, depth=2)
    with pytest.raises(Diverged) as caught:
        train(start, four.pretraining, lr=3e38)
    assert networks.identity(caught.value.last_good.model) == networks.identity(start)


def test_training_goes_on_after_a_stop_with_batchnorm(tmp_path, four):
    start = networks.network("resnet", four.pretraining, width=4, blocks=1)
    words = {"epochs": 1, "batch_size": 60}
    whole = train(start, four.pretraining, **words)
    asked = iter([False, False, False, True])
    with pytest.raises(Interrupted):
        train(start, four.pretraining, **words, folder=tmp_path, stop=lambda: next(asked))
    again = train(start, four.pretraining, **words, folder=tmp_path)
    assert networks.identity(again.model) == networks.identity(whole.model)
    assert all(torch.equal(a, b) for a, b in zip(again.model.buffers(), whole.model.buffers(), strict=True))
