"""Defaults of weighing, whose docstring explains them; nothing heavy is imported here."""

from collections.abc import Mapping
from dataclasses import dataclass

# Ways to weigh samples: name → its text for readers.
METHODS: Mapping[str, str] = {
    "local_variance": "local variance",
    "balanced_variance": "class-balanced local variance",
    "class_balanced": "class-balanced",
    "self_paced": "self-paced",
    "active_bias": "Active Bias",
}


@dataclass(frozen=True)
class Weighting:
    """Settings of `sample_weights`: how samples are weighed by local variance."""

    n_neighbors: int = 20
    max_ratio: float = 40
    search: str = "auto"
    density: bool = False
    density_clip: float = 10
    seed: int = 0
