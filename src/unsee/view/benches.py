"""The try-it pages: benches on which runs lie open, and what is asked of their models there."""

from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qs

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from torch import Tensor

from unsee.errors import InputError, UnseeError
from unsee.report.examples import shades
from unsee.view import pages
from unsee.view.guard import body
from unsee.view.opening import open_bench
from unsee.view.runs import Found
from unsee.view.trying import MOST_BYTES, Place, Tries, answered, looked, png, put
from unsee.view.turns import Late, Turns

OPENING, ANSWERING, LOOKING = 120.0, 10.0, 30.0  # seconds
MOST_OPEN = 2  # runs whose models are kept in memory
MOST_WORDS = 2000  # bytes of a question


class Benches:
    """What can be asked of a run's models. Only the thread of the turns opens them and lets them answer.

    Pictures, with T on them or without, are drawn in any thread but the one that takes the requests: they do
    not wait for the models.
    """

    def __init__(self, base: str, found: Callable[[Request], Found]) -> None:
        self.base, self.found = base, found
        self.turns = Turns()
        self._open: OrderedDict[tuple[str, float], Tries] = OrderedDict()

    def routes(self) -> list[Route]:
        """Return the addresses of these pages."""
        return [
            Route("/run/{id}/try", self._try),
            Route("/run/{id}/bench", self._bench),
            Route("/run/{id}/T", self._T),
            Route("/run/{id}/picture/{key}", self._picture),
            Route("/run/{id}/picture/{key}/T", self._picture),
            Route("/run/{id}/upload", self._upload, methods=["POST"]),
            Route("/run/{id}/answers", self._answers, methods=["POST"]),
            Route("/run/{id}/looks", self._looks, methods=["POST"]),
        ]

    def close(self) -> None:
        """Let go of the thread."""
        self.turns.close()

    def _try(self, request: Request) -> Response:
        return HTMLResponse(pages.trying(self.base, self.found(request)))

    async def _bench(self, request: Request) -> Response:
        try:
            found, tries = await self._tries(request)
        except Late:
            raise
        except UnseeError as error:
            return HTMLResponse(pages.said("This run cannot be tried here.", str(error)), 422)
        return HTMLResponse(pages.bench(self.base, found.id, tries))

    async def _T(self, request: Request) -> Response:
        _, tries = await self._tries(request)
        sprite = tries.bench.sprite
        if sprite is None:
            raise HTTPException(404)
        return await run_in_threadpool(lambda: _image(sprite.rgba()))

    async def _picture(self, request: Request) -> Response:
        _, tries = await self._tries(request)
        with_T = request.url.path.endswith("/T")
        return await run_in_threadpool(_drawn, tries, request.path_params["key"], with_T)

    async def _upload(self, request: Request) -> Response:
        try:
            _, tries = await self._tries(request)
            data = await body(request, MOST_BYTES)
            picture = await self.turns.take(ANSWERING, tries.upload, data)
        except UnseeError as error:
            return JSONResponse({"said": str(error)}, 422)
        return JSONResponse({"picture": picture.key})

    async def _answers(self, request: Request) -> Response:
        _, tries = await self._tries(request)
        picture, place = await _asked(request, tries)
        old, new = await self.turns.take(ANSWERING, answered, tries.bench, picture, place)
        T = tries.bench.T is not None
        return HTMLResponse(pages.answers(old, new, picture, T=T, with_T=place is not None))

    async def _looks(self, request: Request) -> Response:
        _, tries = await self._tries(request)
        picture, place = await _asked(request, tries)
        old, new = await self.turns.take(LOOKING, looked, tries.bench, picture, place)
        return HTMLResponse(pages.looks(old, new))

    async def _tries(self, request: Request) -> tuple[Found, Tries]:
        """Return a run and its bench, opened if it was not."""
        found = await run_in_threadpool(self.found, request)
        key = (found.id, found.date)
        tries = self._open.get(key)
        if tries is None:
            return found, await self.turns.take(OPENING, self._opened, found)
        with suppress(KeyError):  # the turns may just have closed it
            self._open.move_to_end(key)
        return found, tries

    def _opened(self, found: Found) -> Tries:
        """Open a bench; the one that was not used for the longest time makes room."""
        key = (found.id, found.date)
        tries = self._open.pop(key, None) or Tries(open_bench(found))
        self._open[key] = tries
        while len(self._open) > MOST_OPEN:
            self._open.popitem(last=False)
        return tries


async def _asked(request: Request, tries: Tries) -> tuple[Any, Place | None]:
    """Return the picture and where T is put on it, as a question says."""
    try:
        words = parse_qs((await body(request, MOST_WORDS)).decode("ascii"), max_num_fields=10)
    except ValueError:
        raise InputError("a picture and a place", "something else", "ask from the page") from None
    key, row, column = (words.get(name, [""])[0] for name in ("picture", "row", "column"))
    picture = tries.picture(key)
    if not row and not column:
        return picture, None
    if not (row.isdecimal() and column.isdecimal() and len(row + column) < 12):
        raise InputError("a row and a column", "something else", "ask from the page")
    return picture, Place(int(row), int(column))


def _drawn(tries: Tries, key: str, with_T: bool) -> Response:
    picture = tries.pictures().get(key)
    if picture is None or (with_T and tries.bench.T is None):
        raise HTTPException(404)
    data = put(tries.bench, picture, Place.own(tries.bench)) if with_T else picture.data
    return _image(shades(data)[0])


def _image(shown: Tensor) -> Response:
    return Response(png(shown), media_type="image/png")
