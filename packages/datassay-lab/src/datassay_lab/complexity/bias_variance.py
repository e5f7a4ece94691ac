"""Test error is bias² plus variance plus noise."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from jaxtyping import Float

from datassay.progress import Progress, silent
from datassay_lab.checks import Agreement, check_args, one_of, positive, rising, whole
from datassay_lab.curves import Figures, add_data, add_titles, axes, theory
from datassay_lab.fits import track

PENALTIES = (1e-4, 1e-3, 1e-2, 0.1, 0.3, 1.0, 2.0, 4.0, 8.0, 16.0)
TARGETS = ("fresh", "training")


@dataclass(frozen=True, slots=True)
class BiasVariance:
    """A decomposition from one half of the data sets, a test error from the other half."""

    penalties: Float[np.ndarray, " a"]  # λ, increasing
    test_error: Float[np.ndarray, " a"]  # mean squared error on targets of the second half's inputs
    parts: Float[np.ndarray, "two a"]  # bias² and variance, over the first half's fits
    expected: Float[np.ndarray, "two a"]  # the same in closed form
    noise: float  # its variance, squared unit of the targets
    x: Float[np.ndarray, " n"]  # the inputs
    target: Float[np.ndarray, " n"]  # h(x)
    fits: Float[np.ndarray, "two some n"]  # of some data sets at the least and the largest penalty

    @property
    def agreement(self) -> Agreement:
        """The largest gap between test error and the sum of its parts."""
        total = self.parts.sum(axis=0) + self.noise
        gap = float(np.abs(self.test_error / total - 1).max())
        return Agreement("largest relative gap, test error to bias² + variance + noise", gap, 0.05)


@check_args
def bias_variance(
    *,
    n_samples: Annotated[int, whole(2)] = 25,
    n_features: Annotated[int, whole()] = 24,
    noise: Annotated[float, positive()] = 0.3,
    penalties: Annotated[tuple[float, ...], rising(1e-12)] = PENALTIES,
    draws: Annotated[int, whole(16)] = 2000,
    targets: Annotated[str, one_of(TARGETS)] = "fresh",
    seed: int = 0,
    progress: Progress = silent,
) -> BiasVariance:
    """Fit Gaussian bumps with a ridge to many noisy draws of one sine.

    E (t' − f(x))² = (E f − h)² + E (f − E f)² + σ²,   f = S t,   S = Φ (ΦᵀΦ + λ)⁻¹ Φᵀ

    Args:
        n_samples: inputs, evenly spaced on [0, 1].
        n_features: Gaussian bumps of width 0.1.
        noise: standard deviation σ, positive.
        penalties: λ, increasing.
        draws: data sets, one half for the parts and one for the test error.
        targets: "fresh", noise drawn anew, or "training", the targets that were fitted: then the
            error lacks 2 σ² tr S / n.
        seed: of the draws.
        progress: called after each penalty.

    Returns:
        Error and parts, measured and in closed form.

    Cost: penalties · draws · n² multiplications; about a second.
    Source: S2 class 2, "Classical bias variance", a figure without its formula; Bishop (2006),
    §3.2. Exact in expectation. Deviates: the inputs are the same in every draw, so that
    bias² = ‖(S − I) h‖² / n and variance = σ² tr SSᵀ / n.
    """
    rng = np.random.default_rng(seed)
    x = np.linspace(0, 1, n_samples)
    features = np.exp(-((x[:, None] - np.linspace(0, 1, n_features)) ** 2) / 2 / 0.1**2)
    u, s, _ = np.linalg.svd(features, full_matrices=False)
    h, half = np.sin(2 * np.pi * x), draws // 2
    t = h + noise * rng.normal(size=(draws, n_samples))
    test_targets = h + noise * rng.normal(size=(draws, n_samples)) if targets == "fresh" else t
    error, parts, expected, fits = [], [], [], []
    for penalty in track(penalties, progress, "bias and variance"):
        smoother = (u * (s**2 / (s**2 + penalty))) @ u.T  # S of f = S t
        f = t @ smoother.T
        middle = f[:half].mean(axis=0)
        parts.append([((middle - h) ** 2).mean(), ((f[:half] - middle) ** 2).mean()])
        squared_bias = ((smoother @ h - h) ** 2).mean()
        expected.append([squared_bias, noise**2 * (smoother**2).sum() / n_samples])
        error.append(((test_targets[half:] - f[half:]) ** 2).mean())
        fits.append(f[:8])
    return BiasVariance(
        np.array(penalties, float), np.array(error), np.array(parts).T, np.array(expected).T,
        float(noise) ** 2, x, h, np.array([fits[0], fits[-1]]),
    )  # fmt: skip


@add_titles
def bias_variance_plots(result: BiasVariance) -> Figures:
    """Draw error and its parts against the penalty, and fits at both ends."""
    figure = axes("penalty λ", "mean squared error", log="x")
    add_data(figure, result.penalties, result.test_error, "test error", mode="markers", series=0)
    for index, name in enumerate(("bias²", "variance")):
        add_data(
            figure, result.penalties, result.parts[index], name, mode="markers", series=index + 1
        )
        theory(figure, result.penalties, result.expected[index], "")
    total = result.expected.sum(axis=0) + result.noise
    theory(figure, result.penalties, total, "closed form")
    theory(figure, result.penalties, np.full(len(total), result.noise), "noise", colour="#8a94a0")
    ends = []
    for fits in result.fits:
        ends.append(axes("x", "target and fits", height=300))
        add_data(ends[-1], result.x, fits, "one data set each", mode="lines")
        theory(ends[-1], result.x, result.target, "h(x)")
    return figure, *ends
