"""Networks that were really trained: without some samples, and their loss and margin on all."""

import numpy as np
import pyarrow as pa
import torch
from jaxtyping import Float, Int, Shaped

from datassay.errors import DataError
from datassay.ranks import correlation, rank_correlation
from datassay.results import Tabular, column, result, sample_ids
from datassay.score.leave_one_out import LeaveOneOut
from datassay.score.settings import FEWEST_CHECKED
from datassay.train.retrain import Retrained

RESAMPLES = 2000


@result
class RetrainingCheck(Tabular):
    """Changes by removing s samples: of the linearised network, and measured by retraining.

    Attributes:
        removed: [s], positions of the samples left out.
        ids: [s], their ids.
        linearised: [s], Σ_j ‖f(x_j) − f₋ᵢ(x_j)‖² of the linearised network, output unit squared.
        retrained: [s], the same of the real network.
        pearson: correlation of the two.
        interval: its 95 % bootstrap interval.
        rank: their rank correlation.
        weights: correlation of ‖w − w₋ᵢ‖² between the two.
    """

    removed: Int[np.ndarray, " s"]
    ids: np.ndarray
    linearised: Float[np.ndarray, " s"]
    retrained: Float[np.ndarray, " s"]
    pearson: float
    interval: tuple[float, float]
    rank: float
    weights: float

    def to_table(self) -> pa.Table:
        """Return one row per sample left out: id, linearised, retrained."""
        return pa.table({
            "id": self.ids,
            "linearised": self.linearised,
            "retrained": self.retrained,
        })


def retraining_check(loo: LeaveOneOut, retrained: Retrained, *, seed: int = 0) -> RetrainingCheck:
    """Compare leave-one-out scores with retrained networks.

    Args:
        loo: of the linearised network, all n samples.
        retrained: of the real one, at least 5 of the same samples, trained by the same settings
            and measured on the same queries.
        seed: of the bootstrap.

    Returns:
        The correlations; NaN where all changes are equal.

    Raises:
        DataError: fewer than 5 samples, or not samples of loo.

    Cost: 2000 correlations of s numbers.
    Source: S1 Table 1, for any data and network. The intervals are ours (percentile bootstrap).
    """
    removed = retrained.removed
    if len(removed) < FEWEST_CHECKED:
        raise DataError(
            f"a check must retrain without at least {FEWEST_CHECKED} samples; got {len(removed)}."
        )
    if not np.array_equal(loo.ids[removed], retrained.ids):
        raise DataError(
            "the retrained networks must leave out samples of the scores; their ids differ. "
            "Retrain on the SampleSet that was scored."
        )
    linearised = loo.prediction_change[removed]
    measured = retrained.prediction_change
    draws = np.random.default_rng(seed).integers(len(removed), size=(RESAMPLES, len(removed)))
    resampled = correlation(linearised[draws], measured[draws])
    low, high = np.nanquantile(resampled, [0.025, 0.975])
    return RetrainingCheck(
        removed=removed,
        ids=retrained.ids,
        linearised=linearised,
        retrained=measured,
        pearson=float(correlation(linearised, measured)),
        interval=(float(low), float(high)),
        rank=float(rank_correlation(linearised, measured)),
        weights=float(correlation(loo.weight_change[removed], retrained.weight_change)),
    )


@result
class Baselines(Tabular):
    """Final training loss and margin of each sample, averaged over trained networks.

    Attributes:
        loss: [n], nats (cross-entropy) or squared target units (mean squared error). Higher: worse
            fitted.
        margin: [n], output of the given label minus the largest other; regression: minus the
            absolute residual. Higher: better fitted.
        ids: [n], the samples' ids.
    """

    loss: Float[np.ndarray, " n"] = column(
        "training loss, mean over trained networks",
        unit="nats; of targets target unit squared",
        sign="high: worse fitted",
    )
    margin: Float[np.ndarray, " n"] = column(
        "output of the given label minus the largest other, mean over trained networks; of targets "
        "minus the absolute residual",
        unit="output unit",
        sign="high: better fitted; of classes below 0: predicted wrongly",
    )
    ids: np.ndarray = sample_ids()


def baselines(
    outputs: Float[np.ndarray, "s n k"],
    losses: Float[np.ndarray, "s n"],
    y: Shaped[np.ndarray, "n ..."],
    ids: np.ndarray,
    *,
    is_classification: bool,
) -> Baselines:
    """Return each sample's mean loss and margin over s networks that were trained on it."""
    values = torch.as_tensor(outputs)
    if is_classification:
        labels = torch.as_tensor(y)
        if values.shape[2] == 1:  # one logit: class 1 against class 0
            values = torch.cat([torch.zeros_like(values), values], 2)
        given_label = labels[None, :, None].expand(len(values), -1, 1)
        largest_other = values.scatter(2, given_label, float("-inf")).amax(2)
        margin = values.gather(2, given_label)[..., 0] - largest_other
    else:
        margin = -(values - torch.as_tensor(y).reshape(values.shape[1:])).abs().amax(2)
    return Baselines(losses.mean(0), margin.mean(0).double().numpy(), ids)
