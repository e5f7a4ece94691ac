"""Gaussian noise on the inputs of a linear unit is the penalty Σ wᵢ² σᵢ²."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from jaxtyping import Float

from datassay.progress import Progress, silent
from datassay_lab.checks import Agreement, check_args, positive, rising, rising_whole, whole
from datassay_lab.curves import Figures, add_data, add_titles, axes, theory
from datassay_lab.fits import track

COPIES = (1, 3, 10, 30, 100, 300, 1000, 3000, 10_000)
# Quadrature nodes an input: exact for the noise of polynomials of degree 59.
NODES = 30


@dataclass(frozen=True, slots=True)
class InputNoise:
    """Effect of noisy inputs on a linear unit and on a small network."""

    deviations: Float[np.ndarray, " d"]  # σ of the noise on each input
    copies: Float[np.ndarray, " c"]  # noisy copies of every sample that the unit was fitted to
    distance: Float[np.ndarray, " c"]  # ‖w − w_ridge‖ / ‖w_plain − w_ridge‖ of that fit
    kept: Float[np.ndarray, " d"]  # its weights at the most copies over those without noise
    predicted: Float[np.ndarray, " d"]  # the same of the ridge fit
    network_deviations: Float[np.ndarray, " s"]  # σ of the noise on the network's inputs
    # how much the network's mean squared error rises with the noise.
    increase: Float[np.ndarray, " s"]
    slope_term: Float[np.ndarray, " s"]  # σ² times the mean of ‖∂f/∂x‖²
    second_order: Float[np.ndarray, " s"]  # slope_term and σ² times the mean of (f − t) ∂²f/∂x²

    @property
    def agreement(self) -> Agreement:
        """How far the noisy fit is from ridge, where the fit without noise is at 1."""
        measure = "distance of the noisy fit from ridge, plain fit = 1"
        return Agreement(measure, float(self.distance[-1]), 0.02)


@check_args
def input_noise(
    *,
    n_features: Annotated[int, whole(2)] = 12,
    n_samples: int = 100,
    largest_noise: Annotated[float, positive()] = 1.5,
    copies: Annotated[tuple[int, ...], rising_whole(1, count=1)] = COPIES,
    network_width: Annotated[int, whole()] = 10,
    network_noise: Annotated[tuple[float, ...], rising(1e-06)] = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0),
    seed: int = 0,
    progress: Progress = silent,
) -> InputNoise:
    """Fit a linear unit to noisy copies of its inputs, and shake the inputs of a network.

    E (wᵀ(x + ε) − t)² = (wᵀx − t)² + Σ wᵢ² σᵢ²
    E (f(x + ε) − t)² = (f − t)² + σ² (‖∂f/∂x‖² + (f − t) Δf) + O(σ⁴)

    Args:
        n_features: d of the linear unit; its inputs have noise from 0 to `largest_noise`.
        n_samples: n, more than d.
        largest_noise: σ of the noisiest input; the inputs themselves have deviation 1.
        copies: how many noisy copies of every sample, increasing.
        network_width: hidden tanh units of the network, which has two inputs.
        network_noise: σ on both of the network's inputs, increasing.
        seed: of all draws.
        progress: called after each number of copies.

    Returns:
        Both comparisons.

    Cost: copies · n · d² multiplications; about a second.
    Source: S2 class 2, "L2 regularization via noisy inputs"; its question "Is this true for more
    complex nets?" is answered by Bishop (1995): to second order, with the slope in the place of
    the weights. Expectations of the network are by Gauss-Hermite quadrature, not by sampling.
    """
    whole(n_features + 1)("n_samples", n_samples)
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n_samples, n_features))
    y = x @ rng.choice((-1.0, 1.0), n_features) + 0.1 * rng.normal(size=n_samples)
    deviations = np.linspace(0, largest_noise, n_features)
    gram, moment = x.T @ x / n_samples, x.T @ y / n_samples
    plain_weights = np.linalg.solve(gram, moment)
    ridge = np.linalg.solve(gram + np.diag(deviations**2), moment)
    fits = _noisy_fits(x, y, deviations, copies, rng, progress)
    distance = np.linalg.norm(fits - ridge, axis=1) / np.linalg.norm(plain_weights - ridge)
    return InputNoise(
        deviations,
        np.array(copies, float),
        distance,
        fits[-1] / plain_weights,
        ridge / plain_weights,
        np.array(network_noise, float),
        *_network_terms(rng, network_width, np.array(network_noise, float)),
    )


@add_titles
def input_noise_plots(result: InputNoise) -> Figures:
    """Draw the remaining weights, how fast the fits meet, and the network."""
    weights = axes("noise σ on the input", "weight over weight without noise")
    name = f"fit to {result.copies[-1]:g} noisy copies"
    add_data(weights, result.deviations, result.kept, name, mode="markers")
    theory(weights, result.deviations, result.predicted, "ridge with penalty Σ wᵢ²σᵢ²")
    distance = axes("noisy copies of every sample", "distance from ridge, plain fit = 1", log="xy")
    add_data(distance, result.copies, result.distance, "fit to noisy copies")
    falling = result.distance[-1] * np.sqrt(result.copies[-1] / result.copies)
    theory(distance, result.copies, falling, "∝ 1/√copies")
    net = axes("noise σ on the network's inputs", "rise of the mean squared error", log="xy")
    sigma = result.network_deviations
    add_data(net, sigma, result.increase, "network", mode="markers")
    add_data(net, sigma, result.slope_term, "slope term alone", series=1, mode="lines")
    theory(net, sigma, result.second_order, "slope and curvature terms")
    return weights, distance, net


def _noisy_fits(
    x: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, " n"],
    deviations: Float[np.ndarray, " d"],
    copies: tuple[int, ...],
    rng: np.random.Generator,
    progress: Progress,
) -> Float[np.ndarray, "c d"]:
    gram, moment, n_done, fits = np.zeros((len(x.T), len(x.T))), np.zeros(len(x.T)), 0, []
    for n_copies in track(copies, progress, "noisy copies"):
        while n_done < n_copies:
            n_new = min(n_copies - n_done, 200)
            noisy = x + deviations * rng.normal(size=(n_new, *x.shape))
            rows = noisy.reshape(-1, len(deviations))
            gram += rows.T @ rows
            moment += rows.T @ np.tile(y, n_new)
            n_done += n_new
        fits.append(np.linalg.solve(gram, moment))
    return np.array(fits)


def _network_terms(
    rng: np.random.Generator, width: int, sigma: Float[np.ndarray, " s"]
) -> tuple[Float[np.ndarray, " s"], Float[np.ndarray, " s"], Float[np.ndarray, " s"]]:
    """Return, for each σ, the error's rise, its slope term, and slope and curvature terms."""
    inner, bias = rng.normal(size=(2, width)), rng.normal(size=width)
    outer = rng.normal(size=width) / np.sqrt(width)
    x, residual = rng.normal(size=(200, 2)), 0.3 * rng.normal(size=200)
    hidden = np.tanh(x @ inner + bias)
    targets = hidden @ outer + residual  # the network is the targets' best fit, as after training
    slope = (outer * (1 - hidden**2)) @ inner.T  # [n, 2]
    laplacian = (-2 * outer * hidden * (1 - hidden**2)) @ (inner**2).sum(0)  # Laplacian, [n]
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    pairs = np.stack(np.meshgrid(nodes, nodes), -1).reshape(-1, 2)
    shares = np.outer(weights, weights).ravel() / weights.sum() ** 2
    rise = []
    for s in sigma:
        errors = np.tanh((x[:, None] + s * pairs) @ inner + bias) @ outer - targets[:, None]
        rise.append((errors**2 @ shares - residual**2).mean())
    slopes = sigma**2 * (slope**2).sum(1).mean()
    return np.array(rise), slopes, slopes + sigma**2 * (-residual * laplacian).mean()
