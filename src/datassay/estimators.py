"""scikit-learn estimators: check, call, keep."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import _safe_indexing, check_random_state
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, column_or_1d
from torch import nn

from datassay.act.purify import purify
from datassay.act.routing import compact, fit_experts, linear_partition
from datassay.data.samples import SampleSet
from datassay.errors import DataError, SettingError
from datassay.models.build import n_outputs
from datassay.models.networks import linear, standardize


class _Partitioned(BaseEstimator):
    """What both share: parameters, partition, experts and router."""

    def __init__(  # scikit-learn passes anything here and checks in fit, and so do we
        self,
        estimator: Any = None,
        router: Any = None,
        *,
        n_blocks: Any = None,
        max_blocks: Any = 4,
        routing: Any = "soft",
        ridge: Any = 1e-4,
        restarts: Any = 8,
        random_state: Any = None,
    ):
        self.estimator = estimator
        self.router = router
        self.n_blocks = n_blocks
        self.max_blocks = max_blocks
        self.routing = routing
        self.ridge = ridge
        self.restarts = restarts
        self.random_state = random_state

    def _fit(self, X: np.ndarray, y: np.ndarray, targets: np.ndarray, loss: str) -> None:
        if self.routing not in {"soft", "hard"}:
            raise SettingError(f"routing must be 'soft' or 'hard'; got {self.routing!r}.")
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self.partition_ = linear_partition(
            X.astype(np.float64),
            targets,
            loss,
            n_blocks=self.n_blocks,
            max_blocks=self.max_blocks,
            ridge=self.ridge,
            restarts=self.restarts,
            seed=seed,
        )
        self.block_, responsibility = compact(self.partition_, len(X))
        router = self.router or make_pipeline(
            StandardScaler(), LogisticRegression(max_iter=1000, random_state=seed)
        )
        estimator = self.estimator or self._default(seed)
        routed = fit_experts(X, y, self.block_, responsibility, estimator, router, seed)
        self.n_blocks_ = len(routed.experts)
        self.estimators_ = list(routed.experts)
        self.router_ = routed.router
        self.router_is_informative_ = routed.router is not None
        self.router_gain_ = routed.gain
        self.router_gain_error_ = routed.gain_error
        self._routed = routed

    def _default(self, seed: int) -> Any:
        raise NotImplementedError

    def _checked_inputs(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return _validated(self, X, reset=False)


class PartitionedClassifier(ClassifierMixin, _Partitioned):
    """A classifier for mixed data: blocks, one model a block, and a router.

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
        random_state: seed or generator of everything random.

    Attributes:
        classes_: the labels.
        n_blocks_: K.
        block_: [n], of each training sample.
        partition_: the `Partition`, or None where too few samples allow one block only.
        estimators_: one a block.
        router_: or None where it does not help.
        router_is_informative_: whether it is used.
        router_gain_: how much more probable, given x and y, the block it names is than the largest
            block; mean over samples, by cross-validation.
        router_gain_error_: its standard error; twice that must be exceeded.
    """

    def fit(self, X: Any, y: Any) -> PartitionedClassifier:
        """Find the blocks and fit their models and the router.

        Args:
            X: inputs, [n, d].
            y: labels, [n].

        Returns:
            This estimator.

        Raises:
            DataError: one class only.
            SettingError: a setting is out of range.
        """
        X, y = _validated(self, X, y)
        check_classification_targets(y)
        self.classes_, label = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise DataError(
                f"y must hold at least 2 classes; got 1 class, {self.classes_[0]!r}. Add others."
            )
        self._fit(X, label, np.eye(len(self.classes_))[label], "cross_entropy")
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability of each class.

        Args:
            X: inputs, [m, d].

        Returns:
            [m, n_classes], rows sum to 1.
        """
        X = self._checked_inputs(X)  # first: it tells whether there are classes_
        found = np.zeros((len(X), len(self.classes_)))
        weights = self._routed.weights(X, self.routing)
        for weight, expert in zip(weights.T, self.estimators_, strict=True):
            found[:, expert.classes_] += weight[:, None] * expert.predict_proba(X)
        return found

    def predict(self, X: Any) -> np.ndarray:
        """The most probable label.

        Args:
            X: inputs, [m, d].

        Returns:
            [m].
        """
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]

    def _default(self, seed: int) -> Any:
        return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000, random_state=seed))


