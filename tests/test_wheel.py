"""The wheel, outside of the checkout: what is shipped is all that is needed."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder with what the wheel installs; what it depends on is there already."""
    folder = tmp_path_factory.mktemp("wheel")
    build = ["wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run([*PIP, *build], check=True, capture_output=True)
    wheel = next(folder.glob("unsee-*.whl"))
    place = folder / "site"
    subprocess.run([*PIP, "install", "--no-deps", "--target", str(place), str(wheel)], check=True)
    return place


def run(installed, folder, *words):
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    command = [sys.executable, *words]
    return subprocess.run(command, cwd=folder, env=environment, check=False, capture_output=True, text=True)


@pytest.mark.timeout(600)
def test_the_demo_runs_from_the_wheel_in_another_folder(installed, tmp_path):
    where = run(installed, tmp_path, "-c", "import unsee; print(unsee.__file__)").stdout
    assert Path(where.strip()).is_relative_to(installed)
    done = run(installed, tmp_path, "-m", "unsee", "demo")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "runs" / "demo" / "report.html").stat().st_size > 50_000


def test_what_is_shipped(installed):
    names = {str(path.relative_to(installed / "unsee")) for path in (installed / "unsee").rglob("*")}
    assert {"py.typed", "report/page.html", "report/style.css", "bundled/fashion-mnist-7000.npz"} <= names
    assert not [name for name in names if name.startswith(("tests/", "results/", "runs/"))]


def test_the_notices_are_in_the_wheel(installed):
    wheel = next(installed.parent.glob("unsee-*.whl"))
    notices = [name for name in zipfile.ZipFile(wheel).namelist() if "/licenses/" in name]
    assert any(name.endswith("LICENSE") for name in notices)
    assert any("NOTICE-fashion-mnist" in name for name in notices)
