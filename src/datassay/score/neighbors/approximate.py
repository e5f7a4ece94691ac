"""The k nearest rows, approximately: an inverted file of faiss, and its measured recall."""

from __future__ import annotations

import math

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from datassay.errors import SettingError
from datassay.score.neighbors.exact import Nearest, nearest_exact, ranked

# Cells that are searched, and queries whose exact neighbours measure the recall.
PROBES = 8
RECALL_QUERIES = 500


def nearest_approximate(x: Float[Tensor, "n d"], k: int) -> Nearest:
    """The k nearest among the rows of the nearest cells, ranked by differences in float64.

    Args:
        x: different rows, float64, finite.
        k: at most n.

    Returns:
        Positions and squared distances of each row, itself among them.

    Raises:
        SettingError: faiss is not installed.

    Cost: about 12 n^1.5 d float32 operations and n d float32 values.
    Source: Jégou, Douze and Schmid (2011), the inverted file without product quantisation; about
    2 √n cells, 8 of them searched.
    """
    faiss = _faiss()
    n, d = x.shape
    rows = (x - x.mean(0)).float()
    rows = (rows / rows.abs().max()).numpy()
    cells = max(1, min(int(2 * math.sqrt(n)), n // 39))
    index = faiss.IndexIVFFlat(faiss.IndexFlatL2(d), d, cells)
    index.cp.niter, index.cp.seed = 5, 0
    index.cp.max_points_per_centroid = 64
    index.train(rows)
    index.add(rows)
    index.nprobe = min(PROBES, cells)
    nearest = torch.from_numpy(index.search(rows, min(n, k + 2))[1])
    return ranked(x, torch.arange(n), _completed(nearest, n), k)


def measured_recall(x: Float[Tensor, "n d"], nearest: Nearest, k: int) -> float:
    """Share of the exact k nearest that were found, over a random 500 rows.

    Args:
        x: the rows.
        nearest: of all rows.
        k: neighbours.

    Returns:
        Between 0 and 1; the row itself does not count. A farther row at the very same distance
        counts as found.
    """
    n = len(x)
    size = min(n, RECALL_QUERIES)
    some = torch.from_numpy(np.random.default_rng(0).choice(n, size, replace=False))
    exact = nearest_exact(x, some, k)
    hits = (nearest.squared[some] <= exact.squared[:, -1:]).sum(1) - 1
    return float(hits.sum()) / (size * (k - 1))


def _completed(nearest: Tensor, n: int) -> Tensor:
    """Each list with its own row, filled up with other rows where cells held too few."""
    own = torch.arange(n)[:, None]
    nearest = torch.where((nearest == own).any(1, keepdim=True), nearest, _with_own(nearest, own))
    for i in (nearest < 0).any(1).nonzero()[:, 0].tolist():
        have = nearest[i][nearest[i] >= 0]
        others = torch.arange(min(n, nearest.shape[1] + len(have)))
        others = others[~torch.isin(others, have)]
        nearest[i, len(have) :] = others[: nearest.shape[1] - len(have)]
    return nearest


def _with_own(nearest: Tensor, own: Tensor) -> Tensor:
    return torch.cat([own, nearest[:, :-1]], 1)


def _faiss():
    try:
        import faiss
    except ImportError:
        raise SettingError(
            "search='approximate' needs faiss; it is not installed. pip install "
            "'datassay[neighbors]', or set search='exact'."
        ) from None
    return faiss
