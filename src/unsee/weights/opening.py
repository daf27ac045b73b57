"""A checkpoint of unknown origin, opened in a process of its own.

The process that asks for it never looks into the file. The one that opens it scans it first, before torch is
there; then torch's restricted unpickler reads it, under limits of memory, time, files and processes; then
each tensor is checked before it is copied; and what comes of it is a safetensors file of ours at OUT. A
refusal is told on standard output, as JSON, and by the exit code.

Not covered: a flaw in torch that lets a file take over that process gives it the rights of the user. The
limits bound what it could use up, not what it could read.
"""

import contextlib
import io
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from pickle import UnpicklingError
from typing import IO, TYPE_CHECKING, Any, BinaryIO

from unsee.errors import HostileError, InputError, StoreError, UnseeError
from unsee.weights.scanning import scan, shown

if TYPE_CHECKING:
    from torch import Tensor

MEMORY = 256 << 20
TIMES_ITS_SIZE = 6  # the numbers as read, contiguous, as bytes and as the bytes of a file, and some air
SECONDS, BYTES_A_SECOND = 30, 20 << 20
PATIENCE = 4  # seconds by the clock for each of the processor's


def opened(file: BinaryIO, name: str) -> Any:
    """Return the tensors and plain values of a checkpoint; `name` is what messages call the file."""
    from unsee import store  # not above, because the process that scans has no torch
    from unsee.weights import plain  # not above, because the process that scans has no torch

    if sys.platform != "linux":
        do = "save it as safetensors"
        raise InputError("Linux, by whose limits a pickled checkpoint is opened", sys.platform, do)
    size = os.fstat(file.fileno()).st_size
    file.seek(0)
    with contextlib.ExitStack() as stack:
        try:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="unsee-"))
            answer = stack.enter_context(tempfile.TemporaryFile())
            noise = stack.enter_context(tempfile.TemporaryFile())
        except OSError as error:
            found = f"{error.strerror}"
            raise StoreError("room for temporary files", found, "free space or set TMPDIR") from None
        out = Path(folder) / "contents.safetensors"
        try:
            done = subprocess.run(
                [sys.executable, "-P", "-B", "-W", "ignore", "-m", "unsee.weights.opening", str(out), name],
                stdin=file,
                stdout=answer,
                stderr=noise,
                cwd=folder,
                env=_environment(),
                timeout=PATIENCE * _seconds(size),
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise _unfinished("one that did not end in time", name) from None
        if done.returncode:
            raise _refusal(done.returncode, answer, noise, name)
        try:
            tensors, about = store.read_tensors(out)
            tensors = {number: tensor.clone() for number, tensor in tensors.items()}
            return plain.together(about["value"], tensors)
        except (UnseeError, LookupError, TypeError, ValueError, AttributeError, RuntimeError):
            raise _unfinished("one that left something else", name) from None


def _environment() -> dict[str, str]:
    """Return all that the opening process learns from this one: where Python's modules and libraries are."""
    # Not by -I, which would hide torch where it was installed for one user or stands in PYTHONPATH.
    paths = [path for path in sys.path if os.path.isabs(path)]
    kept = {key: os.environ[key] for key in ("LD_LIBRARY_PATH",) if key in os.environ}
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    own = {"PYTHONPATH": os.pathsep.join(paths), "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    return {**kept, **threads, **own}


def _refusal(code: int, answer: IO[bytes], noise: IO[bytes], name: str) -> UnseeError:
    answer.seek(0)
    noise.seek(0)
    kinds = {error.exit_code: error for error in (InputError, StoreError, HostileError)}
    with contextlib.suppress(ValueError, TypeError, KeyError):
        expected, found, do = json.loads(answer.read(10_000))
        return kinds[code](shown(expected, 700), shown(found, 700), shown(do, 700))
    if code < 0:
        return _unfinished(f"one that was ended ({signal.strsignal(-code)})", name)
    last = noise.read(100_000).decode(errors="replace").strip().rpartition("\n")[2]
    found = f"exit code {code} and {shown(last)}"
    return StoreError(f"a process that opens {name}", found, "save the state dict as safetensors")


def _unfinished(found: str, name: str) -> HostileError:
    expected = f"a process that opens {name} within the limits of its size"
    return HostileError(expected, found, "do not use it")


def contents(file: BinaryIO, name: str, numbers: int) -> tuple[Any, dict[str, "Tensor"]]:
    """Return what a scanned checkpoint holds, as `plain.apart` does; `numbers` is what the scan returned."""
    import torch

    from unsee.weights import plain

    size = file.seek(0, io.SEEK_END)
    file.seek(0)
    zipped = file.read(2) == b"PK"
    file.seek(0)
    try:
        value = torch.load(file, map_location="cpu", weights_only=True)
    except UnpicklingError:
        found = "a pickle that torch will not open with its restricted unpickler"
        raise HostileError(f"tensors and plain values in {name}", found, "do not use it") from None
    except Exception as error:  # torch, given arbitrary bytes, raises about anything
        if isinstance(error, MemoryError) or "can't allocate memory" in str(error):
            raise _greedy(name) from None
        found = shown(f"{type(error).__name__}: {error}".partition("\n")[0])
        # The scan has compared a zip's checksums: it is as someone wrote it.
        kind = HostileError if zipped else StoreError
        do = "do not use it, or save it again with torch.save"
        raise kind(f"a checkpoint whose parts fit together in {name}", found, do) from None
    form, tensors = plain.apart(value, size, name)
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage() for tensor in tensors.values()}
    # Of files from before 2020, torch takes a tensor's memory before it has seen the numbers for it.
    if sum(storage.nbytes() for storage in storages.values()) > numbers:
        raise HostileError(f"numbers for all tensors in {name}", "fewer", "do not use it")
    return form, tensors


def main() -> int:
    """Open what stands on standard input; return the exit code."""
    out, name = sys.argv[1:]
    file = sys.stdin.buffer
    size = os.fstat(file.fileno()).st_size
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_CPU, _seconds(size))
    _limit(resource.RLIMIT_FSIZE, size + MEMORY)
    try:
        _limit(resource.RLIMIT_AS, _taken() + MEMORY, for_good=False)
        numbers = scan(file, name)
        # A torch built for GPUs maps gigabytes by itself.
        _limit(resource.RLIMIT_AS, resource.RLIM_INFINITY, for_good=False)
        from unsee import store

        _limit(resource.RLIMIT_AS, _taken() + MEMORY + TIMES_ITS_SIZE * size)
        _limit(resource.RLIMIT_NPROC, 0)  # of which root is exempt
        form, tensors = contents(file, name, numbers)
        store.write_tensors(out, tensors, {"value": form})
        return 0
    except UnseeError as error:
        return _tell(error)
    except MemoryError:
        return _tell(_greedy(name))


def _limit(what: int, most: int, *, for_good: bool = True) -> None:
    """Set a limit, which whoever started us may have set lower already."""
    _, hard = resource.getrlimit(what)
    infinite = resource.RLIM_INFINITY
    most = min((limit for limit in (most, hard) if limit != infinite), default=infinite)
    resource.setrlimit(what, (most, most if for_good else hard))


def _seconds(size: int) -> int:
    return SECONDS + size // BYTES_A_SECOND


def _taken() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def _greedy(name: str) -> HostileError:
    return HostileError(f"memory of about the size of {name}", "one that takes far more", "do not use it")


def _tell(error: UnseeError) -> int:
    sys.stdout.write(json.dumps([error.expected, error.found, error.do]))
    sys.stdout.flush()
    return error.exit_code


if __name__ == "__main__":
    os._exit(main())  # torch takes its time to end
