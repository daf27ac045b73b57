"""The server: what each address answers. It listens on this machine's own address and on no other."""

import secrets
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlencode

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Mount, Route, Router

from unsee.errors import InputError, UnseeError, UsageError
from unsee.report.page import render
from unsee.report.run import Run, read_run
from unsee.view import pages
from unsee.view.benches import Benches
from unsee.view.guard import MOST_HEAD, REPORT_POLICY, Guard, Patient
from unsee.view.runs import Found, Shelf, chosen
from unsee.view.turns import Late

LOOPBACK = "127.0.0.1"
PORT = 8642
MOST_COMPARED = 50


class Viewer:
    """The runs below a folder, served below a secret path that changes with every start."""

    def __init__(self, folder: Path | str, secret: str | None = None) -> None:
        self.shelf = Shelf(Path(folder))
        self.base = f"/{secret or secrets.token_urlsafe(16)}"
        self.files = pages.files()
        self.benches = Benches(self.base, self.found)

    def app(self, port: int) -> Guard:
        """Return the application behind its guard, for that port."""
        routes = [
            Route("/", self._runs),
            Route("/compare", self._compare),
            Route("/compare/report", self._compared),
            Route("/run/{id}", self._run),
            Route("/run/{id}/report", self._report),
            *self.benches.routes(),
            Route("/{file}", self._file),
        ]
        handlers = {UnseeError: self._said, HTTPException: self._missing, Exception: self._missing}
        inner = Router(routes, redirect_slashes=False)
        app = Starlette(routes=[Mount(self.base, inner)], exception_handlers=handlers)
        app.router.redirect_slashes = False
        return Guard(app, port, self.base.lstrip("/"))

    def found(self, request: Request) -> Found:
        """Return the run that an address speaks of: looked up, never joined to a path."""
        run = self.shelf.find(request.path_params["id"])
        if run is None:
            raise HTTPException(404)
        return run

    def _runs(self, request: Request) -> Response:
        asked, partly = request.query_params, "hx-request" in request.headers
        words = asked.get("filter", "")[:200]
        sort, down = asked.get("sort", "date"), asked.get("down", "1") == "1"
        folder, looked = str(self.shelf.folder), self.shelf.look()
        page = pages.runs(
            self.base,
            folder,
            looked,
            sort=sort,
            down=down,
            words=words,
            picked=asked.getlist("run")[:MOST_COMPARED],
            whole=not partly,
        )
        where = urlencode({"sort": sort, "down": int(down), "filter": words})
        return HTMLResponse(page, headers={"HX-Replace-Url": f"{self.base}/?{where}"} if partly else None)

    def _run(self, request: Request) -> Response:
        found = self.found(request)
        return HTMLResponse(pages.framed(self.base, f"{self.base}/run/{found.id}/report", found.name, found))

    def _report(self, request: Request) -> Response:
        return _report([_read(self.found(request))])

    def _compare(self, request: Request) -> Response:
        runs = self._chosen(request)
        source = urlencode([("run", found.id) for found in runs])
        title = f"{len(runs)} runs side by side"
        return HTMLResponse(pages.framed(self.base, f"{self.base}/compare/report?{source}", title))

    def _compared(self, request: Request) -> Response:
        return _report([_read(found) for found in self._chosen(request)])

    def _chosen(self, request: Request) -> list[Found]:
        ids = request.query_params.getlist("run")
        if len(ids) > MOST_COMPARED:
            raise UsageError(f"at most {MOST_COMPARED} runs side by side", f"{len(ids)}", "choose fewer")
        runs = chosen(self.shelf, ids)
        if len(runs) < 2:
            raise UsageError("two runs or more to compare", f"{len(runs)}", "choose them in the table")
        return runs

    def _file(self, request: Request) -> Response:
        found = self.files.get(request.path_params["file"])
        if found is None:
            raise HTTPException(404)
        return Response(found[1], media_type=found[0])

    def _said(self, request: Request, error: Exception) -> Response:
        """Answer with the error's sentence, as a page or as a part of one."""
        code = 503 if isinstance(error, Late) else 422
        if "hx-request" in request.headers:
            return HTMLResponse(pages.said("That did not work.", str(error)), code)
        return HTMLResponse(pages.missing(self.base, "That did not work", str(error)), code)

    def _missing(self, request: Request, error: Exception) -> Response:
        code = error.status_code if isinstance(error, HTTPException) else 500
        text = {
            404: "There is nothing at this address. The run may have been moved or removed.",
            500: "This is a bug in unsee: please report the lines in the terminal.",
        }.get(code, "That cannot be asked here.")
        if "hx-request" in request.headers:
            return HTMLResponse(pages.said("Not here.", text), code)
        return HTMLResponse(pages.missing(self.base, "Not here", text), code)


def _read(found: Found) -> Run:
    facts = found.folder / "facts.json"
    if facts.exists() and not facts.is_file():
        raise InputError(f"a file at {facts}", "something else, such as a pipe", "remove it")
    return replace(read_run(found.folder), name=found.name)


def _report(runs: list[Run]) -> Response:
    return HTMLResponse(render(runs), headers={"Content-Security-Policy": REPORT_POLICY})


def listen(port: int | None = None) -> socket.socket:
    """Return a socket on this machine's own address: the port asked for, else ours, else any that is free."""
    reason = ""
    for number in (port,) if port is not None else (PORT, 0):
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((LOOPBACK, number))
            listener.listen(1024)
            return listener
        except (OSError, OverflowError) as error:
            listener.close()
            reason = getattr(error, "strerror", None) or str(error)
    raise UsageError("a port that is free", f"{port} ({reason})", "choose another with --port")


def serve(folder: Path | str, port: int | None = None, *, ready: Callable[[str], None]) -> None:
    """Serve the runs below a folder until it is interrupted; `ready` is told the address."""
    if not Path(folder).is_dir():
        raise InputError("a folder with runs", f"none at {folder}", "make one with `unsee demo`")
    listener = listen(port)
    viewer = Viewer(folder)
    try:
        number = listener.getsockname()[1]
        server = uvicorn.Server(configured(viewer, number))
        ready(f"http://{LOOPBACK}:{number}{viewer.base}/")
        server.run(sockets=[listener])
    finally:
        viewer.benches.close()
        listener.close()


def configured(viewer: Viewer, port: int) -> uvicorn.Config:
    """Return how uvicorn is to serve it: plain HTTP, no proxies, short heads, nothing told of itself."""
    return uvicorn.Config(
        viewer.app(port),
        http=Patient,
        ws="none",
        loop="asyncio",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        log_level="error",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        h11_max_incomplete_event_size=MOST_HEAD,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=2,
    )
