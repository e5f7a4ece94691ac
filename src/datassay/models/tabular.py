"""The usual models of tables, where the user names none: boosted trees, and a linear model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped
from sklearn.base import BaseEstimator
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, Ridge, RidgeCV
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from datassay.data.samples import SampleSet

TABLE_MODELS = ("boosted trees", "logistic regression", "ridge regression")
TREES, LOGISTIC, RIDGE = TABLE_MODELS
STRENGTH = 0.1  # of the logistic regression on standardised columns: scikit-learn's C
PENALTIES = np.logspace(-3, 4, 15)  # of the ridge regression, chosen by leave-one-out error
ONE_THREAD = 50_000  # rows up to which a model is fitted by one thread
# Nominal seconds of a fit, by (rows + TREE_ROWS) x (columns + TREE_COLUMNS) x classes: boosting
# fits a tree a class and round; histograms cost as much as so many rows, nodes as columns.
TREE_SECONDS = 2.2e-7
TREE_ROWS = 8000
TREE_COLUMNS = 10
STOPPED_FROM = 10_000  # rows beyond which scikit-learn's trees stop early
BIN_EDGES = np.linspace(0, 100, 256)[1:-1]  # percent; scikit-learn's of samples without weights
STOPPED_BY = 0.1  # share of the rows that tell when to stop


def fit_seconds(n: int, columns: int, n_classes: int) -> float:
    """Return the nominal seconds of one fit of boosted trees; a linear model takes less."""
    return TREE_SECONDS * (n + TREE_ROWS) * (columns + TREE_COLUMNS) * max(1, n_classes)


def draws(name: str, train: SampleSet) -> bool:
    """Return whether fits of a model to the same samples differ, as of trees that stop early."""
    return name == TREES and (train.is_classification or len(train) > STOPPED_FROM)


def few_threads(n: int) -> threadpool_limits:
    """Limit numerical libraries to one thread for few rows, where more threads only wait."""
    return threadpool_limits(1 if n <= ONE_THREAD else None)


def column_parts(samples: SampleSet) -> list[list[int]]:
    """Group the columns of x: the 0/1 columns of one category together, each other alone."""
    names = sorted((f"{c.name}=" for c in samples.columns if c.read_as == "category"), key=len)
    features = samples.feature_names or ("",) * int(np.prod(samples.x.shape[1:]))
    parts: dict[Any, list[int]] = {}
    for j, feature in enumerate(features):
        category = next((name for name in reversed(names) if feature.startswith(name)), j)
        parts.setdefault(category, []).append(j)
    return list(parts.values())


class TableRegressor(BaseEstimator):
    """Boosted trees, stopped early of many rows, or a linear model of standardised columns.

    Args:
        kind: one of TABLE_MODELS.
        random_state: of the rows that tell when to stop; linear models draw nothing.
        parts: `column_parts`; trees see one column of codes of each, in a quarter of the time.
        quick: trees of half the leaves, twice the rate: within .01 of the others in half the time.
    """

    def __init__(
        self,
        kind: str = TREES,
        random_state: int | None = None,
        parts: Sequence[Sequence[int]] = (),
        quick: bool = False,
    ):
        self.kind = kind
        self.random_state = random_state
        self.parts = parts
        self.quick = quick

    def fit(self, X: Any, y: Shaped[np.ndarray, " n"], sample_weight: Any = None) -> TableRegressor:
        """Fit the model to any number of samples; a class may be rare, or be the only one."""
        self.scaler_ = None
        if self.kind != TREES:
            self.scaler_ = StandardScaler().fit(X)
        self.edges_: list[np.ndarray] = []
        if self.kind == TREES and sample_weight is not None:
            # scikit-learn sorts a column anew for each of 254 weighted percentiles.
            columns = self._prepare(X)[np.asarray(sample_weight) != 0].T
            method = "averaged_inverted_cdf"
            self.edges_ = [np.unique(np.percentile(c, BIN_EDGES, method=method)) for c in columns]
        with few_threads(len(X)):
            self.model_ = self._build(y).fit(self._prepare(X), y, sample_weight=sample_weight)
        return self

    def predict(self, X: Any) -> Shaped[np.ndarray, " n"]:
        """Return the predicted targets, or classes."""
        return self.model_.predict(self._prepare(X))

    def _prepare(self, X: Any) -> Any:
        if self.scaler_ is not None:
            return self.scaler_.transform(X)
        if max(map(len, self.parts), default=1) > 1:
            X = np.stack([X[:, idx] @ np.arange(1.0, len(idx) + 1) for idx in self.parts], 1)
        if not self.edges_:
            return X
        bins = [np.searchsorted(*pair) for pair in zip(self.edges_, X.T, strict=True)]
        return np.stack(bins, 1).astype(np.float64)

    def _build(self, y: np.ndarray) -> Any:
        if self.kind != TREES:
            if len(y) <= ONE_THREAD:
                return RidgeCV(PENALTIES)
            return Ridge()
        # As in scikit-learn: a tenth of few rows tells badly when to stop, the worse if some are
        # wrong, and trees that are stopped by them gain less from right targets than others do.
        return HistGradientBoostingRegressor(**self._settings(stops=self.quick or "auto"))

    def _settings(self, *, stops: bool | str) -> dict[str, Any]:
        speedup = {}
        if self.quick:
            speedup = {"learning_rate": 0.2, "max_leaf_nodes": 15}
        return {"early_stopping": stops, "random_state": self.random_state, **speedup}


class TableClassifier(TableRegressor):
    """The same models for classes; the arguments are those of `TableRegressor`."""

    def predict_proba(self, X: Any) -> Float[np.ndarray, "n k"]:
        """Return the probabilities of the classes seen in the fit."""
        return self.model_.predict_proba(self._prepare(X))

    def _build(self, y: np.ndarray) -> Any:
        self.classes_, counts = np.unique(y, return_counts=True)
        if len(counts) == 1:
            return DummyClassifier()
        if self.kind == LOGISTIC:
            return LogisticRegression(C=STRENGTH, max_iter=1000)
        # A class that the rows which tell when to stop cannot hold is learnt by all rounds.
        stops = counts.min() > 1 and int(STOPPED_BY * len(y)) >= len(counts)
        return HistGradientBoostingClassifier(**self._settings(stops=bool(stops)))
