"""Weights by local variance: samples count more where the target varies more (S0, VBSW)."""

from collections.abc import Mapping
from dataclasses import field
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Shaped

from datassay import rules
from datassay.data.arguments import checks_arguments
from datassay.data.source import to_numpy
from datassay.errors import DataError
from datassay.methods.weigh.settings import Weighting
from datassay.optional import coalesce
from datassay.results import Tabular, result
from datassay.score.neighbors.local_variance import LocalVariance, local_variance


@result
class SampleWeights(Tabular):
    """Weights of samples, and how they came about.

    Attributes:
        weight: [n], unitless, positive, summing to 1.
        ids: [n], the samples' ids.
        method: which weighting.
        details: its settings and what is to be known of the result, by name.
    """

    weight: Float[np.ndarray, " n"]
    ids: np.ndarray
    method: str
    details: Mapping[str, float | int | str] = field(default_factory=dict)

    def to_table(self) -> pa.Table:
        """Return one row per sample: id, sample_weight."""
        return pa.table({"id": self.ids, "sample_weight": self.weight})


@checks_arguments
def local_variance_weights(
    features: Any,
    y: Any,
    n_neighbors: int = Weighting.n_neighbors,
    max_ratio: float = Weighting.max_ratio,
    *,
    search: str = Weighting.search,
    density: bool = Weighting.density,
    density_clip: float = Weighting.density_clip,
) -> Float[np.ndarray, " n"]:
    """Weight samples by the target's local variance: `sample_weights` without details.

    Args:
        features: [n, ...], finite; an array, tensor, data frame or nested lists.
        y: classes or targets, as `local_variance` takes them; the same types.
        n_neighbors: k, the sample itself among them: 2 ≤ k < n.
        max_ratio: m, the largest weight divided by the smallest possible, at least 1.
        search: as `nearest_neighbors` has it.
        density: whether to divide the variance by the density of the samples.
        density_clip: how far above or below its median the density may be.

    Returns:
        [n], summing to 1; uniform where the target never varies.

    Raises:
        DataError: features or targets that are not finite numbers, or not one target per sample.
        SettingError: n_neighbors is below 2 or not below n, max_ratio or density_clip is below 1,
            search is unknown, or faiss is missing.
    """
    weights = sample_weights(
        to_numpy(features, "features"), to_numpy(y, "y"), n_neighbors, max_ratio, search=search,
        density=density, density_clip=density_clip,
    )  # fmt: skip
    return weights.weight


@checks_arguments
def sample_weights(
    features: Shaped[np.ndarray, "n ..."],
    y: Shaped[np.ndarray, "..."],
    n_neighbors: int = Weighting.n_neighbors,
    max_ratio: float = Weighting.max_ratio,
    *,
    search: str = Weighting.search,
    density: bool = Weighting.density,
    density_clip: float = Weighting.density_clip,
    ids: np.ndarray | None = None,
) -> SampleWeights:
    """Weight samples by the target's local variance, and say how the weights came about.

    w_i = (1 + (m − 1) v_i / max v) / Σ,  v = Df² or, with density, Df²/p̂

    Args:
        features: [n, ...], finite.
        y: classes or targets, as `local_variance` takes them.
        n_neighbors: k, the sample itself among them: 2 ≤ k < n.
        max_ratio: m, the largest weight divided by the smallest possible, at least 1.
        search: as `nearest_neighbors` has it.
        density: whether to divide by p̂, the k-nearest-neighbour density: p̂ ∝ r^−d with r the
            distance of the kth neighbour and d the columns. Off: samples count as uniform.
        density_clip: p̂ is brought into its median divided and multiplied by this, at least 1. The
            estimate spans hundreds of orders of magnitude in many columns (S0 §4.2 gave it up).
        ids: [n]; None: 0 to n − 1.

    Returns:
        The weights. details: the settings, search, recall, redone, constant (samples whose
        neighbours all agree), max_variance and, with density, density_clipped (samples whose p̂
        was).

    Raises:
        DataError: features or targets that are not finite numbers, or not one target per sample.
        SettingError: n_neighbors is below 2 or not below n, max_ratio or density_clip is below 1,
            search is unknown, or faiss is missing.

    Cost: the neighbours.
    Source: S0 Algorithm 1, lines 4 and 5. Its text scales [min v, max v] to [1, m]; the code that
    made its numbers scales [0, max v], as here, and does not divide by the sum, as we do.
    """
    check_ratios(max_ratio, density_clip)
    ids = coalesce(ids, np.arange(len(y)))
    if ids.shape != y.shape[:1]:
        raise DataError(f"ids must name every sample, {len(y)}; got shape {list(ids.shape)}.")
    variance = local_variance(features, y, n_neighbors, search=search)
    n_columns = int(np.prod(features.shape[1:]))
    return weights_of_variance(
        variance, ids, max_ratio, density_clip if density else None, n_columns
    )


def weights_of_variance(
    local: LocalVariance,
    ids: Shaped[np.ndarray, " n"],
    max_ratio: float,
    density_clip: float | None,
    n_columns: int,
) -> SampleWeights:
    """Compute `sample_weights` from known local variances."""
    variance = local.variance
    details: dict[str, float | int | str] = {
        "n_neighbors": local.neighbors.index.shape[1],
        "max_ratio": max_ratio,
        "search": local.neighbors.search,
        "recall": local.neighbors.recall,
        "redone": local.neighbors.redone,
        "constant": int((variance == 0).sum()),
        "max_variance": float(variance.max()),
    }
    if density_clip is not None:
        relative_density, n_clipped = _compute_density(local, n_columns, density_clip)
        variance = variance / relative_density
        details |= {"density_clip": density_clip, "density_clipped": n_clipped}
    return SampleWeights(scaled_variance(variance, max_ratio), ids, "local_variance", details)


def check_ratios(max_ratio: float, density_clip: float = 1) -> None:
    """Raise if a ratio is below 1 or infinite."""
    for name, value in (("max_ratio", max_ratio), ("density_clip", density_clip)):
        rules.require(1 <= value < np.inf, name, "be a number of at least 1", value)


def scaled_variance(variance: Float[np.ndarray, " n"], max_ratio: float) -> Float[np.ndarray, " n"]:
    """Return the weights w of `sample_weights` for variances v; uniform where all v are 0."""
    largest = variance.max()
    if largest == 0:
        return np.full(len(variance), 1 / len(variance))
    weight = 1 + (max_ratio - 1) * (variance / largest)
    return weight / weight.sum()


def _compute_density(
    local: LocalVariance, n_columns: int, clip: float
) -> tuple[Float[np.ndarray, " n"], int]:
    """Return density over its median, clipped to [1/clip, clip], [n], and how many were."""
    radius = local.neighbors.distance[:, -1]
    with np.errstate(divide="ignore"):  # k equal samples: radius 0, infinitely dense
        log_density = -n_columns * np.log(radius)
    median = np.median(log_density)
    if np.isinf(median):  # more than half are infinitely dense: all others are thinner than these
        log_density = np.where(np.isinf(log_density), 0.0, -np.inf)
        median = 0.0
    relative = log_density - median
    limit = np.log(clip)
    return np.exp(np.clip(relative, -limit, limit)), int((np.abs(relative) > limit).sum())
