"""How one sample looks on a card: a picture, a text, or its most unusual values."""

import base64
import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, SupportsIndex
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Shaped

from datassay.data.samples import SampleSet
from datassay.data.strings import Texts
from datassay.optional import coalesce, text_if
from datassay.report.wording import label_text, quantity, value_text

PER_CLASS, MAX_CARDS = 12, 400
MAX_SIDE = 96
CHANNELS = {1, 2, 3, 4}
MAX_TEXT = 200
N_FEATURES = 6
READ = {"number", "boolean", "date", "category"}
SHORT, LOOKED_AT = 100, 1000  # characters of a short text; texts that are looked at to tell
# Blue and orange are distinguished with every kind of colour blindness; lightness is the same on
# both sides, so that a grey print shows sizes.
BELOW = ((255, 255, 255), (79, 159, 204), (0, 74, 119))
ABOVE = ((255, 255, 255), (238, 154, 90), (152, 58, 0))
PERCENTILE = 99.0  # of a map's sizes, where its colours end
INK = 70  # how much darker than the paper the sample itself is drawn


@dataclass(frozen=True, slots=True)
class Drawing:
    """One sample, ready to show; exactly one of the three parts is set."""

    image: str = ""  # a data URI: a PNG, or a JPEG of an image of more than MAX_SIDE pixels
    text: str = ""  # plain text, cut to 200 characters
    full_text: str = ""  # plain text, cut to 600 characters, for a tooltip
    values: tuple[tuple[str, str], ...] = ()  # (name, value) pairs, most unusual first


Draw = Callable[[Shaped[np.ndarray, " m"], int], tuple[Drawing, ...]]
"""Called with positions and the pixels that an image may be wide or high; gives a drawing each."""


def draw(
    samples: SampleSet, positions: Shaped[np.ndarray, " m"], side: int = MAX_SIDE
) -> tuple[Drawing, ...]:
    """Draw each sample as its kind is shown.

    An image that has no image's shape, and a text without text, are listed as rows.

    Args:
        samples: the whole set, which fixes the grey scale and what is unusual.
        positions: [m], which samples.
        side: pixels that an image may be wide or high.

    Returns:
        [m] drawings.
    """
    return drawer(samples)(positions, side)


# Of samples in rows, as long as they live: each gallery of a page asks.
_ROW_DRAWERS: WeakKeyDictionary[SampleSet, Draw] = WeakKeyDictionary()


def drawer(samples: SampleSet) -> Draw:
    """Return a function from positions to drawings of these samples."""
    shape = samples.input_shape
    has_channels = len(shape) == 3 and (shape[0] in CHANNELS or shape[2] in CHANNELS)
    has_pixels = samples.images is not None or len(shape) == 2 or has_channels
    if samples.kind == "image" and has_pixels:
        images = coalesce(samples.images, samples.x)
        low = 0.0  # of files
        high = 1.0
        if isinstance(images, np.ndarray):
            low = float(images.min())
            high = float(images.max())
        scale = 0.0
        if high > low:
            scale = 255 / (high - low)
        return lambda positions, side: tuple(
            _draw_image((_move_channels(images[int(i)]) - low) * scale, side) for i in positions
        )
    texts = shown_texts(samples)
    if texts is not None:
        return lambda positions, _: tuple(_draw_text(str(texts[i])) for i in positions)
    if samples in _ROW_DRAWERS:
        return _ROW_DRAWERS[samples]
    rows = samples.used_rows
    if rows is not None and rows.num_columns:
        _ROW_DRAWERS[samples] = _make_row_drawer(rows)
        return _ROW_DRAWERS[samples]
    x = np.asarray(samples.x, np.float64).reshape(len(samples), -1)
    mean = x.mean(axis=0)
    deviation = x.std(axis=0)
    names = samples.feature_names
    unit = np.where(deviation > 0, deviation, 1.0)

    def value(i: int, j: int) -> tuple[str, str]:
        return names[j] if j < len(names) else f"x{j}", quantity(x[i, j])

    return lambda index, _: _draw_unusual(np.abs(x[index] - mean) / unit, index, value)


def shown_texts(samples: SampleSet) -> np.ndarray | Texts | None:
    """Return the texts to show samples by; None if other columns of the table say more."""
    texts = None
    if samples.kind == "text":
        texts = samples.texts
    kinds = {column.read_as for column in samples.columns} & READ
    if texts is None or samples.rows is None or not kinds:
        return texts
    if max(map(len, texts[:LOOKED_AT])) <= SHORT:
        return None
    return texts


def _draw_unusual(
    unusual: np.ndarray, positions: np.ndarray, value: Callable[[int, int], tuple[str, str]]
) -> tuple[Drawing, ...]:
    """Return a drawing of each row by its most unusual values; `unusual`: score, [m, d]."""
    top = np.argsort(-unusual, axis=1, kind="stable")[:, :N_FEATURES]
    return tuple(
        Drawing(values=tuple(value(int(i), int(c)) for c in columns))
        for i, columns in zip(positions, top, strict=True)
    )


