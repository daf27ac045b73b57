"""What is mutated: one good file of every kind that unsee reads, and how each is read."""

import gzip
import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from safetensors.torch import save

import formats
import hostile
import odd_archives
import odd_images
from shop import clothes, write_folder
from torture.mutants import mutated, reworded
from unsee import networks, sources, store
from unsee.cases import case
from unsee.checkpoint import Checkpoints
from unsee.data import fetching
from unsee.data.archives import deb_contents, tar_members
from unsee.data.known import fashion_mnist
from unsee.data.pictures import read
from unsee.data.samples import read_samples
from unsee.memory import Memory
from unsee.recipe import Recipe
from unsee.report.page import read_run, render
from unsee.weights import files, opening
from unsee.weights.scanning import scan

Make = Callable[[random.Random], Path]
Kind = tuple[Make, Callable[[Path], Any]]

CASE = {
    "model": {"weights": "m.pth", "network": "resnet", "options": {"width": 4}, "classes": ["a", "b"]},
    "preprocess": {"divide_by": 255.0, "mean": [0.5], "std": [0.5]},
    "pattern": "B",
    "forget": {"path": "bad", "label": "a"},
    "clean": "clean",
    "trigger": "patch:logo.png:2:2",
    "floor": 0.02,
    "seed": 3,
}


def _of_bytes(data: bytes, path: Path, then: Callable[[bytes], bytes] = bytes) -> Make:
    def make(chance: random.Random) -> Path:
        path.write_bytes(then(mutated(data, chance)))
        return path

    return make


def _of_words(words: Any, path: Path, write: Callable[[Any], str] = json.dumps) -> Make:
    def make(chance: random.Random) -> Path:
        path.write_bytes(write(reworded(words, chance)).encode(errors="surrogatepass"))
        return path

    return make


def _sealed(source: Path, path: Path) -> Make:
    """Other words or other tensors under a seal that is right, which anyone can make."""
    tensors, about = store.read_tensors(source)
    tensors = {name: tensor.clone() for name, tensor in tensors.items()}

    def make(chance: random.Random) -> Path:
        changed, words = dict(tensors), about
        if chance.random() < 0.7:
            words = reworded(about, chance)
        else:
            value = changed.pop(name := chance.choice(list(changed)))
            flat = value.reshape(-1)
            others = (flat[:0], flat[:1], flat.double() * torch.nan, flat.to(torch.int8), value[None])
            changed[chance.choice((name, "x", ""))] = chance.choice(others)
        text = json.dumps({**words, "format": 1} if isinstance(words, dict) else words)
        seal = json.dumps({"about": text, "sha256": store._seal(changed, text)})
        path.write_bytes(save(changed, {"unsee": seal}))
        return path

    return make


def _same(source: Path) -> Callable[[Path], None]:
    """Read a file of ours, in which nothing may be other than it was."""
    tensors, about = store.read_tensors(source)
    whole = store.digest(tensors)

    def read(path: Path) -> None:
        found, words = store.read_tensors(path)
        if (store.digest(found), words) != (whole, about):
            raise AssertionError("a change that nobody noticed")

    return read


def _checkpoint(path: Path) -> None:
    """Open a checkpoint as its own process does, in this one."""
    with open(path, "rb") as file:
        opening.contents(file, path.name, scan(file, path.name))


def _fetched(path: Path) -> None:
    """Read an archive as fetching does, before what is in it is compared with what is pinned."""
    packed = io.BytesIO(path.read_bytes())
    ways: dict[str, Callable[[bool], Any]] = {
        ".deb": lambda _: tar_members(deb_contents(packed), ["a"]),
        ".idx": lambda _: {"x": fashion_mnist.idx(packed, path.name, (100,))},
        ".tgz": lambda _: tar_members(gzip.GzipFile(fileobj=packed), ["a"]),
    }
    fetching._first_in_reach(fashion_mnist.FASHION_MNIST, {"here": ways[path.suffix]}, False)


def _state(path: Path) -> None:
    Checkpoints(path.parent, formats.IDENTITY).read()


def kinds(folder: Path) -> dict[str, Kind]:
    """Return all kinds by name; `folder` is where they lie."""
    return {**_weights(folder), **_words(folder), **_pictures(folder), **_archives(folder), **_sets(folder)}


