"""Class-balanced weights: each class counts by the effective number of its samples."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Shaped

from datassay.errors import DataError, SettingError


def class_balanced_weights(
    y: Shaped[np.ndarray, " n"], beta: float = 0.999
) -> Float[np.ndarray, " n"]:
    """Weights in inverse proportion to the effective number of samples of a class.

    w_i ∝ 1/E, E = (1 − β^n_c)/(1 − β): at β = 0 uniform, at β → 1 the inverse class frequency

    Args:
        y: classes: whole numbers, booleans or strings.
        beta: β in [0, 1]; 1 is the limit, inverse frequency.

    Returns:
        [n], summing to 1.

    Raises:
        DataError: y is not one class a sample.
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
    if beta in {0, 1}:
        effective = count.astype(float) if beta else np.ones(len(count))
    else:  # expm1 keeps the digits of 1 − β^n where β is next to 1
        effective = np.expm1(count * np.log(beta)) / np.expm1(np.log(beta))
    weight = 1 / effective[label]
    return weight / weight.sum()
