"""Samples that are held out together: groups, and stretches of time."""

from __future__ import annotations

import warnings

import numpy as np
from jaxtyping import Int, Shaped

TIME_BLOCKS = 10  # stretches of time, of about as many samples each


def time_blocks(time: Shaped[np.ndarray, " n"]) -> Shaped[np.ndarray, " n"]:
    """Return the stretch of time of each sample, as a word; one for samples of one moment."""
    _, moment, counts = np.unique(time, return_inverse=True, return_counts=True)
    earlier = np.cumsum(counts) - counts
    return (TIME_BLOCKS * earlier // len(time)).astype(str)[moment]


def group_folds(
    groups: Shaped[np.ndarray, " n"],
    strata: Int[np.ndarray, " n"] | None,
    n_folds: int,
    seed: int,
) -> Int[np.ndarray, " n"]:
    """Return the fold of each sample: whole groups, alike in size and in strata, [n]."""
    # strata: classes; None: of a regression, only the sizes count, as where no class has a sample
    # for each fold. There are no more folds than groups.
    from sklearn.model_selection import StratifiedGroupKFold  # slow to import

    names, group = np.unique(groups, return_inverse=True)
    n_folds = min(n_folds, len(names))
    if strata is None or np.unique(strata, return_counts=True)[1].max() < n_folds:
        strata = np.zeros(len(group), dtype=np.int64)
    folds = np.zeros(len(group), dtype=np.int64)
    if len(names) < 2:
        return folds
    divide = StratifiedGroupKFold(n_folds, shuffle=True, random_state=seed)
    with warnings.catch_warnings():
        # A class with fewer samples than folds is spread as it can be.
        warnings.filterwarnings("ignore", "The least populated class", UserWarning)
        for fold, (_, test_idx) in enumerate(divide.split(group, strata, group)):
            folds[test_idx] = fold
    return folds
