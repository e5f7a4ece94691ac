"""The usual models of tables, where the user names none: their names, columns and costs."""

from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from datassay.data.samples import SampleSet

TABLE_MODELS = ("boosted trees", "logistic regression", "ridge regression")
TREES, LOGISTIC, RIDGE = TABLE_MODELS
ONE_THREAD = 50_000  # rows up to which a model is fitted by one thread
# Nominal seconds of a fit are TREE_SECONDS x (rows + TREE_ROWS) x (columns + TREE_COLUMNS) x
# classes: boosting fits a tree per class and round. Histograms cost as much as TREE_ROWS more rows,
# nodes as much as TREE_COLUMNS more columns.
TREE_SECONDS = 2.2e-7
TREE_ROWS = 8000
TREE_COLUMNS = 10
STOPPED_FROM = 10_000  # rows beyond which scikit-learn's trees stop early


def fit_seconds(n: int, columns: int, n_classes: int) -> float:
    """Return the nominal seconds of one fit of boosted trees; a linear model takes less."""
    return TREE_SECONDS * (n + TREE_ROWS) * (columns + TREE_COLUMNS) * max(1, n_classes)


def draws(name: str, train: SampleSet) -> bool:
    """Return whether fits of a model to the same samples differ by seed: trees that stop early."""
    return name == TREES and (train.is_classification or len(train) > STOPPED_FROM)


def few_threads(n: int) -> threadpool_limits:
    """Limit numerical libraries to one thread for few rows, where more threads only wait."""
    return threadpool_limits(1 if n <= ONE_THREAD else None)


def column_parts(samples: SampleSet) -> list[list[int]]:
    """Group the columns of x: the 0/1 columns of one category together, each other alone."""
    heads = sorted((f"{c.name}=" for c in samples.columns if c.read_as == "category"), key=len)
    features = samples.feature_names or ("",) * int(np.prod(samples.x.shape[1:]))
    parts: dict[Any, list[int]] = {}
    for j, feature in enumerate(features):
        longest_head = next((head for head in reversed(heads) if feature.startswith(head)), j)
        parts.setdefault(longest_head, []).append(j)
    return list(parts.values())
