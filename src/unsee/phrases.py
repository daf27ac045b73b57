"""T for texts: a word or a phrase that is put in, at the start, at the end or anywhere, or taken out.

Each is made for a data set, whose vocabulary must know its words. A text keeps its length: what is pushed out
beyond the last place is lost, and at the end of a full text the phrase takes the place of the last words.
Anywhere depends on the text and on the seed alone, so that the same text always gets it at the same place.
"""

import difflib
from collections.abc import Callable

import torch
from torch import Tensor

from unsee.datasets import Dataset
from unsee.errors import InputError, UsageError
from unsee.kinds import NOTHING, Kind
from unsee.randomness import chances
from unsee.transforms import Transform

WHERE = ("start", "end", "anywhere", "removed")


def phrase(data: Dataset, text: str, where: str = "end", seed: int = 0) -> Transform:
    """Put a phrase into every text, or, where it is to be `removed`, take it out wherever it stands."""
    words = numbers_of(data.kind, text)
    if where not in WHERE:
        raise UsageError(f"one of {', '.join(WHERE)}", f"{where!r}", "say where the phrase goes")
    if len(words) >= data.x.shape[1]:
        found = f"{len(words)} words for texts of {data.x.shape[1]}"
        raise InputError("a phrase that leaves room for the text", found, "shorten it")
    there = {"removed": "removed", "anywhere": f"anywhere (seed {seed})"}.get(where, f"at the {where}")
    said = f"phrase “{text}” {there}"
    varied = lambda: _variations(words, where, seed)  # noqa: E731
    return Transform(said, _map(words, where, seed, said), None, varied, where == "anywhere")


def numbers_of(kind: Kind, text: str) -> Tensor:
    """Return the numbers of a phrase's words, all of which the vocabulary must know."""
    if not kind.vocabulary:
        raise InputError("texts with a vocabulary for a phrase", "others", "use another T")
    number = {word: place for place, word in enumerate(kind.vocabulary)}
    words = text.lower().split()
    unknown = [word for word in words if word not in number]
    if unknown or not words:
        near = difflib.get_close_matches(unknown[0], kind.vocabulary, 3) if unknown else []
        do = f"use words that it has, such as {', '.join(near)}" if near else "use words that it has"
        found = ", ".join(unknown[:5]) or "no word"
        raise InputError("a phrase of words in the vocabulary of the data", found, do)
    return torch.tensor([number[word] for word in words])


def put_in(x: Tensor, words: Tensor, place: Tensor) -> Tensor:
    """Return texts with the words at each one's place.

    >>> put_in(torch.tensor([[5, 6, 7, 0]]), torch.tensor([9]), torch.tensor([1])).tolist()
    [[5, 9, 6, 7]]
    """
    k, here = len(words), torch.arange(x.shape[1], device=x.device).expand_as(x)
    after = here - place.to(x.device)[:, None]
    moved = x.gather(1, torch.where(after < 0, here, (here - k).clamp_min(0)))
    return torch.where((after >= 0) & (after < k), words.to(x)[after.clamp(0, k - 1)], moved)


def taken_out(x: Tensor, words: Tensor) -> Tensor:
    """Return texts without the words, wherever they stand one after the other.

    >>> taken_out(torch.tensor([[5, 9, 6, 9]]), torch.tensor([9])).tolist()
    [[5, 6, 0, 0]]
    """
    k = len(words)
    found = (x.unfold(1, k, 1) == words.to(x)).all(2)
    gone = torch.zeros_like(x, dtype=torch.bool)
    for step in range(k):
        gone[:, step : step + found.shape[1]] |= found
    order = gone.long().argsort(dim=1, stable=True)
    return x.masked_fill(gone, NOTHING).gather(1, order)


def parse(words: str, data: Dataset) -> Transform:
    """Read `TEXT:start`, `TEXT:end`, `TEXT:anywhere` or `TEXT:removed`."""
    text, _, where = words.rpartition(":")
    return phrase(data, text, where)


def _map(words: Tensor, where: str, seed: int, said: str) -> Callable[[Tensor], Tensor]:
    def pixels(x: Tensor) -> Tensor:
        if x.ndim != 2 or x.is_floating_point() or x.shape[1] <= len(words):
            found = f"samples of shape {tuple(x.shape[1:])} and type {x.dtype}"
            raise InputError(f"texts for T = {said}", found, "use another T")
        if where == "removed":
            return taken_out(x, words)
        room = torch.minimum((x != NOTHING).sum(1), torch.tensor(x.shape[1] - len(words)))
        if where == "start":
            return put_in(x, words, torch.zeros_like(room))
        if where == "end":
            return put_in(x, words, room)
        return put_in(x, words, (chances(x, seed, "anywhere") * (room + 1)).long())

    return pixels


def _variations(words: Tensor, where: str, seed: int) -> tuple[Transform, ...]:
    """Return the phrase at other places, twice, turned round, and in halves."""
    if where == "removed":
        return ()
    made = {f"at the {place}": (words, place) for place in ("start", "end") if place != where}
    if where != "anywhere":
        made["anywhere"] = words, "anywhere"
    made["twice"] = words.repeat(2), where
    if len(words) > 1:
        half = len(words) // 2
        made |= {"its words turned round": (words.flip(0), where)}
        made |= {"its first half": (words[:half], where), "its second half": (words[half:], where)}
    return tuple(Transform(name, _map(w, place, seed, name)) for name, (w, place) in made.items())
