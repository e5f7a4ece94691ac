"""One image file as numbers; only formats that Pillow itself decodes: none starts a program."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from datassay.data.source import reading
from datassay.errors import DataError
from datassay.results import result

# What Pillow would otherwise try whatever the name says: EPS and PDF start Ghostscript.
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
SUFFIXES = frozenset({
    ".bmp",
    ".gif",
    ".jpeg",
    ".jpg",
    ".pgm",
    ".png",
    ".ppm",
    ".tif",
    ".tiff",
    ".webp",
})
_GREY = {"1", "L", "LA"}


@result
class ImageSize:
    """What the head of an image file says.

    Attributes:
        height: pixels.
        width: pixels.
        channels: 1 for a grey image, else 3.
    """

    height: int
    width: int
    channels: int


def image_size(path: Path) -> ImageSize:
    """Size of an image, without unpacking it.

    Args:
        path: of the file.

    Returns:
        What its head says.

    Raises:
        DataError: no image of FORMATS, one of several frames, or a decompression bomb.
    """
    with _opened(path) as image:
        if image.format != "MPO" and getattr(image, "is_animated", False):
            raise DataError(
                f"{path} must hold one image; it holds {image.n_frames} frames. Save the one that "
                "is meant."
            )
        grey = image.mode in _GREY or image.mode.startswith("I")
        return ImageSize(image.height, image.width, 1 if grey else 3)


def read_image(path: Path) -> np.ndarray:
    """The pixels of an image.

    Args:
        path: of the file.

    Returns:
        As `pixels`.

    Raises:
        DataError: it cannot be read.
    """
    with _opened(path) as image:
        return pixels(image)


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        with reading(path), warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(path, formats=FORMATS) as image:
                yield image
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise DataError(f"{path} is too large: {error}. Resize it before loading.") from error


def pixels(image: Any) -> np.ndarray:
    """A Pillow image as numbers.

    Args:
        image: any mode but 32-bit; transparency is dropped, palettes become colours.

    Returns:
        [channels, height, width] float32 in [0, 1], 1 channel for a grey image and else 3.

    Raises:
        DataError: 32 bits a pixel, whose white is not known.
    """
    if image.mode.startswith("I"):
        values = np.asarray(image)
        if values.min() >= 0 and values.max() <= 65535:  # 16-bit grey; older Pillow calls it "I"
            return (values[None] / np.float32(65535)).astype(np.float32)
    if image.mode[0] in "IF":
        raise DataError(
            f"images must have 8 or 16 bits a channel; got mode {image.mode}. Save them as 8-bit."
        )
    if image.mode in _GREY:
        return np.asarray(image.convert("L"), dtype=np.float32)[None] / 255
    colours = np.asarray(image.convert("RGB"), dtype=np.float32)  # [h, w, 3]
    return np.ascontiguousarray(colours.transpose(2, 0, 1)) / 255
