"""Splits of the samples: parts that are held out, folds, groups and stretches of time."""

import warnings
from typing import Any

import numpy as np
from jaxtyping import Int, Shaped

from datassay.errors import DataError

TIME_BLOCKS = 10  # stretches of time, of about as many samples each


def time_blocks(time: Shaped[np.ndarray, " n"]) -> Shaped[np.ndarray, " n"]:
    """Return each sample's block of time, as a word, [n]; equal times share one."""
    _, moment_idx, counts = np.unique(time, return_inverse=True, return_counts=True)
    n_earlier = np.cumsum(counts) - counts
    return (TIME_BLOCKS * n_earlier // len(time)).astype(str)[moment_idx]


def group_folds(
    groups: Shaped[np.ndarray, " n"], strata: Int[np.ndarray, " n"] | None, n_folds: int, seed: int
) -> Int[np.ndarray, " n"]:
    """Return each sample's fold, [n]; groups stay whole, folds are alike in size and strata."""
    # strata: classes; None, or where no class has a sample for each fold: only the sizes count.
    # There are no more folds than groups.
    from sklearn.model_selection import StratifiedGroupKFold  # slow to import

    names, group_idx = np.unique(groups, return_inverse=True)
    n_folds = min(n_folds, len(names))
    if strata is None or np.unique(strata, return_counts=True)[1].max() < n_folds:
        strata = np.zeros(len(group_idx), dtype=np.int64)
    folds = np.zeros(len(group_idx), dtype=np.int64)
    if len(names) < 2:
        return folds
    pairs = _list_folds(StratifiedGroupKFold, n_folds, seed, strata, group_idx)
    for fold, (_, test_idx) in enumerate(pairs):
        folds[test_idx] = fold
    return folds


def fold_pairs(
    y: Shaped[np.ndarray, "n ..."],
    n_folds: int,
    seed: int,
    *,
    is_classification: bool = True,
    groups: Shaped[np.ndarray, " n"] | None = None,
) -> list[tuple[Int[np.ndarray, " train"], Int[np.ndarray, " test"]]]:
    """Return (training, test) positions of each fold; classes alike, groups whole."""
    from sklearn.model_selection import KFold, StratifiedKFold  # slow to import

    if groups is not None:
        fold = group_folds(groups, y if is_classification else None, n_folds, seed)
        fold_numbers = range(fold.max() + 1)
        return [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in fold_numbers]
    splitter = KFold
    if is_classification:
        splitter = StratifiedKFold
    return _list_folds(splitter, n_folds, seed, y)


def order_by_class(
    strata: Shaped[np.ndarray, " n"] | None, rng: np.random.Generator, n: int
) -> Int[np.ndarray, " n"]:
    """Return all positions, [n], in random order, sorted by class if there are classes."""
    order = rng.permutation(n)
    if strata is None:
        return order
    return order[np.argsort(strata[order], kind="stable")]


def _list_folds(splitter: Any, n_folds: int, seed: int, y: Any, groups: Any = None) -> list[Any]:
    """Return (training, test) positions of each fold of a scikit-learn splitter class."""
    with warnings.catch_warnings():
        # A class with fewer samples than folds is spread as it can be.
        warnings.filterwarnings("ignore", "The least populated class", UserWarning)
        return list(splitter(n_folds, shuffle=True, random_state=seed).split(y, y, groups))


def split_indices(
    y: np.ndarray,
    *,
    is_classification: bool,
    val_fraction: float,
    seed: int,
    order: Int[np.ndarray, " n"] | None = None,
) -> tuple[Int[np.ndarray, " train"], Int[np.ndarray, " val"]]:
    """Return ascending positions of training and validation samples, each class in proportion."""
    # round(val_fraction · n) samples, at least one, are held out; for classification each class in
    # proportion, and a class with a single sample stays. order: positions in the order in which the
    # draw sees them; by ascending id, the same samples are held out however rows are ordered.
    n = len(y)
    n_val = max(1, round(val_fraction * n))
    if n - n_val < 2:
        raise DataError(
            f"at least 2 training samples must remain; val_fraction {val_fraction} of {n} samples "
            f"leaves {n - n_val}. Add samples or lower val_fraction."
        )
    if order is None:
        order = np.arange(n)
    candidates = order
    if is_classification:
        class_size = np.bincount(y)[y]  # [n], of each sample's class
        candidates = order[class_size[order] > 1]
    strata = y[candidates] if is_classification else None
    n_strata = 0 if strata is None else len(np.unique(strata))
    if strata is not None and n_strata == 0:
        raise DataError(
            "a validation part needs a class with 2 samples or more; every class has 1. Give "
            "x_val and y_val, add samples, or set task='regression' if y is a quantity."
        )
    if n_val < n_strata or len(candidates) - n_val < n_strata:
        raise DataError(
            f"training and validation part must each hold at least one sample for each of the "
            f"{n_strata} classes with 2 samples or more; val_fraction {val_fraction} gives "
            f"{len(candidates) - n_val} and {n_val}. Change val_fraction, add samples, or give "
            "x_val and y_val."
        )
    from sklearn.model_selection import train_test_split  # slow to import

    _, val = train_test_split(candidates, test_size=n_val, random_state=seed, stratify=strata)
    val = np.sort(val)
    return np.setdiff1d(np.arange(n), val), val
