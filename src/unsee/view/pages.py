"""The viewer's pages: templates and files, read once; nothing a request says leads to a file."""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import Environment

from unsee import report
from unsee.formulation import SETS
from unsee.report.page import templates
from unsee.view.opening import Bench
from unsee.view.runs import COLUMNS, Found, Looked, arranged
from unsee.view.trying import MOST_BYTES, Answered, Picture, Tries
from unsee.view.trying import Looked as Looks

HERE = Path(__file__).parent
HTMX = "d6fdc75f204e6bdefa99b69bf1e6d4ac69b8a364f77929f45c13476b4000f717"  # 2.0.11, as published
_SETS = {"D_r": "other data", "D_f_clean": "affected data, without T", "D_f": "affected data"}


def files() -> Mapping[str, tuple[str, bytes]]:
    """Return the files of the pages by name, with their types: the report's style with ours after it."""
    style = (Path(report.__path__[0]) / "style.css").read_bytes() + (HERE / "style.css").read_bytes()
    return {
        "style.css": ("text/css; charset=utf-8", style),
        "htmx.js": ("text/javascript; charset=utf-8", (HERE / "htmx.min.js").read_bytes()),
        "view.js": ("text/javascript; charset=utf-8", (HERE / "view.js").read_bytes()),
    }


def runs(
    base: str,
    folder: str,
    looked: Looked,
    *,
    sort: str = "date",
    down: bool = True,
    words: str = "",
    picked: Sequence[str] = (),
    whole: bool = True,
) -> str:
    """Return the table of runs, as a whole page or as the part that a filter changes."""
    sort = sort if sort in COLUMNS else "date"
    shown = arranged(looked, sort, down=down, words=words)
    return _page(
        "runs.html" if whole else "table.html",
        base=base,
        folder=folder,
        shown=shown,
        total=len(looked.runs),
        more=looked.more,
        unread=looked.unread,
        picked=[id for id in dict.fromkeys(picked) if id in looked.runs],
        visible={found.id for found in shown},
        sort=sort,
        down=down,
        filter=words,
        sets=SETS,
    )


def framed(base: str, source: str, title: str, found: Found | None = None) -> str:
    """Return the page around a report."""
    return _page("report.html", base=base, source=source, title=title, found=found)


def trying(base: str, found: Found) -> str:
    """Return the page on which a run is tried, before its models are open."""
    return _page("try.html", base=base, found=found)


def bench(base: str, id: str, tries: Tries) -> str:
    """Return the part of it that shows the pictures, once the models are open."""
    opened: Bench = tries.bench
    height, width = opened.samples.x.shape[-2:]
    pictures = list(tries.pictures().values())
    groups = [
        (name, what, [picture for picture in pictures if picture.set == name])
        for name, what in ((name, _SETS[name]) for name in dict.fromkeys(opened.sets))
    ]
    return _page(
        "bench.html",
        base=base,
        id=id,
        height=height,
        width=width,
        T=opened.T is not None,
        sprite=opened.sprite,
        said=opened.said,
        groups=groups,
        first=pictures[0].key if opened.sets else "",
        most=MOST_BYTES,
    )


def answers(old: Answered, new: Answered, picture: Picture, *, T: bool, with_T: bool) -> str:
    """Return both models' answers side by side; `T` says whether there is one, `with_T` whether it is on."""
    return _page("answers.html", old=old, new=new, known=bool(picture.true), T=T, with_T=with_T)


def looks(old: Looks | None, new: Looks | None) -> str:
    """Return where both models look."""
    return _page("looks.html", old=old, new=new)


def said(title: str, text: str) -> str:
    """Return one sentence where something else was asked for."""
    return _page("said.html", title=title, text=text)


def missing(base: str, title: str, text: str) -> str:
    """Return a whole page of one sentence."""
    return _page("missing.html", base=base, title=title, text=text)


def _page(name: str, **words: Any) -> str:
    return _templates().get_template(name).render(**words).lstrip()


@lru_cache(maxsize=1)
def _templates() -> Environment:
    # A copy that shares the report's filters, with those that only a viewer needs.
    made = templates(HERE).overlay()
    more: dict[str, Callable[..., Any]] = {
        "day": lambda when: time.strftime("%Y-%m-%d", time.localtime(when)),
        "hour": lambda when: time.strftime("%H:%M", time.localtime(when)),
        "percent0": lambda share: f"{100 * share:.0f}\u00a0%",
    }
    made.filters = {**made.filters, **more}
    return made
