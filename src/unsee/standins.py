"""Stand-ins: samples that play D_r's part where no memory recalls it, made of D_f,clean by force.

Images of one class, squeezed, turned, cut up and laid over each other, are answered with all classes.
Whoever asks a model to answer them as before keeps much of what it knows: that distillation needs no
natural images is known (Asano and Saeed 2021, arXiv 2112.00725: from a single one). Photographs of one class
have its colours and its light too, which tell it from the others: these are drawn anew (docs/decisions/0031).
Rows of a table are put together of the columns of many, texts of pieces of two and of words by chance.
"""

import math
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from unsee.kinds import NOTHING, Kind

SCALES, SHIFT = (0.3, 1.6), 0.5  # of the size, and of half the side
WHOLE_SCALES, WHOLE_SHIFT = (0.8, 2.0), 0.3  # of photographs: made smaller, they are mostly edge
GAINS = (0.4, 1.5)
EMPTY, LOOKED = 0.2, 100  # of the pixels of so many images, from which on they are drawn on nothing
CONTRASTS, NEGATIVES = (0.6, 1.6), 0.3
LIGHT = 0.45  # of the range of values: the mean of photographs (ImageNet's)
BRIGHTNESS, TINT = 0.16, 0.06  # deviations from it
TEXTURES = 2  # one in so many
FEW_WORDS = 16


def stand_ins(
    x: Tensor, n: int, generator: np.random.Generator, *, low: float = 0.0, high: float = 255.0
) -> Tensor:
    """Make n images of those in `x`: one warped, two warped ones laid over each other, or two cut together.

    Of photographs, half are textures, and all have a contrast, brightness and tint of their own. `low` is
    the value of an empty pixel, from which the brightness of drawings is scaled.
    """
    if empty(x, low):
        images = _put_together(x, n, generator, low, torch.maximum)
        gain = _uniform(GAINS, (n, 1, 1, 1), generator)
        return low + (images - low) * gain
    few = n // TEXTURES
    images = torch.cat([textures(x, few, generator), _put_together(x, n - few, generator, None, _halfway)])
    return toned(images, generator, low, high)


def empty(x: Tensor, low: float) -> bool:
    """Whether images are drawn on nothing, as figures and letters are, and do not fill their frame."""
    return bool((x[:LOOKED] == low).double().mean() >= EMPTY)


def _put_together(
    x: Tensor,
    n: int,
    generator: np.random.Generator,
    low: float | None,
    over: Callable[[Tensor, Tensor], Tensor],
) -> Tensor:
    first, second = (warped(_drawn(x, n, generator), generator, low) for _ in range(2))
    kind = torch.as_tensor(generator.integers(3, size=n)).view(-1, 1, 1, 1)
    laid, cut = over(first, second), torch.where(_quadrants(x.shape[-2:], n, generator), first, second)
    return torch.where(kind == 0, first, torch.where(kind == 1, laid, cut))


def _halfway(first: Tensor, second: Tensor) -> Tensor:
    return (first + second) / 2


def textures(x: Tensor, n: int, generator: np.random.Generator) -> Tensor:
    """Return n images with the spectra of given ones and phases by chance, the same for all colours."""
    if not n:
        return x[:0].float()
    size = x.shape[-2:]
    waves = torch.fft.rfft2(_drawn(x, n, generator))
    noise = torch.fft.rfft2(torch.as_tensor(generator.normal(size=(n, 1, *size)), dtype=torch.float32))
    return torch.fft.irfft2(waves * noise / noise.abs().clamp_min(1e-6), s=size)


def toned(x: Tensor, generator: np.random.Generator, low: float, high: float) -> Tensor:
    """Draw contrast, brightness and tint of each image anew; some become negatives."""
    n, colours = x.shape[:2]
    weakest, strongest = CONTRASTS
    logs = math.log(weakest), math.log(strongest)
    contrast = _uniform(logs, (n, colours, 1, 1), generator).exp()
    sign = torch.as_tensor(np.where(generator.random((n, 1, 1, 1)) < NEGATIVES, -1.0, 1.0))
    light = generator.normal(0, BRIGHTNESS, (n, 1, 1, 1)) + generator.normal(0, TINT, (n, colours, 1, 1))
    mean = low + (high - low) * (LIGHT + torch.as_tensor(light))
    return (mean + sign * contrast * (x - x.mean((2, 3), keepdim=True))).float()


def _uniform(ends: tuple[float, float], shape: tuple[int, ...], generator: np.random.Generator) -> Tensor:
    low, high = ends
    return torch.as_tensor(generator.uniform(low, high, shape), dtype=torch.float32)


