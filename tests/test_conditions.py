import warnings

import numpy as np
import pytest
import torch

from unsee import sources
from unsee.datasets import Dataset
from unsee.errors import InputError, UnseeWarning
from unsee.formulation import Request
from unsee.kinds import PLAIN
from unsee.transforms import custom, line, patch, scattered, tile


def sets(data):
    clean = data.train.of_class(0)
    return {"D_f": tile()(clean), "D_f_clean": clean}


def test_sets_that_do_not_fit_each_other(data):
    D_f = sets(data)["D_f"]
    with pytest.raises(InputError, match="the same classes in D_f and D_f,clean"):
        Request("B", D_f, Dataset(D_f.x, [0] * len(D_f)))
    with pytest.raises(InputError, match="the same value range"):
        Request("B", D_f, D_f.rescaled(0, 1))
    with pytest.raises(InputError, match="samples of one shape"):
        Request("B", D_f, D_f.with_(x=D_f.x[..., :7]))


WRONG = [
    line(),
    line().then(tile()),
    custom(lambda x: x, "nothing"),
    custom(lambda x: 255 - x, "negative"),
    custom(lambda x: x.flip(-1), "mirror"),
    patch(torch.full((6, 6), 255), 0, 0),
]


@pytest.mark.parametrize("T", WRONG, ids=lambda T: T.name)
def test_a_wrong_T_is_flagged(data, T):
    with pytest.warns(UnseeWarning, match="does not lead from D_f,clean to D_f"):
        Request("B", **sets(data), T=T)


def test_a_right_T_is_not_flagged(data):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Request("B", **sets(data), T=tile())
        order = np.random.default_rng(0).permutation(60)
        Request("B", sets(data)["D_f"].subset(order), sets(data)["D_f_clean"], tile())


def test_a_T_by_chance_need_not_lead_to_the_very_samples_of_D_f(data):
    clean = data.train.of_class(0)
    logo = scattered(torch.full((3, 3), 255), (3, 5), seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Request("C", scattered(torch.full((3, 3), 255), (3, 5))(clean), clean, logo)


def test_D_f_and_its_clean_twins_are_of_one_kind():
    table = sources.bundled_adult().train.subset(range(4))
    with pytest.raises(InputError, match="the same columns or vocabulary"):
        Request("C", table, table.with_(kind=PLAIN))
