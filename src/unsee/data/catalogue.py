"""The published data sets by name: whatever the modules in `known/` define, one file each."""

import importlib
import importlib.resources

from unsee.data.published import Published


def published_in(package: str) -> dict[str, Published]:
    """Return all data sets that the modules of a package define, by name: those of the package first."""
    files = (file.name for file in importlib.resources.files(package).iterdir())
    names = sorted(name.removesuffix(".py") for name in files if name.endswith(".py") and name[0] != "_")
    modules = [importlib.import_module(f"{package}.{name}") for name in names]
    found = [data for module in modules for data in vars(module).values() if isinstance(data, Published)]
    return {data.name: data for data in sorted(found, key=lambda data: (not data.file, data.name))}


KNOWN = published_in("unsee.data.known")
