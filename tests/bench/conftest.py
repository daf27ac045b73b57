"""Each benchmark in its tiny form, run once; no test looks at a time."""

import pytest

from unsee.bench import page


@pytest.fixture(scope="session")
def results():
    """The result of a benchmark by its name."""
    found = {}

    def result(name):
        if name not in found:
            found[name] = page.BENCHES[name](f"unsee bench {name} --quick", quick=True)
        return found[name]

    return result
