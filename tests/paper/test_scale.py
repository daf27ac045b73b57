import pytest

from unsee.datasets import concatenate
from unsee.errors import InputError
from unsee.paper import scale
from unsee.paper.cells import Cell, Unit
from unsee.paper.scale import QUICK, Scale
from unsee.sources import TrainTest


def test_the_slice_that_stands_for_cifar_10(data):
    small = scale._slice(data)
    assert small.train.x.shape == (600, 1, 7, 7)
    assert small.test.y.bincount().tolist() == [20] * 10
    many = TrainTest(*(concatenate([part] * 4, "many") for part in (data.train, data.test)))
    assert [len(part) for part in (scale._slice(many).train, scale._slice(many).test)] == [1500, 500]


def test_a_quick_run_is_shorter_and_else_the_papers():
    cell = Cell(Unit("fashion-mnist", "tile"), "B", "CE")
    whole, quick = Scale().recipe(cell), QUICK.recipe(cell)
    assert whole == cell.recipe
    assert (quick.epochs, quick.batch_size) == (1, 64)
    assert (quick.lr, quick.lambda_kl, quick.lambda_f) == (whole.lr, whole.lambda_kl, whole.lambda_f)
    with pytest.raises(InputError, match="at least one seed"):
        Scale(seeds=0)
