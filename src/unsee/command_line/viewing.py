"""What the verb does that shows runs: view."""

import argparse
import contextlib
import os
import sys
import threading
import webbrowser
from pathlib import Path

from rich.console import Console

from unsee.command_line.telling import print_json
from unsee.view.server import serve


def view(a: argparse.Namespace) -> int:
    """`unsee view`: serves until it is interrupted, which is how it ends well."""

    def ready(address: str) -> None:
        if a.json:
            print_json({"address": address, "folder": str(Path(a.folder))})
            sys.stdout.flush()
        else:
            console = Console(highlight=False, soft_wrap=True)
            console.print(f"The runs in {a.folder} are at\n\n  {address}\n", markup=False)
            console.print("for browsers on this machine only. Ctrl-C ends it.", markup=False)
        if not a.no_browser and _has_screen():
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

    with contextlib.suppress(KeyboardInterrupt):
        serve(a.folder, a.port, ready=ready)
    return 0


def _has_screen() -> bool:
    """Say whether a browser would have a window; in a terminal, one would take the terminal over."""
    if sys.platform in ("darwin", "win32"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
