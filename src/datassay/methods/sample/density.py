"""A density in proportion to a positive index of points: a Gaussian mixture, cut to the domain."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from datassay import rules
from datassay.data.settings import check_seed
from datassay.errors import DataError, SettingError
from datassay.optional import coalesce
from datassay.results import result

# A point of less than this share of the largest index is left out of the fit; that of the largest
# index is repeated COPIES times in it, the others in proportion, at most MOST_COPIES in all.
DROPPED_BELOW, COPIES = 0.01, 100
MOST_COPIES = 20_000
STARTS = 5
DRAWN_AT_ONCE = 256  # points, at least


@result
class Density:
    """A Gaussian mixture over the domain, in units of x.

    Attributes:
        weight: [K], sums to 1.
        mean: [K, d].
        covariance: [K, d, d].
        n_fitted: initial points that had a part in the fit: those of at least a hundredth of the
            largest index.
        converged: whether expectation–maximisation came to rest.
        notes: warnings, one sentence each.
    """

    weight: Float[np.ndarray, " K"]
    mean: Float[np.ndarray, "K d"]
    covariance: Float[np.ndarray, "K d d"]
    n_fitted: int
    converged: bool
    notes: tuple[str, ...] = ()


def fit_density(
    x: Float[np.ndarray, "N d"],
    index: Float[np.ndarray, " N"],
    box: Float[np.ndarray, "d 2"],
    n_components: int,
    *,
    floor: float | None = None,
    seed: int = 0,
) -> Density:
    """Return a Gaussian mixture fitted to points weighted by their index."""
    # `floor` is added to the variances in the unit cube; None: that of the cell of 1/N each.
    # Cost: five starts of at most 100 iterations over at most 20 000 rows.
    # Source: S0 Algorithm 2, line 6, and its code: points below max/100 are dropped, the others
    # replicated by index, scikit-learn's GaussianMixture with five starts. Deviates by the unit
    # cube and the floor: theirs is scikit-learn's 1e-6, with which components shrink to single
    # points where few points hold most of the index, and new points repeat old ones.
    if n_components > len(x):
        raise SettingError(
            f"n_components must be at most the number of initial points, {len(x)}; got "
            f"{n_components}. Take fewer components or more points."
        )
    largest = float(index.max())
    if not largest > 0:
        raise DataError(
            "f must change somewhere: its derivatives are 0 at every initial point, so that no "
            "place is better than another. Sample it uniformly, or take more initial points."
        )
    is_fitted = index >= DROPPED_BELOW * largest
    points = (x[is_fitted] - box[:, 0]) / (box[:, 1] - box[:, 0])
    n_distinct = len(np.unique(points, axis=0))
    rows = points[_repeat_positions(index[is_fitted] / largest, seed)]
    k = min(n_components, n_distinct)
    # A cube of volume 1/N has the side N^(−1/d), and a uniform variable on it side²/12.
    min_variance = coalesce(floor, len(x) ** (-2 / x.shape[1]) / 12)
    mixture: Any = GaussianMixture(k, n_init=STARTS, random_state=seed, reg_covar=min_variance)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # reported below, with what it means
        mixture.fit(rows)
    notes = []
    if n_distinct < n_components:
        notes.append(
            f"only {n_distinct} of {len(x)} initial points have at least a hundredth of the "
            f"largest index, so that the mixture has {n_distinct} of the {n_components} components "
            "asked for: take more initial points."
        )
    if not mixture.converged_:
        notes.append(
            "the mixture did not come to rest in 100 iterations of expectation–maximisation: its "
            "components may move with another seed."
        )
    width = box[:, 1] - box[:, 0]
    return Density(
        weight=mixture.weights_ / mixture.weights_.sum(),
        mean=box[:, 0] + mixture.means_ * width,
        covariance=mixture.covariances_ * np.outer(width, width),
        n_fitted=int(is_fitted.sum()),
        converged=bool(mixture.converged_),
        notes=tuple(notes),
    )


def truncated_draws(
    density: Density, box: Float[np.ndarray, "d 2"], n: int, *, max_tries: int = 1000, seed: int = 0
) -> tuple[Float[np.ndarray, "n d"], int]:
    """Return n points drawn from a density inside the domain, and the number of tries."""
    # Cost: n over the share of the density that lies within the domain.
    # Source: S0 Algorithm 2, line 7, which sets no bound.
    rng = np.random.default_rng([seed, 1])
    roots = np.linalg.cholesky(density.covariance)
    draws = []
    n_tries = 0
    n_inside = 0
    limit = n * max_tries
    while n_inside < n and n_tries < limit:
        n_drawn = min(max(DRAWN_AT_ONCE, 2 * (n - n_inside)), limit - n_tries)
        component = rng.choice(len(density.weight), n_drawn, p=density.weight)
        noise = rng.standard_normal((n_drawn, len(box)))
        x = density.mean[component] + np.einsum("nij,nj->ni", roots[component], noise)
        is_inside = ((x >= box[:, 0]) & (x <= box[:, 1])).all(1)
        accepted = np.flatnonzero(is_inside)[: n - n_inside]
        draws.append(x[accepted])
        n_inside += len(accepted)
        # The draws beyond the last point that was needed are not counted.
        if n_inside == n and len(accepted):
            n_tries += int(accepted[-1]) + 1
        else:
            n_tries += n_drawn
    if n_inside < n:
        raise DataError(
            f"the density must give points inside the domain; {n_inside} of {n_tries:,} draws did "
            f"(acceptance {n_inside / n_tries:.2g}), and {n} are needed. Widen the domain, take "
            "more initial points or components, or raise max_tries."
        )
    return np.concatenate(draws), n_tries


def _repeat_positions(share: np.ndarray, seed: int) -> np.ndarray:
    """Return each position repeated in proportion to its share, [m]."""
    copies = np.rint(COPIES * share).astype(int)
    if copies.sum() <= MOST_COPIES:
        return np.repeat(np.arange(len(share)), copies)
    # Evenly spaced along the cumulated shares from one random start: each number of copies is
    # within one of what it should be.
    start = np.random.default_rng([seed, 2]).uniform()
    marks = (np.arange(MOST_COPIES) + start) / MOST_COPIES
    return np.searchsorted(np.cumsum(share) / share.sum(), marks).clip(max=len(share) - 1)


INITIAL = ("grid", "uniform")
LARGEST = 1e150  # end of a domain, so that squares of widths are finite


def check_domain(
    domain: Sequence[float] | Sequence[Sequence[float]] | Float[np.ndarray, "d 2"],
) -> Float[np.ndarray, "d 2"]:
    """Return lower and upper ends of each input, [d, 2]; raise if they are invalid."""
    rule = "domain must be pairs of finite numbers (lower, upper), one for each input"
    try:
        box = np.array(domain, dtype=float)
    except (TypeError, ValueError) as error:
        raise DataError(f"{rule}; got {domain!r}. Write [(0, 1), (0, 10)].") from error
    if box.shape == (2,):  # of one input
        box = box[None]
    if box.ndim != 2 or box.shape[1] != 2 or not len(box):
        raise DataError(f"{rule}; got shape {list(box.shape)}. Write [(0, 1), (0, 10)].")
    for i, (low, high) in enumerate(box):
        # Halves: the whole width of (-1e308, 1e308) is no number.
        if not np.isfinite(high / 2 - low / 2) or max(abs(low), abs(high)) > LARGEST:
            raise DataError(f"{rule}; got ({low:g}, {high:g}) for input {i}. Give it both ends.")
        if low >= high:
            fault = "which is reversed"
            if low == high:
                fault = "which has no volume"
            raise DataError(
                f"{rule}, the lower first; got ({low:g}, {high:g}) for input {i}, {fault}."
            )
    return box


def initial_points(
    box: Float[np.ndarray, "d 2"], n: int, kind: str, seed: int
) -> Float[np.ndarray, "n d"]:
    """Return the first n points, [n, d], evenly spread over the domain."""
    d = len(box)
    rules.integer("n_initial", n, 2)
    check_seed(seed)
    rules.one_of("initial", kind, INITIAL)
    if kind == "uniform":
        return np.random.default_rng(seed).uniform(box[:, 0], box[:, 1], (n, d))
    side = round(n ** (1 / d))
    if side**d != n or side < 2:
        low = max(2, int(n ** (1 / d) + 1e-9))
        raise SettingError(
            f"n_initial must be m to the power of {d} for a grid of m points a side; got {n}. Take "
            f"{low**d} or {(low + 1) ** d}, or initial='uniform'."
        )
    axes = [np.linspace(low, high, side) for low, high in box]
    return np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(n, d)