class PartitionedRegressor(RegressorMixin, _Partitioned):
    """A regressor for mixed data: blocks, one model a block, and a router.

    As `PartitionedClassifier`; blocks come from linear models with a noise variance each, soft
    routing averages the blocks' predictions, and the default estimator is ridge regression.

    Args:
        estimator: fitted to each block; None: ridge regression of standardised columns.
        router: probabilistic classifier of the block; None: logistic regression.
        n_blocks: K; None chooses 1 to max_blocks by held-out likelihood.
        max_blocks: where K is to be chosen.
        routing: "soft" averages the blocks' predictions by the router's probabilities, "hard" asks
            the most probable block alone.
        ridge: of the linear models that find the blocks.
        restarts: of soft EM.
        random_state: seed or generator of everything random.

    Attributes:
        n_blocks_: K.
        block_: [n], of each training sample.
        partition_: the `Partition`, or None where too few samples allow one block only.
        estimators_: one a block.
        router_: or None where it does not help.
        router_is_informative_: whether it is used.
        router_gain_: as in `PartitionedClassifier`.
        router_gain_error_: its standard error.
    """

    def fit(self, X: Any, y: Any) -> PartitionedRegressor:
        """Find the blocks and fit their models and the router.

        Args:
            X: inputs, [n, d].
            y: targets, [n].

        Returns:
            This estimator.

        Raises:
            SettingError: a setting is out of range.
        """
        X, y = _validated(self, X, y, y_numeric=True)
        y = y.astype(np.float64)
        self._fit(X, y, y[:, None], "mse")
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The target.

        Args:
            X: inputs, [m, d].

        Returns:
            [m].
        """
        X = self._checked_inputs(X)
        each = np.stack([expert.predict(X) for expert in self.estimators_], axis=1)
        return (self._routed.weights(X, self.routing) * each).sum(axis=1)

    def _default(self, seed: int) -> Any:
        return make_pipeline(StandardScaler(), Ridge(random_state=seed))


class Purifier(BaseEstimator):
    """Removes foreign samples, by imbalanced-learn's `fit_resample` convention.

    A linear model of standardised columns is fitted again and again while the samples that raise
    the variance of its influence are removed (`purify`), until what was removed last is foreign no
    more. From a pure set nothing is removed.

    Args:
        order: ranking of `purify`: "auto", "adjoint", "fixed", "loss", ...
        stop: its stopping rule; "auto" is "held_out", which needs no clean set.
        ridge: of the mean loss.
        damping: added to the Hessian for V.
        step: samples removed a step; None is n/100.
        max_fraction: of the samples, never more are removed.
        min_per_class: a class is never left with fewer.
        random_state: seed or generator; only order="random" draws.

    Attributes:
        sample_indices_: [kept], positions of the samples that stay, ascending.
        purification_: the `Purification`, with its trace.
        n_features_in_: d.
    """

    def __init__(
        self,
        *,
        order: Any = "auto",
        stop: Any = "auto",
        ridge: Any = 1e-4,
        damping: Any = 0.01,
        step: Any = None,
        max_fraction: Any = 0.5,
        min_per_class: Any = 10,
        random_state: Any = None,
    ):
        self.order = order
        self.stop = stop
        self.ridge = ridge
        self.damping = damping
        self.step = step
        self.max_fraction = max_fraction
        self.min_per_class = min_per_class
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Purifier:
        """Find which samples stay.

        Args:
            X: inputs, [n, d].
            y: labels or targets, [n].

        Returns:
            This estimator.

        Raises:
            DataError: fewer than 3 samples, one class only, or inputs that are all the same.
            SettingError: a setting is out of range.
        """
        X, y = _validated(self, X, y, ensure_min_samples=3)
        samples = _sample_set(X, y)
        settings = self.get_params(deep=False)
        seed = int(check_random_state(settings.pop("random_state")).randint(2**31 - 1))
        scale = standardize(torch.as_tensor(samples.x).float())
        model = nn.Sequential(scale, linear(samples.input_shape, n_outputs(samples)))
        self.purification_ = purify(model, samples, seed=seed, **settings)
        self.sample_indices_ = self.purification_.keep
        return self

    def fit_resample(self, X: Any, y: Any) -> tuple[Any, Any]:
        """The samples that stay.

        Args:
            X: inputs, [n, d]; an array or a data frame.
            y: labels or targets, [n].

        Returns:
            X and y at `sample_indices_`, of the types given.

        Raises:
            DataError: as `fit`.
            SettingError: as `fit`.
        """
        self.fit(X, y)
        keep = self.sample_indices_
        return _safe_indexing(X, keep), _safe_indexing(y, keep)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def _more_tags(self) -> dict[str, bool]:  # scikit-learn below 1.6
        return {"requires_y": True}


def _sample_set(X: np.ndarray, y: np.ndarray) -> SampleSet:
    """Classes where y says so (few different whole numbers, strings), else a scaled regression."""
    x = X.astype(np.float64)
    ids = np.arange(len(x))
    if type_of_target(y) == "continuous":
        spread = y.std()
        return SampleSet(x, (y - y.mean()) / (spread if spread > 0 else 1.0), ids)
    classes, label = np.unique(y, return_inverse=True)
    return SampleSet(x, label.astype(np.int64), ids, tuple(map(str, classes)))


def _validated(estimator: Any, X: Any, y: Any = None, *, reset: bool = True, **rules: Any) -> Any:
    try:
        from sklearn.utils.validation import validate_data
    except ImportError:  # scikit-learn below 1.6
        found = estimator._validate_data(
            X, y if reset else "no_validation", reset=reset, dtype="numeric", **rules
        )
    else:
        given = {} if not reset else {"y": y}
        found = validate_data(estimator, X, reset=reset, dtype="numeric", **given, **rules)
    if not reset:
        return found
    return found[0], column_or_1d(found[1], warn=True)
