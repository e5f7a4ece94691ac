"""What the targets of the nearest other samples say of a sample's own."""

import numpy as np
from jaxtyping import Bool, Float, Int

from datassay.data.samples import SampleSet
from datassay.results import result

# A label that fewer of the neighbours share, while more than half agree on another, is doubtful.
FEW = 0.2
# So many local standard deviations from its neighbours' mean, a target is doubtful.
FAR = 4.0


@result
class NeighborTargets:
    """The targets of the k − 1 nearest others, and which samples they contradict.

    Attributes:
        is_doubtful: [n], what a wrong label looks like. Classes: fewer than a fifth of the
            neighbours share the label and more than half agree on another. Targets: farther from
            the neighbours' mean than 4 of their standard deviations.
        counts: [n, classes], neighbours of each class; [n, 0] of a regression.
        agreement: [n], share of the neighbours with the sample's own class; 0 of a regression.
        mean: [n, q], of the neighbours' targets; [n, 0] of classes.
        spread: [n, q], their standard deviation; [n, 0] of classes.
    """

    is_doubtful: Bool[np.ndarray, " n"]
    counts: Int[np.ndarray, "n classes"]
    agreement: Float[np.ndarray, " n"]
    mean: Float[np.ndarray, "n q"]
    spread: Float[np.ndarray, "n q"]


def neighbor_targets(samples: SampleSet, index: Int[np.ndarray, "n k"]) -> NeighborTargets:
    """Return how each target compares with its neighbours'; index[:, 1:] are these."""
    n = len(samples)
    neighbors = index[:, 1:]
    no_values = np.zeros((n, 0))
    if not samples.is_classification:
        y = samples.y.reshape(n, -1)
        mean = y[neighbors].mean(1)
        spread = y[neighbors].std(1)
        has_spread = neighbors.shape[1] > 2  # a standard deviation of two says little
        is_far = (np.abs(y - mean) > FAR * spread).any(1) & has_spread
        return NeighborTargets(is_far, no_values.astype(int), np.zeros(n), mean, spread)
    cells = samples.y[neighbors] + samples.n_classes * np.arange(n)[:, None]  # of counts, flat
    counts = np.bincount(cells.ravel(), minlength=n * samples.n_classes).reshape(n, -1)
    share = counts / counts.sum(1, keepdims=True)
    agreement = share[np.arange(n), samples.y]
    is_doubtful = (agreement < FEW) & (share.max(1) > 0.5)
    return NeighborTargets(is_doubtful, counts, agreement, no_values, no_values)
