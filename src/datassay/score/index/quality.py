"""How far an index's effects follow those of all coordinates, on a few of its own samples."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from scipy.stats import spearmanr
from torch import Tensor

from datassay.progress import silent
from datassay.score.index.encoding import Encoding, query_rows
from datassay.score.index.segment import quantised
from datassay.score.influence.first_order import directions, removal_effects
from datassay.score.influence.measure import Measure
from datassay.score.influence.trained_network import TrainedNetwork

# Samples that are compared, the first of them as queries; values that the queries may take.
N_SAMPLES, N_QUERIES, FEWEST = 256, 64, 20
MOST_VALUES = 2**27


def rank_correlation(
    network: TrainedNetwork, encoding: Encoding, precision: str, measure: Measure, seed: int
) -> dict[str, float] | None:
    """Spearman correlation over samples of an index's effects with those of all coordinates.

    Args:
        network: with all its training samples.
        encoding: whose rows.
        precision: that they are kept in.
        measure: of the queries.
        seed: of the draw of samples.

    Returns:
        "mean" over queries, "low" and "high" of its 95 % interval, and "queries" and "samples";
        None of fewer than 40 samples.

    Cost: gradients of up to 320 samples, all coordinates of the queries held at once.
    """
    if network.n < 2 * FEWEST:
        return None
    assert network.train.subset is not None
    size = sum(block.size for block in network.per_sample.blocks)
    m = max(FEWEST // 4, min(N_QUERIES, MOST_VALUES // size, network.n // 4))
    drawn = np.random.default_rng(seed).permutation(network.n)[: m + N_SAMPLES]
    queries = network.train.subset(np.sort(drawn[:m]).tolist())
    samples = network.train.subset(np.sort(drawn[m:]).tolist())
    few = replace(
        network, train=samples, removed=None, n=len(drawn) - m, progress=silent, own_loss=None
    )
    bases = dict(encoding.bases)
    towards = directions(network, bases, [batch for _, batch in queries], measure)
    exact = torch.cat([p.effect for p in removal_effects(few, bases, towards, 1.0)]).numpy()
    asked, _ = query_rows(network, encoding, measure, queries)
    rows = torch.cat([encoding.rows(g)[0] for _, g in few.loss_gradients()])
    ours = -(_kept(rows, precision) @ asked.T).numpy()
    each = np.array([spearmanr(a, b)[0] for a, b in zip(exact.T, ours.T, strict=True)])
    half = 1.96 * float(each.std(ddof=1)) / len(each) ** 0.5
    mean = float(each.mean())
    return {
        "mean": mean,
        "low": mean - half,
        "high": min(1.0, mean + half),
        "queries": len(each),
        "samples": len(rows),
    }


def _kept(rows: Tensor, precision: str) -> Tensor:
    kept, scale = quantised(rows, precision)
    return torch.from_numpy(kept).float() * torch.from_numpy(scale)[:, None]
