"""The viewer as a browser sees it: filter, open, compare, try."""

import io
import re
import shutil
import time

import pytest
from PIL import Image

CHROMIUM = shutil.which("chromium")


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("chromium is not installed (it is listed in apt.txt)")
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM)
        yield chromium
        chromium.close()


@pytest.fixture
def opened(browser, served):
    """Open a page; at the end, nothing may have gone wrong in it or been asked of anyone else."""
    pages = []

    def open_page(path="/", width=1400, scheme="light", **more):
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme, **more)
        page.trouble, page.asked = [], []
        page.on("request", lambda request: page.asked.append(request.url))
        page.on("console", lambda message: page.trouble.append(message.text))
        page.on("pageerror", lambda error: page.trouble.append(str(error)))
        page.on("dialog", lambda dialog: (page.trouble.append("dialog"), dialog.dismiss()))
        page.goto(served.url + path)
        pages.append(page)
        return page

    yield open_page
    for page in pages:
        # htmx tells of requests that it gives up for newer ones.
        assert [text for text in page.trouble if "htmx:" not in text] == []
        assert all(url.startswith((served.url, "data:")) for url in page.asked)
        page.close()


def until(page, true, seconds=15):
    """Wait for an expression to become true; the page's own policy lets nobody evaluate it from inside."""
    end = time.monotonic() + seconds
    while not page.evaluate(true):
        assert time.monotonic() < end, true
        page.wait_for_timeout(30)


def names(page):
    return [link.inner_text() for link in page.locator("tbody th a").all()]


def test_filtering_and_sorting(opened):
    page = opened()
    assert len(names(page)) == 4
    page.fill("#filter", "TILES")
    until(page, "document.querySelectorAll('tbody tr').length === 1")
    assert names(page) == ["tiles"]
    assert "filter=TILES" in page.url
    page.reload()
    assert names(page) == ["tiles"]
    page.fill("#filter", "")
    until(page, "document.querySelectorAll('tbody tr').length === 4")
    page.click("#sort-name")
    page.wait_for_selector("th[aria-sort=ascending] #sort-name")
    assert names(page) == sorted(names(page), key=str.casefold)
    assert page.evaluate("document.activeElement.id") == "sort-name"
    page.click("#sort-name")
    page.wait_for_selector("th[aria-sort=descending] #sort-name")
    assert names(page) == sorted(names(page), key=str.casefold, reverse=True)


def test_opening_a_report(opened):
    page = opened()
    page.click("tbody th a:has-text('tiles')")
    report = page.frame_locator("iframe.report")
    report.locator("h1", has_text="Forgetting a backdoor").wait_for()
    assert report.locator(".card").count() == 4
    report.locator("nav a").nth(2).click()
    page.click(".tabs .alone")
    page.wait_for_url("**/report")
    assert page.locator("h1").inner_text().startswith("Forgetting a backdoor")


def test_comparing_runs_chosen_under_different_filters(opened):
    page = opened()
    assert page.locator("#compare").is_disabled()
    page.locator("tr", has_text="tiles").locator("input").check()
    assert page.locator("#compare").is_disabled()
    page.fill("#filter", "logo")
    until(page, "document.querySelectorAll('tbody tr').length === 1")
    page.locator("tbody input").check()
    assert page.locator("#compare").inner_text() == "Compare 2"
    page.click("#compare")
    report = page.frame_locator("iframe.report")
    report.locator("h1", has_text="2 runs side by side").wait_for()
    assert {"tiles", "logo"} <= set(report.locator("table").first.locator("tbody th").all_inner_texts())


def answered(page):
    """Wait until both models have answered what is shown, and return the two answers."""
    page.wait_for_selector("#answers:not(.htmx-request) .now .answer")
    return page.locator("#answers .answer").all_inner_texts()


def tried(page):
    """Wait until both models were opened and have answered for the first time."""
    page.wait_for_selector("#answers .model", timeout=60_000)


def asked(page, act):
    """Do something that asks the models, and return their answers to it."""
    with page.expect_response(re.compile(r"/answers$")):
        act()
    return answered(page)


def shares(page):
    return page.locator("#answers .p").all_inner_texts()


def test_trying_put_t_by_a_click_drag_it_and_see_the_answers_change(opened, served):
    page = opened(f"/run/{served.id('logo')}/try")
    tried(page)
    plain = shares(page)
    assert not page.locator("#sprite").is_visible()
    box = page.locator("#stage").bounding_box()
    step = box["width"] / 14

    # A click puts T there: its middle where one clicked, all of it within.
    asked(page, lambda: page.mouse.click(box["x"] + 3 * step, box["y"] + 3 * step))
    sprite = page.locator("#sprite").bounding_box()
    assert sprite["x"] - box["x"] == pytest.approx(step, abs=1.5)
    assert sprite["width"] == pytest.approx(4 * step, abs=1.5)
    there = shares(page)
    assert there != plain

    # It is dragged to where the old model learnt it, and the old model falls for it.
    page.mouse.move(box["x"] + 3 * step, box["y"] + 3 * step)
    page.mouse.down()
    page.mouse.move(box["x"] + 7 * step, box["y"] + 7 * step, steps=4)
    page.mouse.move(box["x"] + 11 * step, box["y"] + 11 * step, steps=4)
    page.mouse.up()
    until(page, "document.querySelector('#try').elements.row.value === '9'")
    until(page, "!document.querySelector('#home') || document.querySelector('#home').hidden")
    page.wait_for_timeout(500)
    old, _ = answered(page)
    assert shares(page) != there
    assert old == "T-shirt-top"

    # Taken off, all is as before; the share of what speaks for an answer is told only with T on it.
    page.wait_for_selector("#looks figcaption")
    asked(page, lambda: page.click("#put"))
    assert shares(page) == plain
    until(page, "document.querySelectorAll('#looks img').length === 2")
    until(page, "!document.querySelector('#looks figcaption')")


