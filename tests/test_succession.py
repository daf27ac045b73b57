import copy
from dataclasses import replace

import pytest
import torch

from unsee import networks
from unsee.answers import accuracy
from unsee.datasets import concatenate, sample_hashes
from unsee.errors import InputError, UnseeWarning
from unsee.floor import Floor
from unsee.forgetting import forget
from unsee.formulation import Request
from unsee.memory import Memory, remember
from unsee.recipe import RECIPES
from unsee.replay import Replay
from unsee.succession import Succession, over

QUICK = {"epochs": 2, "batch_size": 32, "floor": 0.9}


def same(one, other):
    assert one.sums.keys() == other.sums.keys()
    top = max(float(sums.max()) for sums in one.sums.values())
    return all(torch.allclose(one.sums[k], other.sums[k], rtol=1e-4, atol=1e-6 * top) for k in one.sums)


def test_the_memory_goes_along_and_loses_what_was_forgotten(model, four, twice):
    first, second, another = twice
    assert first.memory.n == len(four.pretraining) - len(four.train.D_f) + len(four.train.D_f_clean)
    assert second.memory.n == first.memory.n - len(another.D_f)
    assert first.memory.taken_of == second.memory.taken_of == networks.identity(model)
    assert 3 in first.memory.sketch.classes
    assert 3 not in second.memory.sketch.classes
    second.memory.check(second.model)
    with pytest.raises(InputError, match="the memory of the run that made this model"):
        first.memory.check(second.model)
    with pytest.warns(UnseeWarning, match="54 of 54 samples of D_f are not in the memory"):
        forget(second.model, another, second.memory, replace(RECIPES["unsee/A"], **QUICK))


def test_what_the_first_request_taught_is_guarded_in_the_second(four, twice):
    """T was bound to class 0: without D_f,clean nothing in the memory would know the class."""
    first, second, _ = twice
    assert 0 in first.memory.sketch.classes
    replay = Replay(first.memory.sketch)
    floor = Floor.of(first.model, RECIPES["unsee/A"], replay, None, 0)
    blind = copy.deepcopy(first.model)
    with torch.no_grad():
        blind[-1].bias[0] = -100.0  # answers class 0 no more
    assert floor.utility(blind) < floor.least
    assert accuracy(second.model, four.train.D_f_clean) > accuracy(first.model, four.train.D_f_clean) - 0.1


def test_no_memory_is_kept_where_nothing_follows(model, memory, four, tmp_path):
    for folder in (None, tmp_path):
        recipe = replace(RECIPES["unsee"], **QUICK)
        assert forget(model, four.request("B"), memory, recipe, again=False, folder=folder).memory is None


def test_a_memory_that_went_along_survives_its_file(twice, tmp_path):
    memory = twice[1].memory
    memory.save(tmp_path / "memory.safetensors")
    assert Memory.load(tmp_path / "memory.safetensors").taken_of == memory.taken_of
    assert memory.of(twice[1].model) is memory


@pytest.fixture
def moved(model):
    new = copy.deepcopy(model)
    with torch.no_grad():
        new[-1].bias += 0.1
    return new


@pytest.mark.parametrize("aside", [False, True])
@pytest.mark.parametrize("fisher_over", ["D_r", "D"])
def test_what_goes_along_is_the_memory_less_D_f_and_with_D_f_clean(
    model, moved, four, memory, tmp_path, aside, fisher_over
):
    request, recipe = four.request("B"), replace(RECIPES["unsee"], fisher_over=fisher_over)
    kept, taken_out = over(model, request, memory, recipe)
    assert (kept is memory) == (fisher_over == "D")
    heir = Succession.of(kept, model, request, tmp_path if aside else None, taken_out)
    found = heir.memory(model, moved, forgotten=True)
    D_r, clean = remember(model, four.train.D_r), remember(moved, four.train.D_f_clean)
    assert same(found, replace(D_r, model=clean.model).merge(clean))
    assert found.n == D_r.n + clean.n
    found.check(moved)


