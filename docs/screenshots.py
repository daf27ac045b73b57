"""Take the pictures of the report and of the viewer that the README and the docs show.

    unsee demo
    python examples/backdoor.py runs/shop
    unsee forget runs/shop/case.yaml --with-images --out runs/repaired
    python docs/screenshots.py runs/repaired/report.html
    python docs/screenshots.py runs

Needs Debian's chromium (apt.txt).
"""

import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from playwright.sync_api import Browser, Page, sync_playwright

from unsee.view.server import Viewer, configured, listen

REPORT = {
    "report": (1400, 1000, "light"),
    "report-dark": (1400, 1000, "dark"),
    "report-phone": (400, 900, "light"),
    "report-phone-dark": (400, 900, "dark"),
}
RUNS = {
    "viewer": (1400, 460, "light"),
    "viewer-dark": (1400, 460, "dark"),
    "viewer-phone": (400, 900, "dark"),
}
TRIED = {
    "viewer-try": (1400, 900, "light"),
    "viewer-try-dark": (1400, 900, "dark"),
    "viewer-try-phone": (400, 900, "light"),
    "viewer-try-phone-dark": (400, 900, "dark"),
}


@contextmanager
def chromium() -> Iterator[Browser]:
    """Open Debian's browser."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        yield browser
        browser.close()


def page_of(browser: Browser, view: tuple[int, int, Any], address: str) -> Page:
    """Open an address at a width, in light or dark."""
    width, height, scheme = view
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
    page.goto(address)
    return page


def take_report(file: Path, folder: Path) -> None:
    """Keep the first screen of a report."""
    with chromium() as browser:
        for name, view in REPORT.items():
            page_of(browser, view, file.resolve().as_uri()).screenshot(path=folder / f"{name}.png")


def take_viewer(runs: Path, folder: Path) -> None:
    """Keep the table of runs, and the repaired case being tried with the logo on a dress."""
    listener = listen(0)
    viewer, port = Viewer(runs), listener.getsockname()[1]
    server = uvicorn.Server(configured(viewer, port))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    base = f"http://127.0.0.1:{port}{viewer.base}"
    with chromium() as browser:
        for name, view in RUNS.items():
            page_of(browser, view, f"{base}/").screenshot(path=folder / f"{name}.png")
        run = next(found for found in viewer.shelf.look().runs.values() if found.name == "repaired")
        for name, view in TRIED.items():
            page = page_of(browser, view, f"{base}/run/{run.id}/try")
            page.wait_for_selector("#answers .model", timeout=60_000)
            page.locator(".thumb", has_text="Dress").first.click()
            page.click("#put")
            page.wait_for_selector("#looks:not(.htmx-request) figcaption")
            page.evaluate("scrollTo(0, 0)")
            page.mouse.move(0, 0)
            page.wait_for_timeout(1000)
            page.screenshot(path=folder / f"{name}.png")
    server.should_exit = True
    thread.join()
    viewer.benches.close()


if __name__ == "__main__":
    given = Path(sys.argv[1])
    (take_viewer if given.is_dir() else take_report)(given, Path(__file__).parent / "images")
