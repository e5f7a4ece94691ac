"""Split a validation part off a source that has none."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int
from sklearn.model_selection import train_test_split

from datassay.errors import DataError


def split_indices(
    y: np.ndarray,
    *,
    is_classification: bool,
    val_fraction: float,
    seed: int,
    order: Int[np.ndarray, " n"] | None = None,
) -> tuple[Int[np.ndarray, " train"], Int[np.ndarray, " val"]]:
    """Positions of the training and of the validation samples, each ascending.

    round(val_fraction · n) samples, at least one, are held out; for classification each class in
    proportion. A class with a single sample stays in training.

    Args:
        y: [n] class indices, or [n] or [n, k] targets.
        is_classification: whether to stratify by y.
        val_fraction: in (0, 1).
        seed: of the draw; the same seed gives the same split.
        order: [n], in which samples are drawn from; by ascending id, the same samples are held out
            however the rows are ordered. None: as they stand.

    Returns:
        The two index arrays; together they hold 0..n−1 once each.

    Raises:
        DataError: too few samples for a validation sample and two training samples, or fewer
            validation or training samples than classes.
    """
    n = len(y)
    n_val = max(1, round(val_fraction * n))
    if n - n_val < 2:
        raise DataError(
            f"at least 2 training samples must remain; val_fraction {val_fraction} of {n} samples "
            f"leaves {n - n_val}. Add samples or lower val_fraction."
        )
    order = np.arange(n) if order is None else order
    candidates = order[_is_repeated(y)[order]] if is_classification else order
    strata = y[candidates] if is_classification else None
    if strata is not None:
        _check_room(strata, n_val, val_fraction)
    held_out = train_test_split(candidates, test_size=n_val, random_state=seed, stratify=strata)[1]
    val = np.sort(held_out)
    return np.setdiff1d(np.arange(n), val), val


def _is_repeated(y: np.ndarray) -> np.ndarray:
    return np.bincount(y)[y] > 1


def _check_room(strata: np.ndarray, n_val: int, val_fraction: float) -> None:
    n, n_classes = len(strata), len(np.unique(strata))
    if n_classes == 0:
        raise DataError(
            "a validation part needs a class with 2 samples or more; every class has 1. Give "
            "x_val and y_val, add samples, or set task='regression' if y is a quantity."
        )
    if n_val < n_classes or n - n_val < n_classes:
        raise DataError(
            f"training and validation part must each hold at least one sample for each of the "
            f"{n_classes} classes with 2 samples or more; val_fraction {val_fraction} gives "
            f"{n - n_val} and {n_val}. Change val_fraction, add samples, or give x_val and y_val."
        )
