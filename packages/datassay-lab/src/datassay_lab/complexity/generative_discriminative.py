"""Naive Bayes reaches its error with few samples; logistic regression, later, a lower one."""

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from jaxtyping import Float

from datassay.progress import Progress, silent
from datassay_lab.checks import Agreement, check_args, positive, rising_whole, whole
from datassay_lab.curves import Figures, add_data, add_titles, axes, theory
from datassay_lab.fits import track

SIZES = (20, 40, 80, 160, 320, 640, 1280, 2560, 5120)
NAMES = ("naive Bayes", "logistic regression")
PENALTY = 0.01  # of the logistic loss, so that separable samples have a minimum
NEWTON_STEPS = 60


@dataclass(frozen=True, slots=True)
class GenerativeDiscriminative:
    """Exact errors of both classifiers against the number of samples."""

    sizes: Float[np.ndarray, " m"]  # training samples
    errors: Float[np.ndarray, "two m r"]  # of naive Bayes and logistic regression on r draws each
    limits: Float[np.ndarray, " two"]  # their errors with unlimited samples

    @property
    def agreement(self) -> Agreement:
        """The smaller of two margins: naive Bayes' on the fewest samples, the other's on most."""
        margin = np.diff(self.errors.mean(axis=2), axis=0)[0]
        measure = "smaller margin: naive Bayes on fewest samples, the other on most"
        return Agreement(measure, float(min(margin[0], -margin[-1])), 0.015, "at least")


@check_args
def generative_discriminative(
    *,
    n_features: Annotated[int, whole(4)] = 40,
    correlation: Annotated[float, positive(1.0)] = 0.1,
    separation: Annotated[float, positive()] = 1.2,
    sizes: Annotated[tuple[int, ...], rising_whole(4, count=4)] = SIZES,
    repeats: Annotated[int, whole()] = 20,
    seed: int = 0,
    progress: Progress = silent,
) -> GenerativeDiscriminative:
    """Compare classifiers of two Gaussian classes whose first d/2 features correlate.

    x | y = ±1 ~ N(y μ, Σ), all means are equal; the first d/2 features are correlated, and naive
    Bayes counts their shared information once per feature.

    Args:
        n_features: d.
        correlation: among the first half of them, in (0, 1).
        separation: |μ|, in standard deviations of a feature.
        sizes: training samples, increasing.
        repeats: draws of each size.
        seed: of the draws.
        progress: called after each draw.

    Returns:
        Errors, in closed form for the weights found, so without test samples.

    Cost: repeats · Σ sizes · d² multiplications per Newton step; about 2 s.
    Source: S2 class 5, "Generative vs discriminative model"; Ng and Jordan (2001). Variances are
    shared by the classes, as theirs, so that both classifiers are linear. Deviates in a small
    penalty on the logistic loss, which has no minimum on separable samples.
    """
    rng = np.random.default_rng(seed)
    mean = np.full(n_features, separation / math.sqrt(n_features))
    covariance, half = np.eye(n_features), n_features // 2
    covariance[:half, :half] += correlation * (1 - np.eye(half))
    root = np.linalg.cholesky(covariance)
    errors = np.empty((2, len(sizes), repeats))
    for m, repeat in track(np.ndindex(errors.shape[1:]), progress, "train classifiers"):
        y = np.where(np.arange(sizes[m]) % 2, 1.0, -1.0)
        x = y[:, None] * mean + rng.normal(size=(len(y), len(mean))) @ root.T
        for index, fit in enumerate((_naive_bayes, _logistic)):
            errors[index, m, repeat] = _error(*fit(x, y), mean, covariance)
    best_weights = [mean, np.linalg.solve(covariance, mean)]
    limits = np.array([_error(w, 0.0, mean, covariance) for w in best_weights])
    return GenerativeDiscriminative(np.array(sizes, float), errors, limits)


@add_titles
def generative_discriminative_plots(result: GenerativeDiscriminative) -> Figures:
    """Draw errors against the samples, and their distance from each limit."""
    error = axes("training samples", "error on fresh samples", log="x")
    excess = axes("training samples", "error above its own limit", log="xy")
    for index, name in enumerate(NAMES):
        errors = result.errors[index]
        spread = errors.std(axis=1) / math.sqrt(errors.shape[1])
        mean = errors.mean(axis=1)
        add_data(error, result.sizes, mean, name, series=index, spread=spread)
        limit = np.full(len(mean), result.limits[index])
        is_last = index == len(NAMES) - 1
        theory(error, result.sizes, limit, "limits" if is_last else "")
        # A draw may do better than naive Bayes' limit, which is not the least error.
        positive_excess = np.where(mean > limit, mean - limit, np.nan)
        add_data(excess, result.sizes, positive_excess, name, series=index)
    return error, excess


def _naive_bayes(
    x: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, " d"], float]:
    """Return weights and offset of the log odds, one variance per feature."""
    high, low = x[y > 0].mean(axis=0), x[y < 0].mean(axis=0)
    centred = np.where(y[:, None] > 0, x - high, x - low)
    w = (high - low) / (centred**2).mean(axis=0)
    return w, float(-w @ (high + low) / 2)


def _logistic(
    x: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, " d"], float]:
    """Fit the minimum of Σ log(1 + e^(−y f)) + (λ/2) ‖w‖², by Newton's method, halving steps."""
    rows = np.column_stack([x, np.ones(len(x))])
    decay = np.append(np.full(x.shape[1], PENALTY), 1e-8)
    w = np.zeros(rows.shape[1])

    def loss(w: np.ndarray) -> float:
        return float(np.logaddexp(0, -y * (rows @ w)).sum() + decay @ w**2 / 2)

    for _ in range(NEWTON_STEPS):
        p = 1 / (1 + np.exp(np.clip(y * (rows @ w), -500, 500)))
        gradient = -rows.T @ (y * p) + decay * w
        hessian = (rows.T * (p * (1 - p))) @ rows + np.diag(decay)
        step = np.linalg.solve(hessian, gradient)
        if gradient @ step < 1e-10:
            break
        scale = 1.0
        while scale > 1e-6 and loss(w - scale * step) > loss(w):
            scale /= 2
        w = w - scale * step
    return w[:-1], float(w[-1])


def _error(w: np.ndarray, offset: float, mean: np.ndarray, covariance: np.ndarray) -> float:
    """Return the probability of the wrong sign of w·x + b, both classes equally frequent."""
    spread = math.sqrt(2 * w @ covariance @ w)
    margin = float(w @ mean)
    return sum(math.erfc((margin + side * offset) / spread) for side in (1, -1)) / 4
