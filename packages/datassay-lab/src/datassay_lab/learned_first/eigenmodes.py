"""Gradient descent on a wide network learns along each eigenvector of the kernel like e^(−λτ)."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from jaxtyping import Float

from datassay.progress import Progress, silent
from datassay_lab.checks import Agreement, check_args, whole
from datassay_lab.curves import Figures, add_data, add_titles, axes, theory
from datassay_lab.fits import track
from datassay_lab.wide_network import (
    limit_kernels,
    sphere_samples,
    spread_steps,
    train_and_record,
    wide_network,
)

SHOWN = 5  # modes drawn over time


@dataclass(frozen=True, slots=True)
class Eigenmodes:
    """Remaining error along each eigenvector of the limit kernel."""

    eigenvalues: Float[np.ndarray, " n"]  # λ, descending
    times: Float[np.ndarray, " t"]  # τ = η · steps, in units of 1/λ
    start: Float[np.ndarray, "r n"]  # q_iᵀ (f₀ − y) of r networks
    left: Float[np.ndarray, "r t n"]  # q_iᵀ (f − y) over time

    @property
    def shares(self) -> Float[np.ndarray, "t n"]:
        """Share of each mode's error that is left: root of the squares over the networks."""
        return np.sqrt((self.left**2).sum(axis=0) / (self.start**2).sum(axis=0))

    @property
    def predicted(self) -> Float[np.ndarray, "t n"]:
        """e^(−λτ)."""
        return np.exp(-np.outer(self.times, self.eigenvalues))

    @property
    def agreement(self) -> Agreement:
        """The largest distance of all errors from the prediction, over time."""
        expected = self.start[:, None] * self.predicted
        gap = np.linalg.norm(self.left - expected, axis=2)
        error = float((gap / np.linalg.norm(self.start, axis=1)[:, None]).mean(axis=0).max())
        return Agreement("largest ‖error − prediction‖ / ‖first error‖", error, 0.045)


@check_args
def eigenmodes(
    *,
    n_samples: Annotated[int, whole(2)] = 40,
    n_inputs: Annotated[int, whole(2)] = 6,
    width: Annotated[int, whole()] = 8192,
    steps: Annotated[int, whole()] = 3000,
    repeats: Annotated[int, whole()] = 2,
    seed: int = 0,
    progress: Progress = silent,
) -> Eigenmodes:
    """Train a wide network and project its error on the eigenvectors of the analytic kernel.

    q_iᵀ (f_τ − y) = e^(−λ_i τ) q_iᵀ (f₀ − y),   Θ = Q Λ Qᵀ

    Args:
        n_samples: n, on the unit sphere.
        n_inputs: d.
        width: m.
        steps: of gradient descent, η = 0.1 / λ₁, small enough to be gradient flow.
        repeats: networks.
        seed: of samples and weights.
        progress: called after each network.

    Returns:
        Errors by mode and time.

    Cost: 12 n d m · steps · repeats operations; about 20 s.
    Source: S2 class 2, "Implicit regularization: NTK solution". The kernel is the analytic one of
    infinite width, known before the network is drawn. S2 sets f₀ = 0, which a random network of
    this scaling does not have; here f₀ is kept. S2 also mixes the step size into τ (η on one
    slide, not on the next).
    """
    rng = np.random.default_rng(seed)
    x, y = sphere_samples(n_samples, n_inputs, rng)
    values, vectors = np.linalg.eigh(limit_kernels(x, x).tangent)
    values, vectors = values[::-1], vectors[:, ::-1]
    rate, record_steps = 0.1 / values[0], spread_steps(steps)
    remaining = np.empty((repeats, len(record_steps), n_samples))
    for repeat in track(range(repeats), progress, "train networks"):
        model = wide_network(n_inputs, width, int(rng.integers(2**31)))
        outputs = train_and_record(model, x, y, rate=rate, record_steps=record_steps).outputs
        remaining[repeat] = (outputs - y) @ vectors
    return Eigenmodes(values.copy(), rate * record_steps, remaining[:, 0], remaining)


@add_titles
def eigenmodes_plots(result: Eigenmodes) -> Figures:
    """Draw some modes' remaining share over time, and each mode's half time."""
    shares = axes("time τ = η · steps", "share of the mode's error left", log="x")
    modes = np.geomspace(1, len(result.eigenvalues), SHOWN).round().astype(int) - 1
    rows = result.times > 0
    for index, mode in enumerate(np.unique(modes)):
        name = f"λ<sub>{mode + 1}</sub> = {result.eigenvalues[mode]:.2g}"
        values = result.shares[rows, mode]
        add_data(shares, result.times[rows], values, name, series=index, mode="markers")
        law = result.predicted[rows, mode]
        theory(shares, result.times[rows], law, "e<sup>−λτ</sup>" if mode == modes[-1] else "")
    half_figure = axes("eigenvalue λ", "time until half is learned", log="xy")
    half_times = _half_times(result)
    add_data(half_figure, result.eigenvalues, half_times, "one mode each", mode="markers")
    theory(half_figure, result.eigenvalues, np.log(2) / result.eigenvalues, "ln 2 / λ")
    return shares, half_figure


def _half_times(result: Eigenmodes) -> Float[np.ndarray, " n"]:
    """Return when the share first falls below a half; NaN where it does not."""
    shares, times = result.shares, np.full(len(result.eigenvalues), np.nan)
    for mode in range(len(times)):
        crossings = np.flatnonzero(shares[:, mode] < 0.5)
        if len(crossings):
            k = crossings[0]
            pair, (start, end) = shares[k - 1 : k + 1, mode], result.times[k - 1 : k + 1]
            times[mode] = start + (pair[0] - 0.5) / (pair[0] - pair[1]) * (end - start)
    return times
