import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

import unsee.view
from report.payloads import PAYLOADS
from unsee.view import pages
from unsee.view import runs as viewed
from unsee.view.opening import open_bench
from unsee.view.runs import Shelf, identity
from unsee.view.trying import Answered, Bar, Looked, Tries

BASE = "/secret"
HERE = Path(unsee.view.__file__).parent


class Seen(HTMLParser):
    """The tags of a page with their attributes, and its text."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.said = [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.said.append(data)

    @property
    def text(self):
        return re.sub(r"\s+", " ", "".join(self.said))


def check_harmless(page):
    """Nothing that a file says became a tag that acts, or an address."""
    for tag, attributes in Seen(page).tags:
        assert tag not in ("base", "object", "embed", "style", "foreignobject", "animate", "set", "math")
        assert not [name for name in attributes if name.startswith("on") or name == "style"]
        for name in ("src", "href", "action", "hx-get", "hx-post"):
            value = attributes.get(name) or BASE
            assert value.startswith((BASE, "#", "data:image/png;base64,")) or value == "data:,", value
        if tag == "script":
            assert attributes["src"] in (f"{BASE}/htmx.js", f"{BASE}/view.js")
            assert set(attributes) == {"src", "defer"}


def test_htmx_is_the_published_file_with_its_licence():
    assert hashlib.sha256((HERE / "htmx.min.js").read_bytes()).hexdigest() == pages.HTMX
    assert "Zero-Clause BSD" in (HERE / "LICENSE-htmx.txt").read_text()
    assert hashlib.sha256(pages.files()["htmx.js"][1]).hexdigest() == pages.HTMX


def test_files_are_three_and_reach_for_nothing_outside():
    files = pages.files()
    assert set(files) == {"style.css", "htmx.js", "view.js"}
    for name in ("style.css", "view.js"):
        text = files[name][1].decode()
        assert "http:" not in text
        assert "https:" not in text
        assert "@import" not in text
        assert "url(" not in text
    ours = files["view.js"][1].decode()
    for word in ("eval", "innerHTML", "insertAdjacentHTML", "document.write", "Function("):
        assert word not in ours


def test_the_table_holds_every_run_with_its_figures(runs):
    looked = Shelf(runs).look()
    page = pages.runs(BASE, "runs", looked)
    seen = Seen(page)
    links = [attributes["href"] for tag, attributes in seen.tags if tag == "a" and "href" in attributes]
    for found in looked.runs.values():
        assert f"{BASE}/run/{found.id}" in links
        assert (f"{BASE}/run/{found.id}/try" in links) == bool(found.words["origin"])
    tiles = looked.runs[identity("tiles")].run.sets["D_r_extra"]
    assert f"{tiles.before.value:.3f} → {tiles.after.value:.3f}" in seen.text
    assert "4 of 4 runs" in seen.text
    assert "2 folders could not be read" in seen.text
    assert "a backdoor" in seen.text
    check_harmless(page)


def test_a_part_of_it_is_no_whole_page(runs):
    looked = Shelf(runs).look()
    part = pages.runs(BASE, "runs", looked, words="tiles", whole=False)
    assert "<html" not in part
    assert "1 of 4 runs" in Seen(part).text
    assert "No run holds all of these words." in pages.runs(BASE, "runs", looked, words="zebra", whole=False)


def test_what_is_chosen_stays_chosen_even_out_of_sight(runs):
    looked = Shelf(runs).look()
    picked = [identity("tiles"), identity("logo"), "unknown"]
    part = pages.runs(BASE, "runs", looked, words="tiles", picked=picked, whole=False)
    fields = [a for tag, a in Seen(part).tags if tag == "input" and a.get("name") == "run"]
    assert {"type": "checkbox", "name": "run", "value": identity("tiles"), "checked": None} in fields
    assert {"type": "hidden", "name": "run", "value": identity("logo")} in fields
    assert "Compare 2" in Seen(part).text
    assert "unknown" not in part


@pytest.mark.parametrize("sort", ["D_r", "date", "zebra", PAYLOADS[0], "../x"])
def test_sorted_by_anything_it_is_sorted_by_a_column(runs, sort):
    page = pages.runs(BASE, "runs", Shelf(runs).look(), sort=sort)
    marked = [a for tag, a in Seen(page).tags if tag == "th" and "aria-sort" in a]
    assert len(marked) == 1
    check_harmless(page)


def test_no_runs_yet(tmp_path):
    text = Seen(pages.runs(BASE, str(tmp_path), Shelf(tmp_path).look())).text
    assert "unsee demo" in text


def test_that_not_all_was_looked_at_is_said_with_runs_and_without(runs, tmp_path, monkeypatch):
    monkeypatch.setattr(viewed, "MOST_FOLDERS", 3)
    (tmp_path / "a" / "b" / "c").mkdir(parents=True)
    for folder in (runs, tmp_path):
        text = Seen(pages.runs(BASE, str(folder), Shelf(folder).look())).text
        assert "only the first 3 folders are looked into" in text


def test_names_do_no_harm_anywhere(runs):
    looked = Shelf(runs).look()
    hostile = looked.runs[identity("deep/<img src=x onerror=alert(1)>")]
    for page in (
        pages.framed(BASE, f"{BASE}/run/{hostile.id}/report", hostile.name, hostile),
        pages.trying(BASE, hostile),
        pages.missing(BASE, "Not here", PAYLOADS[0]),
        pages.said("Not here", PAYLOADS[1]),
        *(pages.runs(BASE, text, looked, words=text) for text in PAYLOADS),
    ):
        check_harmless(page)


def test_a_bench_shows_pictures_t_and_what_is_missing(runs):
    found = Shelf(runs).look().runs[identity("tiles")]
    page = pages.bench(BASE, found.id, Tries(open_bench(found)))
    seen = Seen(page)
    assert sum(tag == "input" and a.get("type") == "radio" for tag, a in seen.tags) == 18
    assert sum("checked" in a for _, a in seen.tags) == 1
    sprite = next(a for _, a in seen.tags if a.get("id") == "sprite")
    assert (sprite["data-row"], sprite["data-column"]) == ("2", "2")
    assert "affected data, without T" in seen.text
    check_harmless(page)


def test_answers_and_looks_name_classes_that_do_no_harm():
    for text in PAYLOADS:
        bars = (Bar(text, 0.9, 0.1, True, False), Bar("dog", 0.1, 0.9, False, True))
        picture = type("Picture", (), {"true": text})()
        check_harmless(pages.answers(Answered(bars), Answered(()), picture, T=True, with_T=True))
    page = pages.looks(Looked("iVBOR", 0.634), None)
    assert "63 %" in Seen(page).text
    assert "No gradient" in page
    check_harmless(page)
    assert pages.looks(None, None).strip() == ""


def test_answers_say_what_t_did():
    turned = Answered((Bar("cat", 0.9, 0.1, True, False), Bar("dog", 0.1, 0.9, False, True)))
    kept = Answered((Bar("cat", 0.1, 0.2, False, False), Bar("dog", 0.9, 0.8, True, True)))
    picture = type("Picture", (), {"true": "dog"})()
    text = Seen(pages.answers(turned, kept, picture, T=True, with_T=True)).text
    assert "because of T; without it dog" in text
    assert "T changes nothing" in text
    assert text.index("wrong") < text.index("right")
    unknown = type("Picture", (), {"true": ""})()
    text = Seen(pages.answers(turned, kept, unknown, T=True, with_T=True)).text
    assert "wrong" not in text
    assert "true class" not in text
