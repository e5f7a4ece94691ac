"""Each sample paired with the one most similar to it in the kernel."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from datassay.collect.linearization import Linearization
from datassay.score.linear.panels import all_rows


def nearest_pairs(lin: Linearization) -> Int[np.ndarray, "q 2"]:
    """Each sample with the other of largest cosine in the kernel, every pair once.

    cos(i, j) = tr Θ_ij / √(tr Θ_ii tr Θ_jj),  Θ_ij the b x b block of samples i and j

    Args:
        lin: the linearisation of n samples.

    Returns:
        Positions, the smaller first; between n/2 and n pairs. A sample without gradient has no
        nearest and starts no pair.

    Cost: n² values; of features 2 n² b p operations besides.
    Source: the cosine of gradients, as in Charpiat et al. (2019); our choice of candidates for
    `pair_information`, whose redundancy is largest among samples that move the same outputs.
    """
    traces = _traces(lin)
    length = traces.diagonal().clamp_min(0).sqrt()
    there = length > 0
    scale = torch.where(there, 1 / torch.where(there, length, 1.0), 0.0)
    cosine = traces * scale[:, None] * scale
    cosine.fill_diagonal_(-torch.inf)
    cosine[:, ~there] = -torch.inf
    nearest = cosine.argmax(1).numpy()
    own = np.arange(len(nearest))[there.numpy() & (int(there.sum()) > 1)]
    return np.unique(np.sort(np.stack([own, nearest[own]], 1), 1), axis=0)


def _traces(lin: Linearization) -> Float[Tensor, "n n"]:
    n, b = len(lin), lin.rows_per_sample
    if lin.kernel is not None:
        return lin.kernel.reshape(n, b, n, b).diagonal(dim1=1, dim2=3).sum(-1)
    assert lin.features is not None
    rows = all_rows(lin.features).reshape(n, -1)
    return rows @ rows.T
