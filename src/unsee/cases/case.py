"""The case file: what a model is to forget, in words that an engineer writes down and a colleague can read.

Each field is documented here and nowhere else: the comments of a new `case.yaml`, the questions of
`unsee init`, `unsee init --help` and the JSON schema for editors are made of these words.
"""

import difflib
import re
import textwrap
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictInt,
    StrictStr,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import ErrorDetails

from unsee.cases import notation
from unsee.errors import InputError, UsageError

MOST_BYTES = 1_000_000
_SYMBOLS = {"D_f": "forget", "D_f_clean": "clean", "D_r": "remember", "D_r_extra": "extra", "T": "trigger"}


class Words(BaseModel):
    """A part of a case: unknown words are errors, and nothing changes once it is read."""

    model_config = ConfigDict(extra="forbid", frozen=True, str_max_length=4096, allow_inf_nan=False)


def _as_path(given: Any) -> Any:
    return {"path": given} if isinstance(given, str) else given


class SetWords(Words):
    """A set of samples."""

    path: str = Field(
        description="A folder with a sub-folder for each class, a flat folder (with `label`), an .npz, a "
        ".csv or .parquet that lists files and labels, or a Hugging Face data set on disk."
    )
    label: StrictStr | StrictInt | None = Field(
        None, description="The class that all of these samples have, by name or number."
    )


_EITHER = {"anyOf": [{"type": "string"}, SetWords.model_json_schema()]}
SetPath = Annotated[SetWords, BeforeValidator(_as_path), WithJsonSchema(_EITHER)]


class ModelWords(Words):
    """The model that misbehaves."""

    weights: str = Field(
        description="Its weights: .safetensors, .pth (opened without running code), or a Hugging Face folder."
    )
    network: str | None = Field(
        None,
        description="What they are the weights of: mlp, resnet, torchvision/NAME, timm/NAME, or a factory "
        "package.module:function (needs --allow-code). Not needed for files that unsee wrote.",
    )
    options: dict[str, Any] = Field(
        default_factory=dict,
        description="What the network's builder is called with: shape, width and blocks for resnet, shape "
        "and depth for mlp, such as {shape: [3, 32, 32], width: 16, blocks: 1}.",
    )
    classes: tuple[str, ...] = Field(
        (), description="The names of the model's outputs, in order.", examples=[["cat", "dog"]]
    )


class PreprocessWords(Words):
    """How pixels from 0 to 255 reach the network: divided, resized, then standardised by channel."""

    divide_by: float = Field(
        255.0, gt=0, description="255 for a network that was trained on 0..1, 1 for 0..255."
    )
    size: tuple[int, int] | None = Field(
        None,
        description="Height and width that the network takes. Images are scaled to it when they are read, "
        "and the rows and columns of `trigger` count its pixels.",
    )
    mean: tuple[float, ...] = Field((0.0,), description="The mean of each channel, after dividing.")
    std: tuple[float, ...] = Field((1.0,), description="The deviation of each channel, after dividing.")


class ModelCase(Words):
    """The part of a case that `unsee remember` needs: it is there before anything is to be forgotten."""

    model: ModelWords = Field(description="The model that misbehaves.")
    preprocess: PreprocessWords | None = Field(
        None,
        description="How pixels from 0 to 255 reach the network, such as {divide_by: 255, size: [32, 32], "
        "mean: [0.5], std: [0.25]}. Not needed for files that unsee wrote, nor for a Hugging Face folder.",
    )


