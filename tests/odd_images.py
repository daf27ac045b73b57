"""Image files that are odd, broken or larger than they look, built from bytes."""

import io
import struct
import zlib

import numpy as np
from PIL import Image

GRADIENT = np.arange(6 * 8 * 3, dtype=np.uint8).reshape(6, 8, 3)
FORMATS = ("png", "jpg", "bmp", "webp")


def png(width, height, depth, kind, rows, *more):
    """A PNG made by hand, for what Pillow does not write."""
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, 0)), *more]
    chunks += [(b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    body = b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + body


def saved(path, mode="RGB", **how):
    Image.fromarray(GRADIENT).convert(mode).save(path, **how)
    return path


def encoded(tmp_path, form):
    return saved(tmp_path / f"encoded.{form}").read_bytes()


def changed(data, at, *values):
    data = bytearray(data)
    data[at : at + len(values)] = bytes(values)
    return bytes(data)


def animation(path, **how):
    frames = [Image.fromarray(GRADIENT), Image.fromarray(255 - GRADIENT)]
    frames[0].save(path, save_all=True, append_images=frames[1:], **how)
    return path.read_bytes()


def in_format(tmp_path, form, mode="RGB"):
    return saved(tmp_path / f"x.{form}", mode).read_bytes()


def jpeg_of(tmp_path, height, width):
    data = encoded(tmp_path, "jpg")
    return changed(data, data.index(b"\xff\xc0") + 5, *struct.pack(">HH", height, width))


def webp_of(side):
    stream = b"\x2f" + struct.pack("<I", (side - 1) | (side - 1) << 14) + bytes(60)
    body = b"WEBPVP8L" + struct.pack("<I", len(stream)) + stream
    return b"RIFF" + struct.pack("<I", len(body)) + body


BAD = {
    "text": lambda t: (b"not an image", "something else"),
    "empty": lambda t: (b"", "something else"),
    "gif": lambda t: (in_format(t, "gif", "P"), "something else"),
    "tiff": lambda t: (in_format(t, "tiff"), "something else"),
    "postscript": lambda t: (in_format(t, "eps"), "something else"),
    "png signature": lambda t: (encoded(t, "png")[:8], "something else"),
    "wrong crc": lambda t: (changed(encoded(t, "png"), 29, 0), "a whole image"),
    "no pixels": lambda t: (png(0, 0, 8, 0, b""), "a whole image"),
    "16-bit grey": lambda t: (png(1, 1, 16, 0, bytes(3)), "8 bits a channel"),
    "16-bit colour": lambda t: (png(1, 1, 16, 2, bytes(7)), "8 bits a channel"),
    "16-bit grey and alpha": lambda t: (png(1, 1, 16, 4, bytes(5)), "8 bits a channel"),
    "16-bit colour and alpha": lambda t: (png(1, 1, 16, 6, bytes(9)), "8 bits a channel"),
    "png of 26 MPixel": lambda t: (png(6500, 4000, 8, 0, b""), "1 to 25,000,000 pixels, found 4000x6500"),
    "png of 100 MPixel": lambda t: (png(10_000, 10_000, 8, 0, b""), "1 to 25,000,000 pixels"),
    "png bomb": lambda t: (png(2**31 - 1, 2**31 - 1, 8, 2, b""), "1 to 25,000,000 pixels"),
    "jpg bomb": lambda t: (jpeg_of(t, 65_500, 65_500), "1 to 25,000,000 pixels"),
    "bmp bomb": lambda t: (changed(encoded(t, "bmp"), 18, 0, 0, 1, 0, 0, 0, 1, 0), "1 to 25,000,000 pixels"),
    "webp bomb": lambda t: (webp_of(16_383), "1 to 25,000,000 pixels"),
    "animated png": lambda t: (animation(t / "x.png"), "animation"),
    "animated webp": lambda t: (animation(t / "x.webp"), "animation"),
}


def chunked(*chunks):
    """A PNG of one grey pixel with more chunks before it."""
    return png(1, 1, 8, 0, bytes(2), *chunks)


BOMBS = {
    **{name: BAD[name] for name in BAD if "bomb" in name or "MPixel" in name},
    "png of 26 MPixel in few rows": lambda t: (
        png(1 << 20, 25, 8, 0, b""),
        "1 to 25,000,000 pixels",
    ),
    "bmp of negative height": lambda t: (
        changed(encoded(t, "bmp"), 18, 0, 0, 1, 0, 0, 0, 255, 255),
        "1 to 25,000,000 pixels",
    ),
    "webp of 268 MPixel": lambda t: (webp_of(16_384), "1 to 25,000,000 pixels"),
    "text that unfolds to 100 MB": lambda t: (
        chunked((b"zTXt", b"Comment\0\0" + zlib.compress(bytes(100 << 20)))),
        "a whole image",
    ),
    "a profile that unfolds to 100 MB": lambda t: (
        chunked((b"iCCP", b"icc\0\0" + zlib.compress(bytes(100 << 20)))),
        "",
    ),
}


def turned(form, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    buffer = io.BytesIO()
    Image.fromarray(GRADIENT).save(buffer, form, exif=exif)
    return buffer.getvalue()


def written(form, mode="RGB", **how):
    buffer = io.BytesIO()
    Image.fromarray(GRADIENT).convert(mode).save(buffer, form, **how)
    return buffer.getvalue()


PACKED = zlib.compress(b"x")

# Odd, but one picture of 8 bits a channel: read, with this shape.
ODD = {
    **{f"jpeg turned {o}": ((3, 6, 8), lambda o=o: turned("JPEG", o)) for o in range(1, 5)},
    **{f"jpeg turned {o}": ((3, 8, 6), lambda o=o: turned("JPEG", o)) for o in range(5, 9)},
    "png turned": ((3, 8, 6), lambda: turned("PNG", 6)),
    "webp turned": ((3, 8, 6), lambda: turned("WEBP", 6)),
    "jpeg turned by nonsense": ((3, 6, 8), lambda: turned("JPEG", 77)),
    **{f"png of mode {m}": ((c, 6, 8), lambda m=m: written("PNG", m)) for m, c in
       {"1": 1, "L": 1, "LA": 1, "P": 3, "RGB": 3, "RGBA": 3}.items()},
    "png of 2 bits grey": ((1, 2, 4), lambda: png(4, 2, 2, 0, b"\0\x1b\0\xe4")),
    "png with a transparent grey": ((1, 1, 1), lambda: png(1, 1, 8, 0, bytes(2), (b"tRNS", b"\0\0"))),
    "png with a palette": ((3, 1, 1), lambda: png(1, 1, 8, 3, bytes(2), (b"PLTE", b"\1\2\3"))),
    "png with a transparent palette": ((3, 6, 8), lambda: written("PNG", "P", transparency=0)),
    "png with a profile that is none": ((1, 1, 1), lambda: chunked((b"iCCP", b"x\0\0" + PACKED))),
    "png with metadata that is none": ((1, 1, 1), lambda: chunked((b"eXIf", b"MM\0\x2a\xff\xff\xff\xff"))),
    "png with an unknown chunk": ((1, 1, 1), lambda: chunked((b"abCd", b"x" * 100))),
    "jpeg of mode CMYK": ((3, 6, 8), lambda: written("JPEG", "CMYK")),
    "jpeg of mode L": ((1, 6, 8), lambda: written("JPEG", "L")),
    "jpeg by and by": ((3, 6, 8), lambda: written("JPEG", progressive=True)),
    "jpeg with half the colour": ((3, 6, 8), lambda: written("JPEG", subsampling=2)),
    "bmp of mode 1": ((1, 6, 8), lambda: written("BMP", "1")),
    "bmp of mode P": ((3, 6, 8), lambda: written("BMP", "P")),
    "webp with alpha": ((3, 6, 8), lambda: written("WEBP", "RGBA")),
    "webp without loss": ((3, 6, 8), lambda: written("WEBP", lossless=True)),
}  # fmt: skip
