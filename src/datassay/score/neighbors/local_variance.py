"""How much the target varies among a sample's nearest neighbours: S0's estimate of Df²."""

import warnings

import numpy as np
from jaxtyping import Float, Int, Shaped

from datassay.errors import DataError
from datassay.results import result
from datassay.score.neighbors.search import Neighbors, nearest_neighbors

# Values of one block of neighbours' targets.
BLOCK_VALUES = 2**22
# Columns so many times narrower than the widest decide no neighbour; this share of them may be. A
# picture has a few such pixels at its edge; a table of several units has more such columns.
NARROW = {1e3: 0.1, 1e2: 0.2}
LARGEST = 1e150  # target whose square is a number
SMALLEST = 1e-150  # difference of targets whose square is a number


@result
class LocalVariance:
    """Variance of the targets among each sample's neighbours, itself included.

    Attributes:
        variance: [n], squared target unit, summed over outputs; of classes the variance of their
            one-hot columns, at most 1 + 1/(k − 1). Exactly 0 where all neighbours agree.
        neighbors: the neighbours that it is over.
    """

    variance: Float[np.ndarray, " n"]
    neighbors: Neighbors


def local_variance(
    features: Shaped[np.ndarray, "n ..."],
    y: Shaped[np.ndarray, "..."],
    n_neighbors: int = 20,
    *,
    search: str = "auto",
) -> LocalVariance:
    """Compute the variance of the target among the nearest neighbours of each sample.

    Df²(x_i) = 1/(k − 1) Σ_{j ∈ kNN(i)} ‖f(x_j) − mean‖²;
    of one-hot classes (k − Σ_c k_c²/k)/(k − 1), with k_c neighbours in class c.

    Units of columns decide who is a neighbour: a UserWarning says so where they differ too much.

    Args:
        features: [n, ...], finite.
        y: classes ([n] whole numbers, booleans or strings) or targets ([n] floats, or [n, q]
            numbers), finite.
        n_neighbors: k, the sample itself among them: 2 ≤ k < n.
        search: as `nearest_neighbors` has it.

    Returns:
        The variances and the neighbours.

    Raises:
        DataError: features or targets that are not finite numbers, or not one target per sample, or
            targets that differ by less than 1e-150.
        SettingError: n_neighbors is below 2 or not below n, search is unknown, or faiss is missing.

    Cost: the neighbours, and n k q values per block at a time.
    Source: S0 eq. (4); the sample itself is among its neighbours, as in the code behind its
    numbers. That code divides by k: a factor k/(k − 1) that leaves the weights unchanged.
    """
    _check_targets(features, y)
    neighbors = nearest_neighbors(features, n_neighbors, search=search)
    _warn_of_units(features)
    return LocalVariance(neighbor_variance(neighbors.index, y), neighbors)


def _warn_of_units(features: Shaped[np.ndarray, "n ..."]) -> None:
    """Warn if many columns vary too little to influence who is a neighbour."""
    spread = features.reshape(len(features), -1).std(axis=0, dtype=np.float64)
    spread = spread[spread > 0]
    for times, share in NARROW.items():
        n_narrow = int((spread < spread.max(initial=0.0) / times).sum())
        if n_narrow > share * len(spread):
            warnings.warn(
                f"{n_narrow} of {len(spread)} columns vary {times:g} times less than the widest "
                "and decide no neighbour: the answer depends on the columns' units. Bring them to "
                "one scale first, as by sklearn's StandardScaler.",
                UserWarning,
                stacklevel=3,
            )
            break


def neighbor_variance(
    index: Int[np.ndarray, "n k"], y: Shaped[np.ndarray, "n ..."]
) -> Float[np.ndarray, " n"]:
    """Return the variance of targets among each sample's k neighbours; classes one-hot."""
    # Whole numbers, booleans and strings are classes.
    if y.ndim == 1 and y.dtype.kind in "biuU":
        return _class_variance(index, np.unique(y, return_inverse=True)[1])
    return _target_variance(index, y.reshape(len(y), -1).astype(np.float64))


def _check_targets(features: np.ndarray, y: np.ndarray) -> None:
    """Raise unless y holds a class or finite targets for each sample."""
    if y.ndim not in {1, 2} or y.size == 0 or y.dtype.kind not in "biufU":
        raise DataError(
            "y must be [n] classes, or [n] or [n, q] targets; got "
            f"{y.dtype} of shape {list(y.shape)}."
        )
    if features.ndim == 0 or len(y) != len(features):
        raise DataError(
            f"y must hold one target per sample, {features.shape[0] if features.ndim else 'n'}; "
            f"got {len(y)}."
        )
    if y.ndim == 2 and y.dtype.kind == "U":
        raise DataError(f"y must be [n] where it holds strings; got shape {list(y.shape)}.")
    if y.dtype.kind == "f":
        # In float64: float32 cannot hold 1e150, and NumPy would warn for float32 targets.
        is_bad = ~(np.abs(y.reshape(len(y), -1).astype(np.float64)) < LARGEST).all(1)
        if is_bad.any():
            raise DataError(
                f"y must be finite and below 1e150; {is_bad.sum()} of {len(y)} targets are not, "
                f"the first at position {is_bad.argmax()}. Remove those samples."
            )
        if 0 < np.ptp(y.astype(np.float64), axis=0).max() < SMALLEST:
            raise DataError(
                f"y must differ by {SMALLEST:g} or more, or squares of differences are 0; got "
                f"{np.ptp(y):.3g} at most. Multiply the targets, which changes no weight."
            )


def _class_variance(
    index: Int[np.ndarray, "n k"], labels: Int[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """Return the probability that two of a sample's k neighbours differ in class."""
    n, k = index.shape
    n_classes = int(labels.max()) + 1
    squares = np.empty(n)
    step = max(1, BLOCK_VALUES // (k + n_classes))
    for start in range(0, n, step):
        neighbor_labels = labels[index[start : start + step]]
        n_rows = len(neighbor_labels)
        cells = neighbor_labels + n_classes * np.arange(n_rows)[:, None]
        counts = np.bincount(cells.ravel(), minlength=n_rows * n_classes).reshape(n_rows, -1)
        squares[start : start + step] = np.square(counts).sum(1)
    return (k * k - squares) / (k * (k - 1))  # whole numbers up to here: 0 is exact


def _target_variance(
    index: Int[np.ndarray, "n k"], y: Float[np.ndarray, "n q"]
) -> Float[np.ndarray, " n"]:
    """Return the variance of the targets among each sample's k neighbours."""
    n, k = index.shape
    variance = np.empty(n)
    step = max(1, BLOCK_VALUES // (k * y.shape[1]))
    for start in range(0, n, step):
        block = slice(start, start + step)
        # From the sample's own target, so that neighbours with the same target give exactly 0.
        deviation = y[index[block]] - y[block, None]
        deviation -= deviation.mean(1, keepdims=True)
        variance[block] = np.square(deviation).sum((1, 2)) / (k - 1)
    return variance
