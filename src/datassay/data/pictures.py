"""Image files that are read where they are needed, and how they become pixels side by side.

Only formats that Pillow itself decodes are opened: none starts a program.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from datassay.data.samples import SampleSet
from datassay.data.source import check_fits, reading
from datassay.data.strings import Indexed
from datassay.errors import DataError
from datassay.results import result

# From these sides in pixels on, an image counts as a photograph.
COLOUR_SIDE, GREY_SIDE = 32, 64
BRIGHTEST = 255  # of pixels, or 1
# What Pillow would otherwise try whatever the name says: EPS and PDF start Ghostscript.
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
SUFFIXES = frozenset(".bmp .gif .jpeg .jpg .pgm .png .ppm .tif .tiff .webp".split())
_GREY = {"1", "L", "LA"}


@result
class ImageSize:
    """What the head of an image file says; 1 channel for a grey image, else 3."""

    height: int
    width: int
    channels: int


def image_size(path: Path) -> ImageSize:
    """Size of an image, as its head says, without unpacking it."""
    with _opened(path) as image:
        if image.format != "MPO" and getattr(image, "is_animated", False):
            raise DataError(
                f"{path} must hold one image; it holds {image.n_frames} frames. Save the one that "
                "is meant."
            )
        grey = image.mode in _GREY or image.mode.startswith("I")
        return ImageSize(image.height, image.width, 1 if grey else 3)


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
    """A Pillow image as [channels, height, width] float32 in [0, 1]; 1 channel if grey, else 3."""
    # Transparency is dropped, palettes become colours; white of 32 bits a pixel is not known.
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


class Pictures(Indexed):
    """[n] image files, of any sizes, each opened when it is asked for; indexed as an array."""

    __slots__ = ("_paths", "_sizes")

    def __init__(
        self,
        paths: Sequence[Path],
        rows: np.ndarray | None = None,
        sizes: Sequence[ImageSize] | None = None,
    ):
        super().__init__(len(paths), rows)
        self._paths = paths
        self._sizes = [image_size(path) for path in paths] if sizes is None else sizes

    def _one(self, row: int) -> np.ndarray:
        with _opened(self._paths[row]) as image:
            return pixels(image)

    def _some(self, rows: np.ndarray) -> Pictures:
        return Pictures(self._paths, rows, self._sizes)

    def thumbnails(self, side: int) -> Iterator[np.ndarray]:
        """Pixels of each, those of 8 bits a channel reduced to at most `side`."""
        for path in self.paths:
            with _opened(path) as image:
                if image.mode[0] not in "IF":
                    image.thumbnail((side, side))
                yield pixels(image)

    @property
    def paths(self) -> list[Path]:
        """[n], of the files."""
        return [self._paths[int(row)] for row in self._rows]

    @property
    def sizes(self) -> list[ImageSize]:
        """[n], what the heads of the files say."""
        return [self._sizes[int(row)] for row in self._rows]


def with_pixels(train: SampleSet, val: SampleSet | None) -> tuple[SampleSet, SampleSet | None]:
    """The same samples with the pixels of their files, all of one size, as x."""
    sets = (train,) if val is None else (train, val)
    sizes = [size for samples in sets for size in _pictures(samples).sizes]
    ids = [one for samples in sets for one in samples.ids]
    height, width = sizes[0].height, sizes[0].width
    odd = [i for i, s in enumerate(sizes) if (s.height, s.width) != (height, width)]
    if odd:
        other = sizes[odd[0]]
        raise DataError(
            f"images must all have one size; {ids[0]} is {width}×{height}, but {len(odd)} of "
            f"{len(ids)} differ, the first {ids[odd[0]]} with {other.width}×{other.height}. Take "
            "an encoder, --model features:lite0, which resizes them, or resize or crop them to one "
            "size, for example with Pillow's ImageOps.fit."
        )
    channels = max(s.channels for s in sizes)  # a grey image among coloured ones gets 3
    check_fits(4.0 * len(ids) * channels * height * width, f"{len(ids):,} images")
    shape = (channels, height, width)
    made = []
    for samples in sets:
        x = np.empty((len(samples), *shape), dtype=np.float32)
        for i, pixels in enumerate(_pictures(samples)):
            x[i] = pixels
        made.append(replace(samples, x=x, images=None))
    return made[0], None if val is None else made[1]


def _pictures(samples: SampleSet) -> Pictures:
    assert isinstance(samples.images, Pictures)
    return samples.images


def are_photographs(samples: SampleSet) -> bool:
    """Whether images are ones that an encoder trained on photographs may know something about."""
    # Most have colours and at least 32 pixels on the smaller side (CIFAR-10 has), or at least 64
    # there; of arrays only values of 0 to 255 are pixels. Small grey images, as MNIST's, are
    # drawings of signs.
    if samples.kind != "image":
        return False
    if isinstance(samples.images, Pictures):
        sizes = samples.images.sizes
    else:
        shape, x = channels_first(samples.input_shape), samples.x
        are_pixels = shape is not None and x.min() >= 0 and x.max() <= BRIGHTEST
        sizes = [ImageSize(shape[1], shape[2], shape[0])] if shape and are_pixels else []
    large = [
        min(s.height, s.width) >= (COLOUR_SIDE if s.channels == 3 else GREY_SIDE) for s in sizes
    ]
    return 2 * sum(large) > len(large)


def channels_first(shape: tuple[int, ...]) -> tuple[int, int, int] | None:
    """The (channels, height, width) of one sample's array that is an image; None of others."""
    # Where both ends could be channels, the first counts as them.
    if len(shape) == 2:
        return (1, *shape)
    if len(shape) == 3 and shape[0] in {1, 3}:
        return shape[0], shape[1], shape[2]
    if len(shape) == 3 and shape[2] in {1, 3}:
        return shape[2], shape[0], shape[1]
    return None
