"""The usual models of tables as estimators: boosted trees, and a linear model."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped
from sklearn.base import BaseEstimator
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, Ridge, RidgeCV
from sklearn.preprocessing import StandardScaler

from datassay.models.tabular import LOGISTIC, ONE_THREAD, TREES, few_threads

STRENGTH = 0.1  # of the logistic regression on standardised columns: scikit-learn's C
PENALTIES = np.logspace(-3, 4, 15)  # of the ridge regression, chosen by leave-one-out error
BIN_EDGES = np.linspace(0, 100, 256)[1:-1]  # percent; scikit-learn's of samples without weights
STOPPED_BY = 0.1  # share of the rows held out to tell when to stop: scikit-learn's


class TableRegressor(BaseEstimator):
    """Boosted trees, stopped early if rows are many, or a linear model of standardised columns.

    Args:
        kind: one of TABLE_MODELS.
        random_state: of the rows that tell when to stop; linear models draw nothing.
        parts: `column_parts`; trees see one column of codes of each, in a quarter of the time.
        quick: whether trees have half the leaves and twice the learning rate: their score is
            within .01 of the others', in half the time.
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

    def fit(
        self, X: Any, y: Shaped[np.ndarray, " n"], sample_weight: Any = None
    ) -> "TableRegressor":
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
        """Return the columns that the model takes: standardised, or as codes and bins for trees."""
        if self.scaler_ is not None:
            return self.scaler_.transform(X)
        if max(map(len, self.parts), default=1) > 1:
            X = np.stack([X[:, idx] @ np.arange(1.0, len(idx) + 1) for idx in self.parts], 1)
        if not self.edges_:
            return X
        pairs = zip(self.edges_, X.T, strict=True)
        bins = [np.searchsorted(edges, column) for edges, column in pairs]
        return np.stack(bins, 1).astype(np.float64)

    def _build(self, y: np.ndarray) -> Any:
        """Return the estimator to fit to these targets."""
        if self.kind != TREES:
            if len(y) <= ONE_THREAD:
                return RidgeCV(PENALTIES)
            return Ridge()
        # "auto": few rows are not stopped early, as in scikit-learn. A tenth of them tells badly
        # when to stop, the worse if some are wrong, and such trees gain less from right targets.
        return HistGradientBoostingRegressor(**self._settings(stops=self.quick or "auto"))

    def _settings(self, *, stops: bool | str) -> dict[str, Any]:
        """Return the settings of boosted trees; stops: their `early_stopping`."""
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
        """Return the unfitted model for these labels; set `classes_`."""
        self.classes_, counts = np.unique(y, return_counts=True)
        if len(counts) == 1:
            return DummyClassifier()
        if self.kind == LOGISTIC:
            return LogisticRegression(C=STRENGTH, max_iter=1000)
        # Stop early only if each class can be among the rows that tell when to.
        stops = counts.min() > 1 and int(STOPPED_BY * len(y)) >= len(counts)
        return HistGradientBoostingClassifier(**self._settings(stops=bool(stops)))
