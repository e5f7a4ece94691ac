"""Settings of `taylor_sample`, each default once; nothing heavy is imported here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sampling:
    """How a function is sampled where it changes most.

    Attributes:
        n_initial: N, initial points.
        n_new: N', new points.
        order: n, the highest order of derivatives.
        epsilon: ε, a variance in units of x squared: weighs the orders.
        n_components: Gaussians in the mixture.
        initial: "uniform" or "grid".
        derivatives: "auto", "autograd" or "finite".
        floor: added to the variances of the mixture, in widths of the domain squared; None: of the
            cell that each initial point stands for.
        max_tries: draws a new point, on average, before this is given up.
        seed: of all draws.
    """

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
