"""What an encoder is: weights, what it reads, and one batch of samples to its embeddings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn


@dataclass(frozen=True, slots=True)
class Embedded:
    """A batch's embeddings.

    Attributes:
        values: one row a sample.
        cut: which texts were longer than the encoder reads; images never are.
    """

    values: Float[Tensor, "b width"]
    cut: Bool[np.ndarray, " b"]


@dataclass(frozen=True, slots=True)
class Encoder:
    """A pretrained network that is not trained any more.

    Attributes:
        name: as `features:NAME` has it.
        reads: "image": [channels, height, width] in [0, 1] with 1 or 3 channels, of any size;
            "text": a string.
        recipe: what is done to one sample, in words.
        network: in evaluation mode, in float32.
        width: numbers of an embedding.
        prepare: one sample as the network takes it; so large images are not held at once.
        embed: prepared samples, and the device that the network is on → their embeddings.
        limit: tokens of a text that are read, special ones among them; 0 for images.
        digest: SHA-256 of the weights' file; empty: what was downloaded, which has no known one.
    """

    name: str
    reads: Literal["image", "text"]
    recipe: str
    network: nn.Module
    width: int
    prepare: Callable[[Any], Any]
    embed: Callable[[list[Any], torch.device], Embedded]
    limit: int = 0
    digest: str = ""


def image_embedded(values: Tensor) -> Embedded:
    """Embeddings of images, none of which is cut."""
    # values: [b, width].
    return Embedded(values, np.zeros(len(values), dtype=bool))


def masked_mean(states: Tensor, mask: Tensor) -> Tensor:
    """The mean of a text's token states, scaled to length 1.

    Args:
        states: [b, length, width], the network's last layer.
        mask: [b, length], 1 where there is a token and 0 where there is padding.

    Returns:
        [b, width]; padding counts for nothing.

    Source: all-MiniLM-L6-v2's own modules.json: mean pooling with the attention mask, then
        normalisation. Deviates nowhere.
    """
    weight = mask[:, :, None].to(states.dtype)
    mean = (states * weight).sum(1) / weight.sum(1).clamp(min=1)
    return torch.nn.functional.normalize(mean, dim=1)
