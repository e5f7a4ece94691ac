"""Inputs that are odd: with noise on them, moved to fool a model, or of a group that is rare."""

import numpy as np
from jaxtyping import Float, Int
from scipy.special import log_ndtr

from datassay.data.arguments import checks_arguments
from datassay.data.samples import SampleSet
from datassay.data.scaling import standardized_inputs
from datassay.errors import DataError
from datassay.ranks import mean_ranks
from datassay.results import Tabular, column, result, sample_ids
from datassay.score.checks.data_issues import data_issues
from datassay.score.neighbors.search import nearest_neighbors
from datassay.score.registry import Context, Score

NEAREST = 20  # neighbours whose labels are compared
OF_CLASS = 5  # nearest neighbours of the same class
FEWEST = NEAREST + 2  # samples
# Above so many columns the covariance, or n² d products the neighbours, take more than a minute.
MOST_COLUMNS, MOST_PRODUCTS = 2000, 2e11
LEAST_DISTANCE = 1e-3  # part of the class's mean one, below which distances count as equal
LARGEST_Z = 37.0  # beyond it the normal law's tail is 0 in float64


@result
class OddInputs(Tabular):
    """How odd each sample's input is, one row per sample; nan is what was not looked for.

    Attributes:
        noise: [n], how far the columns differ from what the others say, and the sample from those
            near it in its class: the mean of two z-scores, times √2.
        adversarial: [n], nats: minus the logarithms of the chances of values as large, summed over
            what an input shows that was moved until a model errs.
        rare_group: [n], in (0, 1]: mean rank of what a hidden group of few samples shows.
        ids: [n], the samples' ids.
    """

    noise: Float[np.ndarray, " n"] = column(
        "how far the values differ from what the other columns and neighbours say",
        unit="standard deviations",
        sign="high: noise on the input",
        name="noise_score",
        nan_is_null=True,
    )
    adversarial: Float[np.ndarray, " n"] = column(
        "how unlikely it is that this input was not moved to fool a model",
        unit="nats",
        sign="high: moved",
        name="adversarial_score",
        nan_is_null=True,
    )
    rare_group: Float[np.ndarray, " n"] = column(
        "how much the sample looks like one of a small group within its class",
        unit="mean rank",
        sign="1: most",
        name="rare_group_score",
        nan_is_null=True,
    )
    ids: np.ndarray = sample_ids()


@checks_arguments
def odd_inputs(
    train: SampleSet,
    *,
    information: Float[np.ndarray, " n"] | None = None,
    label_score: Float[np.ndarray, " n"] | None = None,
    outlier_score: Float[np.ndarray, " n"] | None = None,
) -> OddInputs:
    """Score inputs by their columns, their neighbours, and what label scores say.

    - noise: (z(mean_j log(1 + r_j²)) + z(log(own-class distance / that of its neighbours))) / √2.
      r_j = (P w)_j / √P_jj is the standardised residual of column j given the others; w the
      standardised columns less the class's means, P the inverse of their Ledoit–Wolf covariance.
    - adversarial: Σ −log(1 − Φ(robust z)) over outlier_score, that mean over j, the share of other
      labels among the 20 nearest, and label_score.
    - rare_group: mean rank of that share, the distance to the nearest of its class, information.

    One score for all three would do worse: a wrong label is no noise on an input.

    Args:
        train: n samples; x is judged as a model sees it. Of a regression all are one class.
        information: as `sample_information` gives it; None: rare_group is that of the other two.
        label_score: as `label_issues` gives it; None: adversarial is that of the other three.
        outlier_score: as `data_issues` gives it; None: computed.

    Returns:
        The scores; nan of fewer than 22 samples, of more than 2000 columns, where n² d is above
        2e11, of inputs that are all equal, and of a regression but for noise.

    Raises:
        DataError: given scores are not one a sample.

    Cost: n d² for the covariance, and neighbours as `nearest_neighbors`, twice.
    Source: ours. Chosen on six of twelve data sets, measured on the others: docs/measured.md.
        Ledoit and Wolf (2004); Fisher (1925) for the sum.
    """
    n = len(train)
    for name, values in (("information", information), ("label_score", label_score),
                         ("outlier_score", outlier_score)):  # fmt: skip
        if values is not None and len(values) != n:
            raise DataError(f"{name} must have a value per sample, {n}; got {len(values)}.")
    missing_scores = np.full(n, np.nan)
    if n < FEWEST or train.x.size > min(n * MOST_COLUMNS, MOST_PRODUCTS / n):
        return OddInputs(missing_scores, missing_scores, missing_scores, train.ids)
    x = standardized_inputs(train)
    x = x[:, x.std(0) > 0]  # columns that vary
    if not x.size:
        return OddInputs(missing_scores, missing_scores, missing_scores, train.ids)
    if train.is_classification:
        y = train.y
    else:
        y = np.zeros(n, np.int64)
    deviation = _measure_deviation(x, y)
    distance, log_ratio = _measure_class_distances(x, y)
    noise = (_z_scores(deviation) + _z_scores(log_ratio)) / 2**0.5
    if not train.is_classification:
        return OddInputs(noise, missing_scores, missing_scores, train.ids)
    nearest = nearest_neighbors(x, NEAREST + 1, search="exact").index[:, 1:]
    disagreement = (y[nearest] != y[:, None]).mean(1)
    if outlier_score is None:
        outlier_score = data_issues(train).outlier_score
    evidence = (np.nan_to_num(outlier_score), deviation, disagreement, label_score)
    adversarial = np.sum([_normal_surprise(values) for values in evidence if values is not None], 0)
    hints = (disagreement, distance, information)
    ranks = np.mean([mean_ranks(hint) / n for hint in hints if hint is not None], 0)
    return OddInputs(noise, adversarial, ranks, train.ids)


