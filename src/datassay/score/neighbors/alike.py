"""The samples most like some others, those of one class apart from those of another."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int, Shaped

from datassay.results import result

N_ALIKE = 4
MOST_VALUES = 2**25  # products held at a time
SIDES = ("given", "suggested")


@result
class Alike:
    """For each of m samples the nearest of the given class, and the nearest of the suggested one.

    Attributes:
        nearest: [m, sides, k], positions, nearest first; −1 where there are no more. Two sides, the
            given and the suggested class; without classes one, of all samples.
        distance: [m, sides, k], Euclidean, in the places' unit; nan where there are no more.
    """

    nearest: Int[np.ndarray, "m sides k"]
    distance: Float[np.ndarray, "m sides k"]


def alike(
    places: Shaped[np.ndarray, "n d"],
    positions: Int[np.ndarray, " m"],
    classes: Int[np.ndarray, " n"] | None = None,
    suggested: Int[np.ndarray, " n"] | None = None,
    k: int = N_ALIKE,
) -> Alike:
    """The samples nearest to some."""
    x, n = places.astype(np.float32), len(places)
    squares = np.einsum("nd,nd->n", x, x)
    sides = 1 if classes is None or suggested is None else len(SIDES)
    nearest = np.full((len(positions), sides, k), -1)
    distance = np.full(nearest.shape, np.nan)
    block = max(1, MOST_VALUES // n)
    for start in range(0, len(positions), block):
        own = positions[start : start + block]
        far = squares - 2 * (x[own] @ x.T) + squares[own, None]  # [b, n], squared
        far[np.arange(len(own)), own] = np.inf
        for b, i in enumerate(own):
            for side, inside in enumerate(_sides(int(i), classes, suggested)):
                values = np.where(inside, far[b], np.inf)
                few = np.argpartition(values, min(k, len(values) - 1))[: k + 1]
                few = few[np.isfinite(values[few])]
                few = few[np.lexsort((few, values[few]))][:k]
                nearest[start + b, side, : len(few)] = few
                gap = np.sqrt(far[b][few].clip(0))
                distance[start + b, side, : len(few)] = gap
    return Alike(nearest, distance)


def _sides(i: int, classes: np.ndarray | None, suggested: np.ndarray | None) -> list[np.ndarray]:
    """Which samples each side may take, [n] each."""
    if classes is None or suggested is None:
        return [np.ones(1, bool)]
    given = classes == classes[i]
    return [given, ~given if suggested[i] == classes[i] else classes == suggested[i]]
