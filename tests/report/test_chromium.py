"""The page as a browser sees it: narrow, wide, light, dark, on paper, and with hostile names in it."""

import base64
import re
import shutil

import pytest

from report.made import made_facts, made_run, png
from report.payloads import PAYLOADS
from unsee.report.page import render

CHROMIUM = shutil.which("chromium")
SIZES = (400, 1400)


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("chromium is not installed (it is listed in apt.txt)")
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Pages of all kinds as files."""
    folder, fifty = tmp_path_factory.mktemp("pages"), tuple(f"species {i} of a long name" for i in range(50))
    long = made_run(tuple("W" * 300 + str(i) for i in range(4)), name="N" * 300, text="M" * 300)
    runs = {
        "one": [made_run()],
        "fifty": [made_run(fifty)],
        "several": [made_run(name="first"), made_run(pattern="A"), made_run(pattern="C")],
        "lots": [made_run(name=f"run {i}") for i in range(9)],
        "long": [long],
        "hostile": [made_run(tuple(f"{text}{i}" for i, text in enumerate(PAYLOADS)), text=PAYLOADS[0])],
        "harmless": [made_run(tuple(f"plain{i}" for i in range(len(PAYLOADS))), text="plain")],
    }
    files = {}
    for name, made in runs.items():
        files[name] = folder / f"{name}.html"
        files[name].write_bytes(render(made).encode())
    return files


def opened(browser, path, width=1400, scheme="light"):
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page.requests, page.trouble = [], []
    page.on("request", lambda request: page.requests.append(request.url))
    page.on("console", lambda message: page.trouble.append(message.text))
    page.on("pageerror", lambda error: page.trouble.append(str(error)))
    page.on("dialog", lambda dialog: (page.trouble.append("dialog"), dialog.dismiss()))
    page.goto(path.as_uri())
    return page


@pytest.mark.parametrize("name", ["one", "fifty", "several", "lots", "long", "hostile"])
def test_nothing_is_wider_than_the_screen(browser, pages, name):
    page = opened(browser, pages[name])
    for width in SIZES:
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        # Outside of boxes that scroll on their own, nothing may stick out and be cut off.
        wide = """[...document.querySelectorAll('h1, h2, h3, p, li, dd, .card, .verdict, .wide, svg')]
            .filter(e => e.getBoundingClientRect().right > innerWidth + 1)
            .filter(e => !e.closest('.wide') && e.checkVisibility())
            .map(e => e.tagName + '.' + e.className)"""
        assert page.evaluate(wide) == []
    page.close()


def brightness(colour):
    return sum(int(part) for part in re.findall(r"\d+", colour)[:3]) / 3


def test_dark_is_dark_and_light_is_light(browser, pages):
    for scheme, dark in (("light", False), ("dark", True)):
        page = opened(browser, pages["one"], scheme=scheme)
        paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
        ink = page.evaluate("getComputedStyle(document.body).color")
        assert (brightness(paper) < 40) == dark
        assert (brightness(ink) > 200) == dark
        page.close()


def test_the_verdict_and_the_four_accuracies_are_on_the_first_screen(browser, pages):
    page = opened(browser, pages["one"], 1400)
    for selector in ("h1", ".verdict", ".cards"):
        box = page.locator(selector).first.bounding_box()
        assert box["y"] + box["height"] <= 900, selector
    assert page.locator(".card").count() == 4
    tops = {round(page.locator(".card").nth(i).bounding_box()["y"]) for i in range(4)}
    assert len(tops) == 1
    page.close()
    phone = opened(browser, pages["one"], 400)
    assert phone.locator(".verdict").bounding_box()["y"] < 300
    assert phone.locator("nav").bounding_box()["y"] > phone.locator(".cards").bounding_box()["y"]
    sizes = phone.evaluate(
        "[...document.querySelectorAll('svg.chart text')].map(t => t.getBoundingClientRect().height)"
    )
    assert min(sizes) >= 9
    phone.close()


def test_on_paper_it_is_light_whole_and_without_contents(browser, pages):
    page = opened(browser, pages["one"], 720, "dark")
    page.emulate_media(media="print", color_scheme="dark")
    assert brightness(page.evaluate("getComputedStyle(document.body).backgroundColor")) > 250
    assert brightness(page.evaluate("getComputedStyle(document.body).color")) < 40
    assert not page.locator("nav").is_visible()
    assert page.locator(".verdict").is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 720
    assert page.pdf(format="A4").startswith(b"%PDF")
    page.close()


def test_names_do_nothing_and_nothing_is_fetched(browser, pages):
    seen = {}
    for name in ("harmless", "hostile"):
        page = opened(browser, pages[name])
        page.mouse.move(300, 300)
        page.keyboard.press("Tab")
        assert page.requests[0] == pages[name].as_uri()
        assert all(url.startswith("data:image/png;base64,") for url in page.requests[1:])
        assert page.trouble == []
        assert page.url == pages[name].as_uri()
        elements = (
            "[...document.querySelectorAll('*')].map(e => e.tagName + [...e.attributes].map(a => a.name))"
        )
        seen[name] = page.evaluate(elements)
        assert page.evaluate("document.scripts.length") == 0
        page.close()
    assert seen["hostile"] == seen["harmless"]


def test_the_policy_holds_even_if_something_got_through(browser, pages, tmp_path):
    """A page with a script and an image of another file put into it by hand: neither does anything."""
    text = pages["one"].read_text()
    (tmp_path / "broken.png").write_bytes(base64.b64decode(png()))
    bad = "<script>document.title = 'broken'</script><img src='broken.png'></body>"
    (tmp_path / "bad.html").write_text(text.replace("</body>", bad))
    page = opened(browser, tmp_path / "bad.html")
    assert page.title() != "broken"
    assert page.evaluate("[...document.images].at(-1).naturalWidth") == 0
    assert page.evaluate("[...document.images].at(-2).naturalWidth") == 4
    assert any("Content Security Policy" in line for line in page.trouble)
    page.close()


def test_it_can_be_walked_through_by_keyboard_and_links_lead_there(browser, pages):
    page = opened(browser, pages["one"])
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    assert page.locator(".skip").bounding_box()["x"] >= 0
    for link in page.locator("nav a").all():
        target = link.get_attribute("href")
        link.click()
        assert page.url.endswith(target)
        assert page.locator(target).bounding_box()["y"] < 900
    page.close()


def test_pictures_are_drawn_and_texts_lie_within_their_drawings(browser, pages):
    page = opened(browser, pages["fifty"])
    drawn = page.evaluate("[...document.images].every(i => i.complete && i.naturalWidth > 0)")
    assert drawn
    assert page.evaluate("document.images.length") == 12 == 6 * len(made_facts(("a", "b", "c")).examples)
    outside = """[...document.querySelectorAll('svg.chart text, svg.matrix text')].filter(t => {
        const a = t.getBoundingClientRect(), b = t.closest('svg').getBoundingClientRect();
        return a.left < b.left - 2 || a.right > b.right + 2 || a.top < b.top - 6 || a.bottom > b.bottom + 6;
    }).map(t => t.textContent)"""
    assert page.evaluate(outside) == []
    page.close()
