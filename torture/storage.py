"""Storage: rows 6 and 10 to 16."""

import contextlib
import random
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import formats
from torture import disk, power
from torture.ordeal import Attempt, Ordeal, refusal
from torture.small import small
from unsee import networks, store
from unsee.checkpoint import Checkpoints, State
from unsee.errors import InputError, Interrupted, StoreError, UnseeError, UnseeWarning
from unsee.memory import Memory, remember_at
from unsee.runs import report_run, write_run

Reader = Callable[[Path], Any]


def _files(folder: Path) -> dict[Path, Reader]:
    """Return one file of each kind, with how it is read."""
    here = small()
    networks.save(here.model, folder / "model.safetensors")
    here.plain.save(folder / "memory.safetensors")
    state = State(1, {f"theta/{n}": t for n, t in here.model.state_dict().items()}, {"rows": []})
    Checkpoints(folder, {"seed": 0}).write(state)
    store.write_tensors(folder / "cache.safetensors", {"x": torch.arange(5000).byte()}, {"kind": "data"})
    return {
        folder / "model.safetensors": networks.load,
        folder / "memory.safetensors": Memory.load,
        folder / "checkpoint.safetensors": store.read_tensors,
        folder / "cache.safetensors": store.read_tensors,
    }


FLIPS, HEADER = 10_000, 400


def flips(folder: Path) -> Attempt:
    """Flip one bit: anywhere in one of four files, or in each byte of the header of the smallest."""
    files = [(path.read_bytes(), read) for path, read in _files(folder).items()]
    smallest = min(files, key=lambda file: len(file[0]))
    header = 8 + int.from_bytes(smallest[0][:8], "little")
    assert header <= HEADER
    path = folder / "flipped.safetensors"

    def attempt(number: int) -> None:
        chance = random.Random(number)
        data, read = files[number % 4] if number < FLIPS else smallest
        place = chance.randrange(len(data)) if number < FLIPS else (number - FLIPS) % header
        broken = bytearray(data)
        broken[place] ^= 1 << chance.randrange(8)
        path.write_bytes(broken)
        refusal(StoreError, lambda: read(path))

    return attempt


def truncations(folder: Path) -> Attempt:
    """Cut a small file to every length that it can have."""
    path = folder / "small.safetensors"
    store.write_tensors(path, {"a": torch.arange(7.0), "b": torch.ones(2)}, {"n": 3})
    whole = path.read_bytes()
    assert len(whole) == LENGTHS

    def attempt(number: int) -> None:
        path.write_bytes(whole[:number])
        refusal(StoreError, lambda: store.read_tensors(path))

    return attempt


def _length() -> int:
    tensors = {"a": torch.arange(7.0), "b": torch.ones(2)}
    about = '{"n": 3, "format": 1}'
    return len(store.save(tensors, {"unsee": store.json.dumps({"about": about, "sha256": "0" * 64})}))


LENGTHS = _length()


