"""Per-class and per-source sums of a score, and whether the groups really differ."""

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Int, Shaped
from scipy.special import chdtrc, ndtri

from datassay.ranks import mean_ranks, superiority
from datassay.results import Tabular, result
from datassay.rules import at_least, require

# Bootstrap samples held at once, as values.
CHUNK_VALUES = 2**20
NORMAL_FROM = 20_000  # samples from which the mean is taken as normal


@result
class Aggregate(Tabular):
    """A score summed up by label, one row per label, sorted by label.

    Attributes:
        names: [g], the labels.
        count: [g], samples.
        total: [g], the score's unit (nats for information).
        mean: [g], per sample.
        mean_interval: [g, 2], 95 % bootstrap interval of the mean.
        median: [g], per sample.
        share: [g], share of the total over all labels; adds up to 1 (0 where the total is 0).
        p_value: of the hypothesis that all labels have the same distribution, by ranks:
            Mann-Whitney for two labels, Kruskal-Wallis for more, 1 where there is nothing to
            compare.
        superiority: [g], the probability that a random sample of the label scores higher than a
            random sample of the others, ties counting half; 0.5: no difference.
    """

    names: Shaped[np.ndarray, " g"]
    count: Int[np.ndarray, " g"]
    total: Float[np.ndarray, " g"]
    mean: Float[np.ndarray, " g"]
    mean_interval: Float[np.ndarray, "g 2"]
    median: Float[np.ndarray, " g"]
    share: Float[np.ndarray, " g"]
    p_value: float
    superiority: Float[np.ndarray, " g"]

    def to_table(self) -> pa.Table:
        """Return a table with one row per label."""
        return pa.table({
            "label": self.names,
            "count": self.count,
            "total": self.total,
            "mean": self.mean,
            "mean_low": self.mean_interval[:, 0],
            "mean_high": self.mean_interval[:, 1],
            "median": self.median,
            "share": self.share,
            "superiority": self.superiority,
        })


def aggregate(
    information: Float[np.ndarray, " n"],
    labels: Shaped[np.ndarray, " labelled"],
    *,
    resamples: int = 2000,
    seed: int = 0,
) -> Aggregate:
    """Compute total, mean, median, count and share of a score by label, and test for differences.

    Args:
        information: one value per sample, such as `SampleInformation.information`.
        labels: the samples' classes or sources.
        resamples: bootstrap samples of each label's mean.
        seed: of the bootstrap.

    Returns:
        One row per label. The sum of the samples' informations is not the information of the group:
        see `group_information`.

    Raises:
        SettingError: there are no samples, the labels are not one per value, a value is not finite,
            or resamples is below 1.

    Cost: n · resamples values, a chunk at a time.
    Source: percentile bootstrap (Efron, 1979), of more than 20 000 samples its normal limit; the
    rank tests of SciPy.
    """
    n = len(information)
    require(n > 0, "information", "hold at least one sample", "none")
    require(len(labels) == n, "labels", "hold one label per sample", f"{len(labels)} for {n}")
    n_bad = int((~np.isfinite(information)).sum())
    require(not n_bad, "information", "be finite to be summed", f"{n_bad} that are not")
    at_least("resamples", resamples, 1)
    names = np.unique(labels)
    # Sorted, so that bootstrap samples do not depend on the order of rows.
    groups = [np.sort(information[labels == name]) for name in names]
    rng = np.random.default_rng(seed)
    total = np.array([group.sum() for group in groups])
    grand_total = total.sum()
    ranks = mean_ranks(information)
    superiorities = np.array([0.5])
    if len(names) > 1:
        superiorities = np.array([superiority(ranks, labels == name) for name in names])
    return Aggregate(
        names=names,
        count=np.array([len(group) for group in groups]),
        total=total,
        mean=np.array([group.mean() for group in groups]),
        mean_interval=np.stack([_bootstrap_interval(group, resamples, rng) for group in groups]),
        median=np.array([np.median(group) for group in groups]),
        share=total / grand_total if grand_total != 0 else np.zeros(len(names)),
        p_value=_test_equality(groups, [ranks[labels == name] for name in names]),
        superiority=superiorities,
    )


def _bootstrap_interval(values: np.ndarray, resamples: int, rng: np.random.Generator) -> np.ndarray:
    """Return the bootstrap 95 % interval (low, high) of the mean."""
    if len(values) > NORMAL_FROM:
        return values.mean() + values.std() / len(values) ** 0.5 * ndtri([0.025, 0.975])
    chunk = max(1, CHUNK_VALUES // len(values))
    means = []
    for start in range(0, resamples, chunk):
        shape = (min(chunk, resamples - start), len(values))
        means.append(values[rng.integers(0, len(values), shape)].mean(1))
    return np.quantile(np.concatenate(means), [0.025, 0.975])


def _test_equality(groups: list[np.ndarray], ranks: list[np.ndarray]) -> float:
    """Return p of the hypothesis that all groups are equally distributed (rank test)."""
    n = sum(map(len, ranks))
    centred = [r - (n + 1) / 2 for r in ranks]
    sum_of_squares = sum(np.square(c).sum() for c in centred)
    if len(groups) < 2 or sum_of_squares == 0:
        return 1.0
    if len(groups) == 2:
        from scipy.stats import mannwhitneyu  # slow to import

        return float(mannwhitneyu(groups[0], groups[1]).pvalue)
    statistic = (n - 1) * sum(len(c) * c.mean() ** 2 for c in centred) / sum_of_squares
    return float(chdtrc(len(groups) - 1, statistic))
