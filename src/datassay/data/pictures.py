"""Image files that are read where they are needed, and how they become pixels side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from datassay.data.files.image import ImageSize, image_size, read_image
from datassay.data.samples import SampleSet
from datassay.data.source import check_fits
from datassay.errors import DataError

# From these sides in pixels on, an image counts as a photograph.
COLOUR_SIDE, GREY_SIDE = 32, 64
BRIGHTEST = 255  # of pixels, or 1


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
