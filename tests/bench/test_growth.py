import pytest

from unsee.bench.growth import exponent


@pytest.mark.parametrize("power", [0.0, 1.0, 2.0])
def test_the_exponent_is_the_slope(power):
    rows = [{"n": n, "seconds": 0.3 * n**power} for n in (10, 20, 50)]
    assert exponent(rows) == pytest.approx(power)


def test_the_result(results):
    result = results("growth")
    assert len(result.tables) == len(result.limits) == 4
    for rows in result.tables.values():
        sizes = [next(iter(row.values())) for row in rows]
        assert sizes == sorted(set(sizes))
        assert all(row["seconds"] > 0 for row in rows)
    assert [limit.most < 1 for limit in result.limits] == [
        False,
        True,
        False,
        False,
    ]  # D_r alone costs nothing
