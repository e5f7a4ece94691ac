"""Active Bias: samples whose label's probability wavers during training count more."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from datassay.errors import SettingError
from datassay.train.history import PredictionHistory


def active_bias_weights(
    history: PredictionHistory, smoothing: float | None = None, *, min_visits: int = 2
) -> Float[np.ndarray, "*networks n"]:
    """Weights in proportion to the uncertain part of what a training said of each sample.

    w_i ∝ sqrt(var_i + var_i²/(|H_i| − 1)) + ε, with the variance over the |H_i| visits

    Args:
        history: of one training, or of several together.
        smoothing: ε, at least 0, unitless; None: the mean of the first term over the samples, so
            that no weight falls below half of the uniform one.
        min_visits: warm-up: a sample seen less often, at least 2, has the mean weight of the
            others; uniform weights while that is so of all.

    Returns:
        [n], or [S, n] for a history of S > 1 networks; each row sums to 1.

    Raises:
        SettingError: smoothing is negative, or min_visits below 2.

    Cost: n.
    Source: Chang, Learned-Miller and McCallum (2017), "SGD weighted by prediction variance". The
    warm-up there is a number of epochs for all samples at once.
    """
    weight = batched_active_bias(history, smoothing, min_visits=min_visits).numpy()
    return weight[0] if len(weight) == 1 else weight


def batched_active_bias(
    history: PredictionHistory, smoothing: float | None = None, *, min_visits: int = 2
) -> Float[Tensor, "S n"]:
    """The same for a training loop: always [S, n], torch.

    Args:
        history: of S networks.
        smoothing: as `active_bias_weights` has it.
        min_visits: as there.

    Returns:
        [S, n]; each row sums to 1.

    Raises:
        SettingError: smoothing is negative, or min_visits below 2.
    """
    if smoothing is not None and not 0 <= smoothing < float("inf"):
        raise SettingError(f"smoothing must be at least 0 and finite; got {smoothing}.")
    if min_visits < 2:
        raise SettingError(f"min_visits must be at least 2 for a variance; got {min_visits}.")
    warm = history.visits >= min_visits
    n_warm = warm.sum(1, keepdim=True).clamp_min(1)
    variance = history.variance()
    deviation = (variance + variance.square() / (history.visits - 1).clamp_min(1)).sqrt()
    deviation = torch.where(warm, deviation, 0)
    added = deviation.sum(1, keepdim=True) / n_warm if smoothing is None else smoothing
    weight = torch.where(warm, deviation + added, 0)
    mean = weight.sum(1, keepdim=True) / n_warm
    weight = torch.where(warm, weight, mean)
    weight = torch.where(mean > 0, weight, 1.0)  # none warm, or none wavers
    return weight / weight.sum(1, keepdim=True)
