"""Asking the viewer, as a browser does and as nobody should."""

import http.client
import re
import socket
from dataclasses import dataclass
from typing import Any

from unsee.view.server import Viewer


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


@dataclass(frozen=True)
class Address:
    """Where a viewer listens, and what it serves."""

    port: int
    viewer: Viewer

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}{self.viewer.base}"

    def id(self, name: str) -> str:
        return next(f.id for f in self.viewer.shelf.look().runs.values() if f.name == name)

    def ask(
        self, path: str, method: str = "GET", body: Any = None, *, whole: bool = False, **headers
    ) -> Answer:
        """Ask for a path below the secret one, or, if it is whole, as it stands."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            skip = any(name.lower() == "host" for name in given)
            connection.putrequest(method, path if whole else self.viewer.base + path, skip_host=skip)
            if body is not None:
                connection.putheader("Content-Length", str(len(body)))
            for name, value in given.items():
                connection.putheader(name, value)
            connection.endheaders(body)
            answer = connection.getresponse()
            return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def post(self, path: str, body: bytes = b"", **headers) -> Answer:
        """Ask as one of the viewer's own pages does."""
        return self.ask(path, "POST", body, Origin=f"http://127.0.0.1:{self.port}", **headers)

    def raw(self, data: bytes) -> bytes:
        """Send bytes as they are, and return what comes until the other end closes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as connection:
            connection.sendall(data)
            return b"".join(iter(lambda: received(connection), b""))


def received(connection: socket.socket) -> bytes:
    """Return what comes next; nothing where the other end is gone."""
    try:
        return connection.recv(65536)
    except ConnectionResetError:
        return b""


def status(answer: bytes) -> int:
    """Return the code of a raw answer; 0 where the connection was closed without one."""
    found = re.match(rb"HTTP/1.1 (\d+)", answer)
    return int(found[1]) if found else 0
