"""How one sample looks on a card: a picture, a text, or its most unusual values."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, SupportsIndex

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Shaped

from datassay.data.samples import SampleSet
from datassay.report.wording import label_text, value_text
from datassay.score.checks.duplicates import row_codes

MAX_SIDE = 96
MAX_TEXT = 200
N_FEATURES = 6
# Blue and orange are told apart with every kind of colour blindness; lightness is the same on
# both sides, so that a grey print shows sizes.
BELOW = ((255, 255, 255), (79, 159, 204), (0, 74, 119))
ABOVE = ((255, 255, 255), (238, 154, 90), (152, 58, 0))
PERCENTILE = 99.0
INK = 70  # how much darker than the paper the sample itself is drawn


@dataclass(frozen=True, slots=True)
class Drawing:
    """One sample, ready to show; exactly one of the three parts is set.

    Attributes:
        image: a data URI: a PNG, or a JPEG of an image of more than MAX_SIDE pixels.
        text: plain text, cut to 200 characters.
        full_text: plain text, cut to 2000 characters, for a tooltip.
        values: (name, value) pairs, most unusual first.
    """

    image: str = ""
    text: str = ""
    full_text: str = ""
    values: tuple[tuple[str, str], ...] = ()


Draw = Callable[[Shaped[np.ndarray, " m"], int], tuple[Drawing, ...]]
"""Called with positions and the pixels that an image may be wide or high; gives a drawing each."""


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
    return drawer(samples)(positions, side)


def drawer(samples: SampleSet) -> Draw:
    """The same for who draws again and again: what depends on the whole set is computed once.

    Args:
        samples: the whole set.

    Returns:
        A function of positions and of the pixels that an image may be wide or high.
    """
    has_pixels = samples.images is not None or _is_image(samples.input_shape)
    if samples.kind == "image" and has_pixels:
        images = samples.x if samples.images is None else samples.images
        low, high = 0.0, 1.0  # of files
        if isinstance(images, np.ndarray):
            low, high = float(images.min()), float(images.max())
        return lambda positions, side: _images(images, (low, high), positions, side)
    if samples.kind == "text" and (texts := samples.texts) is not None:
        return lambda positions, _: tuple(_text(str(texts[i])) for i in positions)
    rows = samples.used_rows
    if rows is not None and rows.num_columns:
        return _own_rows(rows)
    return _rows(samples)


def _is_image(shape: tuple[int, ...]) -> bool:
    if len(shape) == 2:
        return True
    return len(shape) == 3 and (shape[0] in {1, 2, 3, 4} or shape[2] in {1, 2, 3, 4})


def _images(
    images: Any, levels: tuple[float, float], positions: np.ndarray, side: int
) -> tuple[Drawing, ...]:
    low, high = levels
    scale = 255 / (high - low) if high > low else 0.0
    drawn = []
    for i in positions:
        pixels = _last_channel(np.asarray(images[int(i)], np.float64))
        grey = ((pixels - low) * scale).clip(0, 255).round().astype(np.uint8)
        drawn.append(Drawing(image=_uri(grey, side)))
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
    return _encoded(_thumbnail(pixels, side), "PNG")


def _uri(pixels: np.ndarray, side: int) -> str:
    """The same, of what was larger than a card as a JPEG, a tenth of the size."""
    is_photograph = max(pixels.shape[:2]) > MAX_SIDE
    return _encoded(_thumbnail(pixels, side), "JPEG" if is_photograph else "PNG")


def _thumbnail(pixels: np.ndarray, side: int) -> Any:
    from PIL import Image  # only the report draws, so only it pays for the import

    picture = Image.fromarray(pixels)
    picture.thumbnail((side, side))
    return picture


def _encoded(picture: Any, form: str) -> str:
    stream = io.BytesIO()
    picture.save(stream, format=form, **({"quality": 88} if form == "JPEG" else {}))
    body = base64.b64encode(stream.getvalue()).decode()
    return f"data:image/{form.lower()};base64,{body}"


def _text(text: str) -> Drawing:
    text = " ".join(text.split())
    cut = text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"
    return Drawing(text=cut or "(empty)", full_text=text[:2000])


def _rows(samples: SampleSet) -> Draw:
    x = np.asarray(samples.x, np.float64).reshape(len(samples), -1)
    middle, spread = x.mean(axis=0), x.std(axis=0)
    names = samples.feature_names

    def drawn(positions: np.ndarray, _: int) -> tuple[Drawing, ...]:
        z = (x[positions] - middle) / np.where(spread > 0, spread, 1.0)  # [m, d]
        top = np.argsort(-np.abs(z), axis=1, kind="stable")[:, :N_FEATURES]
        return tuple(
            Drawing(
                values=tuple(
                    (names[j] if j < len(names) else f"x{j}", f"{x[i, j]:.4g}") for j in columns
                )
            )
            for i, columns in zip(positions, top, strict=True)
        )

    return drawn


def _own_rows(rows: pa.Table) -> Draw:
    """The user's own values: of numbers the farthest from the median, of words the rarest."""
    coded = row_codes(rows)
    often = np.stack([np.bincount(code)[code] for code in coded.codes.T], 1) / len(rows)
    unusual = np.where(np.isnan(coded.numbers), -np.log(often) / 2, np.abs(coded.numbers))
    unusual[often > 1 - 1 / len(rows)] = -1  # constant

    def drawn(positions: np.ndarray, _: int) -> tuple[Drawing, ...]:
        top = np.argsort(-unusual[positions], axis=1, kind="stable")[:, :N_FEATURES]
        return tuple(
            Drawing(
                values=tuple(
                    (coded.names[c], value_text(rows[int(c)][int(i)].as_py()) or "missing")
                    for c in columns
                )
            )
            for i, columns in zip(positions, top, strict=True)
        )

    return drawn


