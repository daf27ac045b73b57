import pytest

from unsee.data.adult import COLUMNS, rows_of

LINE = (
    "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, "
    "2174, 0, 40, United-States, <=50K"
)


def test_lines_of_both_files_become_rows():
    x, y = rows_of(f"|1x3 Cross validator\n{LINE}.\n{LINE.replace('<=50K', '>50K')}\n\n".encode())
    assert x.shape == (2, 14)
    assert y.tolist() == [0, 1]
    sex = [column.name for column in COLUMNS].index("sex")
    assert COLUMNS[sex].values[x[0, sex]] == "Male"


@pytest.mark.parametrize(
    "line", [LINE.replace("Male", "male"), LINE.replace("39", "old"), LINE.replace(", 40", ""), "é" + LINE]
)
def test_other_lines_are_no_source(line):
    with pytest.raises((KeyError, ValueError)):
        rows_of(line.encode())
