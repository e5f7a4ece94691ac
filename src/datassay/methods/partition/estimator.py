"""Estimators for mixed data: blocks of samples, one model per block, and a router."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from datassay.collect.loss import loss_named
from datassay.data.load import load
from datassay.data.new_rows import row_format
from datassay.estimators.validation import checked_weights, validate_classes, validate_xy
from datassay.methods.partition.block_model import as_arrays
from datassay.methods.partition.routing import compact, fit_experts, linear_partition, scaled_linear
from datassay.methods.partition.settings import Division
from datassay.models.estimators import class_probabilities
from datassay.rules import one_of, require


class _Partitioned(BaseEstimator):
    """Shared by classifier and regressor: parameters, partition, experts and router."""

    def __init__(  # scikit-learn passes anything here and checks in fit, and so do we
        self,
        estimator: Any = None,
        router: Any = None,
        *,
        n_blocks: Any = Division.n_blocks,
        max_blocks: Any = Division.max_blocks,
        routing: Any = "soft",
        ridge: Any = Division.ridge,
        restarts: Any = Division.restarts,
        random_state: Any = 0,
    ):
        self.estimator = estimator
        self.router = router
        self.n_blocks = n_blocks
        self.max_blocks = max_blocks
        self.routing = routing
        self.ridge = ridge
        self.restarts = restarts
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Find the blocks and fit their models and the router.

        Args:
            X: inputs, [n, d].
            y: labels or targets, [n].
            sample_weight: [n], not negative; None: all alike. The blocks, their models and the
                router take it; the variance of influence counts each sample once.

        Returns:
            This estimator.

        Raises:
            DataError: one class only, or weights that are not numbers of at least 0.
            SettingError: a setting is out of range, or weights for an estimator without any.
        """
        X, y, targets, loss = self._read(X, y)
        one_of("routing", self.routing, ("soft", "hard"))
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        n = len(X)
        weight = None
        has_weight = np.ones(n, dtype=bool)
        if sample_weight is not None:
            weight = checked_weights(sample_weight, X)
            has_weight = weight > 0
            X = X[has_weight]
            y = y[has_weight]
            targets = targets[has_weight]
            weight = weight[has_weight]
        self.partition_ = linear_partition(
            X.astype(np.float64),
            targets,
            loss,
            n_blocks=self.n_blocks,
            max_blocks=self.max_blocks,
            ridge=self.ridge,
            restarts=self.restarts,
            seed=seed,
            sample_weight=weight,
        )
        block, responsibility = compact(self.partition_, len(X))
        self.block_ = np.full(n, -1)
        self.block_[has_weight] = block
        router = self.router  # not `or`: the truth of an unfitted forest is an error
        if router is None:
            router = scaled_linear(seed=seed)
        estimator = self.estimator
        if estimator is None:
            estimator = scaled_linear(is_classification=loss_named(loss).has_one_class, seed=seed)
        routed = fit_experts(X, y, block, responsibility, estimator, router, seed, weight)
        self.n_blocks_ = len(routed.experts)
        self.estimators_ = list(routed.experts)
        self.router_ = routed.router
        self.router_is_informative_ = routed.router is not None
        self.router_gain_ = routed.gain
        self.router_gain_error_ = routed.gain_error
        self._routed = routed
        return self

    def _read(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, str]:
        """Return X, what the experts fit, the targets of the outputs, [n, k], and the loss."""
        raise NotImplementedError

    def save(self, path: str | Path) -> None:
        """Write a file that `load_model` and `datassay predict` read; there is no code in it.

        Args:
            path: of the file, as model.safetensors.

        Raises:
            SettingError: the blocks' estimator or the router is one of the user's own.
        """
        check_is_fitted(self)
        custom = [name for name in ("estimator", "router") if getattr(self, name) is not None]
        rule = "be left out for a model that is saved, as a file holds arrays and no code"
        require(not custom, " and ".join(custom), rule, "one of your own", remedy="Fit without it.")
        estimator: Any = self  # scikit-learn sets what it knows of X
        labels = getattr(estimator, "classes_", np.array([0.0, 1.0]))
        task = "regression"
        if hasattr(estimator, "classes_"):
            task = "classification"
        d = estimator.n_features_in_
        # Rows without meaning, one per class: only what new rows must look like is taken from them.
        x = np.repeat(np.arange(float(len(labels)))[:, None], d, axis=1)
        template, _ = load((x, labels), task=task, val_fraction=0.0)
        columns = tuple(map(str, getattr(estimator, "feature_names_in_", ())))
        rows = row_format(replace(template, feature_names=columns))
        width = template.n_classes or 1
        as_arrays(self._routed, np.arange(self.n_blocks_), rows, d, width).save(path)

    def _checked_inputs(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return validate_xy(self, X, reset=False)


class PartitionedClassifier(ClassifierMixin, _Partitioned):
    """A classifier for mixed data: blocks, one model per block, and a router.

    Fitting divides (X, y) into blocks that a linear model each explains (`partition`, on
    standardised columns or 30 principal components, with or without a gate), fits a clone of
    `estimator` to each block, and a router to X → block. Where the router cannot beat the largest
    block (`router_is_informative_` is False: the inputs do not tell the blocks apart, and no method
    could), predictions weight the blocks' models by the blocks' shares, which is the mixture that
    the samples came from; with routing="hard" that is the largest block's model.

    Args:
        estimator: fitted to each block, with predict_proba; None: logistic regression of
            standardised columns.
        router: probabilistic classifier of the block; None: the same.
        n_blocks: K; None chooses 1 to max_blocks by held-out likelihood.
        max_blocks: where K is to be chosen.
        routing: "soft" weights the blocks' probabilities by the router's, "hard" asks the most
            probable block alone.
        ridge: of the linear models that find the blocks.
        restarts: of soft EM.
        random_state: seed or generator of everything random; None: another each time.

    Attributes:
        classes_: the labels.
        n_blocks_: K.
        block_: [n], of each training sample; −1 where its weight is 0.
        partition_: the `Partition` of those that have a weight, or None where too few samples allow
            one block only.
        estimators_: one a block.
        router_: or None where it does not help.
        router_is_informative_: whether it is used.
        router_gain_: how much more probable, given x and y, the block it names is than the largest
            block; mean over samples, by cross-validation.
        router_gain_error_: its standard error; twice that must be exceeded.
    """

    def _read(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, str]:
        X, self.classes_, label = validate_classes(self, X, y)
        return X, label, np.eye(len(self.classes_))[label], "cross_entropy"

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each class.

        Args:
            X: inputs, [m, d].

        Returns:
            [m, n_classes], rows sum to 1.

        Raises:
            ModelError: a block's estimator or the router gives no probabilities, or its `classes_`
                does not name their columns.
        """
        X = self._checked_inputs(X)  # first: it tells whether there are classes_
        weighted_sum = np.zeros((len(X), len(self.classes_)))
        weights = self._routed.weights(X, self.routing)
        for weight, expert in zip(weights.T, self.estimators_, strict=True):
            probability = class_probabilities(expert, X, len(self.classes_))
            weighted_sum += weight[:, None] * probability
        return weighted_sum

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable label.

        Args:
            X: inputs, [m, d].

        Returns:
            [m].
        """
        class_idx = self.predict_proba(X).argmax(axis=1)
        return self.classes_[class_idx]


class PartitionedRegressor(RegressorMixin, _Partitioned):
    """A regressor for mixed data: blocks, one model per block, and a router.

    As `PartitionedClassifier`, also its parameters and attributes, but for `classes_`. Blocks come
    from linear models with a noise variance each, soft routing averages the blocks' predictions,
    and the default estimator is ridge regression of standardised columns.
    """

    def _read(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, str]:
        X, y = validate_xy(self, X, y, y_numeric=True)
        y = y.astype(np.float64)
        return X, y, y[:, None], "mse"

    def predict(self, X: Any) -> np.ndarray:
        """Predict the target.

        Args:
            X: inputs, [m, d].

        Returns:
            [m].
        """
        X = self._checked_inputs(X)
        by_block = np.stack([expert.predict(X) for expert in self.estimators_], axis=1)
        return (self._routed.weights(X, self.routing) * by_block).sum(axis=1)