# What htmx tells of the whole page may come late, after the form was put in and before it is listened to.
LATE = """new MutationObserver((_, watch) => {
    if (!document.querySelector("#try")) return;
    watch.disconnect();
    document.body.dispatchEvent(
        new CustomEvent("htmx:load", { bubbles: true, detail: { elt: document.body } }));
}).observe(document, { childList: true, subtree: true })"""


def test_the_models_are_asked_though_the_page_is_told_of_late(browser, served):
    page = browser.new_page()
    page.add_init_script(LATE)
    page.goto(f"{served.url}/run/{served.id('tiles')}/try")
    tried(page)
    page.close()


def test_trying_by_keyboard(opened, served):
    page = opened(f"/run/{served.id('tiles')}/try")
    tried(page)
    page.focus("#stage")
    asked(page, lambda: page.keyboard.press("Enter"))
    value = "['row', 'column'].map(name => document.querySelector('#try').elements[name].value)"
    assert page.evaluate(value) == ["2", "2"]
    asked(page, lambda: page.keyboard.press("ArrowUp"))
    asked(page, lambda: page.keyboard.press("ArrowLeft"))
    assert page.evaluate(value) == ["1", "1"]
    asked(page, lambda: page.click("#home"))
    assert page.evaluate(value) == ["2", "2"]
    asked(page, lambda: page.locator(".thumb input").nth(4).check(force=True))
    assert page.locator("#picture").get_attribute("src").endswith("/picture/s4")
    asked(page, lambda: page.keyboard.press("ArrowRight"))
    assert page.locator("#picture").get_attribute("src").endswith("/picture/s5")


def test_trying_an_image_of_ones_own(opened, served, tmp_path):
    page = opened(f"/run/{served.id('tiles')}/try")
    tried(page)
    before = shares(page)
    data = io.BytesIO()
    Image.linear_gradient("L").resize((200, 100)).save(data, "PNG")
    (tmp_path / "<b>mine.png").write_bytes(data.getvalue())
    asked(page, lambda: page.set_input_files("#upload", tmp_path / "<b>mine.png"))
    assert shares(page) != before
    assert "14 × 14 pixels" in page.locator("#about").inner_text()
    assert page.locator("#uploads .thumb span").inner_text() == "<b>mine.png"
    assert page.locator("#answers .tag").count() == 0


def test_an_image_that_is_none_is_refused_in_words(browser, served, tmp_path):
    page = browser.new_page()
    page.goto(f"{served.url}/run/{served.id('tiles')}/try")
    tried(page)
    (tmp_path / "x.png").write_bytes(b"no image")
    page.set_input_files("#upload", tmp_path / "x.png")
    until(page, "document.querySelector('#about').textContent.includes('Expected')")
    (tmp_path / "x.png").write_bytes(b"\0" * 5_000_001)
    page.set_input_files("#upload", tmp_path / "x.png")
    until(page, "document.querySelector('#about').textContent.includes('5 MB')")
    page.close()


def test_a_run_that_cannot_be_opened_says_why(browser, served):
    page = browser.new_page()
    page.goto(f"{served.url}/run/{served.id('deep/plain')}/try")
    page.wait_for_selector("[role=alert]")
    assert "make it by" in page.locator("[role=alert]").inner_text()
    page.click(".tabs a:has-text('Report')")
    page.frame_locator("iframe.report").locator("h1").wait_for()
    page.close()


@pytest.mark.parametrize("width", [400, 800, 1400])
def test_nothing_is_wider_than_the_screen(opened, served, width):
    for path in ("/", f"/run/{served.id('tiles')}", f"/run/{served.id('tiles')}/try"):
        page = opened(path, width)
        if path.endswith("/try"):
            tried(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        wide = """[...document.querySelectorAll('h1, p, a, button, .card, td, th, .model, .stage, .thumb')]
            .filter(e => e.checkVisibility() && e.getBoundingClientRect().right > innerWidth + 1)
            .map(e => e.tagName + '.' + e.className)"""
        assert page.evaluate(wide) == []
        if path == "/":
            assert page.locator("#sort-D_r_extra").bounding_box()["height"] > 10
            assert page.locator("td.go a").first.is_visible()


def test_dark_is_dark_and_light_is_light(opened):
    for scheme, dark in (("light", False), ("dark", True)):
        page = opened(scheme=scheme)
        paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (sum(int(part) for part in re.findall(r"\d+", paper)[:3]) / 3 < 40) == dark


def test_names_do_nothing(opened, served):
    hostile = served.id("deep/<img src=x onerror=alert(1)>")
    page = opened()
    page.wait_for_timeout(100)
    assert page.locator("img").count() == 0
    page = opened(f"/run/{hostile}")
    page.frame_locator("iframe.report").locator("h1").wait_for()
    assert page.evaluate("[...document.scripts].every(s => s.src.startsWith(location.origin))")
