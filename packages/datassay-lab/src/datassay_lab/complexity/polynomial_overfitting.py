"""A polynomial of as many coefficients as samples fits the noise; a small penalty tames it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import numpy as np
from jaxtyping import Float

from datassay.progress import Progress, silent
from datassay_lab.checks import Agreement, check_args, positive, rising_whole, whole
from datassay_lab.curves import Figures, add_data, add_titles, axes, theory
from datassay_lab.fits import track

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

GRID = np.linspace(0, 1, 201)  # where the error is measured


@dataclass(frozen=True, slots=True)
class PolynomialOverfitting:
    """Least-squares polynomials of rising degree on draws of a noisy sine."""

    degrees: tuple[int, ...]  # those shown, rising; the last is the one that overfits
    train_error: Float[np.ndarray, "draws all"]  # root mean square over the samples, degrees 0 … M
    test_error: Float[np.ndarray, "draws all"]  # over [0, 1] and fresh noise
    ridge_error: Float[np.ndarray, " draws"]  # test error of the last degree with the penalty
    noise: float  # standard deviation, unit of the targets
    # x and t of the draw whose last degree has the median test error.
    samples: Float[np.ndarray, "two n"]
    # of that draw, 0 beyond a degree; the last row is with the penalty.
    coefficients: Float[np.ndarray, "rows all"]

    @property
    def agreement(self) -> Agreement:
        """How often the last degree errs more than the one before, and more than penalised."""
        error = self.test_error[:, self.degrees[-1]]
        is_worse = (error > self.test_error[:, self.degrees[-2]]) & (error > self.ridge_error)
        name = f"share of draws where degree {self.degrees[-1]} overfits and the penalty helps"
        return Agreement(name, float(is_worse.mean()), 0.9, "at least")


@check_args
def polynomial_overfitting(
    *,
    n_samples: Annotated[int, whole(3)] = 10,
    noise: Annotated[float, positive()] = 0.3,
    degrees: Annotated[tuple[int, ...], rising_whole(0)] = (0, 1, 3, 9),
    penalty: Annotated[float, positive()] = 1e-4,
    draws: Annotated[int, whole()] = 500,
    seed: int = 0,
    progress: Progress = silent,
) -> PolynomialOverfitting:
    """Fit polynomials to t = sin(2πx) + noise at evenly spaced x, over and over.

    w* = argmin ‖t − A w‖² + λ ‖w‖²,   A_ij = x_iʲ

    Args:
        n_samples: n.
        noise: standard deviation, positive.
        degrees: shown, rising; the last at most n − 1.
        penalty: λ, of the last degree.
        draws: of the noise.
        seed: of the draws.
        progress: called after each draw.

    Returns:
        Errors of all degrees up to the last.

    Cost: draws · M least-squares problems; about a second.
    Source: S2 class 2, "Tune Regularization for good generalization" and its table of coefficients,
    which is Table 1.1 of Bishop (2006); his noise is 0.3, his penalties e⁻¹⁸ and 1. Deviates: the
    error is averaged over many draws, the test error over fresh noise in closed form.
    """
    whole(degrees[-1] + 1)("n_samples", n_samples)
    rng = np.random.default_rng(seed)
    x, top = np.linspace(0, 1, n_samples), degrees[-1]
    rows, grid = (np.vander(points, top + 1, increasing=True) for points in (x, GRID))
    t = np.sin(2 * np.pi * x) + noise * rng.normal(size=(draws, n_samples))
    train, test = np.empty((draws, top + 1)), np.empty((draws, top + 1))
    ridge, coefficients = np.empty(draws), np.empty((draws, len(degrees) + 1, top + 1))
    for draw in track(range(draws), progress, "fit polynomials"):
        weights = [_fit(rows[:, : m + 1], t[draw], 0.0, top) for m in range(top + 1)]
        weights.append(_fit(rows, t[draw], penalty, top))
        w = np.array(weights)
        squares = ((w @ grid.T - np.sin(2 * np.pi * GRID)) ** 2).mean(axis=1) + noise**2
        test[draw], ridge[draw] = np.sqrt(squares[:-1]), np.sqrt(squares[-1])
        train[draw] = np.sqrt(((w[:-1] @ rows.T - t[draw]) ** 2).mean(axis=1))
        coefficients[draw] = w[[*degrees, top + 1]]
    typical = int(np.argsort(test[:, top])[draws // 2])
    samples = np.array([x, t[typical]])
    return PolynomialOverfitting(
        tuple(degrees), train, test, ridge, float(noise), samples, coefficients[typical]
    )


@add_titles
def polynomial_overfitting_plots(result: PolynomialOverfitting) -> Figures:
    """Draw errors against the degree, fits of a typical draw, and coefficients."""
    fits = axes("x", "target and fits")
    names = [*(f"degree {m}" for m in result.degrees), f"degree {result.degrees[-1]}, penalised"]
    grid = np.vander(GRID, result.coefficients.shape[1], increasing=True)
    for index, name in enumerate(names):
        curve = grid @ result.coefficients[index]
        add_data(fits, GRID, curve, name, series=index + 1, mode="lines")
    add_data(fits, result.samples[0], result.samples[1], "samples", mode="markers")
    theory(fits, GRID, np.sin(2 * np.pi * GRID), "sin 2πx")
    fits.update_yaxes(range=[-2, 2])
    degrees = np.arange(result.train_error.shape[1])
    size = axes("power of x", "size of the coefficient, |w|", log="y")
    for index, name in enumerate(names):
        w = np.abs(result.coefficients[index])
        add_data(size, degrees[w > 0], w[w > 0], name, series=index + 1)
    return _errors(result, degrees), fits, size


def _errors(result: PolynomialOverfitting, degrees: np.ndarray) -> "Figure":
    error = axes("degree", "root mean square error", log="y")
    train = np.median(result.train_error, axis=0)
    hit = "" if train[-1] > 1e-6 else f"; degree {degrees[-1]}: 0"  # rounding is left
    train = np.where(train > 1e-6, train, np.nan)
    add_data(error, degrees, train, f"on the samples (median draw{hit})", series=0)
    add_data(error, degrees, np.median(result.test_error, axis=0), "on fresh ones", series=1)
    penalised = np.median(result.ridge_error, keepdims=True)
    add_data(error, degrees[-1:], penalised, "fresh, penalised", series=2, mode="markers")
    theory(error, degrees, np.full(len(degrees), result.noise), "noise")
    return error


def _fit(rows: np.ndarray, t: np.ndarray, penalty: float, top: int) -> Float[np.ndarray, " all"]:
    """Fit the coefficients, filled with 0 up to the highest degree."""
    m = rows.shape[1]
    stacked = np.vstack([rows, np.sqrt(penalty) * np.eye(m)]) if penalty else rows
    padded = np.append(t, np.zeros(len(stacked) - len(t)))
    return np.append(np.linalg.lstsq(stacked, padded, rcond=None)[0], np.zeros(top + 1 - m))
