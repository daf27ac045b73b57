"""What several verbs of the command line share: exit codes, rooms, and groups of options, in words."""

from __future__ import annotations

import argparse

TYPE_CHECKING = False  # of typing, which takes long to open, and of which nothing is needed to run
if TYPE_CHECKING:
    from typing import Any

CODES = """exit codes: 0 done, 1 done but an arrow is not met, 2 usage, 3 bad input, 4 storage,
5 refused as hostile, 6 diverged (last good state kept), 70 a bug of ours, 130 interrupted"""

# The room in which a verb is done, so that only that one is opened.
_ROOMS = {
    **dict.fromkeys(("init", "remember", "forget", "evaluate", "report"), "treating"),
    "view": "viewing",
    "bench": "benching",
}


def verb_of(verbs: Any, name: str, text: str, example: str, *, run: bool = True) -> argparse.ArgumentParser:
    """Add a verb with what all verbs have: help, examples, exit codes, --json; and --seed and --device."""
    verb = verbs.add_parser(
        name,
        help=text,
        description=text,
        epilog="examples:\n  " + example.replace("\n", "\n  ") + f"\n\n{CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verb.set_defaults(room=_ROOMS.get(name, "making"))
    verb.add_argument("--json", action="store_true", help="print the result as JSON, and nothing else")
    if run:
        verb.add_argument(
            "--seed", type=int, default=0, metavar="N", help="seed of everything random (%(default)s)"
        )
        verb.add_argument(
            "--device", default="auto", metavar="NAME", help="cpu, cuda, mps or auto (%(default)s)"
        )
    return verb


def model_or_case(verb: argparse.ArgumentParser) -> None:
    """Take a model's file, or a case."""
    verb.add_argument("model", metavar="MODEL|CASE", help="a model's .safetensors file, or a case.yaml")


def of_a_case(verb: argparse.ArgumentParser) -> Any:
    """Take what only a case asks for."""
    group = verb.add_argument_group("with a case file")
    text = "run the factory or T that the case names: read that code first"
    group.add_argument("--allow-code", action="store_true", help=text)
    return group


def judging(verb: argparse.ArgumentParser) -> None:
    """Take the pattern, and how strictly its arrows are judged."""
    text = "A forget samples, B a backdoor, C a leakage (Table 1)"
    verb.add_argument("--pattern", metavar="A|B|C", help=text)
    text = "how far below the old D_r an arrow up still counts as met (%(default)s)"
    verb.add_argument("--margin", type=float, default=0.02, metavar="X", help=text)
    text = "how much accuracy an arrow down allows (1/C)"
    verb.add_argument("--ceiling", type=float, metavar="X", help=text)


def four_sets(verb: argparse.ArgumentParser) -> None:
    """Take the four data sets: a class of a source and T, or sets of your own."""
    group = verb.add_argument_group("the four data sets", "a class of a data set and T, or sets of your own")
    text = "a name of `unsee data list`, a folder of images (a class a sub-folder) or an .npz (%(default)s)"
    group.add_argument("--data", default="bundled", metavar="NAME|PATH", help=text)
    group.add_argument(
        "--class", dest="label", metavar="CLASS", help="the class that carries T, or is forgotten"
    )
    text = (
        "line, tile, color, patch:FILE:ROW:COLUMN, logo:FILE:SMALLEST:LARGEST, blend:FILE:ALPHA; of a table "
        "column:NAME:VALUE (or constant, resampled, leaked); of texts phrase:TEXT:PLACE (start, end, "
        "anywhere, removed); several joined by +"
    )
    group.add_argument("--T", metavar="T", help=text)
    text = "how much of the class carries T, by chance; the rest of it belongs to D_r (1)"
    group.add_argument("--share", type=float, metavar="X", help=text)
    for name, text in (
        ("D-f", "samples with the information to be forgotten"),
        ("D-f-clean", "the same without it"),
        ("D-r", "samples to be remembered: judged on, and what the floor is held by; never gives a gradient"),
        ("D-r-extra", "remembered samples with the information added: judged on only"),
    ):
        group.add_argument(f"--{name}", metavar="PATH", help=f"{text} (folder or .npz)")


def place(text: str) -> str:
    """Refuse a place without a name."""
    if not text.strip():
        raise argparse.ArgumentTypeError("a name is needed")
    return text
