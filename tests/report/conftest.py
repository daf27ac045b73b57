"""A network that forgot its tiles, and the facts about it, made once."""

import pytest

from unsee import forget
from unsee.formulation import TABLE_1
from unsee.report.facts import facts_of


@pytest.fixture(scope="session")
def forgotten(model, four, memory):
    return forget(model, four.request("B"), memory)


@pytest.fixture(scope="session")
def facts(model, forgotten, four):
    return facts_of(model, forgotten.model, four, TABLE_1["B"], with_images=True)
