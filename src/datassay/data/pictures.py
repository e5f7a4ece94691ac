"""Image files that are read where they are needed, and how they become pixels side by side.

Only formats that Pillow itself decodes are opened: none starts a program.
"""

import io
import struct
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import ExifTags, Image, ImageOps

from datassay.data.samples import SampleSet
from datassay.data.source import check_fits, decoding, reading
from datassay.data.strings import Indexed
from datassay.errors import DataError
from datassay.optional import drop_none, text_if
from datassay.results import result

# From these sides in pixels on, an image counts as a photograph.
COLOUR_SIDE, GREY_SIDE = 32, 64
BRIGHTEST = 255  # of pixels, or 1
# What Pillow would otherwise try whatever the name says: EPS and PDF start Ghostscript.
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
SUFFIXES = frozenset(".bmp .gif .jpeg .jpg .pgm .png .ppm .tif .tiff .webp".split())
_GREY = {"1", "L", "LA", "La"}
# What can show through transparent parts, white first.
SHADES = {"white": 1.0, "black": 0.0, "grey": 0.5}
BLANK = 0.02  # standard deviation of pixels below which a picture shows nothing
STRONGER = 1.25  # times as much contrast as white must another background give
LOOK = 64  # pixels a side to which a picture is reduced to be looked at (cleanvision's for blur)
_ON_ITS_SIDE = {5, 6, 7, 8}  # values of EXIF's orientation


@result
class ImageSize:
    """What an image file holds; 1 channel for a grey image, else 3."""

    height: int
    width: int
    channels: int
    contrast: tuple[float, ...] = ()  # deviation of pixels on each background; empty: it is opaque


def image_size(file: Path | bytes) -> ImageSize:
    """Return an image's size as displayed; raise DataError if it cannot be decoded."""
    with _open(file) as image:
        if image.format != "MPO" and getattr(image, "is_animated", False):
            raise DataError(
                f"{_name_image(file)} must hold one image; it holds {image.n_frames} frames. "
                "Save the one that is meant."
            )
        return shown_size(image)


def shown_size(image: Any) -> ImageSize:
    """Return a Pillow image's size as displayed, and its contrast on each background."""
    if image.format == "TIFF":  # turned as it is loaded, by newer Pillow as it is opened
        image.load()
    width, height = image.size
    if image.format != "TIFF" and _read_orientation(image) in _ON_ITS_SIDE:
        height, width = image.size
    is_grey = image.mode in _GREY or image.mode.startswith("I")
    reduced = _reduce(image, LOOK)
    on_backgrounds = [pixels(reduced, background) for background in SHADES.values()]
    contrast = tuple(float(values.std()) for values in on_backgrounds)
    if np.array_equal(on_backgrounds[0], on_backgrounds[1]):  # nothing shows through
        contrast = ()
    return ImageSize(height, width, 1 if is_grey else 3, contrast)


def choose_background(sizes: Sequence[ImageSize]) -> str:
    """Return the background for transparent parts, by contrast; "" if all images are opaque."""
    # That of most contrast, white unless another has much more, of those with fewest blank images.
    contrast = np.array([size.contrast for size in sizes if size.contrast])  # [n, backgrounds]
    if not len(contrast):
        return ""
    n_blank = (contrast < BLANK).sum(0)
    strength = contrast.mean(0)
    strength[0] *= STRONGER
    strength[n_blank > n_blank.min()] = -1
    return list(SHADES)[int(strength.argmax())]


def background_warning(sizes: Sequence[ImageSize], background: str) -> tuple[str, ...]:
    """Return a warning that images are partly transparent; () if none is."""
    if not background:
        return ()
    n_transparent = sum(bool(size.contrast) for size in sizes)
    why = text_if(background != "white", ", on which they differ more than on white")
    text = f"{n_transparent:,} of {len(sizes):,} images are transparent in parts"
    return (f"{text}: read on {background}{why}.",)


@contextmanager
def _open(file: Path | bytes) -> Iterator[Any]:
    """Open an image file, or its bytes, within the limit of its size."""
    is_path = isinstance(file, Path)
    try:
        with reading(file) if is_path else decoding(_name_image(file)), warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            if is_path:
                stream = file
            else:
                stream = io.BytesIO(file)
            with Image.open(stream, formats=FORMATS) as image:
                yield image
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise DataError(
            f"{_name_image(file)} is too large: {error}. Resize it before loading."
        ) from error


def _name_image(file: Path | bytes) -> str:
    """Return how an error message calls an image: its path, or "an image of the table"."""
    if not isinstance(file, Path):
        return "an image of the table"
    return str(file)


def _read_orientation(image: Any) -> int:
    """Return the EXIF orientation of an image, 1 (upright) if there is none readable."""
    try:
        return image.getexif().get(ExifTags.Base.Orientation, 1)
    except (SyntaxError, ValueError, TypeError, KeyError, struct.error):
        return 1


def _reduce(image: Any, side: int) -> Any:
    """Return an image shrunk to at most `side` pixels if it has 8 bits a channel."""
    if image.mode[0] in "IF" or max(image.size) <= side:
        return image
    if image.mode in {"P", "PA"}:  # whose pixels are numbers of colours, which have no mean
        image = image.convert("RGBA" if image.has_transparency_data else "RGB")
    image.thumbnail((side, side))
    return image


