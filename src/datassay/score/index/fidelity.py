"""How well effects from rows of few bytes follow exact ones."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from datassay.collect.gradients.recording import Gradients
from datassay.progress import silent
from datassay.ranks import correlation
from datassay.score.index.encoding import GradientEncoding, query_rows
from datassay.score.index.search import prepare_rows
from datassay.score.index.sketch import Sketch
from datassay.score.influence.first_order import Measure, directions, removal_effects
from datassay.score.influence.trained_network import TrainedNetwork

N_SAMPLES = 256  # whose effects are compared
N_QUERIES = 64  # drawn among the samples
FEWEST = 20
MOST_VALUES = 2**27  # that the queries' gradients may take


def fidelity(
    network: TrainedNetwork, encodings: Sequence[GradientEncoding], measure: Measure, seed: int
) -> list[dict[str, float]] | None:
    """Compute the correlation of encoded with exact effects, for each encoding.

    Random errors of effects divide their covariance with outcomes of retraining as they divide
    this: about the same share of the linear datamodelling score is kept.

    Args:
        network: with its training samples, of which some are compared and some are queries.
        encodings: by the same bases.
        measure: of the queries.
        seed: of the draw.

    Returns:
        For each encoding "mean" over queries, "low" and "high" of its 95 % interval, and the
        numbers of "queries" and "samples"; None for fewer than 40 samples.

    Cost: gradients of up to 320 samples, all coordinates of the queries held at once.
    """
    if network.n < 2 * FEWEST:
        return None
    assert network.train.subset is not None
    n_weights = sum(block.size for block in network.per_sample.blocks)
    m = max(FEWEST // 4, min(N_QUERIES, MOST_VALUES // n_weights, network.n // 4))
    drawn = np.random.default_rng(seed).permutation(network.n)[: m + N_SAMPLES]
    queries = network.train.subset(np.sort(drawn[:m]).tolist())
    samples = network.train.subset(np.sort(drawn[m:]).tolist())
    sampled = replace(
        network, train=samples, removed=None, n=len(drawn) - m, progress=silent,
        self_influence_loss=None,
    )  # fmt: skip
    bases = dict(encodings[0].bases)
    target = directions(network, bases, [batch for _, batch in queries], measure)
    exact = torch.cat([p.effect for p in removal_effects(sampled, bases, target, 1.0)]).numpy()

    def encode(gradients: Gradients) -> Float[Tensor, "b widths"]:
        return torch.cat([encoding.query_rows(gradients) for encoding in encodings], 1)

    sketches = [encoding.sketch for encoding in encodings]
    widths = [sketch.width for sketch in sketches]
    q_rows = torch.cat([rows for rows, _ in query_rows(network, encode, measure, queries)])
    rows = torch.cat([encode(gradients) for _, gradients in sampled.loss_gradients()])
    pairs = zip(sketches, q_rows.split(widths, 1), rows.split(widths, 1), strict=True)
    return [_summarise_correlation(exact, _encoded_effects(*pair)) for pair in pairs]


def _encoded_effects(
    sketch: Sketch, q_rows: Float[Tensor, "m width"], rows: Float[Tensor, "n width"]
) -> Float[np.ndarray, "n m"]:
    """Return effects [n, m] by rows packed and read back, as an index does."""
    queries, _ = prepare_rows(sketch, [(q_rows, torch.zeros(len(q_rows)))])
    packed, scale = sketch.pack(rows)
    all_queries = slice(0, len(queries))
    levels = sketch.levels(packed)
    products = queries.products(levels, torch.from_numpy(scale), all_queries, is_coarse=False)
    return -products.T.double().numpy()


def _summarise_correlation(
    exact: Float[np.ndarray, "n m"], by_rows: Float[np.ndarray, "n m"]
) -> dict[str, float]:
    """Return the mean correlation over samples, by query, and its 95 % interval."""
    correlations = correlation(exact.T, by_rows.T)
    # Undefined for constants: 1 where both are constant, 0 where one is.
    are_constant = (np.ptp(exact, 0) == 0) & (np.ptp(by_rows, 0) == 0)
    correlations = np.where(np.isnan(correlations), are_constant, correlations)
    half_width = 1.96 * float(correlations.std(ddof=1)) / len(correlations) ** 0.5
    mean = float(correlations.mean())
    return {
        "mean": mean,
        "low": mean - half_width,
        "high": min(1.0, mean + half_width),
        "queries": len(correlations),
        "samples": len(exact),
    }
