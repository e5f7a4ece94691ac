"""Regression: wrong targets that are the right ones in another unit, or of the other sign."""

from collections.abc import Callable
from math import log10

import torch
from jaxtyping import Float
from torch import Tensor

# Between units that are mixed up: decimal places, months and years, hours, minutes, weeks. Smaller
# ones, as of inches and pounds, cannot be told from targets that are just large.
FACTORS = (10.0, 100.0, 1000.0, 1e6, 12.0, 24.0, 60.0, 7.0)
# A factor is taken if it raises the log-likelihood by GAIN nats, and by as many more than factors
# BESIDE times as large or small do: where these do as well it is no unit, but how right targets
# differ from Student's t.
GAIN = 4.0
BESIDE = 2.718
SHARES = torch.logspace(-3, log10(0.5), 20, dtype=torch.float64)  # of wrong targets, tried
MOST_TARGETS = 20_000  # by which a factor is chosen
LOST = 1.0  # nats that the largest possible share may lose


def weigh_factor(
    targets: Float[Tensor, " n"], log_density: Callable[[Tensor], Tensor],
    explained: Float[Tensor, " n"], is_bent: bool,
) -> tuple[Float[Tensor, " n"], float]:  # fmt: skip
    """Return P(target is wrong by a common factor), [n], and the largest plausible share of it.

    A unit mixed up multiplies all wrong targets by one factor. Both are 0 unless one explains them.

    Args:
        targets: y, or asinh(y / c).
        log_density: returns the log density of right targets at given values.
        explained: log density of each target under the fit without a factor.
        is_bent: whether targets are asinh(y / c).
    """
    step = -(-len(targets) // MOST_TARGETS)

    def likelihood_ratio(factor: float) -> Float[Tensor, " n"]:  # of the factor to `explained`
        if not is_bent:
            return (log_density(targets / factor) - explained).exp() / abs(factor)
        y = torch.sinh(targets)
        slope = ((1 + y**2) / (factor**2 + y**2)).log() / 2
        return (log_density(torch.asinh(y / factor)) + slope - explained).exp()

    def gains(factor: float) -> Float[Tensor, " shares"]:  # of the log-likelihood, nats
        return (SHARES[:, None] * (likelihood_ratio(factor)[::step] - 1)).log1p().sum(1)

    factors = (-1.0, *FACTORS, *(1 / factor for factor in FACTORS))
    gains_of = {factor: gains(factor) for factor in factors}
    best_factor = max(gains_of, key=lambda factor: float(gains_of[factor].max()))
    gain = gains_of[best_factor].max()
    gain_beside = max(0.0, *(float(gains(best_factor * f).max()) for f in (BESIDE, 1 / BESIDE)))
    if not gain - gain_beside > GAIN:
        return torch.zeros_like(targets), 0.0
    share = SHARES[gains_of[best_factor].argmax()]
    odds = share / (1 - share) * likelihood_ratio(best_factor)
    return odds / (1 + odds), float(SHARES[gains_of[best_factor] >= gain - LOST].max())
