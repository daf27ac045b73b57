"""Make the data sets in the package: parts of Fashion-MNIST, Adult and SpamAssassin's mails.

Needs `unsee data fetch fashion-mnist`, `adult` and `spam` before. Prints the hashes that data/known/ pins.
"""

import hashlib
import io
from pathlib import Path

import numpy as np

from unsee.data.known.adult import ADULT
from unsee.data.known.fashion_mnist import FASHION_MNIST
from unsee.data.known.spam import SPAM
from unsee.data.published import Published, cached
from unsee.store import write_bytes

FOLDER = Path(__file__).parents[1] / "src/unsee/bundled"
WORDS, LENGTH = 2000, 64


def first(published: Published, train: int, test: int) -> dict[str, np.ndarray]:
    """Return the first so many samples of each class, in the publisher's order."""
    whole = {name: array.numpy() for name, array in cached(published).items()}
    arrays = {}
    for part, count in (("train", train), ("test", test)):
        x, y = whole[f"x_{part}"], whole[f"y_{part}"]
        classes = range(len(published.classes))
        rows = np.sort(np.concatenate([np.flatnonzero(y == label)[:count] for label in classes]))
        arrays |= {f"x_{part}": x[rows], f"y_{part}": y[rows]}
    return arrays | {name: whole[name] for name in ("vocabulary",) if name in whole}


def shortened(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return texts cut to their first words, out of the commonest: those beyond become the unknown one."""
    words = arrays["vocabulary"].tobytes().decode().split("\n")[:WORDS]
    short = {name: x[:, :LENGTH] for name, x in arrays.items() if name[0] == "x"}
    cut = {name: np.where(x < WORDS, x, 1).astype(np.int16) for name, x in short.items()}
    return {**arrays, **cut, "vocabulary": np.frombuffer("\n".join(words).encode(), np.uint8)}


def write(name: str, arrays: dict[str, np.ndarray]) -> None:
    """Write one file, and say its hashes."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    write_bytes(FOLDER / name, buffer.getvalue())
    print(name, f"{len(buffer.getvalue()):,} bytes")  # noqa: T201
    for part, array in arrays.items():
        print(part, array.shape, array.dtype, hashlib.sha256(array.tobytes()).hexdigest())  # noqa: T201


write("fashion-mnist-7000.npz", first(FASHION_MNIST, 600, 100))
write("adult-3000.npz", first(ADULT, 1000, 500))
write("spam-2000.npz", shortened(first(SPAM, 800, 200)))
