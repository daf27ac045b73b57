"""The verdict: what was asked, whether it came about, and what it cost elsewhere, in sentences from figures.

Sentences claim behaviour on the test sets and nothing else. Their parts are plain text, names that came from
files, and symbols, so that a page can set each of them as it should be.
"""

from dataclasses import dataclass

from unsee.floor import kept_of
from unsee.formulation import Arrow
from unsee.report.rates import Rate
from unsee.report.run import Judged, Run
from unsee.report.tables import classes_of, worst_variation
from unsee.report.words import Name, Sentence, Symbol

MEANINGS = {
    "D_r": "other data, as it is",
    "D_f": "the affected data, with T",
    "D_f_clean": "the affected data, without T",
    "D_r_extra": "other data, with T added",
}


@dataclass(frozen=True)
class Verdict:
    """How many of the pattern's arrows are met, and the sentences that say so."""

    met: int
    judged: int
    arrows: int
    asked: Sentence
    sentences: tuple[Sentence, ...]
    unchanged: bool = False
    """Whether the old model was kept, because nothing that was tried held the floor."""
    aimed: bool = True
    """Whether an arrow was judged that the forgetting is about, which D_r's is not."""

    @property
    def fell_short(self) -> bool:
        """Whether an arrow that was judged is not met."""
        return self.unchanged or self.met < self.judged

    @property
    def state(self) -> str:
        """One word for it: met, open (met as far as judged), partly, missed or unjudged."""
        if self.unchanged:
            return "missed"
        if not self.judged or not self.aimed:
            return "unjudged" if self.met == self.judged else "missed"
        if self.met < self.judged:
            return "partly" if self.met else "missed"
        return "met" if self.judged == self.arrows else "open"

    @property
    def said(self) -> str:
        """The same in a few words."""
        if self.unchanged:
            return "Nothing was changed: it would have cost too much elsewhere"
        if not self.judged:
            return "Not judged"
        rest = f", {self.arrows - self.judged} not judged" if self.arrows > self.judged else ""
        asked = "requirement" if self.judged == 1 else "requirements"
        start = {
            "met": "It worked",
            "open": "It worked as far as it was judged",
            "partly": "It worked in part",
            "missed": "It did not work" if self.aimed else "Whether it worked was not judged",
            "unjudged": "Whether it worked was not judged",
        }[self.state]
        return f"{start}: {self.met} of {self.judged} {asked} met{rest}"


def meaning(run: Run, name: str) -> str:
    """Say in plain words what a set is."""
    if run.pattern.name == "A" and name == "D_f":
        return "data like that to be forgotten"
    return MEANINGS[name]


def verdict(run: Run) -> Verdict:
    """Return the verdict on a run."""
    judged = [one for one in run.sets.values() if one.met is not None]
    met, arrows = sum(bool(one.met) for one in judged), len(run.pattern.arrows)
    if not run.sets:
        nothing: Sentence = ("The run was not judged: its run.json holds no scores.",)
        return Verdict(0, 0, arrows, _asked(run), tuple(one for one in (_went_back(run), nothing) if one))
    goals = [run.sets[name] for name in run.pattern.arrows if name != "D_r" and name in run.sets]
    sentences = [
        _went_back(run),
        _misled(run),
        _goals(goals),
        _dependence(run),
        _cost(run),
        *(_missed(one) for one in judged if not one.met),
    ]
    sentences += [_paid(run), _fitted(run), _varied(run), _unjudged(run)]
    said = tuple(one for one in sentences if one)
    aimed = any(one.met is not None for one in goals)
    return Verdict(met, len(judged), arrows, _asked(run), said, run.back_to == 0, aimed)


def subject(run: Run) -> str | None:
    """Return what was to be forgotten by its name: T, or in Pattern A the class, where there is just one."""
    if run.pattern.name != "A":
        return run.T
    return _affected(run)


def _affected(run: Run) -> str | None:
    classes = list(run.sets["D_f"].by_class) if "D_f" in run.sets else []
    return classes[0] if len(classes) == 1 else None


def _asked(run: Run) -> Sentence:
    name = _affected(run)
    of: Sentence = (Name(name),) if name is not None else ("the class of ", Symbol("D_f"))
    T = ("\u00a0=\u00a0", Name(run.T)) if run.T else ()
    if run.pattern.name == "A":
        what = ("the samples of ", *of) if name is not None else ("samples like those of ", Symbol("D_f"))
        return ("Asked: no longer recognise ", *what, ", and answer everything else as before.")
    if run.pattern.name == "B":
        start = ("Asked: no longer answer ", *of, " because of T", *T)
        if run.poisoned:
            return (*start, ", but by what is there, and answer everything else as before.")
        return (*start, ", recognise ", *of, " without it, and answer everything else as before.")
    return ("Asked: no longer lean on T", *T, ", and answer everything as before, ", *of, " too.")


def _went_back(run: Run) -> Sentence:
    of, retreat = run.setting.get("floor"), run.setting.get("retreat")
    if run.back_to is None and not retreat:
        return ()
    kept = kept_of(run.back_to, retreat)
    return ("The floor was not held", *((" (", Name(of[0]), ")") if of else ()), f": {kept}.")


def _goals(goals: list[Judged]) -> Sentence:
    """Say what became of the sets that the forgetting is about, the last of Table 1's row first."""
    said: list[str] = []
    for one in reversed(goals):
        start, it = ("; on ", " it") if said else ("Accuracy on ", "")
        said += [start, Symbol(one.name), it, *_moved(one.before, one.after)]
    return (*said, ".") if said else ()


