"""Image files as bytes: four formats, measured before they are decoded, and refused by name.

Kept as they are: L and RGB. Converted: bilevel to grey; palettes, CMYK and YCbCr to RGB; whatever is
transparent is laid over black. Refused, because 8 bits would lose what they hold: 16-bit and float
images. Refused too, because one sample is one picture: animations.
"""

import math
import os
import unicodedata
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from PIL import Image, ImageFile, ImageOps, UnidentifiedImageError
from torch import Tensor

from unsee.errors import InputError, UnseeError

FORMATS = ("PNG", "JPEG", "BMP", "WEBP")
MOST_PIXELS = 25_000_000
MOST_BYTES = 4 << 30  # of pixels in one set, which is held in memory
_IMAGE = "a whole image, PNG, JPEG, BMP or WebP"
_SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".webp"}
_NOTES = {".txt", ".md", ".csv", ".json"}  # what people put beside their images
_DEEPEST = 16
_INVISIBLE = {"Cc", "Cf", "Cs", "Zl", "Zp"}  # controls, bidi and zero-width marks, halves of characters
_LUMA = (19_595, 38_470, 7_471)  # of 65,536
_GREY = {"1", "L", "LA"}
_COLOUR = {"RGB", "RGBA", "P", "PA", "CMYK", "YCbCr"}


@dataclass(frozen=True, eq=False)
class Picture:
    """One image file, read: its pixels (C, H, W) and the name of its class, "" where no folder says it."""

    path: Path
    pixels: Tensor
    class_name: str


def read_folder(
    folder: Path, size: tuple[int, int] | None = None, *, root: Path | None = None
) -> list[Picture]:
    """Read a folder with one sub-folder for each class, class by class and file by file in order.

    Hidden files are skipped. A link that leads out of the folder, or of `root` where that is given, is
    refused, and so is whatever is no image in a class's folder.
    """
    check_size(size)
    root = root or folder
    _refuse_leaving(folder, root)
    wanted: list[tuple[Path, str]] = []
    for name, sub_folder in sorted(class_folders(folder, root).items()):
        files = _entries(sub_folder, root)
        if not files:
            raise InputError(f"images in {shown(sub_folder)}", "none", "add some or remove that folder")
        wanted += [(file, name) for file in files]
    return bounded(Picture(file, read(file, size), name) for file, name in wanted)


def read_heap(folder: Path, size: tuple[int, int] | None = None) -> list[Picture]:
    """Read all images of a folder and of the folders in it, whatever these are called.

    The order is that of `read_folder`. Notes beside the images are skipped, links to folders refused.
    """
    check_size(size)
    _refuse_leaving(folder, folder)
    files = _heap(folder, folder, _DEEPEST)
    if not files:
        raise InputError(f"images in {shown(folder)}", "none", "add some or check the path")
    return bounded(Picture(file, read(file, size), "") for file in files)


def bounded(pictures: Iterable[Picture]) -> list[Picture]:
    """Return pictures as they are read, unless they come to take more memory than a set may."""
    held, found = 0, []
    for picture in pictures:
        held += picture.pixels.numel()
        if held > MOST_BYTES:
            do = "scale the images with size=(height, width) or take fewer"
            more = f"more by {shown(picture.path)}"
            raise InputError(f"at most {MOST_BYTES:,} bytes of pixels in a set", more, do)
        found.append(picture)
    return found


def stacked(pictures: Sequence[Picture]) -> Tensor:
    """Return the pictures as one tensor (n, C, H, W); grey ones among coloured ones become RGB."""
    first = pictures[0]
    channels = max(len(picture.pixels) for picture in pictures)
    x = torch.empty(len(pictures), channels, *first.pixels.shape[1:], dtype=torch.uint8)
    for row, picture in zip(x, pictures, strict=True):
        if picture.pixels.shape[1:] != row.shape[1:]:
            raise InputError(
                f"images of {_measures(first)} like {shown(first.path)}",
                f"{_measures(picture)} in {shown(picture.path)}",
                "scale all of them: `size` under `preprocess` in a case, size=(height, width) in Python",
            )
        row[:] = picture.pixels
    return x


