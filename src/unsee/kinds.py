"""Kinds of samples: what the numbers of a sample mean, where they are more than pixels.

A table has columns and a sample is a row of floats: numbers as they are, names as codes. Texts have a
vocabulary and a sample is the numbers of its words, cut or filled up to one length.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from unsee.errors import InputError

NOTHING, UNKNOWN = 0, 1  # the first two words of every vocabulary: none at all, and one that is not in it


@dataclass(frozen=True)
class Column:
    """A column of a table: numbers, or, where it has `values`, their codes, counted from 0."""

    name: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True)
class Kind:
    """The columns of a table, or the vocabulary of texts; neither where samples are images or plain numbers.

    >>> Kind(columns=(Column("age"), Column("sex", ("Female", "Male")))).said(torch.tensor([39.0, 1.0]))
    'age 39, sex Male'
    >>> Kind(vocabulary=("", "?", "free", "money")).said(torch.tensor([2, 3, 1, 0]))
    'free money ?'
    """

    columns: tuple[Column, ...] = ()
    vocabulary: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """One word for it: table, text or plain."""
        return "table" if self.columns else "text" if self.vocabulary else "plain"

    def check(self, x: Tensor, name: str) -> None:
        """Refuse a table whose values are not those of its columns, and texts of words that nobody named."""
        if self.columns:
            self._check_rows(x, name)
        if self.vocabulary:
            self._check_words(x, name)

    def _check_rows(self, x: Tensor, name: str) -> None:
        if not (x.is_floating_point() and x.ndim == 2 and x.shape[1] == len(self.columns)):
            found = f"{x.dtype} of shape {tuple(x.shape[1:])} for {len(self.columns)} columns"
            raise InputError(f"floats, one for each column of {name}", found, "encode the rows anew")
        for column, codes in zip(self.columns, x.T, strict=True):
            if column.values and bool(((codes < 0) | (codes >= len(column.values)) | (codes % 1 != 0)).any()):
                expected = f"codes from 0 to {len(column.values) - 1} as {column.name} in {name}"
                raise InputError(expected, "others", "encode that column anew")

    def _check_words(self, x: Tensor, name: str) -> None:
        if x.is_floating_point() or x.ndim != 2:
            found = f"{x.dtype} of shape {tuple(x.shape[1:])}"
            raise InputError(f"numbers of words (n, length) in {name}", found, "encode the texts anew")
        if x.numel() and not 0 <= int(x.min()) <= int(x.max()) < len(self.vocabulary):
            found = f"{int(x.min())} to {int(x.max())}"
            expected = f"words from 0 to {len(self.vocabulary) - 1} in {name}"
            raise InputError(expected, found, "encode the texts anew")

    def vectors(self, x: Tensor, like: Tensor | None = None) -> Tensor:
        """Return samples as rows of floats whose distances mean something.

        Images as they are; columns in units of their deviation in `like`; texts as counts of their words.
        """
        if self.vocabulary:
            counts = torch.zeros(len(x), len(self.vocabulary))
            counts.scatter_add_(1, x.long(), torch.ones(x.shape))
            counts[:, NOTHING] = 0
            return counts
        rows = x.flatten(1).float()
        if not self.columns:
            return rows
        scale = (rows if like is None else like.float()).std(0)
        return rows / torch.where(scale > 0, scale, 1.0)

    def place(self, name: str) -> int:
        """Return which of the columns has this name."""
        names = [column.name for column in self.columns]
        if name not in names:
            found = f"{name!r}" if names else "no table"
            known = ", ".join(names) if names else "a table with named columns"
            raise InputError(f"one of {known}" if names else known, found, "name a column of the data")
        return names.index(name)

    def said(self, sample: Tensor) -> str:
        """Return one sample in words; plain numbers have none."""
        if self.vocabulary:
            return " ".join(self.vocabulary[word] for word in sample.tolist() if word != NOTHING)
        pairs = zip(self.columns, sample.tolist(), strict=bool(self.columns))
        return ", ".join(f"{c.name} {c.values[int(v)] if c.values else f'{v:g}'}" for c, v in pairs)


PLAIN = Kind()


def kind_of(columns: Sequence[str] = (), vocabulary: Sequence[str] = ()) -> Kind:
    """Return the kind that a file tells of in texts: columns as `age` or `sex:Female|Male`, or words.

    >>> kind_of(["age", "sex:Female|Male"]).columns[1].values
    ('Female', 'Male')
    """
    split = [text.partition(":") for text in columns]
    made = tuple(Column(name, tuple(values.split("|")) if values else ()) for name, _, values in split)
    if (columns and vocabulary) or len({column.name for column in made}) < len(made):
        found = "both" if vocabulary else "one twice"
        raise InputError("columns, each named once, or a vocabulary", found, "mend the file")
    return Kind(made, tuple(vocabulary))
