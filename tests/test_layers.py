import pytest
import torch

from reference import fisher_sum as defined
from unsee import networks, sources
from unsee.datasets import Dataset
from unsee.errors import InputError
from unsee.fisher import fisher_sum
from unsee.kinds import Kind
from unsee.layers import Columns, Words


def test_columns_standardise_numbers_and_spread_names_out():
    layer = Columns([0, 3], [40.0, 0.0], [10.0, 1.0])
    assert layer(torch.tensor([[50.0, 2.0], [40.0, 0.0]])).tolist() == [[1, 0, 0, 1], [0, 1, 0, 0]]
    assert layer.width == 4


def test_what_is_no_word_changes_nothing():
    torch.manual_seed(0)
    reader = Words(20, 6, 8, 2, 2).eval()
    short = torch.tensor([[4, 5, 6, 0, 0, 0]])
    weights = reader.words.weight.clone()
    with torch.no_grad():
        before = reader(short)
        reader.places.weight[3:] += 1  # places where there is no word
        assert torch.allclose(reader(short), before, atol=1e-6)
        reader.places.weight[2] += torch.arange(8.0)
        assert not torch.allclose(reader(short), before, atol=1e-3)
    assert torch.equal(weights, reader.words.weight)
    assert torch.isfinite(reader(torch.zeros(2, 6, dtype=torch.long))).all()


@pytest.mark.parametrize("open_source", [sources.bundled_adult, sources.bundled_spam])
def test_networks_for_tables_and_texts_are_saved_and_loaded(open_source, tmp_path):
    data = open_source().train.subset(range(20))
    model = networks.network(None, data, width=8)
    assert model.spec["network"] == data.kind.name
    assert model(data.x).shape == (20, 2)
    networks.save(model, tmp_path / "m.safetensors")
    again = networks.load(tmp_path / "m.safetensors")
    assert networks.identity(again) == networks.identity(model)
    assert torch.equal(again(data.x), model(data.x))
    assert networks.identity(networks.network(None, data, width=8, seed=1)) != networks.identity(model)
    assert networks.fresh(model, 0)(data.x).shape == (20, 2)


@pytest.mark.parametrize("open_source", [sources.bundled_adult, sources.bundled_spam])
def test_their_fisher_is_the_definitions_and_in_closed_form(open_source):
    data = open_source().train.subset(range(0, 1600, 200))
    model = networks.network(None, data, width=8).double()
    x = data.x.double() if data.kind.columns else data.x
    samples = Dataset(x, data.y, data.classes, kind=data.kind)
    found = fisher_sum(model, samples)
    assert set(found.tiers.values()) == {"rule"}
    for name, squares in defined(model, samples).items():
        assert torch.allclose(found.sums[name], squares, rtol=1e-9, atol=1e-15), name


def test_a_network_for_other_data_is_refused():
    table, text = sources.bundled_adult().train, sources.bundled_spam().train
    images = sources.bundled().train.subset(range(4))
    for name, data in (("mlp", table), ("text", table), ("table", text), ("table", images), ("text", images)):
        with pytest.raises(InputError):
            networks.network(name, data)
    with pytest.raises(InputError, match="images"):
        networks.network(None, table.with_(kind=Kind()))
