"""T in words, as the command line and case files name it: of images, of tables, of texts."""

from pathlib import Path

from unsee import columns, phrases, transforms
from unsee.datasets import Dataset
from unsee.errors import UsageError
from unsee.transforms import Transform

FORMS = f"{transforms.FORMS}, column:NAME:VALUE (or constant, resampled, leaked), phrase:TEXT:PLACE"
NAMES = (*transforms.NAMES, "column", "phrase")


def parse(text: str, data: Dataset, folder: Path | str = ".") -> Transform:
    """Read T for this data from words such as `tile`, `column:sex:resampled` or `phrase:act now:start`.

    Several are joined by +. A file is looked for in `folder`, if it is not named from the root.
    """
    first, *rest = (_parse_one(part, data, Path(folder)) for part in transforms.parts(text, NAMES))
    for other in rest:
        first = first.then(other)
    return first


def _parse_one(text: str, data: Dataset, folder: Path) -> Transform:
    name, _, words = text.partition(":")
    if name in ("column", "phrase"):
        if words.count(":") < 1:
            raise UsageError(f"T as {FORMS}", f"{text!r}", "write it like one of those")
        return columns.parse(words, data) if name == "column" else phrases.parse(words, data)
    return transforms.parse(text, folder)
