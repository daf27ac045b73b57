"""The quick form of `make torture`: a few attempts of every ordeal."""

import random
import re

import pytest

from torture import ROOT, archives, data, fuzz, hostile, page, run
from torture.mutants import mutated
from torture.ordeal import Ordeal, Result, refusal
from unsee.errors import InputError, StoreError
from unsee.store import read_json

ORDEALS = [(family, ordeal) for family in run.FAMILIES for ordeal in run.ordeals(family)]


@pytest.mark.parametrize(("family", "ordeal"), ORDEALS, ids=lambda part: getattr(part, "name", part))
def test_an_ordeal_is_endured(family, ordeal, monkeypatch):
    for module in (archives, data, fuzz, hostile):  # coverage is measured here, which takes its time
        monkeypatch.setattr(module, "SECONDS", 5 * module.SECONDS)
    result = run.endure(ordeal, quick=True)
    assert result.failed == []
    assert result.held == result.done == min(ordeal.quick, ordeal.n)


def test_the_full_figures_are_those_that_are_promised():
    n = {ordeal.name: ordeal.n * ordeal.each for _, ordeal in ORDEALS}
    assert len(n) == len(ORDEALS)  # each name once
    for name, least in {
        "kill forgetting": 500, "kill remembering": 100, "kill tuning": 200, "kill report": 50,
        "two at once": 50, "something else": 15, "power": 50, "flips": 10_000, "newest broken": 50,
        "full disk": 50, "links": 10,
        "checkpoints": 60, "images": 40, "bombs": 8, "archives": 25, "kill fetching": 30, "mutants": 100_000,
    }.items():  # fmt: skip
        assert n[name] >= least, name


def test_the_documentation_has_the_figures_of_the_committed_results():
    text = (ROOT / "docs" / "reliability.md").read_text()
    told = {name: f"{held} / {n}" for name, held, n in re.findall(r"`([^`]+)` ([\d,]+) / ([\d,]+)", text)}
    assert told.keys() == {ordeal.name for _, ordeal in ORDEALS}
    results = [read_json(ROOT / "results" / "torture" / f"{family}.json") for family in run.FAMILIES]
    rows = [row for words in results for row in words["ordeals"]]
    assert told == {row["name"]: f"{row['held']:,} / {row['n']:,}" for row in rows}


def test_an_archive_that_is_read_or_refused_for_another_reason_does_not_hold(tmp_path, monkeypatch):
    names = [*archives.PACKED, *archives.ZIPS]
    good, broken, nothing = "a good tar", "tar: a wrong checksum", "nothing"
    attempt = archives.archives(tmp_path)
    assert "+read" in attempt(names.index(good))
    assert all("+refused" in attempt(names.index(name)) for name in (broken, nothing))
    monkeypatch.setitem(archives.PACKED, broken, archives.PACKED[good])
    with pytest.raises(AssertionError, match=r"odd\.safetensors"):
        attempt(names.index(broken))
    monkeypatch.setitem(archives.PACKED, broken, archives.PACKED["tar: random"])
    with pytest.raises(AssertionError, match="invalid header"):
        attempt(names.index(broken))
    monkeypatch.setitem(archives.PACKED, good, archives.PACKED["tar: random"])
    with pytest.raises(AssertionError, match="invalid header"):
        attempt(names.index(good))
    monkeypatch.setitem(archives.ZIPS, nothing, archives.ZIPS["a good .npz"])
    with pytest.raises(AssertionError, match=r"'x', 'y'"):
        attempt(names.index(nothing))


@pytest.mark.parametrize(
    ("number", "place", "blind"),
    [
        (0, "unsee.data.published.Published.check", lambda self, arrays, **_: arrays),
        (1, "torture.data._flip", lambda path, place: None),
    ],
    ids=["whole again", "as it is"],
)
def test_a_changed_byte_is_one_of_a_file_that_is_read(tmp_path, monkeypatch, number, place, blind):
    attempt = data.changed_bytes(tmp_path)
    assert attempt(number) == {"+bundled": 1}
    monkeypatch.setattr(place, blind)
    with pytest.raises(AssertionError, match="error=''"):
        attempt(number)


def test_every_hostile_checkpoint_is_an_attempt(tmp_path):
    number = list(hostile.PICKLED).index("half a character")
    assert hostile.at_once(tmp_path)(number).keys() == {"seconds", "megabytes"}


@pytest.mark.parametrize("token", [b": !!int ", b": !!float ", b": !!bool ", b": !!timestamp ", b"\n<<: "])
def test_mutants_of_yaml_have_tags_and_merged_keys(token):
    assert any(token in mutated(b"seed: 3\nfloor: 0.02\n", random.Random(n)) for n in range(20_000))


def odd(folder):
    """Attempts of which those with an odd number do not hold."""

    def attempt(number):
        assert number % 2 == 0, "odd"
        return {"largest": number, "+sum": number}

    return attempt


def test_what_does_not_hold_is_counted_and_told():
    result = Result()
    for number in range(5):
        result.make(odd(None), number)
    assert (result.done, result.held, result.measures) == (5, 3, {"largest": 4, "+sum": 6})
    assert [one["attempt"] for one in result.failed] == [1, 3]
    assert result.failed[0]["why"].startswith("AssertionError: odd")


def test_a_family_goes_on_where_it_was_stopped_and_has_its_page(tmp_path, monkeypatch):
    ordeals = [Ordeal("odd", "0", "odd numbers", "even ones", 6, 3, odd)]
    monkeypatch.setattr(run, "ordeals", lambda family: ordeals)
    monkeypatch.setattr(run, "SAVE_EVERY", -1)
    real, calls = Result.make, []

    def dying(self, attempt, number):
        calls.append(number)
        if len(calls) == 3:
            raise KeyboardInterrupt
        real(self, attempt, number)

    monkeypatch.setattr(Result, "make", dying)
    with pytest.raises(KeyboardInterrupt):
        run.run_family("data", tmp_path, tmp_path / "work")
    words = run.run_family("data", tmp_path, tmp_path / "work")
    assert calls == [0, 1, 2, 2, 3, 4, 5]
    assert (words["ordeals"][0]["n"], words["ordeals"][0]["held"]) == (6, 3)
    assert read_json(tmp_path / "data.json") == words
    assert list((tmp_path / "work").iterdir()) == []
    page.write_page(tmp_path)
    assert (
        "| 0 | odd numbers | even ones | 6 | **3** | largest: 4; sum: 6 |"
        in (tmp_path / "README.md").read_text()
    )


def test_the_quick_attempts_are_spread_over_all():
    ordeal = Ordeal("odd", "0", "", "", 100, 4, odd)
    assert ordeal.numbers(quick=True) == [0, 25, 50, 75]
    assert ordeal.numbers(quick=False) == list(range(100))


def test_a_refusal_must_be_of_its_kind_and_one_sentence():
    def refused(error):
        def work():
            raise error

        return work

    assert refusal(InputError, refused(InputError("a", "b", "c"))) == "Expected a, found b: c."
    for work in (refused(StoreError("a", "b", "c")), refused(InputError("a", "\x1b", "c")), lambda: None):
        with pytest.raises(AssertionError):
            refusal(InputError, work)
