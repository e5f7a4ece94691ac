"""Purifier: imbalanced-learn's `fit_resample` around `purify`."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import _safe_indexing, check_random_state  # pyrefly: ignore[missing-module-attribute] (old stubs)
from sklearn.utils.multiclass import type_of_target
from torch import nn

from datassay.data.samples import SampleSet
from datassay.estimators.validation import validate_xy
from datassay.methods.purify.loop import purify
from datassay.methods.purify.settings import Removal
from datassay.models.build import n_outputs
from datassay.models.networks import linear, seeded, spread


class Purifier(BaseEstimator):
    """Removes foreign samples, by imbalanced-learn's `fit_resample` convention.

    A linear model of standardised columns says which (`purify`): classes by cross-fitting, where
    leaving samples out predicts the others' labels better; targets by the variance of influence,
    until what was removed last is foreign no more. From a pure set nothing is removed, nor where
    labels are wrong at random and a larger ridge does as well.

    Args:
        order: ranking of `purify`: "auto", "cross_fit", "adjoint" (S4), "loss", ...
        stop: its stopping rule; "auto" needs no clean set.
        ridge: of the mean loss; None is chosen by "cross_fit", else 1e-4.
        damping: added to the Hessian for V.
        step: samples removed per step; None is n/100.
        max_fraction: of the samples, never more are removed.
        min_per_class: a class is never left with fewer.
        random_state: seed or generator, of held-out parts and order="random"; None: another each
            time.

    Attributes:
        sample_indices_: [kept], positions of the samples that stay, ascending.
        purification_: the `Purification`, with its trace.
        n_features_in_: d.
    """

    def __init__(
        self,
        *,
        order: Any = Removal.order,
        stop: Any = Removal.stop,
        ridge: Any = Removal.ridge,
        damping: Any = Removal.damping,
        step: Any = Removal.step,
        max_fraction: Any = Removal.max_fraction,
        min_per_class: Any = Removal.min_per_class,
        random_state: Any = 0,
    ):
        self.order = order
        self.stop = stop
        self.ridge = ridge
        self.damping = damping
        self.step = step
        self.max_fraction = max_fraction
        self.min_per_class = min_per_class
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> "Purifier":
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
        X, y = validate_xy(self, X, y, ensure_min_samples=3)
        samples = _make_samples(X, y)
        settings = self.get_params(deep=False)
        seed = int(check_random_state(settings.pop("random_state")).randint(2**31 - 1))
        standardize = spread(samples.x).removed
        with seeded(seed):
            model = nn.Sequential(standardize, linear(samples.input_shape, n_outputs(samples)))
        self.purification_ = purify(model, samples, seed=seed, **settings)
        self.sample_indices_ = self.purification_.keep
        return self

    def fit_resample(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Return the samples that stay.

        Args:
            X: inputs, [n, d]; an array or a data frame.
            y: labels or targets, [n].

        Returns:
            X and y at `sample_indices_`, of the types given.

        Raises:
            DataError: as `fit`.
            SettingError: as `fit`.
        """
        keep = self.fit(X, y).sample_indices_
        return _safe_indexing(X, keep), _safe_indexing(y, keep)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # pyrefly: ignore[missing-attribute] (old stubs)
        tags.target_tags.required = True
        return tags

    def _more_tags(self) -> dict[str, bool]:  # scikit-learn below 1.6
        return {"requires_y": True}


def _make_samples(X: np.ndarray, y: np.ndarray) -> SampleSet:
    """Return samples: classes if y holds strings or few whole numbers, else scaled targets."""
    x = X.astype(np.float64)
    ids = np.arange(len(x))
    if type_of_target(y) == "continuous":
        deviation = y.std()
        return SampleSet(x, (y - y.mean()) / (deviation if deviation > 0 else 1.0), ids)
    classes, label = np.unique(y, return_inverse=True)
    return SampleSet(x, label.astype(np.int64), ids, tuple(map(str, classes)))