PER_CLASS = 12


MAX_CARDS = 400


def sample_texts(samples: SampleSet, position: SupportsIndex) -> dict[str, Any]:
    """Fields of a Card that are the sample's own: id, label, truth ("" if right), class_index."""
    given = label_text(samples.class_names, samples.y[position])
    truth = given
    if samples.true_y is not None:
        truth = label_text(samples.class_names, samples.true_y[position])
    return {
        "id": str(samples.ids[position]),
        "label": given,
        "truth": truth if truth != given else "",
        "class_index": int(samples.y[position]) if samples.is_classification else -1,
    }


def heat_limit(values: Float[np.ndarray, "..."]) -> float:
    """Where the colours of maps end: the 99th percentile of the sizes that are not 0, or 1."""
    size = np.abs(values)
    size = size[size > 0]
    return float(np.percentile(size, PERCENTILE)) if len(size) else 1.0


def heat_image(
    values: Float[np.ndarray, "height width"],
    limit: float,
    under: Float[np.ndarray, "height width"] | None = None,
) -> str:
    """[H, W] values as a PNG, a pixel each; the sample `under` it is grey where they are small."""
    share = np.clip(values / limit, -1, 1)
    colour = np.where((share < 0)[..., None], _shade(-share, BELOW), _shade(share, ABOVE))
    if under is not None:
        paper = 255 - INK * np.clip(under, 0, 1)[..., None]
        cover = np.sqrt(np.abs(share))[..., None]  # what carries no value shows the sample
        colour = cover * colour + (1 - cover) * paper
    return png(colour.round().astype(np.uint8), max(values.shape))


def _shade(share: np.ndarray, stops: tuple[tuple[int, ...], ...]) -> np.ndarray:
    place = np.linspace(0, 1, len(stops))
    channels = [np.interp(share, place, channel) for channel in zip(*stops, strict=True)]
    return np.stack(channels, axis=-1)
