"""Links between rows, their groups, and which samples of a group are copies or disagree."""

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

ROUNDING = 1e-3  # of a target's standard deviation: no other target
NO_LINKS = np.zeros((0, 2), int)
Links = Int[np.ndarray, "l 2"]  # positions of two rows each


def connect_rows(links: Links, n: int) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, "m 2"]]:
    """Return each row's group of linked rows (−1: none), and pairs (first row, other)."""
    graph = coo_array((np.ones(len(links)), tuple(links.T)), shape=(n, n))
    label = connected_components(graph, directed=False)[1]
    _, start, inverse, size = np.unique(
        label, return_index=True, return_inverse=True, return_counts=True
    )
    followers = np.flatnonzero((size[inverse] > 1) & (start[inverse] != np.arange(n)))
    pairs = np.stack([start[inverse[followers]], followers], 1)
    number = np.where(size > 1, np.cumsum(size > 1) - 1, -1)
    return number[inverse], pairs[np.lexsort(pairs.T[::-1])]


def link_accepted_rows(
    p_accident: Float[np.ndarray, "u j"], index: Int[np.ndarray, "u k"], share: float
) -> Links:
    """Return links of rows accepted as copies to their nearest rows.

    p_accident[u, j]: P(row u and its j + 1 nearest are that close by chance). index: neighbours.
    share: of the accepted rows that may be accidents (Benjamini and Hochberg).
    """
    smallest = p_accident.min(1)
    n_columns = p_accident.shape[1]
    is_accepted = _accept_rows(smallest, share)
    threshold = smallest[is_accepted].max(initial=-1.0)
    # Neighbours in the largest group that is no accident.
    n_neighbors = (n_columns - np.argmax(p_accident[:, ::-1] <= threshold, 1))[:, None]
    # A pair needs one accepted row. In larger groups the neighbour must be accepted too: of three
    # rows, one often lies far from all others by accident.
    is_linked = (n_neighbors == 1) | is_accepted[index[:, :n_columns]]
    is_linked &= (np.arange(n_columns) < n_neighbors) & is_accepted[:, None]
    return np.stack([np.nonzero(is_linked)[0], index[:, :n_columns][is_linked]], 1)


def _accept_rows(p_accident: Float[np.ndarray, " u"], share: float) -> Bool[np.ndarray, " u"]:
    """Return rows accepted by Benjamini and Hochberg at the false discovery rate `share`."""
    n = len(p_accident)
    ordered = np.sort(p_accident)
    below = np.flatnonzero(ordered <= share * np.arange(1, n + 1) / n)
    return p_accident <= (ordered[below[-1]] if len(below) else -1.0)


def is_copy(
    copies: Int[np.ndarray, " n"], y: np.ndarray, suspicion: Float[np.ndarray, " n"] | None = None
) -> Bool[np.ndarray, " n"]:
    """Return a mask of samples that are copies of one that stays.

    Samples with one number in `copies` are equal. Of these the least suspect stays, or the first;
    all stay where their targets differ, as one may be wrong.
    """
    if suspicion is None:
        suspicion = np.zeros(len(y))
    else:
        suspicion = np.nan_to_num(suspicion)
    order = np.lexsort((suspicion, copies))  # stable: of equally suspect ones the first stays
    is_first = np.diff(copies[order], prepend=-1) != 0
    result = np.zeros(len(y), bool)
    result[order[~is_first]] = True
    return result & ~differ(copies, y)


def differ(groups: Int[np.ndarray, " n"], y: np.ndarray) -> Bool[np.ndarray, " n"]:
    """Return a mask of samples whose group holds different targets, beyond rounding."""
    targets = y.reshape(len(y), -1)
    number = np.unique(groups, return_inverse=True)[1]
    low = np.full(targets.shape, np.inf)  # of each number
    high = -low
    np.minimum.at(low, number, targets)
    np.maximum.at(high, number, targets)
    is_whole = y.dtype.kind in "iub"
    rounding = 0.0
    if not is_whole:
        rounding = ROUNDING * targets.std(0)
    is_mixed = np.any((high - low > rounding) & np.isfinite(low), axis=1)
    return np.take(is_mixed, number)