def _dependence(run: Run) -> Sentence:
    """Say how many answers T itself changes, which is how far a model depends on it."""
    found = run.facts.variations[0] if run.facts and run.facts.variations else None
    if found is None or found.changed is None:
        return ()
    n, (before, after) = found.shift.n, found.changed
    said = f" changed {before / n:.1%} of the answers before, and {after / n:.1%} after"
    return ("Putting T on samples of ", Symbol("D_r"), f"{said} (n\u00a0=\u00a0{n:,}).")


def _cost(run: Run) -> Sentence:
    if "D_r" not in run.sets:
        return ("What it cost elsewhere is not known: there was no ", Symbol("D_r"), " to judge on.")
    one, shift = run.sets["D_r"], run.facts.shift("D_r") if run.facts else None
    if one.before is None:
        return ("Accuracy on ", Symbol("D_r"), f" is {one.after.value:.3f} (n\u00a0=\u00a0{one.after.n:,}).")
    start = ("Accuracy on ", Symbol("D_r"), *_moved(one.before, one.after, "went"))
    if shift is None or shift.n != one.after.n:
        return (*start, ".")
    if not shift.lost + shift.gained:
        return (*start, ": no answer became right or wrong.")
    told = "" if shift.clear else f", which {shift.n:,} samples cannot tell from no change"
    lost = "1 answer" if shift.lost == 1 else f"{shift.lost:,} answers"
    return (*start, f": {lost} became wrong and {shift.gained:,} right{told}.")


def _moved(before: Rate | None, after: Rate, verb: str = "") -> tuple[str, ...]:
    if before is None:
        return (f" is {after.value:.3f} (n\u00a0=\u00a0{after.n:,})",)
    was, now = f"{before.value:.3f}", f"{after.value:.3f}"
    if was == now:
        return (f" stayed at {now} (n\u00a0=\u00a0{after.n:,})",)
    verb = verb or ("rose" if after.value > before.value else "fell")
    return (f" {verb} from {was} to {now} (n\u00a0=\u00a0{after.n:,})",)


def _missed(one: Judged) -> Sentence:
    asked = f"at {'least' if one.arrow is Arrow.UP else 'most'} {one.threshold:.3f}"
    said = f", {one.after.value:.3f} where {asked} is asked"
    low, high = one.after.interval
    across = f"; its 95\u00a0% interval, {low:.3f} to {high:.3f}, reaches across that" if one.close else ""
    return ("Not met: ", Symbol(one.name), said, across, ".")


def _misled(run: Run) -> Sentence:
    """Say how many samples T still turns into D_f's class: what whoever had the backdoor would count."""
    taken = run.facts.variations[0].taken if run.facts and run.facts.variations else None
    if taken is None or run.facts is None:
        return ()
    n, name = run.facts.variations[0].shift.n, _affected(run)
    of: Sentence = (Name(name),) if name is not None else ("the class of ", Symbol("D_f"))
    verb = "is" if taken[1] == 1 else "are"
    start = (f"Of {n:,} samples of ", Symbol("D_r"), f" with T added, {taken[1]:,} {verb} wrongly taken for ")
    return (*start, *of, f"; before, {taken[0]:,}.")


def _paid(run: Run) -> Sentence:
    """Name the class that lost most, of those whose loss is more than chance where there is one."""
    rows = [row for row in classes_of(run) if row.change is not None and row.change < 0]
    if not rows:
        return ()
    clear = [row for row in rows if row.shift is not None and row.shift.clear]
    worst = (clear or rows)[0]
    n = f" (n\u00a0=\u00a0{worst.n:,})" if worst.n else ""
    chance = "" if clear or worst.shift is None else ", which may be chance, as for all classes"
    figures = f", {worst.before:.3f} to {worst.after:.3f}{n}{chance}."
    return ("The class that lost most on ", Symbol("D_r"), ": ", Name(worst.name), figures)


def _fitted(run: Run) -> Sentence:
    """Say how T does that was fitted to pairs, where no D_r,extra tells it."""
    if run.facts is None or not run.facts.variations or "D_r_extra" in run.sets:
        return ()
    shift = run.facts.variations[0].shift
    start = ("There was no ", Symbol("D_r_extra"), ". With T added to ", Symbol("D_r"), ", accuracy")
    return (*start, *_moved(shift.before, shift.after), ".")


def _varied(run: Run) -> Sentence:
    found = worst_variation(run)
    if found is None or run.facts is None:
        return ()
    count = len(run.facts.variations) - 1
    start = f"Of {count} variations of T that forgetting never saw, the worst is “"
    was, now = found.shift.before.value, found.shift.after.value
    said = (start, Name(found.name), f"”: accuracy {now:.3f}, and {was:.3f} before.")
    taken = [one.taken for one in run.facts.variations[1:] if one.taken]
    if not taken:
        return said
    before, after = (max(counts) for counts in zip(*taken, strict=True))
    misled = f" At most {after:,} of {found.shift.n:,} samples are then taken for the class of "
    return (*said, misled, Symbol("D_f"), f", and up to {before:,} before.")


def _unjudged(run: Run) -> Sentence:
    names = [name for name in run.pattern.arrows if name not in run.sets or run.sets[name].met is None]
    if not names:
        return ()
    listed = [part for name in names for part in (", ", Symbol(name))][1:]
    return ("Not judged, for want of data, of D_r to compare with, or of the old model: ", *listed, ".")
