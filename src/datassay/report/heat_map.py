"""Numbers over an image as a picture: one colour below 0, one above, white at 0."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from datassay.report.drawing import png

# Blue and orange are told apart with every kind of colour blindness; lightness is the same on
# both sides, so that a grey print shows sizes.
BELOW = ((255, 255, 255), (79, 159, 204), (0, 74, 119))
ABOVE = ((255, 255, 255), (238, 154, 90), (152, 58, 0))
PERCENTILE = 99.0
INK = 70  # how much darker than the paper the sample itself is drawn


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
