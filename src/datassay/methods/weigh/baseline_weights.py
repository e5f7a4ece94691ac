"""Published weights to compare with: Active Bias, class-balanced and self-paced."""

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from datassay.errors import DataError, SettingError
from datassay.optional import coalesce
from datassay.train.history import PredictionHistory


def active_bias_weights(
    history: PredictionHistory, smoothing: float | None = None, *, min_visits: int = 2
) -> Float[np.ndarray, "*networks n"]:
    """Weight samples by how uncertain their predictions were during a training.

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
    if len(weight) == 1:
        return weight[0]
    return weight


def batched_active_bias(
    history: PredictionHistory, smoothing: float | None = None, *, min_visits: int = 2
) -> Float[Tensor, "S n"]:
    """Return `active_bias_weights` for a training loop: always [S, n], torch.

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
    is_warm = history.visits >= min_visits
    n_warm = is_warm.sum(1, keepdim=True).clamp_min(1)
    variance = history.variance()
    deviation = (variance + variance.square() / (history.visits - 1).clamp_min(1)).sqrt()
    deviation = torch.where(is_warm, deviation, 0)
    epsilon = coalesce(smoothing, deviation.sum(1, keepdim=True) / n_warm)
    weight = torch.where(is_warm, deviation + epsilon, 0)
    mean = weight.sum(1, keepdim=True) / n_warm
    weight = torch.where(is_warm, weight, mean)
    weight = torch.where(mean > 0, weight, 1.0)  # no sample is warm, or no prediction varies
    return weight / weight.sum(1, keepdim=True)


def class_balanced_weights(
    y: Shaped[np.ndarray, " n"], beta: float = 0.999
) -> Float[np.ndarray, " n"]:
    """Weight samples inversely to the effective number of samples of their class.

    w_i ∝ 1/E, E = (1 − β^n_c)/(1 − β): at β = 0 uniform, at β → 1 the inverse class frequency

    Args:
        y: classes: whole numbers, booleans or strings.
        beta: β in [0, 1]; 1 is the limit, inverse frequency.

    Returns:
        [n], summing to 1.

    Raises:
        DataError: y is not one class per sample.
        SettingError: beta is outside [0, 1].

    Cost: n log n.
    Source: Cui et al. (2019), eq. (2) and (4); there the weights sum to the number of classes.
    """
    if not 0 <= beta <= 1:
        raise SettingError(f"beta must lie in [0, 1]; got {beta}.")
    if y.ndim != 1 or y.size == 0 or y.dtype.kind not in "biuU":
        raise DataError(
            f"y must be [n] classes; got {y.dtype} of shape {list(y.shape)}. Weigh a regression by "
            "local_variance_weights."
        )
    _, label, count = np.unique(y, return_inverse=True, return_counts=True)
    if beta == 0:
        effective = np.ones(len(count))
    elif beta == 1:
        effective = count.astype(float)
    else:  # expm1 keeps the digits of 1 − β^n where β is next to 1
        effective = np.expm1(count * np.log(beta)) / np.expm1(np.log(beta))
    weight = 1 / effective[label]
    return weight / weight.sum()


def balanced_variance_weights(
    y: Shaped[np.ndarray, " n"], variance_weight: Float[np.ndarray, " n"], beta: float = 0.999
) -> Float[np.ndarray, " n"]:
    """Weigh classes by their effective number of samples, and within a class by local variance.

    w_i ∝ b_i √(v_i / mean of v in the class of i)

    Args:
        y: classes: whole numbers, booleans or strings.
        variance_weight: v, [n], as `local_variance_weights` gives it, positive.
        beta: of b, as `class_balanced_weights` has it.

    Returns:
        [n], summing to 1.

    Raises:
        DataError: y is not one class per sample, or a weight is not positive.
        SettingError: beta is outside [0, 1].

    Cost: n log n.
    Source: ours. Local variance alone takes weight from classes whose samples agree, which costs
    more than it gains; the root keeps it from single samples.
    """
    balanced = class_balanced_weights(y, beta)
    if variance_weight.shape != y.shape or not (variance_weight > 0).all():
        raise DataError(
            f"variance_weight must be [n] positive numbers, {len(y)}; got shape "
            f"{list(variance_weight.shape)}, {int((~(variance_weight > 0)).sum())} not positive."
        )
    label = np.unique(y, return_inverse=True)[1]
    mean = np.bincount(label, variance_weight) / np.bincount(label)
    weight = balanced * np.sqrt(variance_weight / mean[label])
    return weight / weight.sum()


def self_paced_weights(
    losses: Float[np.ndarray, " n"],
    fraction: float = 0.5,
    *,
    threshold: float | None = None,
    is_soft: bool = False,
) -> Float[np.ndarray, " n"]:
    """Weigh the samples of low loss alone; call it again as training goes on.

    hard: w_i ∝ 1 where ℓ_i ≤ λ, else 0;  soft: w_i ∝ max(0, 1 − ℓ_i/λ)

    Args:
        losses: [n], at least 0, of the network as it is now; nats or target units.
        fraction: share of the samples to keep, in (0, 1]: λ is the largest loss among them. Raise
            it to 1 during training. Samples of equal loss are kept together.
        threshold: λ itself, > 0, loss unit (Kumar's 1/K); replaces fraction.
        is_soft: whether weights fall linearly with the loss instead of at once.

    Returns:
        [n], summing to 1.

    Raises:
        DataError: losses are not [n] finite numbers of at least 0.
        SettingError: fraction is outside (0, 1], or threshold is not positive or keeps no sample.

    Cost: n log n.
    Source: Kumar, Packer and Koller (2010), eq. (3): v_i = 1 where the loss is below 1/K, K lowered
    step by step; the share instead of K is what Jiang et al. (2014) do. Soft: Jiang et al. (2014).
    """
    losses = losses.astype(np.float64)
    if losses.ndim != 1 or losses.size == 0 or not (np.isfinite(losses) & (losses >= 0)).all():
        raise DataError(
            "losses must be [n] finite numbers of at least 0; got shape "
            f"{list(losses.shape)}, {int((~(losses >= 0)).sum())} of them negative or NaN."
        )
    if not 0 < fraction <= 1:
        raise SettingError(f"fraction must lie in (0, 1]; got {fraction}.")
    if threshold is not None and not threshold > losses.min():
        raise SettingError(
            f"threshold must be above the smallest loss, {losses.min():.4g}, so that some sample "
            f"is kept; got {threshold}."
        )
    if threshold is None:
        threshold = float(np.sort(losses)[int(np.ceil(fraction * len(losses))) - 1])
    weight = (losses <= threshold).astype(np.float64)
    if is_soft and threshold > losses.min():
        weight = np.maximum(0, 1 - losses / threshold)
    return weight / weight.sum()
