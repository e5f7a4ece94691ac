"""Laws of a learning curve, fitted to many resampled curves at once, and their inverses.

For a fixed exponent a law is linear in its other parameters, which weighted least squares gives in
closed form. The exponent is searched on a grid that is refined around its best point. So no fit
stops in a local minimum, and a thousand curves take one second.
"""

from collections.abc import Callable
from itertools import product

import numpy as np
from jaxtyping import Bool, Float

from datassay.results import result

LAWS = ("power", "start")
EXPONENTS = (0.02, 4.0)  # lowest and highest
# Lowest and highest bend of "start", as shares of the smallest and of the largest size.
BENDS = (1 / 30, 3.0)
ZOOMS = 4  # how often the grid around the optimum is refined, to half its step


@result
class CurveLaws:
    """D fitted laws of the error as a function of the number n of training samples.

    kind "power": error(n) = floor + drop (n/reference)^−exponent.
    kind "start": error(n) = floor + (start − floor) / (1 + (n/bend)^exponent): `start` at n = 0, a
    power law for large n.

    Attributes:
        kind: [D], each of `LAWS`.
        floor: [D], error for infinitely many samples, at least 0.
        drop: [D], "power" only, at least 0: error above the floor at the reference size.
        bend: [D], "start" only, samples.
        exponent: [D], positive.
        reference: samples.
        start: error without samples.
        misfit: [D], weighted sum of squared residuals.
    """

    kind: np.ndarray
    floor: Float[np.ndarray, " D"]
    drop: Float[np.ndarray, " D"]
    bend: Float[np.ndarray, " D"]
    exponent: Float[np.ndarray, " D"]
    reference: float
    start: float
    misfit: Float[np.ndarray, " D"]

    def errors(self, n: Float[np.ndarray, " M"]) -> Float[np.ndarray, "D M"]:
        """Return the error after each number of samples, [D, M].

        Args:
            n: numbers of samples, positive.

        Returns:
            One row per law.
        """
        c = self.exponent[:, None]
        excess = np.where(
            self._is_power[:, None],
            self.drop[:, None] * (n / self.reference) ** -c,
            (self.start - self.floor[:, None]) / (1 + (n / self.bend[:, None]) ** c),
        )
        return self.floor[:, None] + excess

    def samples(self, error: float) -> Float[np.ndarray, " D"]:
        """Return the number of samples at which each law falls to an error.

        Args:
            error: the target error.

        Returns:
            [D]; infinite where the floor is not below the error, 0 where the law starts below it.
        """
        excess = error - self.floor
        is_reached = excess > 0
        divisor = np.where(is_reached, excess, 1.0)
        with np.errstate(over="ignore"):  # beyond any number of samples is infinite too
            power = self.reference * (self.drop / divisor) ** (1 / self.exponent)
            odds = np.maximum((self.start - self.floor) / divisor - 1, 0)
            start = self.bend * odds ** (1 / self.exponent)
        return np.where(is_reached, np.where(self._is_power, power, start), np.inf)

    @property
    def _is_power(self) -> Bool[np.ndarray, " D"]:
        return self.kind == "power"


def fit_curve_laws(
    kind: str,
    sizes: Float[np.ndarray, " K"],
    errors: Float[np.ndarray, "D K"],
    weights: Float[np.ndarray, " K"],
    *,
    start: float,
    reference: float,
) -> CurveLaws:
    """Fit a law of one kind to each of D curves; `weights` are inverse variances at each size.

    Minimises Σ_k w_k (error_k − law(n_k))² under floor ≥ 0, drop ≥ 0 (or floor ≤ start), exponent
    in [0.02, 4].

    Returns:
        The laws. Cost: per curve 60 K or 900 K operations, and a quarter of that to refine it.
    """
    floor = np.zeros(len(errors))
    ones = np.ones(len(errors))
    if kind == "power":
        fitted, (floor, drop), misfit = _search_parameters(
            lambda c: _fit_power(sizes / reference, errors, weights, c[..., 0]),
            [EXPONENTS], 60, len(errors),
        )  # fmt: skip
        exponent = fitted[:, 0]
        bend = ones
    else:
        bounds = [(sizes[0] * BENDS[0], sizes[-1] * BENDS[1]), EXPONENTS]
        fitted, (floor,), misfit = _search_parameters(
            lambda p: _fit_start(sizes, errors, weights, start, p), bounds, 30, len(errors)
        )
        bend, exponent = fitted.T
        drop = 0 * ones
    kinds = np.full(len(errors), kind)
    return CurveLaws(kinds, floor, drop, bend, exponent, reference, start, misfit)


