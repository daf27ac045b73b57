"""The published data sets by name: whatever the modules in `known/` define, one file each."""

import importlib
import pkgutil

from unsee.data.published import Published


def published_in(package: str) -> dict[str, Published]:
    """Return all data sets that the modules of a package define, by name: those of unsee's own first."""
    files = pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}.")
    modules = [importlib.import_module(module.name) for module in files]
    data_sets = [data for module in modules for data in vars(module).values() if isinstance(data, Published)]
    return {data.name: data for data in sorted(data_sets, key=lambda data: (not data.file, data.name))}


KNOWN = published_in("unsee.data.known")
