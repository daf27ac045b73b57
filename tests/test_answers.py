import pytest
import torch
from torch import nn

from unsee import networks
from unsee.answers import accuracy, answers, as_input, check_fit, reading
from unsee.datasets import Dataset
from unsee.errors import InputError


def test_samples_take_the_models_type_and_tokens_stay():
    model = nn.Linear(2, 2).double()
    assert as_input(torch.zeros(1, 2, dtype=torch.uint8), model).dtype == torch.float64
    assert as_input(torch.zeros(1, 2, dtype=torch.long), model).dtype == torch.int64


def test_answers_are_softmax_in_eval_mode_and_the_mode_is_restored(data):
    model = nn.Sequential(nn.Flatten(), nn.Dropout(0.9), nn.Linear(196, 10)).train()
    first, second = answers(model, data.test), answers(model, data.test)
    assert torch.equal(first, second)
    assert torch.allclose(first.sum(1), torch.ones(len(data.test)))
    assert model.training
    assert accuracy(model, data.test) == float((first.argmax(1) == data.test.y).double().mean())


def test_every_part_of_a_model_gets_its_own_mode_back(data):
    model = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(196), nn.Linear(196, 10)).train()
    model[1].eval()  # frozen by its owner
    answers(model, data.test)
    assert [module.training for module in model] == [True, False, True]


def test_a_model_that_works_in_place_leaves_the_data_alone(data):
    class InPlace(nn.Linear):
        def forward(self, x):
            return super().forward(x.flatten(1).div_(255))

    floats = data.test.with_(x=data.test.x.float())
    before = floats.x.clone()
    answers(InPlace(196, 10), floats)
    assert torch.equal(floats.x, before)


def test_an_answer_of_nan_is_no_answer(data):
    class Broken(nn.Linear):
        def forward(self, x):
            return super().forward(x.flatten(1)) * torch.nan

    assert accuracy(Broken(196, 10), data.test.of_class(0)) == 0


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (nn.Sequential(nn.Flatten(), nn.Linear(196, 4)), "every class, found 4 for 10 classes"),
        (nn.Linear(7, 10), "data that the model takes"),
        (nn.Conv2d(1, 10, 3), r"logits of shape \(n, C\)"),
    ],
)
def test_data_and_model_that_do_not_fit(model, message, data):
    with pytest.raises(InputError, match=message):
        check_fit(model, data.test)


def test_more_outputs_than_classes_are_fine(data):
    check_fit(nn.Sequential(nn.Flatten(), nn.Linear(196, 12)), data.test)


def test_answers_that_vary_are_refused(data):
    class Noisy(nn.Linear):
        def forward(self, x):
            return super().forward(x.flatten(1)) + torch.rand(1)

    with pytest.raises(InputError, match="answers the same sample alike"):
        check_fit(Noisy(196, 10), data.test)


def test_empty_data_of_right_shape():
    data = Dataset(torch.zeros(0, 1, 14, 14), torch.zeros(0, dtype=torch.long), ("a", "b"))
    assert len(data) == 0


def test_reading_gives_the_answers_and_what_each_layer_read(data):
    model = nn.Sequential(nn.Flatten(), nn.Linear(196, 7), nn.ReLU(), nn.Linear(7, 10))
    x = data.test.x[:5].float()
    y, read = reading(model, x)
    assert torch.equal(y, model(x))
    assert len(read) == 2
    assert torch.equal(read[0], x.flatten(1))
    assert torch.equal(read[1], model[:3](x))
    assert read[1].requires_grad


def test_reading_leaves_no_hooks_even_where_the_model_fails(data):
    model = nn.Sequential(nn.Flatten(), nn.Linear(196, 7), nn.Linear(8, 10))
    with pytest.raises(RuntimeError):
        reading(model, data.test.x[:5].float())
    assert not any(module._forward_pre_hooks for module in model.modules())
    good = nn.Sequential(nn.Flatten(), nn.Linear(196, 10))
    reading(good, data.test.x[:5].float())
    assert not any(module._forward_pre_hooks for module in good.modules())


def test_reading_convolutions_and_layers_that_are_used_twice(data):
    model = networks.network("resnet", data.train, width=4, blocks=1).eval()
    x = data.test.x[:3].float()
    y, read = reading(model, x)
    layers = [m for m in model.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
    assert len(read) == len(layers)
    assert all(len(h) == 3 for h in read)
    assert torch.equal(y, model(x))
    twice = nn.Linear(4, 4)
    _, read = reading(nn.Sequential(twice, nn.Tanh(), twice), torch.ones(2, 4))
    assert len(read) == 2
    assert torch.equal(read[1], twice(torch.ones(2, 4)).tanh())


def test_reading_a_model_without_layers_gives_its_answers():
    y, read = reading(nn.Tanh(), torch.ones(2, 3))
    assert read == []
    assert torch.equal(y, torch.ones(2, 3).tanh())


def test_reading_without_gradients(data):
    model = nn.Sequential(nn.Flatten(), nn.Linear(196, 7), nn.Linear(7, 10))
    with torch.no_grad():
        y, read = reading(model, data.test.x[:5].float())
    assert not y.requires_grad
    assert not any(h.requires_grad for h in read)
