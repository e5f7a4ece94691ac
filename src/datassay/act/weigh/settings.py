"""Settings of weights by local variance, each default once; nothing heavy is imported here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Weighting:
    """How samples are weighed.

    Attributes:
        n_neighbors: k, the sample itself among them.
        max_ratio: m, the largest weight divided by the smallest possible.
        search: "exact", "approximate" or "auto", as for `nearest_neighbors`.
        density: whether to divide the variance by the density of the samples.
        density_clip: how far above or below its median the density may be.
        seed: of weights and batches.
    """

    n_neighbors: int = 20
    max_ratio: float = 40
    search: str = "auto"
    density: bool = False
    density_clip: float = 10
    seed: int = 0