class Case(ModelCase):
    """All that `unsee forget case.yaml` needs to know. Paths are relative to the case file."""

    pattern: Literal["A", "B", "C"] = Field(
        description="What is to be forgotten (Table 1): A samples or a class, B a backdoor, C a leakage."
    )
    forget: SetPath = Field(
        description="D_f: samples with what is to be forgotten, with the labels they were trained with: a "
        "path, or {path: ..., label: ...} where all were trained as one class."
    )
    clean: SetPath | None = Field(
        None,
        description="D_f,clean: the same samples without it, with their true labels. Twins are found by "
        "their file names.",
    )
    trigger: str | None = Field(
        None,
        description="T, what adds the information: line, tile, color, patch:FILE:ROW:COLUMN, "
        "logo:FILE:SMALLEST:LARGEST, blend:FILE:ALPHA, column:NAME:VALUE (or constant, resampled, leaked), "
        "phrase:TEXT:PLACE (start, end, anywhere, removed), or package.module:function (needs --allow-code). "
        "Or what to fill in where there is no `clean`: mask:ROW:COLUMN:HEIGHT:WIDTH or mask:FILE.",
    )
    remember: SetPath | None = Field(
        None, description="D_r: samples that must stay right. Judged by, and never trained on."
    )
    extra: SetPath | None = Field(
        None,
        description="D_r,extra: samples of D_r with the information added, truly labelled. Made of "
        "`remember` by `trigger` where it is not given. Judged by, and never trained on.",
    )
    memory: str | None = Field(None, description="The memory that `unsee remember` took at training time.")
    recipe: str | None = Field(None, description="A recipe's name or .json file, in place of the default.")
    floor: float | None = Field(
        None, ge=0, lt=1, description="How much accuracy on D_r may be lost: 0.02 if not given."
    )
    seed: int = Field(0, ge=0, lt=2**63, strict=True, description="The seed of all that is drawn.")
    save_as: Literal["safetensors", "pth"] = Field(
        "safetensors", description="How the repaired weights are written; keys, types and wrapping stay."
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        given = [name for name in ("clean", "extra", "trigger") if getattr(self, name)]
        if self.pattern == "A" and given:
            do = "leave it out, or choose B or C"
            raise UsageError("no `clean`, `extra` or `trigger` in Pattern A (Table 1)", f"`{given[0]}`", do)
        if self.clean and (self.trigger or "").startswith("mask:"):
            raise UsageError("`clean` or a mask to make it with", "both", "leave one out")
        names = self.model.classes
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise UsageError("each class once in `model.classes`", f"{twice!r} twice", "mend the list")
        if self.pattern != "A" and not self.clean and not (self.trigger or "").startswith("mask:"):
            wanted = "`clean` (the samples of `forget` without the information), or `trigger: mask:...`"
            raise UsageError(f"{wanted}, in Pattern {self.pattern}", "neither", "add one of them")
        return self


_Kind = TypeVar("_Kind", bound=ModelCase)


def load(path: Path | str) -> Case:
    """Read a case file; whatever is wrong in it is said in one sentence."""
    return checked(_words(path := Path(path)), path, Case)


def load_model(path: Path | str) -> ModelCase:
    """Read what a case file says about the model; the rest may still be missing."""
    words = _words(path := Path(path))
    return checked({k: v for k, v in words.items() if k in ModelCase.model_fields}, path, ModelCase)


def _words(path: Path) -> dict[str, Any]:
    if path.exists() and path.is_file() and path.stat().st_size > MOST_BYTES:
        found = f"{path.stat().st_size:,} bytes in {path}"
        raise InputError(f"a case file of at most {MOST_BYTES:,} bytes", found, "check the path")
    words = notation.read(path)
    if not isinstance(words, dict):
        kinds = {"NoneType": "nothing", "str": "mere text", "list": "a list"}
        found = f"{kinds.get(type(words).__name__, type(words).__name__)} in {path}"
        raise InputError(
            "a case: keys such as model, pattern and forget", found, "write one with `unsee init`"
        )
    return words


def checked(words: dict[str, Any], path: Path, kind: type[_Kind]) -> _Kind:
    """Return words as a case; `path` is the file that they stand in, or will."""
    try:
        return kind.model_validate(words)
    except ValidationError as error:
        errors = sorted(error.errors(), key=lambda e: e["type"] != "extra_forbidden")
        raise _one_sentence(errors[0], path) from None
    except RecursionError:
        raise InputError(f"a case in {path}", "words nested without end", "write it plainly") from None


def schema() -> dict[str, Any]:
    """Return the JSON schema of a case, for editors."""
    return Case.model_json_schema()


def written(words: dict[str, Any]) -> str:
    """Return the text of a case file: each key below its description, what is not given as a comment."""
    lines = ["# A case for `unsee forget`. Paths are relative to this file."]
    for name, field in Case.model_fields.items():
        lines += ["", *(f"# {line}" for line in _wrapped(field.description or ""))]
        if name in words and words[name] not in (None, {}):
            lines.append(yaml.safe_dump({name: words[name]}, sort_keys=False, allow_unicode=True).rstrip())
        else:
            lines.append(f"# {name}:")
    return "\n".join(lines) + "\n"


def _one_sentence(error: ErrorDetails, path: Path) -> InputError | UsageError:
    """Say what pydantic found wrong, with the nearest name where a word is unknown."""
    where = [str(part) for part in error["loc"]]
    name = ".".join(where) or "the case"
    if error["type"] == "extra_forbidden":
        known = _keys(where[:-1])
        near = [_SYMBOLS[where[-1]]] if where[-1] in _SYMBOLS and len(where) == 1 else None
        near = near or difflib.get_close_matches(where[-1], known, 1, 0.0) or known
        return UsageError(
            f"one of {', '.join(known)} in {path}", f"{where[-1]!r}", f"did you mean {near[0]!r}"
        )
    if error["type"] == "missing":
        return UsageError(f"`{name}` in {path}", "none", _described(where) or "add it")
    found = "nothing" if error["input"] is None else re.sub(r"\s+", " ", repr(error["input"]))[:80]
    if error["type"] == "model_type":
        inner = ", ".join(_keys(where))
        return UsageError(f"keys such as {inner} below `{name}` in {path}", found, "write them there")
    said = re.sub(r"(?i)^(input|string) should (be|have) |, unable.*", "", error["msg"])
    return UsageError(f"{said} as `{name}` in {path}", found, "mend that key")


def _fields(where: list[str]) -> Any:
    fields: Any = Case.model_fields
    for part in where:
        inner = {"model": ModelWords, "preprocess": PreprocessWords}.get(part, SetWords)
        fields = inner.model_fields
    return fields


def _keys(where: list[str]) -> list[str]:
    return list(_fields(where))


def _described(where: list[str]) -> str:
    field = _fields(where[:-1]).get(where[-1]) if where else None
    return f"add it ({field.description.rstrip('.')})" if field is not None and field.description else ""


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, 100)
