from dataclasses import replace

from report.made import made_facts, made_run
from unsee.formulation import TABLE_1, Arrow
from unsee.report.rates import Rate, Shift
from unsee.report.run import Judged
from unsee.report.verdict import meaning, subject, verdict
from unsee.report.words import Name, Symbol

NAMES = ("cat", "dog", "owl")


def said(run):
    return ["".join(sentence).replace("\u00a0", " ") for sentence in verdict(run).sentences]


def sets(**values):
    """Judged sets from (before, after, arrow, asked), in hundreds."""
    return {
        name: Judged(
            name, Rate(after, 100), None if before is None else Rate(before, 100), arrow, asked, {"cat": 0.5}
        )
        for name, (before, after, arrow, asked) in values.items()
    }


UP, DOWN = Arrow.UP, Arrow.DOWN


def test_the_verdict_is_made_of_figures():
    judged = sets(
        D_r=(85, 84, UP, 0.83),
        D_f=(100, 83, None, None),
        D_f_clean=(0, 82, UP, 0.83),
        D_r_extra=(0, 86, UP, 0.83),
    )
    run = replace(made_run(NAMES), sets=judged, facts=None, changes={}, back_to=None)
    found = verdict(run)
    assert (found.met, found.judged, found.state, found.said) == (
        2,
        3,
        "partly",
        "It worked in part: 2 of 3 requirements met",
    )
    assert said(run)[:3] == [
        "Accuracy on D_r_extra rose from 0.000 to 0.860 (n = 100); "
        "on D_f_clean it rose from 0.000 to 0.820 (n = 100).",
        "Accuracy on D_r went from 0.850 to 0.840 (n = 100).",
        "Not met: D_f_clean, 0.820 where at least 0.830 is asked; "
        "its 95 % interval, 0.733 to 0.883, reaches across that.",
    ]


def test_pattern_a_asks_for_less():
    run = replace(
        made_run(NAMES, pattern="A"), sets=sets(D_r=(85, 85, UP, 0.83), D_f=(90, 3, DOWN, 0.33)), facts=None
    )
    found = verdict(run)
    assert (found.state, found.said) == ("met", "It worked: 2 of 2 requirements met")
    assert said(run)[0] == "Accuracy on D_f fell from 0.900 to 0.030 (n = 100)."
    assert said(run)[1] == "Accuracy on D_r stayed at 0.850 (n = 100)."
    assert (
        "".join(found.asked)
        == "Asked: no longer recognise the samples of cat, and answer everything else as before."
    )
    high = replace(run, sets=sets(D_r=(85, 20, UP, 0.83), D_f=(90, 60, DOWN, 0.33)))
    assert verdict(high).state == "missed"
    assert said(high)[3] == "Not met: D_f, 0.600 where at most 0.330 is asked."


def test_the_cost_is_counted_where_both_models_answered_the_same_samples():
    run = made_run(NAMES)
    facts = replace(run.facts, sets={"D_r": {1: Shift(100, 80, 2, 5)}})
    judged = sets(D_r=(85, 82, UP, 0.83), D_r_extra=(0, 90, UP, 0.83))
    lines = said(replace(run, facts=facts, sets=judged))
    assert (
        "Accuracy on D_r went from 0.850 to 0.820 (n = 100): 5 answers became wrong and 2 right, "
        "which 100 samples cannot tell from no change." in lines
    )
    lost = "The class that lost most on D_r: dog, 0.850 to 0.820 (n = 100)"
    assert f"{lost}, which may be chance, as for all classes." in lines
    still = replace(run.facts, sets={"D_r": {1: Shift(100, 85, 0, 0)}})
    same = said(replace(run, facts=still, sets=sets(D_r=(85, 85, UP, 0.83))))
    assert "Accuracy on D_r stayed at 0.850 (n = 100): no answer became right or wrong." in same
    small, large = Shift(10, 9, 0, 2), Shift(1000, 850, 2, 50)
    facts = replace(run.facts, sets={"D_r": {0: small, 1: large}})
    lines = said(replace(run, facts=facts, sets=judged))
    assert "The class that lost most on D_r: dog, 0.900 to 0.852 (n = 1,000)." in " ".join(lines)
    clear = replace(facts, sets={"D_r": {1: Shift(100, 40, 2, 45)}})
    lines = said(replace(run, facts=clear, sets=judged))
    assert "Accuracy on D_r went from 0.850 to 0.820 (n = 100): 45 answers became wrong and 2 right." in lines


def test_variations_say_who_is_still_misled():
    facts = made_facts(NAMES)
    first, second, third, _ = facts.variations
    varied = (first, replace(second, taken=(15, 2)), replace(third, shift=Shift(20, 1, 1, 5), taken=(3, 4)))
    lines = said(replace(made_run(NAMES), facts=replace(facts, variations=varied)))
    assert (
        "Of 2 variations of T that forgetting never saw, the worst is “moved2”: "
        "accuracy 0.100, and 0.300 before. "
        "At most 4 of 20 samples are then taken for the class of D_f, and up to 15 before." in lines
    )


