"""The guard at the door: who may ask, how, how much at once, and for how long.

It looks at each request before anything else does: the Host it is for, so that no page of another name can
read what is shown here; the method; for whatever changes or computes, that one of our own pages asks; and the
secret at the start of the path, which other users of this machine do not know.
"""

import asyncio
import hmac
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse
from uvicorn.protocols.http.h11_impl import H11Protocol

from unsee.errors import InputError

PATIENCE = 10.0  # seconds in which a request must have come, head and body
LONGEST = 300.0  # seconds in which an answer must have gone
MOST_CONNECTIONS = 512
MOST_HEAD = 16_384  # bytes

Message = MutableMapping[str, Any]
App = Callable[
    [Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]
]

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
# A report is a page of its own, made from files of others: no script, nothing from outside.
REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'self'; sandbox"
)
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Guard:
    """An ASGI application before another one, that lets through only what this machine's own pages ask."""

    def __init__(self, app: App, port: int, secret: str) -> None:
        self.app, self.secret = app, secret
        self.hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")}
        if port == 80:
            self.hosts |= {"127.0.0.1", "localhost", "[::1]"}

    async def __call__(self, scope: Message, receive: Any, send: Any) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            return
        refused = self._refused(scope)

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = {name.lower() for name, _ in message["headers"]}
                more = {**HEADERS, "Content-Security-Policy": POLICY}
                message["headers"] = [
                    *message["headers"],
                    *(
                        (k.lower().encode(), v.encode())
                        for k, v in more.items()
                        if k.lower().encode() not in given
                    ),
                ]
            await send(message)

        await (refused or self.app)(scope, receive, sent)

    def _refused(self, scope: Message) -> App | None:
        headers: dict[bytes, list[str]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.lower(), []).append(value.decode("latin-1"))
        if len(headers.get(b"host", ())) != 1 or headers[b"host"][0].lower() not in self.hosts:
            return _said(400, "This page is only for the machine it runs on.")
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return _said(405, "Only GET, HEAD and POST.", {"Allow": "GET, HEAD, POST"})
        if scope["method"] == "POST" and not self._ours(headers):
            return _said(403, "Only a page of this viewer may ask that.")
        if scope["method"] != "POST" and _foreign(headers):
            return _said(403, "Another site's page may not show this one.")
        start = scope["path"].split("/")[1:2]
        if not start or not hmac.compare_digest(start[0].encode("utf-8", "replace"), self.secret.encode()):
            return _said(404, "Nothing here: open the whole address that `unsee view` printed.")
        return None

    def _ours(self, headers: dict[bytes, list[str]]) -> bool:
        """Say whether a page of this viewer asks: a browser tells where a request comes from."""
        site, origin = headers.get(b"sec-fetch-site", ["same-origin"]), headers.get(b"origin", [])
        return (
            site == ["same-origin"] and len(origin) == 1 and origin[0] in {f"http://{h}" for h in self.hosts}
        )


def _foreign(headers: dict[bytes, list[str]]) -> bool:
    """Say whether another site's page wants to hold a part of this one; a link that one follows is fine."""
    site, mode = headers.get(b"sec-fetch-site", ["none"]), headers.get(b"sec-fetch-mode", ["navigate"])
    where = headers.get(b"sec-fetch-dest", ["document"])
    return site not in (["same-origin"], ["none"]) and (mode, where) != (["navigate"], ["document"])


def _said(code: int, text: str, headers: dict[str, str] | None = None) -> App:
    return PlainTextResponse(f"{text}\n", code, headers)


async def body(request: Request, most: int) -> bytes:
    """Return what a request brings, if that is not too much and comes in time."""
    data, length = bytearray(), request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > most:
        raise InputError(f"at most {most:,} bytes", f"{int(length):,}", "send less")
    try:
        async with asyncio.timeout(PATIENCE):
            async for part in request.stream():
                data += part
                if len(data) > most:
                    raise InputError(f"at most {most:,} bytes", "more", "send less")
    except TimeoutError:
        do = "send it again"
        raise InputError(f"all of it within {PATIENCE:g} seconds", "a part", do) from None
    except ClientDisconnect:
        raise InputError("all of it", "a part", "send it again") from None
    return bytes(data)


class Patient(H11Protocol):
    """A connection that is closed when no request comes of it in time, and early when there are too many.

    uvicorn's own limit would refuse those who have something to ask, and not those who say nothing.
    """

    def connection_made(self, transport: Any) -> None:  # noqa: D102
        super().connection_made(transport)
        self.since = time.monotonic()
        if len(self.connections) > MOST_CONNECTIONS:
            waiting = [other for other in self.connections if isinstance(other, Patient) and not other.busy]
            min(waiting, key=lambda other: other.since).transport.abort()
        self._again = self.loop.call_later(PATIENCE / 4, self._look)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: D102
        self._again.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:  # noqa: D102
        try:
            super().data_received(data)
        except Exception:  # bytes that are no request in ways that h11 does not know
            self.transport.abort()

    def on_response_complete(self) -> None:  # noqa: D102
        self.since = time.monotonic()
        super().on_response_complete()

    @property
    def busy(self) -> bool:
        """Whether a whole head has come that was not answered yet; its body has a limit of its own."""
        return self.cycle is not None and not self.cycle.response_complete

    def _look(self) -> None:
        if time.monotonic() - self.since > (LONGEST if self.busy else PATIENCE):
            self.transport.abort()
        else:
            self._again = self.loop.call_later(PATIENCE / 4, self._look)