def _harms(data: bytes, chance: random.Random) -> list[bytes | None]:
    flipped = bytearray(data)
    flipped[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return [bytes(flipped), data[: chance.randrange(len(data))], bytes(len(data)), b"", b"PK\3\4 hello", None]


def newest_broken(folder: Path) -> Attempt:
    """Break the newest state of a run that has two, and go on."""
    here = small()
    expected = networks.identity(here.forget(0).model)
    asked = iter([False] * 9 + [True])
    with contextlib.suppress(Interrupted):
        here.forget(0, folder=folder / "run", checkpoint_seconds=0, stop=lambda: next(asked))
    steps = [store.read_tensors(path)[1]["step"] for path in sorted((folder / "run").glob("*.safetensors"))]
    assert len(steps) == 2
    previous = min(steps)

    def attempt(number: int) -> None:
        place = folder / str(number)
        shutil.copytree(folder / "run", place)
        newest = place / "checkpoint.safetensors"
        harm = _harms(newest.read_bytes(), random.Random(number))[number % 6]
        newest.unlink() if harm is None else newest.write_bytes(harm)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            again = here.forget(0, folder=place)
        said = [str(one.message) for one in caught if issubclass(one.category, UnseeWarning)]
        assert harm is None or any(f"from the state after step {previous}" in text for text in said), (
            f"{said}"
        )
        assert networks.identity(again.model) == expected, "other bits"
        assert again.exact
        shutil.rmtree(place)

    return attempt


def newer(folder: Path) -> Attempt:
    """Read files of each kind that a later version has written."""
    real, kinds = store.FORMAT, 4

    def attempt(number: int) -> None:
        store.FORMAT = real + (1, 2, 99)[number // kinds % 3]
        try:
            path, read = list(_files(folder).items())[number % kinds]
        finally:
            written, store.FORMAT = store.FORMAT, real
        if path.name.startswith("checkpoint"):
            read = lambda path: Checkpoints(path.parent, {"seed": 0}).read()  # noqa: E731
        before = path.read_bytes()
        said = refusal(InputError, lambda: read(path))
        assert f"Expected format {real} or older in {path}, found format {written}: update unsee." == said
        assert path.read_bytes() == before

    return attempt


def past(_: Path) -> Attempt:
    """Read what past versions have written."""
    return lambda number: formats.check(formats.folders()[number])


NAMES = (
    *("checkpoint.safetensors", "checkpoint.previous.safetensors", "model.safetensors"),
    *(
        "memory-after.safetensors",
        "memory.safetensors",
        "run.json",
        "facts.json",
        "report.html",
        ".holder.json",
    ),
)


def links(folder: Path) -> Attempt:
    """Let a run find a link that leads out of its folder in the place of each file that it writes."""
    here = small()

    def attempt(number: int) -> None:
        name, target = NAMES[number // 3], ("a file", "nothing", "a folder")[number % 3]
        place, outside = folder / str(number), folder / f"{number}-outside"
        place.mkdir()
        outside.mkdir()
        (outside / "a file").write_bytes(b"not yours")
        (outside / "a folder").mkdir()
        (place / name).symlink_to(outside / target)
        with warnings.catch_warnings(), contextlib.suppress(UnseeError):  # to refuse it is as good
            warnings.simplefilter("ignore")
            result = here.forget(0, folder=place, checkpoint_seconds=0)
            write_run(place, result, None)
            report_run(place, here.model, result.model, here.four, None)
            remember_at(place / "memory.safetensors", here.model, here.four.train.D_f)
        left = {path.relative_to(outside).as_posix() for path in outside.rglob("*")}
        assert left == {"a file", "a folder"}, f"{left}"
        assert (outside / "a file").read_bytes() == b"not yours"
        shutil.rmtree(place)

    return attempt


ORDEALS = (
    Ordeal(
        "power", "6", "power fails behind any operation; what was not synced is lost or cut at random",
        "the last settled state, or a later one, is read", 500, 60, power.failing,
    ),
    Ordeal(
        "flips", "10", "one flipped bit in a model, memory, checkpoint or data cache; every byte of a header",
        "refused as broken, one kind of error", FLIPS + HEADER, 200, flips,
    ),
    Ordeal(
        "truncations", "11", "a small file cut to every length", "refused as broken, one kind of error",
        LENGTHS, LENGTHS, truncations,
    ),
    Ordeal(
        "newest broken", "12", "the newest state of a run is flipped, cut, zeroed, emptied, replaced or gone",
        "it goes on from the one before, says so, and ends in the same bits", 50, 4, newest_broken,
    ),
    Ordeal(
        "full disk", "13", "a write of a run and all after it fail: errors, a limit, /dev/full, a small disk",
        "the state before is whole, the error says how much room is needed where, and the run goes on later",
        52, 4, disk.full,
    ),
    Ordeal(
        "newer format", "14", "files of a newer format", "refused in words that name both formats, and kept",
        12, 4, newer,
    ),
    Ordeal(
        "past formats", "15", "files that past versions have written", "read as they were",
        len(formats.folders()), 1, past,
    ),
    Ordeal(
        "links", "16", "links that lead out of a run's folder in the places of its files",
        "nothing outside is written", 3 * len(NAMES), 3, links,
    ),
)  # fmt: skip
