"""Resting: tensors that nobody needs for a while lie on the disk, and take no memory."""

import contextlib
import ctypes
import tempfile
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from unsee.errors import StoreError
from unsee.layout import raw


class Resting:
    """Tensors in a file without a name, which is gone with the process, whatever ends it.

    >>> resting = Resting({"theta": torch.arange(3.0)}, tempfile.gettempdir())
    >>> resting.back()
    {'theta': tensor([0., 1., 2.])}
    """

    def __init__(self, tensors: Mapping[str, Tensor], folder: Path | str) -> None:
        self.kinds = {name: (tensor.shape, tensor.dtype) for name, tensor in tensors.items()}
        self.size, self.folder = sum(tensor.nbytes for tensor in tensors.values()), folder
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
            self.file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115
            for tensor in tensors.values():
                self._write(raw(tensor))
        except OSError as error:
            expected = f"room for {self.size:,} bytes in {folder}"
            raise StoreError(expected, f"{error.strerror}", "make room") from None

    def back(self) -> dict[str, Tensor]:
        """Return the tensors as they were."""
        self.file.seek(0)
        found = {name: torch.empty(shape, dtype=dtype) for name, (shape, dtype) in self.kinds.items()}
        read = sum(self._read(raw(tensor)) for tensor in found.values() if tensor.numel())
        if read != self.size:
            expected = f"{self.size:,} bytes that rested in {self.folder}"
            raise StoreError(expected, f"{read:,}", "check that disk, and repeat")
        return found

    def _write(self, part: memoryview) -> None:
        # The system takes some 2 GB at a time, and less where the disk is full.
        while part:
            part = part[self.file.write(part) :]

    def _read(self, part: memoryview) -> int:
        size = len(part)
        while part and (count := self.file.readinto(part)):
            part = part[count:]
        return size - len(part)

    def __del__(self) -> None:
        if hasattr(self, "file"):
            self.file.close()


def give_back() -> None:
    """Give back to the system what was freed, where the C library would keep it for the next who asks."""
    with contextlib.suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
