"""Bytes brought from elsewhere: by download, and by the machine's own package clients.

The clients bring their own settings and checks, and nothing of what they bring is run.
"""

import contextlib
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from unsee.data.archives import Limited
from unsee.progress import bar

SILENCE = 20  # seconds without a byte, after which an address is given up
PATIENCE = 1800  # seconds for a package client


@contextlib.contextmanager
def download(address: str, progress: bool) -> Iterator[Any]:
    """Open what is at an address, to be read as a stream."""
    with urllib.request.urlopen(address, timeout=SILENCE) as response:
        size = int(response.headers["Content-Length"] or 0)
        with bar(address.rpartition("/")[2] if progress else None, size) as advance:
            yield Limited(response, advance)


@contextlib.contextmanager
def package(progress: bool, *command: str) -> Iterator[BinaryIO]:
    """Run a package client in a folder of its own, and open the one file it leaves there."""
    with tempfile.TemporaryDirectory(prefix="unsee-") as folder:
        with bar(" ".join(command) if progress else None, 1) as advance:
            client(*command, folder=folder)
            advance(1)
        (path,) = Path(folder).iterdir()
        with open(path, "rb") as file:
            yield file


def client(*command: str, folder: str | None = None) -> str:
    """Run a package client and return what it prints."""
    done = subprocess.run(command, check=False, cwd=folder, capture_output=True, text=True, timeout=PATIENCE)
    if done.returncode:
        raise OSError(" ".join(done.stderr.split())[:300] or f"exit code {done.returncode}")
    return done.stdout
