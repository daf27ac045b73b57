import pytest

from unsee.data import bringing
from unsee.data.bringing import client, download, package


def test_what_is_at_an_address_is_read_as_a_stream(tmp_path):
    (tmp_path / "a.bin").write_bytes(b"abc")
    with download((tmp_path / "a.bin").as_uri(), True) as stream:
        assert (stream.read(2), stream.read(9)) == (b"ab", b"c")
    with pytest.raises(OSError, match="No such file"), download((tmp_path / "b").as_uri(), False):
        pass


def test_a_package_is_the_one_file_that_its_client_leaves(machine):
    machine.install("npm", "echo $2 > left.tgz")
    with package(False, "npm", "pack", "this") as file:
        assert file.read() == b"this\n"
    machine.install("npm", "echo a > a", "echo b > b")
    with pytest.raises(ValueError, match="too many"), package(False, "npm", "pack", "this"):
        pass


def test_a_client_that_fails_or_hangs_says_so(machine, monkeypatch):
    machine.install("apt-get", "echo 'E: no such\n package' >&2", "exit 100")
    with pytest.raises(OSError, match="E: no such package"):
        client("apt-get", "download", "this")
    machine.install("apt-get", "exit 7")
    with pytest.raises(OSError, match="exit code 7"):
        client("apt-get")
    with pytest.raises(FileNotFoundError):
        client("no-such-client")
    monkeypatch.setattr(bringing, "PATIENCE", 0.1)
    machine.install("apt-get", "/bin/sleep 5")
    with pytest.raises(bringing.subprocess.TimeoutExpired):
        client("apt-get")