def _weights(folder: Path) -> dict[str, Kind]:
    there = formats.FIXTURES / f"format-{store.FORMAT}"
    state = {"fc.weight": torch.arange(12.0).reshape(3, 4), "fc.bias": torch.ones(3)}
    checkpoint = {"epoch": 3, "state_dict": state, "best": 0.5, "names": ["a", "b"]}
    (folder / "state").mkdir()
    model, memory, run = (there / name for name in ("model.safetensors", "sketched.safetensors", "state"))
    run /= "checkpoint.safetensors"
    zipped, old = (
        hostile.torch_saved(checkpoint, _use_new_zipfile_serialization=new) for new in (True, False)
    )
    return {
        "model": (_of_bytes(model.read_bytes(), folder / "model.safetensors"), _same(model)),
        "memory": (_of_bytes(memory.read_bytes(), folder / "memory.safetensors"), _same(memory)),
        "sealed model": (_sealed(model, folder / "model.safetensors"), networks.load),
        "sealed memory": (_sealed(memory, folder / "memory.safetensors"), Memory.load),
        "sealed state": (_sealed(run, folder / "state" / "checkpoint.safetensors"), _state),
        "safetensors": (_of_bytes(save(state, {"format": "pt"}), folder / "x.safetensors"), files.read),
        "zipped pth": (_of_bytes(zipped, folder / "x.pth"), _checkpoint),
        "plain pth": (_of_bytes(hostile.GOOD, folder / "x.pth"), _checkpoint),
        "old pth": (_of_bytes(old, folder / "x.pth"), _checkpoint),
        "pickle in a zip": (
            _of_bytes(hostile.saved(hostile.tensor([12], [1])), folder / "x.pth", hostile.zipped),
            _checkpoint,
        ),
    }


def _words(folder: Path) -> dict[str, Kind]:
    there = formats.FIXTURES / f"format-{store.FORMAT}"
    run, facts, recipe = (store.read_json(there / f"{name}.json") for name in ("run", "facts", "recipe"))
    for name in ("of run", "of facts"):
        (folder / name).mkdir()
    store.write_json(folder / "of facts" / "run.json", run)
    text = case.written({key: CASE[key] for key in ("model", "pattern", "forget", "clean")}).encode()
    return {
        "run": (_of_words(run, folder / "of run" / "run.json"), lambda p: render([read_run(p.parent)])),
        "facts": (
            _of_words(facts, folder / "of facts" / "facts.json"),
            lambda p: render([read_run(p.parent)]),
        ),
        "run's bytes": (
            _of_bytes(json.dumps(run).encode(), folder / "of run" / "run.json"),
            lambda p: read_run(p.parent),
        ),
        "recipe": (_of_words(recipe, folder / "recipe.json"), Recipe.load),
        "recipe's bytes": (_of_bytes(json.dumps(recipe).encode(), folder / "recipe.json"), Recipe.load),
        "case": (_of_words(CASE, folder / "case.yaml", yaml.safe_dump), case.load),
        "case's bytes": (_of_bytes(text, folder / "case.yaml"), case.load),
    }


def _pictures(folder: Path) -> dict[str, Kind]:
    made = {form: odd_images.encoded(folder, form) for form in odd_images.FORMATS}
    made |= {"palette.png": odd_images.written("PNG", "P"), "turned.jpg": odd_images.turned("JPEG", 6)}
    return {
        name: (_of_bytes(data, folder / f"x.{name.rpartition('.')[2]}"), read) for name, data in made.items()
    }


def _archives(folder: Path) -> dict[str, Kind]:
    tar, deb = (
        odd_archives.A + odd_archives.END,
        odd_archives.deb(gzip.compress(odd_archives.A), "data.tar.gz"),
    )
    return {
        "tar": (_of_bytes(tar, folder / "x.tgz", gzip.compress), _fetched),
        "gzip": (_of_bytes(gzip.compress(tar), folder / "x.tgz"), _fetched),
        "deb": (_of_bytes(deb, folder / "x.deb"), _fetched),
        "idx": (_of_bytes(b"\0\0\10\1\0\0\0\144" + bytes(100), folder / "x.idx", gzip.compress), _fetched),
    }


def _sets(folder: Path) -> dict[str, Kind]:
    import datasets
    import pyarrow
    import pyarrow.parquet

    datasets.disable_progress_bars()
    photos, few, buffer = folder / "photos", clothes(2), io.BytesIO()
    write_folder(photos, few)
    np.savez(buffer, x=few.x.numpy(), y=few.y.numpy())
    paths = sorted(photos.rglob("*.png"))
    rows = "".join(f"{path.relative_to(photos).as_posix()},{path.parent.name}\n" for path in paths)
    table = {"image": [path.read_bytes() for path in paths], "label": [path.parent.name for path in paths]}
    pyarrow.parquet.write_table(pyarrow.table(table), folder / "x.parquet")
    labels = datasets.ClassLabel(names=sorted(set(table["label"])))
    columns = {**table, "image": [{"bytes": data, "path": None} for data in table["image"]]}
    features = datasets.Features({"image": datasets.Image(), "label": labels})
    datasets.Dataset.from_dict(columns, features=features).save_to_disk(folder / "saved")
    arrow = next((folder / "saved").glob("*.arrow"))
    return {
        "npz": (_of_bytes(buffer.getvalue(), folder / "x.npz"), sources.npz),
        "csv": (_of_bytes(f"file,label\n{rows}".encode(), photos / "list.csv"), read_samples),
        "parquet": (_of_bytes((folder / "x.parquet").read_bytes(), folder / "x.parquet"), read_samples),
        "arrow": (_of_bytes(arrow.read_bytes(), arrow), lambda p: read_samples(p.parent)),
    }