def _move_channels(image: Any) -> np.ndarray:
    """Return an image as [h, w] or [h, w, 3], from [h, w], [c, h, w] or [h, w, c]."""
    image = np.asarray(image, np.float64)
    if image.ndim == 3 and image.shape[0] in CHANNELS:  # the loader's own order wins
        image = np.moveaxis(image, 0, -1)
    if image.ndim == 3:
        # Two channels have no colours: their mean. A fourth is opacity: dropped.
        if image.shape[2] < 3:
            image = image.mean(axis=-1)
        else:
            image = image[..., :3]
    return image


def _draw_image(grey: np.ndarray, side: int) -> Drawing:
    """Return grey values or colours in 0 … 255 as a PNG, or as a JPEG if large."""
    is_photograph = max(grey.shape[:2]) > MAX_SIDE
    pixels = grey.clip(0, 255).round().astype(np.uint8)
    return Drawing(image=_encode_uri(pixels, side, "JPEG" if is_photograph else "PNG"))


def _encode_uri(pixels: np.ndarray, side: int, image_format: str = "PNG") -> str:
    """Encode [H, W] or [H, W, 3] bytes as a data URI, scaled down to at most `side` pixels."""
    from PIL import Image  # only the report draws, so only it pays for the import

    picture = Image.fromarray(pixels)
    picture.thumbnail((side, side))
    stream = io.BytesIO()
    options = {"quality": 80} if image_format == "JPEG" else {}
    picture.save(stream, format=image_format, **options)
    body = base64.b64encode(stream.getvalue()).decode()
    return f"data:image/{image_format.lower()};base64,{body}"


def _draw_text(text: str) -> Drawing:
    """Return a text's drawing: its start for a card, more of it for the details."""
    text = " ".join(text.split())
    short_text = text
    if len(text) > MAX_TEXT:
        short_text = text[: MAX_TEXT - 1] + "…"
    return Drawing(text=short_text or "(empty)", full_text=text[:600])


def _make_row_drawer(rows: pa.Table) -> Draw:
    """Return a function that draws table rows by their extreme numbers and rarest words."""
    from datassay.score.checks.codes import row_codes  # slow to import

    coded = row_codes(rows)
    names = coded.names
    frequency = np.stack([np.bincount(code)[code] for code in coded.codes.T], 1) / len(rows)
    unusual = np.where(np.isnan(coded.numbers), -np.log(frequency) / 2, np.abs(coded.numbers))
    unusual[frequency > 1 - 1 / len(rows)] = -1  # constant columns last

    def value(i: int, c: int) -> tuple[str, str]:
        return names[c], value_text(rows[c][i].as_py()) or "missing"

    return lambda index, _: _draw_unusual(unusual[index], index, value)


def sample_texts(samples: SampleSet, position: SupportsIndex) -> dict[str, Any]:
    """Return fields of a sample's Card: id, label, true label ("" if equal), class index."""
    label = label_text(samples.class_names, samples.y[position])
    truth = label
    if samples.true_y is not None:
        truth = label_text(samples.class_names, samples.true_y[position])
    return {
        "id": str(samples.ids[position]),
        "label": label,
        "truth": text_if(truth != label, truth),
        "class_index": int(samples.y[position]) if samples.is_classification else -1,
    }


def heat_limit(values: Float[np.ndarray, "..."]) -> float:
    """Return the value at which colours saturate: 99th percentile of nonzero |values|, or 1."""
    magnitudes = np.abs(values)
    magnitudes = magnitudes[magnitudes > 0]
    if not len(magnitudes):
        return 1.0
    return float(np.percentile(magnitudes, PERCENTILE))


def heat_image(
    values: Float[np.ndarray, "height width"],
    limit: float,
    under: Float[np.ndarray, "height width"] | None = None,
) -> str:
    """Return a PNG of values [H, W], red and blue, over the grey sample `under` if given."""
    share = np.clip(values / limit, -1, 1)
    colour = np.where((share < 0)[..., None], _shade(-share, BELOW), _shade(share, ABOVE))
    if under is not None:
        paper = 255 - INK * np.clip(under, 0, 1)[..., None]
        cover = np.sqrt(np.abs(share))[..., None]  # 0 shows the sample alone
        colour = cover * colour + (1 - cover) * paper
    return _encode_uri(colour.round().astype(np.uint8), max(values.shape))


def _shade(share: np.ndarray, stops: tuple[tuple[int, ...], ...]) -> np.ndarray:
    """Return colours, [..., 3], interpolated between `stops` at shares from 0 to 1."""
    stop_positions = np.linspace(0, 1, len(stops))
    channels = [np.interp(share, stop_positions, channel) for channel in zip(*stops, strict=True)]
    return np.stack(channels, axis=-1)