def _measure_deviation(x: Float[np.ndarray, "n d"], y: Int[np.ndarray, " n"]) -> np.ndarray:
    """Return mean log(1 + r²) per sample, r a column's residual given the others and class."""
    offset = x.copy()
    for c in np.unique(y):
        offset[y == c] -= offset[y == c].mean(0)
    precision = np.linalg.pinv(_shrink_covariance(offset), hermitian=True)
    squares = np.square(offset @ precision) / np.diag(precision).clip(np.finfo(float).tiny)
    return np.log1p(squares).mean(1)


def _shrink_covariance(offset: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "d d"]:
    """Return the Ledoit–Wolf covariance of centred rows."""
    n, d = offset.shape
    covariance = offset.T @ offset / n
    variance = np.trace(covariance) / d
    squares = np.square(covariance).sum()
    error = (np.square(np.square(offset).sum(1)).sum() / n - squares) / n  # of the covariance
    shrinkage = min(1.0, error / max(squares - d * variance**2, np.finfo(float).tiny))
    return (1 - shrinkage) * covariance + shrinkage * variance * np.eye(d)


def _measure_class_distances(
    x: Float[np.ndarray, "n d"], y: Int[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Return each sample's mean distance to its class's nearest, and log ratio to theirs.

    A ratio is of the sample's distance to the mean one of these neighbours. A sample alone in its
    class is as far as the farthest, with log ratio 0.
    """
    distance = np.full(len(x), np.nan)
    log_ratio = np.zeros(len(x))
    for c in np.unique(y):
        members = np.flatnonzero(y == c)
        k = min(OF_CLASS, len(members) - 1)
        if k < 1:
            continue
        # The nearest is the sample itself; the search takes k + 1 below the number of rows.
        if k + 1 < len(members):
            neighbors = nearest_neighbors(x[members], k + 1, search="exact")
            near_idx = neighbors.index[:, 1:]
            mean_distance = neighbors.distance[:, 1:].mean(1)
        else:
            separation = np.linalg.norm(x[members][:, None] - x[members], axis=2)
            near_idx = np.argsort(separation, 1, kind="stable")[:, 1:]
            mean_distance = separation.sum(1) / k
        distance[members] = mean_distance
        floor = max(LEAST_DISTANCE * mean_distance.mean(), np.finfo(float).tiny)  # copies are at 0
        near_distance = mean_distance[near_idx].mean(1)
        log_ratio[members] = np.log(mean_distance.clip(floor)) - np.log(near_distance.clip(floor))
    largest = np.nanmax(distance, initial=0.0)
    return np.where(np.isnan(distance), largest, distance), log_ratio


def _z_scores(values: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    deviation = values - values.mean()
    return deviation / (values.std() or 1.0)


def _normal_surprise(values: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Return −log P(a value as large), nats, under a normal distribution fitted robustly."""
    deviation = values - np.median(values)
    width = 1.4826 * np.median(np.abs(deviation)) or 1.2533 * np.abs(deviation).mean() or 1.0
    return -log_ndtr(-np.clip(deviation / width, -LARGEST_Z, LARGEST_Z))


def _score_run(context: Context) -> OddInputs:
    """Return a run's scores of odd inputs, from its label scores, information and outliers."""
    results = context.results
    return odd_inputs(
        context.train,
        information=np.asarray(results["information"].information),
        label_score=np.asarray(results["label_issues"].score, dtype=np.float64),
        outlier_score=results["data_issues"].outlier_score,
    )


SCORE = Score(
    name="odd_inputs",
    help="Whether a sample's input is noisy, moved to fool a model, or of a rare group.",
    compute=_score_run,
    result=OddInputs,
    needs=("information", "label_issues", "data_issues"),
)