def pixels(image: Any, background: float = SHADES["white"]) -> np.ndarray:
    """Return a Pillow image as [channels, height, width] float32 in [0, 1]; 1 channel if grey."""
    # Turned as its EXIF says, on a background where it is transparent. Palettes become colours;
    # white of 32 bits a pixel is not known.
    if _read_orientation(image) != 1:
        image = ImageOps.exif_transpose(image)
    if image.mode.startswith("I"):
        values = np.asarray(image)
        if values.min() >= 0 and values.max() <= 65535:  # 16-bit grey; older Pillow calls it "I"
            return (values[None] / np.float32(65535)).astype(np.float32)
    if image.mode[0] in "IF":
        raise DataError(
            f"images must have 8 or 16 bits a channel; got mode {image.mode}. Save them as 8-bit."
        )
    if image.mode in _GREY and not image.has_transparency_data:
        return np.asarray(image.convert("L"), dtype=np.float32)[None] / 255
    mode = "RGB"
    if image.has_transparency_data:
        mode = "RGBA"
    colours = np.asarray(image.convert(mode), dtype=np.float32) / 255  # [h, w, 3 or 4]
    if mode == "RGBA":
        opacity = colours[..., 3:]
        colours = colours[..., :3] * opacity + background * (1 - opacity)
    n_channels = 3
    if image.mode in _GREY:
        n_channels = 1
    return np.ascontiguousarray(colours[..., :n_channels].transpose(2, 0, 1))


class Pictures(Indexed):
    """[n] image files, of any sizes, each opened when it is asked for; indexed as an array."""

    __slots__ = ("_files", "_sizes", "background")

    def __init__(
        self,
        files: Sequence[Path | bytes],
        sizes: Sequence[ImageSize],
        background: str = "",
        rows: np.ndarray | None = None,
    ):
        super().__init__(len(files), rows)
        self._files = files
        self._sizes = sizes
        self.background = background

    def _get_item(self, row: int) -> np.ndarray:
        with _open(self._files[row]) as image:
            return self._pixels(image)

    def _get_subset(self, rows: np.ndarray) -> "Pictures":
        return Pictures(self._files, self._sizes, self.background, rows)

    def _pixels(self, image: Any) -> np.ndarray:
        return pixels(image, SHADES[self.background or "white"])

    def thumbnails(self, side: int) -> Iterator[np.ndarray]:
        """Yield the pixels of each image, reduced to at most `side` if of 8 bits a channel."""
        for file in self.files:
            with _open(file) as image:
                yield self._pixels(_reduce(image, side))

    @property
    def files(self) -> list[Path | bytes]:
        """The path of each image, [n], or its bytes where a table holds them."""
        return [self._files[int(row)] for row in self._rows]

    @property
    def sizes(self) -> list[ImageSize]:
        """The size of each image as it is shown, [n]."""
        return [self._sizes[int(row)] for row in self._rows]


def have_one_size(*sets: SampleSet) -> bool:
    """Return whether all images of files have the same size."""
    files = [samples.images for samples in sets if isinstance(samples.images, Pictures)]
    return len({(size.height, size.width) for images in files for size in images.sizes}) < 2


def with_pixels(train: SampleSet, val: SampleSet | None) -> tuple[SampleSet, SampleSet | None]:
    """Return (train, val) with their images' pixels as x; raise if sizes differ."""
    sets = drop_none(train, val)
    sizes = [size for samples in sets for size in _pictures(samples).sizes]
    ids = [name for samples in sets for name in samples.ids]
    height = sizes[0].height
    width = sizes[0].width
    differing = [i for i, s in enumerate(sizes) if (s.height, s.width) != (height, width)]
    if differing:
        i = differing[0]
        raise DataError(
            f"images must all have one size; {ids[0]} is {width}×{height}, but {len(differing)} of "
            f"{len(ids)} differ, the first {ids[i]} with {sizes[i].width}×{sizes[i].height}. Take "
            "an encoder, --model features:lite0, which resizes them, or resize or crop them to one "
            "size, for example with Pillow's ImageOps.fit."
        )
    channels = max(s.channels for s in sizes)  # a grey image among coloured ones gets 3
    check_fits(4.0 * len(ids) * channels * height * width, f"{len(ids):,} images")
    shape = (channels, height, width)
    results = []
    for samples in sets:
        x = np.empty((len(samples), *shape), dtype=np.float32)
        for i, image in enumerate(_pictures(samples)):
            x[i] = image
        results.append(replace(samples, x=x, images=None))
    return results[0], None if val is None else results[1]


def _pictures(samples: SampleSet) -> Pictures:
    assert isinstance(samples.images, Pictures)
    return samples.images


def are_photographs(samples: SampleSet) -> bool:
    """Return whether images look like photographs, which pretrained encoders know."""
    # Most have colours and at least 32 pixels on the smaller side (CIFAR-10 has), or at least 64
    # there; of arrays only values of 0 to 255 are pixels. Small grey images, as MNIST's, are
    # drawings of signs.
    if samples.kind != "image":
        return False
    if isinstance(samples.images, Pictures):
        sizes = samples.images.sizes
    else:
        shape = channels_first(samples.input_shape)
        sizes = []
        if shape is not None and samples.x.min() >= 0 and samples.x.max() <= BRIGHTEST:
            channels, height, width = shape
            sizes = [ImageSize(height, width, channels)]
    are_large = [
        min(s.height, s.width) >= (COLOUR_SIDE if s.channels == 3 else GREY_SIDE) for s in sizes
    ]
    return 2 * sum(are_large) > len(are_large)


def channels_first(shape: tuple[int, ...]) -> tuple[int, int, int] | None:
    """Return (channels, height, width) of a sample's array; None if it is no image."""
    # Where both ends could be channels, the first counts as them.
    if len(shape) == 2:
        return (1, *shape)
    if len(shape) == 3 and shape[0] in {1, 3}:
        return shape[0], shape[1], shape[2]
    if len(shape) == 3 and shape[2] in {1, 3}:
        return shape[2], shape[0], shape[1]
    return None
