"""Test error peaks where features are as many as samples, and falls again beyond."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from jaxtyping import Float

from datassay.progress import Progress, silent
from datassay_lab.checks import Agreement, check_args, positive, refuse_if, rising, whole
from datassay_lab.curves import Figures, add_data, add_titles, axes, theory

RATIOS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0)
N_TEST = 500
PENALTIES = np.geomspace(1e-4, 1e4, 33)  # tried by the tuned ridge, in units of p / n


@dataclass(frozen=True, slots=True)
class DoubleDescent:
    """Test errors of least squares on p features, of smallest norm where many fit."""

    ratios: Float[np.ndarray, " p"]  # features / samples
    # on random ReLU features: with the given penalty, and with the best one for each draw, chosen
    # on other samples than the error is measured on.
    errors: Float[np.ndarray, "two draws p"]
    norms: Float[np.ndarray, "draws p"]  # ‖w‖ of the first
    # risk on a part of independent Gaussian features, without penalty.
    plain: Float[np.ndarray, "draws p"]
    predicted: Float[np.ndarray, " p"]  # its expectation; NaN where it is infinite

    @property
    def peak(self) -> float:
        """Features / samples where the median test error is largest."""
        return float(self.ratios[np.median(self.errors[0], axis=0).argmax()])

    @property
    def agreement(self) -> Agreement:
        """How far the peak is from as many features as samples."""
        return Agreement("distance of the peak's p / n from 1", abs(self.peak - 1), 0.15)


@check_args
def double_descent(
    *,
    n_samples: Annotated[int, whole(10)] = 100,
    n_inputs: Annotated[int, whole()] = 20,
    noise: Annotated[float, positive()] = 0.5,
    ratios: tuple[float, ...] = RATIOS,
    penalty: float = 0.0,
    draws: Annotated[int, whole()] = 20,
    seed: int = 0,
    progress: Progress = silent,
) -> DoubleDescent:
    """Fit least squares on more and more random features of the same noisy samples.

    w = argmin ‖w‖ among the minima of ‖y − Φ w‖²,   Φ = relu(X W) / √p

    Args:
        n_samples: n.
        n_inputs: d; the target is linear in them, of variance 1, plus noise.
        noise: standard deviation, positive.
        ratios: p / n, increasing.
        penalty: λ of ‖y − Φ w‖² + λ ‖w‖²; 0 is least squares of smallest norm.
        draws: of samples and features.
        seed: of the draws.
        progress: called after each fit.

    Returns:
        Test errors, and the risk that is known in closed form.

    Cost: draws · Σ n p min(n, p) multiplications; about 2 s.
    Source: S2 class 2, "Double Descent Phenomenon", cases N ≫ D, N ≈ D, N ≪ D; Belkin et al.
    (2019). Closed form: Belkin, Hsu and Xu (2020), Theorem 1, on D = max p independent features of
    which p are used: (1 − p/D + σ²)(1 + p/(n − p − 1)) for p < n − 1, p/D (1 − n/p) + (1 − p/D +
    σ²)(1 + n/(p − n − 1)) for p > n + 1, infinite between.
    """
    rising(1 / n_samples, count=3)("ratios", ratios)
    refuse_if(not penalty >= 0, f"penalty must be a number >= 0; got {penalty!r}.")
    rng = np.random.default_rng(seed)
    counts = np.round(np.array(ratios) * n_samples).astype(int)
    errors, norms = np.empty((2, draws, len(counts))), np.empty((draws, len(counts)))
    gaussian_risk = np.empty((draws, len(counts)))
    for draw in range(draws):
        x = rng.normal(size=(n_samples + 2 * N_TEST, n_inputs))
        signal = x @ rng.normal(size=n_inputs) / np.sqrt(n_inputs)
        y = signal + noise * rng.normal(size=len(x))
        projections = rng.normal(size=(n_inputs, counts[-1]))
        for index, p in enumerate(counts):
            features = np.maximum(x @ projections[:, :p], 0) / np.sqrt(p)
            errors[:, draw, index], norms[draw, index] = _fit(features, y, n_samples, penalty)
            progress("fit features", draw * len(counts) + index + 1, draws * len(counts))
        gaussian_risk[draw] = _gaussian(counts, n_samples, noise, rng)
    predicted = _risk(counts, n_samples, noise)
    return DoubleDescent(counts / n_samples, errors, norms, gaussian_risk, predicted)


@add_titles
def double_descent_plots(result: DoubleDescent) -> Figures:
    """Draw test error with and without a tuned ridge, its norm, and the closed form."""
    error = axes("features per sample, p / n", "mean squared test error", log="xy")
    for index, name in enumerate(("as given", "ridge, tuned")):
        add_data(error, result.ratios, np.median(result.errors[index], axis=0), name, series=index)
    _at_one(error, np.median(result.errors, axis=1))
    norm = axes("features per sample, p / n", "norm of the weights, ‖w‖", log="xy")
    middle = np.median(result.norms, axis=0)
    add_data(norm, result.ratios, middle, "as given")
    _at_one(norm, middle)
    gaussian = axes("features per sample, p / n", "mean squared test error", log="xy")
    risk = result.plain.mean(axis=0)
    add_data(gaussian, result.ratios, risk, "Gaussian features, mean", mode="markers")
    theory(gaussian, result.ratios, result.predicted, "Belkin, Hsu and Xu")
    return error, norm, gaussian


def _at_one(figure, values: np.ndarray) -> None:
    theory(figure, [1.0, 1.0], [float(values.min()), float(values.max())], "p = n")


def _fit(
    features: np.ndarray, y: np.ndarray, n: int, penalty: float
) -> tuple[Float[np.ndarray, " two"], float]:
    """Return the test errors with the given and the best penalty, and ‖w‖ of the former."""
    u, s, vt = np.linalg.svd(features[:n], full_matrices=False)
    is_nonzero = s > 1e-10 * s[0]
    projection, s, vt = (u.T @ y[:n])[is_nonzero], s[is_nonzero], vt[is_nonzero]
    validation, test = features[n : n + N_TEST] @ vt.T, features[n + N_TEST :] @ vt.T
    penalties = np.append(PENALTIES, penalty)
    weights = projection * s / (s**2 + penalties[:, None])  # [tried, rank]
    validation_error = ((weights @ validation.T - y[n : n + N_TEST]) ** 2).mean(axis=1)
    best_weights = weights[validation_error[:-1].argmin()]
    given_weights = weights[-1]
    errors = [((w @ test.T - y[n + N_TEST :]) ** 2).mean() for w in (given_weights, best_weights)]
    return np.array(errors), float(np.linalg.norm(given_weights))


def _gaussian(
    counts: np.ndarray, n: int, noise: float, rng: np.random.Generator
) -> Float[np.ndarray, " p"]:
    """Return the risk of least squares on the first p of D equally important features."""
    features = rng.normal(size=(n, counts[-1]))
    beta = np.full(counts[-1], counts[-1] ** -0.5)
    t, risk = features @ beta + noise * rng.normal(size=n), np.empty(len(counts))
    for index, p in enumerate(counts):
        w = np.linalg.lstsq(features[:, :p], t, rcond=None)[0]
        risk[index] = ((w - beta[:p]) ** 2).sum() + (beta[p:] ** 2).sum() + noise**2
    return risk


def _risk(counts: np.ndarray, n: int, noise: float) -> Float[np.ndarray, " p"]:
    risk = np.full(len(counts), np.nan)
    for index, p in enumerate(counts):
        share = p / counts[-1]
        residual = 1 - share + noise**2
        if p < n - 1:
            risk[index] = residual * (1 + p / (n - p - 1))
        elif p > n + 1:
            risk[index] = share * (1 - n / p) + residual * (1 + n / (p - n - 1))
    return risk
