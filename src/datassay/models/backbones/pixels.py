"""The preparation of an image for an image encoder."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

GREY = 1


@dataclass(frozen=True, slots=True)
class PixelPreparation:
    """Crop to a square in the middle, resize, repeat a grey channel, scale.

    Attributes:
        side: pixels of the result.
        mean: subtracted from pixels in [0, 1]; one number, or one per channel.
        deviation: divisor of the centred pixels, likewise.
        crop: side of the square in the middle, in sides of the smaller dimension.
        mode: of torch's interpolate, with antialiasing where images are made smaller.
    """

    side: int
    mean: float | Sequence[float]
    deviation: float | Sequence[float]
    crop: float = 1.0
    mode: str = "bicubic"

    def __call__(self, image: Any) -> Float[Tensor, "3 side side"]:
        """Prepare one image as the network's training images were: crop, resize and scale it.

        Args:
            image: [channels, height, width] in [0, 1], 1 or 3 channels, of any size.

        Returns:
            Float32, on the CPU. What bicubic interpolation adds beyond [0, 1] is cut off, as
            8-bit images would have it.
        """
        pixels = torch.as_tensor(image, dtype=torch.float32)[None]
        height, width = pixels.shape[2:]
        length = max(1, round(self.crop * min(height, width)))  # of the square's side
        row = (height - length) // 2
        column = (width - length) // 2
        middle = pixels[:, :, row : row + length, column : column + length]
        if length != self.side:
            middle = functional.interpolate(
                middle, size=(self.side, self.side), mode=self.mode, antialias=True
            ).clamp(0, 1)
        if middle.shape[1] == GREY:
            middle = middle.expand(-1, 3, -1, -1)
        mean, deviation = (
            torch.as_tensor(value, dtype=torch.float32).reshape(-1, 1, 1)
            for value in (self.mean, self.deviation)
        )
        return (middle[0] - mean) / deviation

    @property
    def words(self) -> str:
        """The preparation in words, for a page."""
        area = "the middle square"
        if self.crop != 1:
            area = f"{self.crop:.3g} of the middle square"
        return f"{area} at {self.side}×{self.side} pixels ({self.mode})"
