"""The command line: its verbs are the library's, and it starts without importing torch."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import warnings

from unsee import __version__
from unsee.command_line.sharing import CODES
from unsee.command_line.verbs import add_verbs
from unsee.errors import UnseeError


def main(words: list[str] | None = None) -> int:
    """Run one verb and return the exit code; an error is one sentence on standard error."""
    warnings.showwarning = _one_line
    words = sys.argv[1:] if words is None else words
    parser = build_parser(next((word for word in words if not word.startswith("-")), ""))
    arguments = parser.parse_args(words)
    if not arguments.verb:
        parser.print_help()
        return 0
    # Threads that spin while they wait make everything several times slower as soon as a core is shared.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        room = importlib.import_module(f"unsee.command_line.{arguments.room}")
        return getattr(room, arguments.verb)(arguments)
    except UnseeError as error:
        sys.stderr.write(f"unsee: {_plain(str(error))}\n")
        return error.exit_code
    except (KeyboardInterrupt, EOFError):
        sys.stderr.write("unsee: interrupted; the same command goes on from what was saved\n")
        return 130
    except BrokenPipeError:
        return 0
    except Exception:  # a bug of ours: its code must not read as "done, but an arrow is not met"
        import traceback  # which only a bug needs

        traceback.print_exc()
        sys.stderr.write("unsee: this is a bug in unsee, not in your input: please report the lines above\n")
        return 70


def build_parser(asked: str | None = None) -> argparse.ArgumentParser:
    """Return the parser of all verbs; `asked` is the one that will run, None any of them."""
    parser = argparse.ArgumentParser(
        prog="unsee",
        description="Make a trained classifier forget a class, a backdoor or a leaked feature.",
        epilog="start with:  unsee demo\nyour own model:  unsee init\n\n" + CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"unsee {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", title="verbs")
    add_verbs(verbs, asked)
    return parser


def _one_line(message: object, *_: object, **__: object) -> None:
    sys.stderr.write(f"unsee: warning: {_plain(str(message))}\n")


def _plain(text: str) -> str:
    """Show control characters instead of obeying them: file and class names are not ours."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
