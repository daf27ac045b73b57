"""Make the data set in the package: the first 600 + 100 images of each class of Fashion-MNIST.

Needs `unsee data fetch fashion-mnist` before. Prints the hashes that published.py pins.
"""

import hashlib
import io
from pathlib import Path

import numpy as np

from unsee.published import FASHION_MNIST, cached
from unsee.store import write_bytes

PATH = Path(__file__).parents[1] / "src/unsee/bundled/fashion-mnist-7000.npz"

whole = cached(FASHION_MNIST)
arrays = {}
for part, count in (("train", 600), ("test", 100)):
    x, y = whole[f"x_{part}"].numpy(), whole[f"y_{part}"].numpy()
    first = np.sort(np.concatenate([np.flatnonzero(y == label)[:count] for label in range(10)]))
    arrays |= {f"x_{part}": x[first], f"y_{part}": y[first]}

buffer = io.BytesIO()
np.savez_compressed(buffer, **arrays)
write_bytes(PATH, buffer.getvalue())
for name, array in arrays.items():
    print(name, array.shape, hashlib.sha256(array.tobytes()).hexdigest())  # noqa: T201