def join_laws(parts: list[CurveLaws]) -> CurveLaws:
    """Combine the laws of several fits that share their reference and start, in order."""
    names = ("kind", "floor", "drop", "bend", "exponent")
    arrays = {name: np.concatenate([getattr(p, name) for p in parts]) for name in names}
    misfit = np.concatenate([p.misfit for p in parts])
    return CurveLaws(**arrays, reference=parts[0].reference, start=parts[0].start, misfit=misfit)


# Parameters, [E, G, p] (E is 1 or D) → misfits and the best linear parameters, [D, G] each.
Profile = Callable[[np.ndarray], tuple[np.ndarray, tuple[np.ndarray, ...]]]


def _search_parameters(
    profile: Profile, bounds: list[tuple[float, float]], n_values: int, n_curves: int
) -> tuple[Float[np.ndarray, "D p"], tuple[np.ndarray, ...], Float[np.ndarray, " D"]]:
    """Return the nonlinear parameters of least misfit, [D, p], the linear ones, and the misfit.

    The grid has n_values of each parameter, at equal ratios, and is refined around the best.
    """
    low, high = np.log(bounds).T
    step = (high - low) / (n_values - 1)
    grid = low + step * np.array(list(product(range(n_values), repeat=len(bounds))))  # [G, p]
    offsets = np.array(list(product((-1, -0.5, 0, 0.5, 1), repeat=len(bounds))))
    rows = np.arange(n_curves)

    def best_of(points: np.ndarray):
        misfit, linear = profile(np.exp(points))
        i = misfit.argmin(1)
        position = np.broadcast_to(points, (n_curves, *points.shape[1:]))[rows, i]
        return position, tuple(v[rows, i] for v in linear), misfit[rows, i]

    optimum, linear, misfit = best_of(grid[None])
    for zoom in range(ZOOMS):
        candidates = optimum[:, None] + step / 2**zoom * offsets
        optimum, linear, misfit = best_of(candidates.clip(low, high))  # stay inside the bounds
    return np.exp(optimum), linear, misfit


def _fit_power(
    ratio: Float[np.ndarray, " K"],
    errors: Float[np.ndarray, "D K"],
    w: Float[np.ndarray, " K"],
    c: Float[np.ndarray, "E G"],
) -> tuple[Float[np.ndarray, "D G"], tuple[Float[np.ndarray, "D G"], Float[np.ndarray, "D G"]]]:
    """Return misfit [D, G], and floor and drop ≥ 0 of power laws with parameters c."""
    # error ≈ floor + drop g. s, sg, sgg, se, seg and see are the sums over sizes of w times 1, g,
    # g², error, error · g and error².
    g = ratio ** -c[..., None]  # [E, G, K], E is 1 or D
    s = w.sum()
    sg = g @ w
    sgg = (g * g) @ w
    se = (errors @ w)[:, None]
    seg = (g * (w * errors)[:, None]).sum(-1)
    see = ((errors * errors) @ w)[:, None]
    det = np.maximum(s * sgg - sg * sg, np.finfo(float).tiny)
    floor = (sgg * se - sg * seg) / det
    drop = (s * seg - sg * se) / det
    drop = np.where(floor < 0, seg / sgg, drop)
    floor = np.where(floor < 0, 0.0, floor)
    floor = np.where(drop < 0, se / s, floor)
    drop = np.where(drop < 0, 0.0, drop)
    misfit = see - 2 * (floor * se + drop * seg)
    misfit = misfit + floor**2 * s + 2 * floor * drop * sg + drop**2 * sgg
    return misfit, (floor, drop)


def _fit_start(
    sizes: Float[np.ndarray, " K"],
    errors: Float[np.ndarray, "D K"],
    w: Float[np.ndarray, " K"],
    start: float,
    p: Float[np.ndarray, "E G 2"],
) -> tuple[Float[np.ndarray, "D G"], tuple[Float[np.ndarray, "D G"]]]:
    """Return misfit [D, G] and floor of laws that start at `start`: start h + floor (1 − h)."""
    # h = 1/(1 + (n/bend)^c), p holds bend and c. uu, ue, uh, hh, he and see are sums over sizes of
    # w times two of u = 1 − h, h and error.
    h = 1 / (1 + (sizes / p[..., :1]) ** p[..., 1:])  # [E, G, K]
    u = 1 - h
    uu = (u * u) @ w
    ue = (u * (w * errors)[:, None]).sum(-1)
    uh = (u * h) @ w
    hh = (h * h) @ w
    he = (h * (w * errors)[:, None]).sum(-1)
    see = ((errors * errors) @ w)[:, None]
    floor = np.clip((ue - start * uh) / uu, 0, start)
    misfit = see + floor**2 * uu + start**2 * hh
    misfit = misfit - 2 * floor * ue - 2 * start * he + 2 * floor * start * uh
    return misfit, (floor,)
