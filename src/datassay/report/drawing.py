"""How one sample looks on a card: a picture, a text, or its most unusual values."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from jaxtyping import Shaped

from datassay.data.samples import SampleSet
from datassay.report.wording import value_text
from datassay.score.checks.row_codes import row_codes

MAX_SIDE = 96
MAX_TEXT = 200
N_FEATURES = 6


@dataclass(frozen=True, slots=True)
class Drawing:
    """One sample, ready to show; exactly one of the three parts is set.

    Attributes:
        image: a data URI of a PNG.
        text: plain text, cut to 200 characters.
        full_text: plain text, cut to 2000 characters, for a tooltip.
        values: (name, value) pairs, most unusual first.
    """

    image: str = ""
    text: str = ""
    full_text: str = ""
    values: tuple[tuple[str, str], ...] = ()


def draw(
    samples: SampleSet, positions: Shaped[np.ndarray, " m"], side: int = MAX_SIDE
) -> tuple[Drawing, ...]:
    """Each sample as its kind is shown.

    An image that has no image's shape, and a text without text, are listed as rows.

    Args:
        samples: the whole set, which fixes the grey scale and what is unusual.
        positions: [m], which samples.
        side: pixels that an image may be wide or high.

    Returns:
        [m] drawings.
    """
    has_pixels = samples.images is not None or _is_image(samples.input_shape)
    if samples.kind == "image" and has_pixels:
        return _images(samples, positions, side)
    if samples.kind == "text" and samples.texts is not None:
        return tuple(_text(str(samples.texts[i])) for i in positions)
    return _rows(samples, positions)


def _is_image(shape: tuple[int, ...]) -> bool:
    if len(shape) == 2:
        return True
    return len(shape) == 3 and (shape[0] in {1, 2, 3, 4} or shape[2] in {1, 2, 3, 4})


def _images(samples: SampleSet, positions: np.ndarray, side: int) -> tuple[Drawing, ...]:
    images = samples.x if samples.images is None else samples.images
    low, high = 0.0, 1.0  # of files
    if isinstance(images, np.ndarray):
        low, high = float(images.min()), float(images.max())
    scale = 255 / (high - low) if high > low else 0.0
    drawn = []
    for i in positions:
        pixels = _last_channel(np.asarray(images[int(i)], np.float64))
        grey = ((pixels - low) * scale).clip(0, 255).round().astype(np.uint8)
        drawn.append(Drawing(image=png(grey, side)))
    return tuple(drawn)


def _last_channel(image: np.ndarray) -> np.ndarray:
    """[h, w] or [h, w, 3] from [h, w], [c, h, w] or [h, w, c] with 1 to 4 channels."""
    if image.ndim == 3 and image.shape[0] in {1, 2, 3, 4}:  # the loader's own order wins
        image = np.moveaxis(image, 0, -1)
    if image.ndim == 3:
        # Two channels have no colours: their mean. A fourth is opacity: dropped.
        image = image.mean(axis=-1) if image.shape[2] < 3 else image[..., :3]
    return image


def png(pixels: np.ndarray, side: int) -> str:
    """[H, W] or [H, W, 3] bytes as a data URI of a PNG, made smaller to at most `side` pixels."""
    from PIL import Image  # only the report draws, so only it pays for the import

    picture = Image.fromarray(pixels)
    picture.thumbnail((side, side))
    stream = io.BytesIO()
    picture.save(stream, format="PNG")
    return "data:image/png;base64," + base64.b64encode(stream.getvalue()).decode()


def _text(text: str) -> Drawing:
    text = " ".join(text.split())
    cut = text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"
    return Drawing(text=cut or "(empty)", full_text=text[:2000])


def _rows(samples: SampleSet, positions: np.ndarray) -> tuple[Drawing, ...]:
    rows = samples.used_rows
    if rows is not None and rows.num_columns:
        return _own_rows(rows, positions)
    x = np.asarray(samples.x, np.float64).reshape(len(samples), -1)
    spread = x.std(axis=0)
    z = (x[positions] - x.mean(axis=0)) / np.where(spread > 0, spread, 1.0)  # [m, d]
    top = np.argsort(-np.abs(z), axis=1, kind="stable")[:, :N_FEATURES]
    names = samples.feature_names
    return tuple(
        Drawing(
            values=tuple(
                (names[j] if j < len(names) else f"x{j}", f"{x[i, j]:.4g}") for j in columns
            )
        )
        for i, columns in zip(positions, top, strict=True)
    )


def _own_rows(rows: pa.Table, positions: np.ndarray) -> tuple[Drawing, ...]:
    """The user's own values: of numbers the farthest from the median, of words the rarest."""
    coded = row_codes(rows)
    often = np.stack([np.bincount(code)[code] for code in coded.codes.T], 1) / len(rows)
    unusual = np.where(np.isnan(coded.numbers), -np.log(often) / 2, np.abs(coded.numbers))
    unusual[often > 1 - 1 / len(rows)] = -1  # constant
    top = np.argsort(-unusual[positions], axis=1, kind="stable")[:, :N_FEATURES]
    drawn = []
    for i, columns in zip(positions, top, strict=True):
        values = [(coded.names[c], rows[int(c)][int(i)].as_py()) for c in columns]
        drawn.append(
            Drawing(values=tuple((name, value_text(value) or "missing") for name, value in values))
        )
    return tuple(drawn)


PER_CLASS = 12


MAX_CARDS = 400
