import json
import re
import time
import unicodedata
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

import unsee.report
from report.made import made_facts, made_run, made_words
from report.payloads import PAYLOADS
from unsee import evaluate, store
from unsee.errors import InputError, StoreError, UsageError
from unsee.report.page import FULL, read_run, render, write_report
from unsee.runs import write_run

SOURCES = Path(unsee.report.__file__).parent
VOID = {"meta", "img", "br"}


class Shape(HTMLParser):
    """What a page is made of: elements, their attributes, and the text in each."""

    def __init__(self, page):
        super().__init__()
        self.elements, self.text, self.open, self.headings, self.ids, self.links = [], [], [], [], [], []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, tuple(attrs)))
        self.headings += [int(tag[1])] if re.fullmatch("h[1-6]", tag) else []
        found = dict(attrs)
        self.ids += [found["id"]] if "id" in found else []
        self.links += [found["href"]] if "href" in found else []
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, tuple(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.text.append(data)

    @property
    def words(self):
        return " ".join(" ".join(self.text).split())


def hostile(text):
    """A run with this text in every place for one: classes, T, recipe, files, case, warnings, layers."""
    return made_run(tuple(f"{text}{i}" for i in range(3)), name=text, text=text)


@pytest.fixture(scope="module")
def harmless():
    return Shape(render([hostile("plain")])).elements


@pytest.mark.parametrize("text", PAYLOADS, ids=range(len(PAYLOADS)))
def test_a_name_is_never_more_than_a_name(text, harmless):
    """Elements and attributes are those of a page with harmless names, each and every one."""
    page = render([hostile(text)])
    shape = Shape(page)
    assert shape.elements == harmless
    assert shape.open == []
    page.encode()  # halves of characters would be refused here
    unseen = {c for c in page if unicodedata.category(c) in {"Cc", "Cf", "Cs", "Zl", "Zp"}} - {"\n"}
    assert unseen == set()


def test_there_are_enough_of_them_and_they_reach_the_page():
    assert len(PAYLOADS) == len(set(PAYLOADS)) >= 120
    marker = "Qwertz<uiop"
    shape = Shape(render([hostile(marker)]))
    assert shape.words.count("Qwertz<uiop") > 60
    assert not [value for _, attrs in shape.elements for _, value in attrs if value and "Qwertz" in value]


def test_long_names_are_cut():
    page = render([hostile("W" * 5000)])
    assert max(map(len, re.findall("W+", page))) <= 600
    assert len(page) < 120_000


def test_several_runs_with_hostile_names_too(harmless):
    plain = Shape(render([hostile("plain")] * 2)).elements
    for text in PAYLOADS[::9]:
        assert Shape(render([hostile(text)] * 2)).elements == plain
    lots = Shape(render([hostile("plain")] * 9)).elements
    assert Shape(render([hostile(PAYLOADS[0])] * 9)).elements == lots
    assert len(harmless) > 300


def test_nothing_from_outside_and_no_script():
    for page in (render([made_run()]), render([made_run(), made_run(pattern="C")])):
        shape = Shape(page)
        tags = {tag for tag, _ in shape.elements}
        assert not tags & {
            "script",
            "link",
            "iframe",
            "object",
            "embed",
            "base",
            "form",
            "input",
            "use",
            "image",
        }
        for _, attrs in shape.elements:
            for name, value in attrs:
                assert not name.startswith("on")
                assert name not in {"style", "srcset", "action", "ping"}
                assert name != "href" or value.startswith("#")
                assert name != "src" or value.startswith("data:image/png;base64,")
        assert not re.search(r"https?:|url\(|@import|//[a-z]", re.sub(r"base64,[^\"]*", "", page))
        policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
        policy += "base-uri 'none'; form-action 'none'"
        assert ("content", policy) in [attr for _, attrs in shape.elements for attr in attrs]
        assert page.index("Content-Security-Policy") < page.index("<style>")


def test_no_source_switches_escaping_off():
    for path in SOURCES.glob("*.html"):
        text = path.read_text()
        assert not re.search(r"\|\s*safe|autoescape|Markup", text)
        assert not re.search(r"<[^>]*=\s*{{", text), "an attribute without quotes"
    assert (SOURCES / "page.py").read_text().count("Markup(") == 1  # base64, and nothing else in it


def test_claims_are_of_behaviour_only():
    for page in (
        render([made_run()]),
        render([made_run(pattern="A")]),
        render([made_run(), made_run(pattern="C"), replace(made_run(), facts=None, sets={}, trajectory=())]),
    ):
        words = Shape(page).words.lower()
        for claim in (
            "deleted",
            "erased",
            "compliant",
            "compliance",
            "guarantee",
            "certif",
            "gdpr",
            "removed from",
        ):
            assert claim not in words
        assert "what this does not show" in words


def test_the_first_screen_says_what_was_forgotten_whether_it_worked_and_what_it_cost():
    words = Shape(render([made_run()])).words
    start = words[words.index("Report of the run") : words.index("Contents")]
    assert (
        start.index("Forgetting a backdoor") < start.index("2 of 3 requirements met") < start.index("Pattern")
    )
    for part in (
        "other data, with T added",
        "0.900",
        "was 0.050",
        "95 % 0.699 – 0.972",
        "n = 20",
        "asked: at least 0.780",
    ):
        assert part in start.replace("–", " – ").replace("\u00a0", " ").replace("  ", " "), part


def test_the_last_touch_is_told_where_there_was_one():
    words = Shape(render([made_run()])).words
    assert "Last touch logits shifted: tile +0.24" in words
    assert "Samples passed 16,800" in words
    run = made_run()
    assert "Last touch" not in render([replace(run, setting={**run.setting, "shift": {}})])
    for epoch, start in ((0, "the old model"), (2, "epoch 2")):
        part = replace(run, setting={**run.setting, "retreat": (0.9, epoch)})
        assert f"by a part: 90 % of the way from {start} is kept" in Shape(render([part])).words


def test_what_was_eased_is_told_where_it_was():
    assert "Eased after epoch 2, as the floor was not held" in Shape(render([made_run()])).words
    run = made_run()
    assert "and no answer; in vain" in Shape(render([replace(run, back_to=2)])).words
    assert "; in vain" not in render([replace(run, back_to=3)])
    assert "Eased" not in render([replace(run, setting={**run.setting, "eased": None})])


def test_headings_are_in_order_ids_are_unique_and_links_lead_somewhere():
    runs = [made_run(), made_run(pattern="A"), replace(made_run(), facts=None, sets={}, trajectory=())]
    for page in (render(runs[:1]), render(runs[2:]), render(runs), render(runs[:1] * 2)):
        shape = Shape(page)
        assert shape.headings[0] == 1
        assert shape.headings.count(1) == 1
        assert all(b - a <= 1 for a, b in zip(shape.headings, shape.headings[1:], strict=False))
        assert len(shape.ids) == len(set(shape.ids))
        assert {link[1:] for link in shape.links} <= set(shape.ids)
        assert dict(shape.elements[0][1]) == {"lang": "en"}


def test_pictures_have_words_and_tables_have_heads():
    shape = Shape(render([made_run()]))
    attributes = {
        tag: [dict(attrs) for name, attrs in shape.elements if name == tag] for tag in ("img", "svg", "th")
    }
    assert all(image.get("alt") for image in attributes["img"])
    assert all(image.get("aria-label") or image.get("aria-hidden") for image in attributes["svg"])
    assert all(cell.get("scope") in {"row", "col"} for cell in attributes["th"])
    tags = [tag for tag, _ in shape.elements]
    assert tags.count("table") == tags.count("caption")


def test_missing_parts_are_named_and_the_rest_is_right():
    run = made_run()
    whole = Shape(render([run])).words
    assert "Missing from this report" not in whole
    bare = replace(
        run, facts=None, without_facts="there is no facts.json", sets={}, trajectory=(), lineage=()
    )
    words = Shape(render([bare])).words
    assert "Not judged" in words
    assert "there is no facts.json" in words
    assert "the four accuracies: run.json holds no scores" in words
    assert "Variations of T" not in words
    assert "Hashes" in words
    one = replace(run, facts=None, sets={"D_f": run.sets["D_f"]})
    assert "What it cost elsewhere is not known" in Shape(render([one])).words


@pytest.mark.parametrize(
    "part", ["examples", "confusion", "softmax", "layers", "variations", "sets", "looks"]
)
def test_facts_may_lack_a_part(part):
    run = made_run()
    empty = {"confusion": {}, "sets": {}, "looks": None}.get(part, ())
    shape = Shape(render([replace(run, facts=replace(run.facts, **{part: empty}))]))
    assert "2 of 3 requirements met" in shape.words


def test_no_images_unless_they_are_there():
    assert "<img" in render([made_run()])
    page = render([made_run(images=False)])
    assert "<img" not in page
    assert "base64" not in page
    assert "samples themselves: images, rows and texts are shown only when asked for" in page


def test_several_runs_side_by_side():
    first, second = made_run(name="with"), made_run(name="without", pattern="C")
    words = Shape(render([first, second])).words
    assert "2 runs side by side" in words
    assert "Compare with care" in words
    assert words.count("The four accuracies") == 4
    assert words.count("What this does not show") == 2
    same = Shape(render([first, first])).words
    assert "with (2)" in same
    assert "All start from the same model" in same
    lots = Shape(render([made_run(name=f"run {i}") for i in range(FULL + 1)])).words
    assert "The four accuracies" not in lots
    assert "run 6" in lots
    with pytest.raises(UsageError):
        render([])


def test_fifty_classes_are_small_and_quick(tmp_path, capsys):
    names = tuple(f"species {i} with a name of some length" for i in range(50))
    facts = made_facts(names, side=128)
    facts = replace(facts, examples=facts.examples * 3)
    store.write_json(tmp_path / "run.json", made_words(names))
    store.write_json(tmp_path / "facts.json", facts.to_dict())
    start = time.perf_counter()
    write_report([tmp_path], tmp_path / "report.html")
    size = (tmp_path / "report.html").stat().st_size
    with capsys.disabled():
        print(f" [50 classes: {size / 1e6:.2f} MB in {time.perf_counter() - start:.2f} s] ", end="")
    assert size <= 5_000_000
    shape = Shape((tmp_path / "report.html").read_text())
    assert sum(tag == "img" for tag, _ in shape.elements) == 36
    assert "species 49 with a name" in shape.words


def test_five_hundred_runs_and_a_thousand_classes():
    run = made_run(tuple(map(str, range(50))), images=False)
    assert len(render([replace(run, name=f"run {i}") for i in range(500)])) < 5_000_000
    page = render([made_run(tuple(map(str, range(1000))), images=False)])
    assert len(page) < 5_000_000
    assert "1,000 classes are too many to draw" in page


def test_a_real_run_from_its_folder(tmp_path, model, forgotten, four, facts):
    write_run(tmp_path / "mine", forgotten, evaluate(forgotten.model, four, "B", old=model))
    store.write_json(tmp_path / "mine" / "facts.json", facts.to_dict())
    write_report([tmp_path / "mine"], tmp_path / "mine" / "report.html")
    page = (tmp_path / "mine" / "report.html").read_text()
    shape = Shape(page)
    after = evaluate(forgotten.model, four, "B").sets["D_r_extra"].value
    assert f"{after:.3f}" in shape.words
    assert "Report of the run mine" in shape.words
    assert "Lineage" in shape.words
    assert page == render([read_run(tmp_path / "mine")])
    assert forgotten.model[2].weight.detach().numpy().tobytes()[:16] not in page.encode()


def test_broken_files_and_places_leave_no_page(tmp_path):
    (tmp_path / "run.json").write_text(json.dumps({**made_words(("a", "b", "c")), "scores": 3}))
    with pytest.raises(InputError):
        write_report([tmp_path], tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()
    store.write_json(tmp_path / "run.json", made_words(("a", "b", "c")))
    with pytest.raises(StoreError):
        write_report([tmp_path], tmp_path / "run.json" / "report.html")


def colours(css):
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{3,6});", css))


def contrast(one, other):
    def light(colour):
        colour = colour[1:] if len(colour) == 7 else "".join(2 * c for c in colour[1:])
        parts = [int(colour[i : i + 2], 16) / 255 for i in (0, 2, 4)]
        parts = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    low, high = sorted((light(one), light(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark", "print"])
def test_everyone_can_read_it(scheme):
    css = (SOURCES / "style.css").read_text()
    light, _, rest = css.partition("@media (prefers-color-scheme: dark) {")
    found = colours(light)
    if scheme == "dark":
        found |= colours(rest.partition("* { box-sizing")[0])
    if scheme == "print":
        found |= colours(rest.partition("@media print")[2])
    for paper in ("bg", "panel"):
        for ink in ("text", "muted", "link", "good", "bad", "even"):
            assert contrast(found[ink], found[paper]) >= 4.5, (ink, paper)
        for mark in ("r", "f", "c", "x"):
            assert contrast(found[mark], found[paper]) >= 3, (mark, paper)
    for tag in ("good", "bad", "even"):
        assert contrast(found[tag], found[f"{tag}-bg"]) >= 4.5, tag


def test_sets_have_the_colours_of_the_other_figures():
    from unsee.report.figures import COLORS

    found = colours((SOURCES / "style.css").read_text().partition("@media")[0])
    pairs = {"r": "D_r", "c": "D_f_clean", "x": "D_r_extra"}
    assert all(found[short] == COLORS[name].lower() for short, name in pairs.items())
