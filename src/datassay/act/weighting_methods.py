"""The weightings by name, each from what one run over the data gives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from torch import Tensor, nn

from datassay.act.weight import SampleWeights, weights_of_variance
from datassay.data.samples import SampleSet
from datassay.score.local_variance import LocalVariance

METHODS = {
    "local_variance": "local variance",
    "class_balanced": "class-balanced",
}
"""Name → how it reads."""
DENSITY_CLIP = 10.0


@dataclass(frozen=True, slots=True, eq=False)
class Watched:
    """A network, and what was seen of the samples while it was trained.

    Attributes:
        model: trained; None where no weighting and no features need one.
    """

    model: nn.Module | None = None

    @classmethod
    def of(cls, method: str, samples: SampleSet) -> Watched:
        """Ready to watch a training, where the method needs that."""
        return cls()

    def observe(self, positions: Tensor, outputs: Tensor) -> None:
        """The hook of `train_networks`."""


def weigh(
    method: str,
    samples: SampleSet,
    local: LocalVariance,
    watched: Watched,
    *,
    n_columns: int,
    max_ratio: float = 40,
    density: bool = False,
) -> SampleWeights:
    """Weights by one of METHODS.

    Args:
        method: its name.
        samples: n samples.
        local: their local variances, for "local_variance".
        watched: the network and its history, for "self_paced" and "active_bias".
        n_columns: of the features that the neighbours were searched in.
        max_ratio: m of local variance.
        density: whether local variance is divided by the density.

    Returns:
        The weights, summing to 1.
    """
    if method == "local_variance":
        clip = DENSITY_CLIP if density else None
        return weights_of_variance(local, samples.ids, max_ratio, clip, n_columns)
    return SampleWeights(_rival(method, samples, watched), samples.ids, method)


def rival_of(method: str, samples: SampleSet) -> str | None:
    """The weighting to compare with: class-balanced, or local variance where that is it.

    Args:
        method: what was asked for.
        samples: n samples.

    Returns:
        Its name; None for a regression by local variance, which has no such rival.
    """
    if method != "local_variance":
        return "local_variance"
    return "class_balanced" if samples.is_classification else None


def _rival(method: str, samples: SampleSet, watched: Watched) -> Float[np.ndarray, " n"]:
    counts = np.bincount(samples.y, minlength=samples.n_classes)
    beta = 0.999
    each = (1 - beta) / (1 - beta ** counts[samples.y])
    return each / each.sum()
