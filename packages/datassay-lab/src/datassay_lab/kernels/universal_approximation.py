"""One hidden layer approximates a continuous function as well as it has units."""

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from jaxtyping import Float

from datassay.progress import Progress, silent
from datassay_lab.checks import Agreement, check_args, one_of, positive, rising, rising_whole, whole
from datassay_lab.curves import Figures, add_data, add_titles, axes, theory
from datassay_lab.fits import exponent

# Discriminatory (Cybenko) is what no polynomial is: sums of squares z² stay quadratic.
ACTIVATIONS = {"tanh": np.tanh, "relu": lambda z: np.maximum(z, 0), "square": np.square}
CUTOFF = 1e-10  # singular values below this share are noise
NEEDED = 0.1  # of the function's own size, for the number of units needed


@dataclass(frozen=True, slots=True)
class UniversalApproximation:
    """Errors of networks with one hidden layer on bumps exp(−|x − c|² / 2s²) over a cube."""

    widths: Float[np.ndarray, " b"]  # s of each bump; narrow ones last
    units: Float[np.ndarray, " u"]  # N
    largest: Float[np.ndarray, "b u"]  # sup norm of the error over fresh points of the cube
    root: Float[np.ndarray, "b u"]  # root mean square of the error
    size: Float[np.ndarray, " b"]  # root mean square of the bump itself
    bound: Float[np.ndarray, " b"]  # B of Barron's bound B / √N on the root mean square

    @property
    def agreement(self) -> Agreement:
        """The slowest fall among the bumps: Barron's rate is −1/2."""
        slowest = max(exponent(self.units, errors) for errors in self.largest)
        return Agreement("exponent of the sup error in N, slowest bump", slowest, -0.5)

    @property
    def needed(self) -> Float[np.ndarray, " b"]:
        """[b], units until the error is a tenth of the bump; NaN where none was enough."""
        is_close = self.root <= NEEDED * self.size[:, None]
        return np.where(is_close.any(axis=1), self.units[is_close.argmax(axis=1)], np.nan)


@check_args
def universal_approximation(
    *,
    n_inputs: Annotated[int, whole()] = 2,
    widths: Annotated[tuple[float, ...], rising(0.001, count=1)] = (0.1, 0.2, 0.4),
    units: Annotated[tuple[int, ...], rising_whole(1)] = (4, 8, 16, 32, 64, 128, 256, 512),
    activation: Annotated[str, one_of(tuple(ACTIVATIONS))] = "tanh",
    n_points: int = 4000,
    repeats: Annotated[int, whole()] = 3,
    seed: int = 0,
    progress: Progress = silent,
) -> UniversalApproximation:
    """Fit output weights on more and more random hidden units by least squares.

    f_N(x) = v₀ + Σ_j v_j φ(ω_j·(x − a_j) / s),   |ω_j| = 1, a_j uniform in the cube

    Args:
        n_inputs: d of the cube [0, 1]ᵈ.
        widths: s of the bumps, increasing, unit of the inputs.
        units: N, increasing.
        activation: φ, "tanh", "relu", or "square", which the theorem excludes.
        n_points: of the cube to fit on; the error is measured on as many fresh ones.
        repeats: draws of the hidden units; their mean error counts.
        seed: of points and units.
        progress: called after each fit.

    Returns:
        Errors, and Barron's bound.

    Cost: repeats · n_points · Σ N² multiplications per bump; about 3 s.
    Source: S2 class 1, "Universal approximation theorem" (Cybenko 1989; "discriminatory" excludes
    polynomials, Leshno et al. 1993). Barron (1993): root mean square ≤ 2 r C_f / √N on a ball of
    radius r, C_f = ∫ |ω| |f̂(ω)| dω = E|ω| of ω ~ N(0, I/s²) for a bump. Deviates: his units are
    chosen for f, ours are drawn at the scale s of the bump and only v is fitted, so our errors can
    only be larger than those of the best network.
    """
    whole(2 * units[-1])("n_points", n_points)
    positive(10.0)("widths[-1]", widths[-1])
    rng = np.random.default_rng(seed)
    spans = np.array(widths[::-1], float)
    points = rng.random((2 * n_points, n_inputs))
    squares = ((points - 0.5) ** 2).sum(axis=1)
    bumps = np.exp(-squares / 2 / spans[:, None] ** 2)  # [b, points]
    errors = np.zeros((2, len(spans), len(units)))
    n_done, all_fits = 0, len(spans) * len(units) * repeats
    for _ in range(repeats):
        directions, positions = _draw(n_inputs, units[-1], rng)
        offset = (directions * positions).sum(axis=1)
        for b, u in np.ndindex(errors.shape[1:]):
            active = slice(0, units[u])
            z = (points @ directions[active].T - offset[active]) / spans[b]
            errors[:, b, u] += _errors(ACTIVATIONS[activation](z), bumps[b], n_points)
            progress("least squares", n_done := n_done + 1, all_fits)
    size = np.sqrt((bumps**2).mean(axis=1))
    half = n_inputs / 2
    length = math.sqrt(2) * math.exp(math.lgamma(half + 0.5) - math.lgamma(half))  # E|ω|, N(0, I)
    bound = 2 * math.sqrt(n_inputs) / 2 * length / spans
    return UniversalApproximation(
        spans, np.array(units, float), errors[0] / repeats, errors[1] / repeats, size, bound
    )


@add_titles
def universal_approximation_plots(result: UniversalApproximation) -> Figures:
    """Draw errors against the number of units, and the units that a bump needs."""
    error = axes("hidden units N", "largest error over the cube", log="xy")
    for index, width in enumerate(result.widths):
        add_data(
            error, result.units, result.largest[index], f"bump of width {width:g}", series=index
        )
    line = result.largest[-1, 0] * (result.units / result.units[0]) ** -0.5
    theory(error, result.units, line, "slope −1/2")
    needed = axes("sharpness of the bump, 1 / width", "units for a tenth of its size", log="xy")
    add_data(needed, 1 / result.widths, result.needed, "random units, fitted output")
    upper_bound = (result.bound / NEEDED / result.size) ** 2
    theory(needed, 1 / result.widths, upper_bound, "always enough (Barron)")
    return error, needed


def _draw(n_inputs: int, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw directions of length 1, and points of the cube where the units switch: [n, d] each."""
    directions = rng.normal(size=(n, n_inputs))
    return directions / np.linalg.norm(directions, axis=1)[:, None], rng.random((n, n_inputs))


def _errors(hidden: np.ndarray, f: np.ndarray, n_fit: int) -> Float[np.ndarray, " two"]:
    """Return the largest and the root mean square error on the points that were not fitted."""
    hidden = np.column_stack([hidden, np.ones(len(f))])
    v = np.linalg.lstsq(hidden[:n_fit], f[:n_fit], rcond=CUTOFF)[0]
    error = hidden[n_fit:] @ v - f[n_fit:]
    return np.array([np.abs(error).max(), np.sqrt((error**2).mean())])
