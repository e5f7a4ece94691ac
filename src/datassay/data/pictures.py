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
from datassay.errors import DataError
from datassay.results import result

# From these sides in pixels on, an image counts as a photograph.
COLOUR_SIDE, GREY_SIDE = 32, 64
BRIGHTEST = 255  # of pixels, or 1
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
    """Size of an image, as its head says, without unpacking it."""
    with _opened(path) as image:
        if image.format != "MPO" and getattr(image, "is_animated", False):
            raise DataError(
                f"{path} must hold one image; it holds {image.n_frames} frames. Save the one that "
                "is meant."
            )
        grey = image.mode in _GREY or image.mode.startswith("I")
        return ImageSize(image.height, image.width, 1 if grey else 3)


def read_image(path: Path) -> np.ndarray:
    """The pixels of an image, as `pixels` has them."""
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


class Pictures:
    """[n] image files, of any sizes, which are opened when one is asked for; indexed as an array.

    Args:
        paths: [n], of the files.
        rows: which of them; None: all.
        sizes: [n], what the heads of the files say; None: they are read here.

    Raises:
        DataError: a file is no image, or one of several frames.
    """

    __slots__ = ("_paths", "_rows", "_sizes")

    def __init__(
        self,
        paths: Sequence[Path],
        rows: np.ndarray | None = None,
        sizes: Sequence[ImageSize] | None = None,
    ):
        self._paths = paths
        self._rows = np.arange(len(paths)) if rows is None else rows
        self._sizes = [image_size(path) for path in paths] if sizes is None else sizes

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[np.ndarray]:
        return (read_image(self._paths[int(row)]) for row in self._rows)

    def __getitem__(self, index: Any) -> Any:
        """One image, [channels, height, width] in [0, 1], or the Pictures of several samples."""
        rows = self._rows[index]
        if np.ndim(rows) == 0:
            return read_image(self._paths[int(rows)])
        return Pictures(self._paths, rows, self._sizes)

    def __repr__(self) -> str:
        return f"Pictures of {len(self)}"

    @property
    def paths(self) -> list[Path]:
        """[n], of the files."""
        return [self._paths[int(row)] for row in self._rows]

    @property
    def sizes(self) -> list[ImageSize]:
        """[n], what the heads of the files say."""
        return [self._sizes[int(row)] for row in self._rows]


def with_pixels(train: SampleSet, val: SampleSet | None) -> tuple[SampleSet, SampleSet | None]:
    """The same samples with the pixels of their files as x.

    Args:
        train: of files.
        val: of files; None where nothing is held out.

    Returns:
        Both sets; x [n, channels, height, width] float32 in [0, 1], 1 channel where all are grey.

    Raises:
        DataError: images differ in size, cannot be read, or would not fit into memory.
    """
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
    made = [replace(s, x=_stacked(_pictures(s), shape), images=None) for s in sets]
    return made[0], None if val is None else made[1]


def _pictures(samples: SampleSet) -> Pictures:
    assert isinstance(samples.images, Pictures)
    return samples.images


def _stacked(pictures: Pictures, shape: tuple[int, int, int]) -> np.ndarray:
    x = np.empty((len(pictures), *shape), dtype=np.float32)
    for i, pixels in enumerate(pictures):
        x[i] = pixels
    return x


def are_photographs(samples: SampleSet) -> bool:
    """Whether images are ones that an encoder trained on photographs may know something about.

    Args:
        samples: of files, or with pixels as x.

    Returns:
        True where most have colours and at least 32 pixels on the smaller side (CIFAR-10 has), or
        at least 64 pixels there; of arrays only values of 0 to 255 are pixels. Small grey images,
        such as MNIST's, are drawings of signs.
    """
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
    """The (channels, height, width) of arrays that are images of 1 or 3 channels; None of others.

    Args:
        shape: of one sample: [h, w], [c, h, w] or [h, w, c].

    Returns:
        Three numbers. Where both ends could be channels, the first counts as them.
    """
    if len(shape) == 2:
        return (1, *shape)
    if len(shape) == 3 and shape[0] in {1, 3}:
        return shape[0], shape[1], shape[2]
    if len(shape) == 3 and shape[2] in {1, 3}:
        return shape[2], shape[0], shape[1]
    return None
