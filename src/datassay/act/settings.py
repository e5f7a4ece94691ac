"""Defaults of act's functions, whose docstrings explain them; nothing heavy is imported here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from datassay.score.settings import REMOVAL_ORDERS

# Rules by which `summarize` keeps samples; orders in which `purify` removes them, and rules by
# which it stops; ways to weigh samples: name → its text for readers.
KEEP_RULES = ("auto", "fit", "boundary", "margin", "random", "information")
ORDERS = ("auto", "cross_fit", *REMOVAL_ORDERS, "label_issues", "loss", "random")
STOPS = ("auto", "held_out", "inflection", "validation", "suspects", "none")
METHODS: Mapping[str, str] = {
    "local_variance": "local variance",
    "balanced_variance": "class-balanced local variance",
    "class_balanced": "class-balanced",
    "self_paced": "self-paced",
    "active_bias": "Active Bias",
}


@dataclass(frozen=True)
class Keeping:
    """Settings of `summarize`: which samples stay."""

    rule: str = "auto"
    iterative: bool = False
    seed: int = 0


@dataclass(frozen=True)
class Sampling:
    """Settings of `taylor_sample`: how a function is sampled where it changes most."""

    n_initial: int = 100
    n_new: int = 100
    order: int = 2
    epsilon: float = 1e-3
    n_components: int = 3
    initial: str = "uniform"
    derivatives: str = "auto"
    floor: float | None = None
    max_tries: int = 1000
    seed: int = 0


@dataclass(frozen=True)
class Weighting:
    """Settings of `sample_weights`: how samples are weighed by local variance."""

    n_neighbors: int = 20
    max_ratio: float = 40
    search: str = "auto"
    density: bool = False
    density_clip: float = 10
    seed: int = 0


@dataclass(frozen=True)
class Division:
    """Settings of `partition`: into how many blocks samples are divided, and how."""

    n_blocks: int | None = None
    max_blocks: int = 4
    loss: str = "auto"
    ridge: float = 1e-4
    damping: float = 0.01
    gate: str = "auto"
    seed: int = 0
    restarts: int = 8
    held_out: float = 0.2


@dataclass(frozen=True)
class Removal:
    """Settings of `purify`: how samples are removed, and when removal stops."""

    loss: str = "auto"
    ridge: float | None = None
    damping: float = 0.01
    order: str = "auto"
    stop: str = "auto"
    threshold: float | None = None
    step: int | None = None
    max_fraction: float = 0.5
    min_per_class: int = 10
    beyond: int = 0
    layers: str = "last"
    projection: int | str | None = "auto"
    seed: int = 0
