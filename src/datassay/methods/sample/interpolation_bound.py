"""The generalisation bound that motivates more points where a function is steep (S0 eq. 1, 9)."""

import numpy as np
from jaxtyping import Float

from datassay import rules
from datassay.errors import DataError
from datassay.results import result

POSITIONS = ("end", "inside")


@result
class InterpolationBound:
    """The bound of each point's cell, in the order of the points given.

    Attributes:
        cell: [n, 2], lower and upper end of S_i, units of x.
        term: [n], what S_i adds to the bound, units of f squared.
        lipschitz: K, units of f over x.
    """

    cell: Float[np.ndarray, "n 2"]
    term: Float[np.ndarray, " n"]
    lipschitz: float

    @property
    def total(self) -> float:
        """The bound, units of f squared."""
        return float(self.term.sum())


def interpolation_bound(
    x: Float[np.ndarray, " n"],
    slope: Float[np.ndarray, " n"],
    domain: tuple[float, float],
    *,
    lipschitz: float,
    position: str = "end",
) -> InterpolationBound:
    """Return a bound on the squared error of a K-Lipschitz model that is right at n points.

    J(θ) ≤ Σ_i (|f'(X_i)| + K)² |S_i|³/3 + O(|S_i|⁴)

    S_i runs from half-way to the point before to half-way to the point after, the outermost to the
    ends of the domain [a, b], and probability is uniform on it: lengths are shares of b − a, and
    slopes are changes over the whole domain, so that neither unit counts.

    Args:
        x: X_i, within the domain, in any order; of equal points each has one side of the cell.
        slope: f'(X_i).
        domain: (a, b).
        lipschitz: K, of the model.
        position: where X_i lies in its cell. "end": |S_i|³/3, the appendix's constant, which is the
            integral of |x − X_i|² for a point at one end of its cell: right wherever it lies.
            "inside": (l³ + r³)/3 with the distances l and r to both ends, the integral itself, from
            |S_i|³/3 at an end to |S_i|³/12 in the middle.

    Returns:
        The bound, without its O(|S_i|⁴).

    Raises:
        DataError: x is empty, outside the domain or not finite, or slope is not one finite number a
            point.
        SettingError: lipschitz is negative or not finite, or position is unknown.

    Cost: a sort of n numbers.
    Source: S0 eq. 9. Its eq. 1 prints ¼, right from (3 − √6)/6 of the cell inwards.
    """
    x = np.asarray(x, dtype=float)
    slope = np.asarray(slope, dtype=float)
    low, high = domain
    if x.ndim != 1 or not len(x) or slope.shape != x.shape:
        raise DataError(
            f"x and slope must hold one number for each of n points; got shapes {list(x.shape)} "
            f"and {list(slope.shape)}. The bound is for one input and one output."
        )
    if not (low < high and np.isfinite(slope).all() and ((x >= low) & (x <= high)).all()):
        raise DataError(
            f"x must lie in the domain ({low:g}, {high:g}), lower end first, and slopes must be "
            f"finite; got points from {x.min():g} to {x.max():g}."
        )
    remedy = "Take the largest slope of the model, or 0 for the function's share alone."
    rules.at_least("lipschitz", lipschitz, 0, finite=True, remedy=remedy)
    rules.one_of("position", position, POSITIONS)
    order = np.argsort(x, kind="stable")
    middles = (x[order][1:] + x[order][:-1]) / 2
    edges = np.concatenate([[low], middles, [high]])
    cell = np.empty((len(x), 2))
    cell[order] = np.column_stack([edges[:-1], edges[1:]])
    to_low = (x - cell[:, 0]) / (high - low)  # l
    to_high = (cell[:, 1] - x) / (high - low)  # r
    if position == "end":
        cubes = (to_low + to_high) ** 3
    else:
        cubes = to_low**3 + to_high**3
    steepness = (np.abs(slope) + lipschitz) * (high - low)
    return InterpolationBound(cell, steepness**2 * cubes / 3, float(lipschitz))
