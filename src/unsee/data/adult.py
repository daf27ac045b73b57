"""Adult (Becker, Kohavi 1996): 48,842 people of the US census of 1994, and who earned over 50,000 dollars.

Lines of fourteen fields and a class become rows of numbers: what is a number stays one, a name becomes its
place in the list below, which is the publisher's, with ? for unknown at the end where that occurs.
"""

import torch
from torch import Tensor

from unsee.kinds import Column

CLASSES = ("<=50K", ">50K")
MD5 = {"adult.data": "5d7c39d7b8804f071cdd1f2a7c460872", "adult.test": "35238206dfdf7f1fe215bbb874adecdc"}


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


COLUMNS = (
    Column("age"),
    Column(
        "workclass",
        _names(
            "Private Self-emp-not-inc Self-emp-inc Federal-gov Local-gov State-gov Without-pay Never-worked ?"
        ),
    ),
    Column("fnlwgt"),
    Column(
        "education",
        _names(
            "Bachelors Some-college 11th HS-grad Prof-school Assoc-acdm Assoc-voc 9th 7th-8th 12th Masters "
            "1st-4th 10th Doctorate 5th-6th Preschool"
        ),
    ),
    Column("education-num"),
    Column(
        "marital-status",
        _names(
            "Married-civ-spouse Divorced Never-married Separated Widowed Married-spouse-absent "
            "Married-AF-spouse"
        ),
    ),
    Column(
        "occupation",
        _names(
            "Tech-support Craft-repair Other-service Sales Exec-managerial Prof-specialty Handlers-cleaners "
            "Machine-op-inspct Adm-clerical Farming-fishing Transport-moving Priv-house-serv "
            "Protective-serv Armed-Forces ?"
        ),
    ),
    Column("relationship", _names("Wife Own-child Husband Not-in-family Other-relative Unmarried")),
    Column("race", _names("White Asian-Pac-Islander Amer-Indian-Eskimo Other Black")),
    Column("sex", _names("Female Male")),
    Column("capital-gain"),
    Column("capital-loss"),
    Column("hours-per-week"),
    Column(
        "native-country",
        _names(
            "United-States Cambodia England Puerto-Rico Canada Germany Outlying-US(Guam-USVI-etc) India "
            "Japan Greece South China Cuba Iran Honduras Philippines Italy Poland Jamaica Vietnam Mexico "
            "Portugal Ireland France Dominican-Republic Laos Ecuador Taiwan Haiti Columbia Hungary Guatemala "
            "Nicaragua Scotland Thailand Yugoslavia El-Salvador Trinadad&Tobago Peru Hong "
            "Holand-Netherlands ?"
        ),
    ),
)


def rows_of(data: bytes) -> tuple[Tensor, Tensor]:
    """Return the rows and classes of adult.data or adult.test, as whole numbers.

    >>> line = b"39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White,"
    >>> x, y = rows_of(line + b" Male, 2174, 0, 40, United-States, <=50K")
    >>> x.tolist(), y.tolist()
    ([[39, 5, 77516, 0, 13, 2, 8, 3, 0, 1, 2174, 0, 40, 0]], [0])
    """
    codes = [{name: code for code, name in enumerate(column.values)} for column in COLUMNS]
    x, y = [], []
    for line in data.decode("ascii").splitlines():
        if not line or line.startswith("|"):
            continue
        *fields, label = line.split(", ")
        pairs = zip(fields, codes, strict=True)
        x.append([known[field] if known else int(field) for field, known in pairs])
        y.append(CLASSES.index(label.rstrip(".")))  # the test part ends its lines in a full stop
    return torch.tensor(x, dtype=torch.int32), torch.tensor(y, dtype=torch.uint8)
