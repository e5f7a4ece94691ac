"""Simple baselines: loss and margin of a network trained on the labels that it judges."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Shaped

from datassay.results import Tabular, column, result, sample_ids


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
    """Loss and margin of each training sample under networks trained on it.

    Args:
        outputs: of s trained networks on their n training samples.
        losses: of the same networks and samples.
        y: the given labels (class indices) or targets.
        ids: [n].
        is_classification: whether y holds class indices.

    Returns:
        Both, averaged over the s networks, which favours these baselines.
    """
    values = torch.as_tensor(outputs)
    if is_classification:
        labels = torch.as_tensor(y)
        if values.shape[2] == 1:  # one logit: class 1 against class 0
            values = torch.cat([torch.zeros_like(values), values], 2)
        given = labels[None, :, None].expand(len(values), -1, 1)
        others = values.scatter(2, given, float("-inf")).amax(2)
        margin = values.gather(2, given)[..., 0] - others
    else:
        margin = -(values - torch.as_tensor(y).reshape(values.shape[1:])).abs().amax(2)
    return Baselines(losses.mean(0), margin.mean(0).double().numpy(), ids)