def read(path: Path | str, size: tuple[int, int] | None = None) -> Tensor:
    """Return one image file as uint8 (C, H, W), C being 1 if it is grey and 3 if not."""
    path = Path(path)
    if not path.is_file():
        raise InputError(_IMAGE, f"no file at {shown(path)}", "check the path")
    if path.stat().st_size > 4 * MOST_PIXELS:
        raise InputError(_IMAGE, f"{path.stat().st_size:,} bytes in {shown(path)}", "scale it down")
    return _channels_first(pixels(path, shown(path), size))


def decode(data: bytes, name: str, size: tuple[int, int] | None = None) -> Tensor:
    """Return an image that is held as bytes, through the door that files come through."""
    if len(data) > 4 * MOST_PIXELS:
        raise InputError(_IMAGE, f"{len(data):,} bytes in {name}", "scale it down")
    return _channels_first(pixels(BytesIO(data), name, size))


def with_channels(x: Tensor, channels: int, name: str) -> Tensor:
    """Return images (n, C, H, W) in grey (1) or in RGB (3), grey being the luma of Rec. 601, as Pillow's is.

    >>> with_channels(torch.tensor([[[[255]], [[0]], [[0]]]], dtype=torch.uint8), 1, "red").tolist()
    [[[[76]]]]
    """
    if x.ndim == 4 and x.shape[1] == channels:
        return x
    if x.ndim != 4 or {x.shape[1], channels} != {1, 3}:
        found = f"samples of {'x'.join(map(str, x.shape[1:]))}"
        raise InputError(f"images of {channels} channels in {name}", found, "convert them for that model")
    if channels == 3:
        return x.expand(-1, 3, -1, -1).contiguous()
    weights = torch.tensor(_LUMA).view(3, 1, 1)
    if x.dtype == torch.uint8:
        return torch.cat(
            [((part.int() * weights).sum(1, True) + 0x8000 >> 16).byte() for part in x.split(256)]
        )
    return (x * (weights / 0x10000)).sum(1, True)


def check_size(size: tuple[int, int] | None) -> None:
    """Refuse a size that is none, before anything is read."""
    if size and not (min(size) > 0 and math.prod(size) <= MOST_PIXELS):
        raise InputError(f"size=(height, width) of 1 to {MOST_PIXELS:,} pixels", f"{size}", "choose another")


def pixels(file: Path | BinaryIO, name: str, size: tuple[int, int] | None = None) -> np.ndarray:
    """Return an image as uint8, (H, W) or (H, W, 3), upright, scaled to `size` where that is given."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # metadata it cannot read
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(file, formats=FORMATS) as image:
                _check(image, name)
                flat = _flat(ImageOps.exif_transpose(image))
                return np.array(flat.resize(size[::-1], Image.Resampling.BILINEAR) if size else flat)
    except UnseeError:
        raise
    except UnidentifiedImageError:
        raise InputError(_IMAGE, f"something else in {name}", "replace or remove that file") from None
    except (Image.DecompressionBombWarning, Image.DecompressionBombError):
        raise _too_large("far more", name) from None
    except Exception as error:  # a decoder given an arbitrary file raises about anything
        found = f"{str(error) or type(error).__name__} in {name}"
        raise InputError(_IMAGE, found, "replace or remove that file") from None


def class_name(name: str) -> str:
    """Return a class's name in one spelling (NFC), unless it is empty, overlong or partly invisible.

    ImageNet's names list synonyms, and some have nearly 100 characters.

    >>> class_name("Ankle boot")
    'Ankle boot'
    """
    name = unicodedata.normalize("NFC", name)
    if not name.strip() or len(name) > 200 or any(unicodedata.category(c) in _INVISIBLE for c in name):
        raise InputError(
            "a class name of 1 to 200 visible characters",
            f"{name[:80]!a} ({len(name)} characters)",
            "rename it",
        )
    return name


def shown(path: Path) -> str:
    """Return a path for a message; a file's name must not steer the terminal it is printed on."""
    return str(path) if str(path).isprintable() else ascii(str(path))