def test_what_cannot_be_said_is_not_said():
    run = made_run(NAMES)
    unjudged = verdict(replace(run, sets={}))
    assert (unjudged.state, unjudged.said) == ("unjudged", "Not judged")
    assert "run.json holds no scores" in "".join(unjudged.sentences[0])
    alone = replace(run, facts=None, sets=sets(D_r_extra=(None, 80, UP, None)))
    assert said(alone) == [
        "Accuracy on D_r_extra is 0.800 (n = 100).",
        "What it cost elsewhere is not known: there was no D_r to judge on.",
        "Not judged, for want of data, of D_r to compare with, or of the old model: "
        "D_r, D_f_clean, D_r_extra.",
    ]
    only = replace(run, facts=None, sets=sets(D_r=(None, 80, UP, None)), changes={})
    assert said(only)[0] == "Accuracy on D_r is 0.800 (n = 100)."


def test_T_fitted_to_pairs_stands_in_for_a_missing_set():
    run = replace(made_run(NAMES), sets=sets(D_r=(85, 84, UP, 0.83)))
    line = "There was no D_r_extra. With T added to D_r, accuracy rose from 0.550 to 0.700 (n = 20)."
    assert line in said(run)
    # That D_r was kept says nothing of what was to be forgotten.
    found = verdict(run)
    assert found.said == "Whether it worked was not judged: 1 of 1 requirement met, 2 not judged"
    assert (found.state, found.fell_short) == ("unjudged", False)
    lost = verdict(replace(run, sets=sets(D_r=(85, 50, UP, 0.83))))
    assert (lost.state, lost.fell_short) == ("missed", True)
    part = verdict(replace(run, sets=sets(D_r=(85, 84, UP, 0.83), D_f_clean=(10, 84, UP, 0.83))))
    assert part.said == "It worked as far as it was judged: 2 of 2 requirements met, 1 not judged"
    assert (part.state, part.fell_short) == ("open", False)
    assert not [one for one in said(made_run(NAMES)) if "There was no D_r_extra" in one]


def test_one_answer_is_not_answers():
    facts = replace(made_facts(NAMES), sets={"D_r": {1: Shift(100, 80, 2, 1)}})
    lines = said(replace(made_run(NAMES), facts=facts, sets=sets(D_r=(85, 82, UP, 0.83))))
    assert any(": 1 answer became wrong and 2 right, which" in line for line in lines)


def test_going_back_comes_first():
    run = replace(made_run(NAMES), back_to=0)
    assert verdict(run).said == "Nothing was changed: it would have cost too much elsewhere"
    assert verdict(run).state == "missed"
    assert said(run)[0] == "The floor was not held (tile): the old model is kept."
    assert (
        said(replace(run, back_to=3, setting={}))[0]
        == "The floor was not held: the state after epoch 3 is kept."
    )
    assert said(replace(run, sets={}))[0].startswith("The floor was not held")
    part = replace(run, back_to=None, setting={"retreat": (0.85, 0)})
    assert said(part)[0] == "The floor was not held: 85 % of the way from the old model is kept."
    assert verdict(part).said == verdict(replace(run, back_to=None)).said


def test_names_and_symbols_are_parts_of_their_own():
    run = made_run(("<b>", "dog", "owl"))
    for sentence in (*verdict(run).sentences, verdict(run).asked):
        for part in sentence:
            assert isinstance(part, Name | Symbol) or ("<" not in part and "D_" not in part)
    assert Name("<b>") in verdict(run).asked


def test_what_was_forgotten_by_name():
    run = made_run(NAMES)
    assert subject(run) == "tile"
    assert subject(replace(run, T=None)) is None
    assert subject(replace(run, pattern=TABLE_1["A"])) == "cat"
    assert subject(replace(run, pattern=TABLE_1["A"], sets={})) is None
    several = {"D_f": replace(run.sets["D_f"], by_class={"a": 1.0, "b": 1.0})}
    assert subject(replace(run, pattern=TABLE_1["A"], sets=several)) is None
    for pattern in TABLE_1.values():
        asked = "".join(verdict(replace(run, pattern=pattern, sets=several)).asked)
        assert "D_f" in asked
    assert meaning(run, "D_f") == "the affected data, with T"
    assert "forgotten" in meaning(replace(run, pattern=TABLE_1["A"]), "D_f")


def test_how_many_are_still_misled_stands_first():
    run = made_run(NAMES)
    assert said(run)[0] == "Of 20 samples of D_r with T added, 1 is wrongly taken for cat; before, 9."
    facts = replace(run.facts, variations=tuple(replace(one, taken=None) for one in run.facts.variations))
    assert not any("wrongly taken" in line for line in said(replace(run, facts=facts)))


def test_of_a_poisoning_nobody_asks_to_recognise_the_attackers_class():
    run = made_run(NAMES)
    assert "recognise cat without it" in "".join(map(str, verdict(run).asked))
    other = replace(run.sets["D_f_clean"], by_class={"dog": 0.5, "owl": 0.5})
    asked = "".join(map(str, verdict(replace(run, sets={**run.sets, "D_f_clean": other})).asked))
    assert asked.startswith("Asked: no longer answer cat because of T")
    assert asked.endswith(", but by what is there, and answer everything else as before.")
