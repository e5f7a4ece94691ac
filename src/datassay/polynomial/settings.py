"""Settings of polynomial regression, each default once; nothing heavy is imported here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Regression:
    """Defaults of the products of inputs, and of how their coefficients are fitted."""

    degree: int = 2
    solver: str = "exact"
    ridge: float | str = "auto"
    n_batches: int = 60
    batch_size: int = 2000
    precision: str = "auto"
    store: str | None = None
    seed: int = 0
