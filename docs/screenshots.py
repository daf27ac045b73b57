"""Take the pictures of a report that the README shows.

    python examples/backdoor.py runs/shop
    unsee forget runs/shop/case.yaml --with-images --out runs/repaired
    python docs/screenshots.py runs/repaired/report.html

Needs Debian's chromium (apt.txt).
"""

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

VIEWS = {
    "report": (1400, 1000, "light"),
    "report-dark": (1400, 1000, "dark"),
    "report-phone": (400, 900, "light"),
    "report-phone-dark": (400, 900, "dark"),
}


def take(page: Path, folder: Path) -> None:
    """Open the page at each width, in light and dark, and keep its first screen."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name, (width, height, scheme) in VIEWS.items():
            view = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
            view.goto(page.resolve().as_uri())
            view.screenshot(path=folder / f"{name}.png")
        browser.close()


if __name__ == "__main__":
    take(Path(sys.argv[1]), Path(__file__).parent / "images")