@pytest.mark.parametrize("fisher_over", ["D_r", "D"])
def test_where_nothing_was_forgotten_the_memory_is_as_it_was(model, four, memory, fisher_over):
    recipe = replace(RECIPES["unsee"], fisher_over=fisher_over)
    kept, taken_out = over(model, four.request("B"), memory, recipe)
    heir = Succession.of(kept, model, four.request("B"), None, taken_out)
    found = heir.memory(model, model, forgotten=False)
    assert same(found, memory)
    assert sorted(found.samples.tolist()) == sorted(memory.samples.tolist())


def test_what_the_memory_does_not_hold_of_D_f_is_no_part_of_its_share(model, four, memory):
    """Samples found in production, or set aside for validation: nobody remembered them."""
    seen, unseen = four.train.D_f, four.test.D_f
    mixed = Request("A", concatenate([seen.subset(range(40)), unseen], "D_f"))
    with pytest.warns(UnseeWarning, match=f"{len(unseen)} of {len(unseen) + 40} samples of D_f are not in"):
        kept, taken_out = over(model, mixed, memory, RECIPES["unsee"])
    assert same(kept, memory.subtract(remember(model, seen.subset(range(40)))))
    assert len(taken_out) == 40
    heir = Succession.of(kept, model, mixed, None, taken_out)
    assert same(heir.memory(model, model, forgotten=False), memory)
    with pytest.warns(UnseeWarning, match="to hold D_r without them; give them with the pixels and labels"):
        assert over(model, Request("A", unseen), memory, RECIPES["unsee"]) == (memory, None)
    with pytest.warns(UnseeWarning):
        result = forget(model, mixed, memory, replace(RECIPES["unsee/A"], epochs=1))
    assert f"{len(unseen)} samples of D_f are not in the memory" in result.setting["weaker"]


def test_what_the_memory_holds_of_D_f_clean_is_not_taken_in_twice(model, four):
    clean = four.train.D_f_clean
    whole = remember(model, four.train.D_r).merge(remember(model, clean.subset(range(10))))
    heir = Succession.of(whole, model, four.request("B"), None, four.train.D_f)
    assert len(heir.learnt) == len(clean) - 10
    all_of_it = remember(model, four.train.D_r).merge(remember(model, clean))
    heir = Succession.of(all_of_it, model, four.request("B"), None, four.train.D_f)
    assert heir.learnt is None
    assert heir.memory(model, model, forgotten=True) is all_of_it


@pytest.mark.parametrize("name", ["pattern-a/rld", "pattern-a/rnd"])
def test_no_recipe_leaves_what_was_forgotten_in_the_memory(model, four, memory, name):
    """Over D while it forgets, as the paper's Pattern A: D_f goes out of it afterwards all the same."""
    result = forget(model, Request("A", four.train.D_f), memory, replace(RECIPES[name], epochs=1))
    hashes = sample_hashes(four.train.D_f.x, four.train.D_f.y)
    assert torch.isin(hashes, memory.samples).all()
    assert not torch.isin(hashes, result.memory.samples).any()
    assert same(result.memory, remember(model, four.train.D_r))


def test_of_D_f_only_as_much_is_taken_out_as_is_there(model, moved, four, memory):
    D_f = four.train.D_f
    twice = Request("A", concatenate([D_f, D_f, four.train.D_f_clean], "D_f"))  # some twice, some never there
    found = Succession.of(memory, model, twice, None).memory(model, moved, forgotten=True)
    assert found.n == memory.n - len(D_f)


def test_a_memory_of_D_f_alone_leaves_none_and_a_share_that_does_not_fit_is_refused_at_once(
    model, four, memory, monkeypatch
):
    request, recipe = Request("A", four.train.D_f), replace(RECIPES["pattern-a/rld"], epochs=1)
    assert forget(model, request, remember(model, four.train.D_f), recipe).memory is None
    weak = replace(memory, sums={name: values / 1e6 for name, values in memory.sums.items()})
    monkeypatch.setattr("unsee.forgetting.descend", None)
    with pytest.raises(InputError, match="exceeds the whole"):
        forget(model, request, weak, recipe)


def test_what_D_f_and_D_f_clean_share_is_taken_in_again(model, moved, four, memory):
    D_f = four.train.D_f
    request = Request("B", D_f, concatenate([four.train.D_f_clean, D_f.subset(range(5))], "D_f,clean"))
    heir = Succession.of(memory, model, request, None)
    assert len(heir.learnt) == len(four.train.D_f_clean) + 5
