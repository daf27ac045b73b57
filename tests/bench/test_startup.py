def test_the_result(results):
    result = results("startup")
    (rows,) = result.tables.values()
    assert rows[0]["in starts of the interpreter"] == 1
    assert rows[1]["start"] == "unsee --help"
    assert all(row["ms of processor time"] > 0 for row in rows)
    assert [limit.found for limit in result.limits] == [rows[1]["in starts of the interpreter"]]
