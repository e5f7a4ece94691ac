"""Defaults of `taylor_sample`, whose docstring explains them; nothing heavy is imported here."""

from dataclasses import dataclass


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