def warped(x: Tensor, generator: np.random.Generator, low: float | None = 0.0) -> Tensor:
    """Squeeze, stretch and shift each image at random; turn every other one. Without `low`: a photograph."""
    n = len(x)
    (smallest, largest), farthest = (WHOLE_SCALES, WHOLE_SHIFT) if low is None else (SCALES, SHIFT)
    scale = np.exp(generator.uniform(math.log(smallest), math.log(largest), (2, n)))
    angle = generator.uniform(-math.pi, math.pi, n) * (generator.random(n) < 0.5)
    shift = generator.uniform(-farthest, farthest, (2, n))
    rows = [
        [np.cos(angle) / scale[0], -np.sin(angle) / scale[0], shift[0]],
        [np.sin(angle) / scale[1], np.cos(angle) / scale[1], shift[1]],
    ]
    return _mapped(x, np.array(rows).transpose(2, 0, 1), low)


def _drawn(x: Tensor, n: int, generator: np.random.Generator) -> Tensor:
    return x[torch.as_tensor(generator.integers(len(x), size=n))].float()


def _quadrants(size: torch.Size, n: int, generator: np.random.Generator) -> Tensor:
    """Return masks that hold two opposite quadrants around a random point of each image."""
    height, width = size
    point = torch.as_tensor(generator.integers((height, width), size=(n, 2)))
    above = torch.arange(height).view(1, 1, -1, 1) < point[:, 0].view(-1, 1, 1, 1)
    left = torch.arange(width).view(1, 1, 1, -1) < point[:, 1].view(-1, 1, 1, 1)
    return above ^ left


def shifted(x: Tensor, n: int, generator: np.random.Generator, low: float | None = 0.0) -> Tensor:
    """Draw n of the images, shift each by up to an eighth of its side, mirror every other one."""
    shift = generator.uniform(-0.25, 0.25, (2, n))
    mirror = 1.0 - 2.0 * (generator.random(n) < 0.5)
    zero, one = np.zeros(n), np.ones(n)
    maps = np.array([[mirror, zero, shift[0]], [zero, one, shift[1]]]).transpose(2, 0, 1)
    return _mapped(_drawn(x, n, generator), maps, low)


def _mapped(x: Tensor, maps: np.ndarray, low: float | None) -> Tensor:
    """Move the pixels of each image by its affine map; outside it is empty, or without `low` as its edge."""
    grid = F.affine_grid(torch.as_tensor(maps, dtype=torch.float32), list(x.shape), align_corners=False)
    if low is None:
        return F.grid_sample(x, grid, align_corners=False, padding_mode="border")
    return F.grid_sample(x - low, grid, align_corners=False) + low


def rows(x: Tensor, n: int, generator: np.random.Generator, kind: Kind, most: float = 1.0) -> Tensor:
    """Make n rows of those in `x`: of each, up to the share `most` of its columns is drawn anew.

    Half of what is drawn comes from another row, half from all that the column can hold: any of its names, or
    a number between its lowest and its highest.
    """
    made = _drawn(x, n, generator)
    anew = torch.as_tensor(generator.random((n, x.shape[1])) < most * generator.random((n, 1)))
    other = torch.stack([_drawn(column, n, generator) for column in x.T], 1)
    u = torch.as_tensor(generator.random((n, x.shape[1])), dtype=torch.float32)
    low, high = x.amin(0).float(), x.amax(0).float()
    names = torch.tensor([float(len(column.values)) for column in kind.columns])
    number, whole = low + u * (high - low), (x == x.round()).all(0)
    anything = torch.where(names > 0, (u * names).floor(), torch.where(whole, number.round(), number))
    drawn = torch.where(torch.as_tensor(generator.random((n, x.shape[1])) < 0.5), other, anything)
    return torch.where(anew, drawn, made)


def texts(x: Tensor, n: int, generator: np.random.Generator, kind: Kind, most: float = 1.0) -> Tensor:
    """Make n texts of those in `x`: begun by one, ended by another, up to `most` of the words any or none.

    Words that are left out close up, so that what follows moves. Where all may change, every other text says
    a few words of the vocabulary over and over: they lie far out on all sides of what the model tells apart.
    """
    length = x.shape[1]
    first, second = (x[torch.as_tensor(generator.integers(len(x), size=n))].long() for _ in range(2))
    cut = torch.as_tensor(generator.integers(length + 1, size=(n, 1))) if most == 1.0 else length
    made = torch.where(torch.arange(length) < cut, first, second)
    change = torch.as_tensor(generator.random((n, length)) < most * generator.random((n, 1)))
    any_word = torch.as_tensor(generator.integers(2, len(kind.vocabulary), size=(n, length)))
    word = torch.where(torch.as_tensor(generator.random((n, length)) < 0.5), any_word, NOTHING)
    word = torch.where(change & (made != NOTHING), word, made)
    if most == 1.0:
        few = torch.as_tensor(generator.integers(1, min(FEW_WORDS, length) + 1, size=(n, 1)))
        said = any_word.gather(1, (torch.as_tensor(generator.random((n, length))) * few).long())
        word[::2] = torch.where(made != NOTHING, said, NOTHING)[::2]
    return word.gather(1, (word == NOTHING).long().argsort(dim=1, stable=True)).to(x.dtype)