def class_folders(folder: Path, root: Path) -> dict[str, Path]:
    """Return the sub-folder of each class, by the class's name."""
    found = {}
    for entry in _entries(folder, root):
        if entry.is_dir():
            name = class_name(entry.name)
            if name in found:
                raise InputError("class names that differ", f"{name} in two spellings", "rename one")
            found[name] = entry
        elif entry.suffix.lower() in _SUFFIXES:
            raise InputError(
                "each image in the folder of its class", shown(entry), "move it to its class or remove it"
            )
    if not found:
        raise InputError(f"one sub-folder for each class in {shown(folder)}", "none", "sort the images so")
    return found


def _heap(folder: Path, root: Path, deeper: int) -> list[Path]:
    files, folders = [], {}
    for entry in _entries(folder, root):
        if not entry.is_dir():
            files += [entry] if folder != root or entry.suffix.lower() not in _NOTES else []
        elif entry.is_symlink() or not deeper:
            found = f"a link to one, {shown(entry)}" if deeper else f"more, {shown(entry)}"
            raise InputError(
                f"real folders, {_DEEPEST} deep at most, in {shown(root)}", found, "copy the images"
            )
        else:
            folders[unicodedata.normalize("NFC", entry.name), entry.name] = entry
    return files + [file for _, below in sorted(folders.items()) for file in _heap(below, root, deeper - 1)]


def _entries(folder: Path, root: Path) -> list[Path]:
    try:
        entries = sorted(entry for entry in folder.iterdir() if not _hidden(entry.name))
    except OSError as error:
        raise InputError(f"a folder at {shown(folder)}", f"{error.strerror}", "check the path") from None
    for entry in entries:
        _refuse_leaving(entry, root)
    return entries


def _hidden(name: str) -> bool:
    """Whether people do not see it in their folders: what begins with a dot, and what Windows leaves."""
    return name.startswith(".") or name.casefold() in ("thumbs.db", "desktop.ini")


def _refuse_leaving(path: Path, root: Path) -> None:
    if path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root)):
        raise InputError(
            f"only what lies in {shown(root)}", f"a link out of it, {shown(path)}", "copy the file"
        )


def _channels_first(image: np.ndarray) -> Tensor:
    return torch.from_numpy(np.atleast_3d(image)).permute(2, 0, 1)


def _measures(picture: Picture) -> str:
    return "x".join(map(str, picture.pixels.shape[1:]))


def _check(image: ImageFile.ImageFile, name: str) -> None:
    """Refuse by the header alone, before anything is decoded."""
    width, height = image.size
    if not 0 < width * height <= MOST_PIXELS:
        raise _too_large(f"{height}x{width}", name)
    # Pillow opens PNGs of 16 bits a channel as RGB and drops the lower eight.
    if image.mode not in _GREY | _COLOUR or (image.format == "PNG" and "16B" in str(image.tile)):
        raise InputError("8 bits a channel", f"more in {name}", "convert it to 8 bits")
    # A phone's JPEG may carry a preview as a second frame (MPO); that is no animation.
    if image.format in ("PNG", "WEBP") and getattr(image, "is_animated", False):
        raise InputError("one picture a file", f"an animation in {name}", "save its frames as files")


def _too_large(found: str, name: str) -> InputError:
    return InputError(f"an image of 1 to {MOST_PIXELS:,} pixels", f"{found} in {name}", "scale it down")


def _flat(image: Image.Image) -> Image.Image:
    mode = "L" if image.mode in _GREY else "RGB"
    if image.has_transparency_data:
        black = Image.new("RGBA", image.size, "black")
        image = Image.alpha_composite(black, image.convert("RGBA"))
    return image.convert(mode)
