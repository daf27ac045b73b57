import copy
from dataclasses import replace

import pytest
import torch

from unsee import networks
from unsee.answers import accuracy
from unsee.errors import InputError
from unsee.floor import Floor
from unsee.forgetting import forget
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
    with pytest.raises(InputError, match="samples that are not in it"):
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


@pytest.mark.parametrize("aside", [False, True])
def test_what_goes_along_is_the_memory_less_D_f_and_with_D_f_clean(model, four, memory, tmp_path, aside):
    request, new = four.request("B"), copy.deepcopy(model)
    with torch.no_grad():
        new[-1].bias += 0.1
    kept = over(model, request, memory, RECIPES["unsee"])
    heir = Succession.of(kept, request, tmp_path if aside else None)
    found = heir.memory(model, new, nothing_forgotten=False)
    D_r, clean = remember(model, four.train.D_r), remember(new, four.train.D_f_clean)
    assert same(found, replace(D_r, model=clean.model).merge(clean))
    assert found.n == D_r.n + clean.n
    found.check(new)


def test_where_nothing_was_forgotten_the_memory_is_whole_again(model, four, memory):
    kept = over(model, four.request("B"), memory, RECIPES["unsee"])
    assert kept.n < memory.n
    found = Succession.of(kept, four.request("B"), None).memory(model, model, nothing_forgotten=True)
    assert same(found, memory)
    assert sorted(found.samples.tolist()) == sorted(memory.samples.tolist())


def test_what_the_memory_holds_of_D_f_clean_is_not_taken_in_twice(model, four):
    clean = four.train.D_f_clean
    whole = remember(model, four.pretraining).merge(remember(model, clean.subset(range(10))))
    heir = Succession.of(whole, four.request("B"), None)
    assert len(heir.learnt) == len(clean) - 10
    all_of_it = remember(model, four.pretraining).merge(remember(model, clean))
    heir = Succession.of(all_of_it, four.request("B"), None)
    assert heir.learnt is None
    assert heir.memory(model, model, nothing_forgotten=False) is all_of_it
