"""Held-out outputs of a scikit-learn estimator: each sample is judged by fits without it."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import KFold, StratifiedKFold

from datassay.data.arguments import checks_arguments
from datassay.data.samples import SampleSet
from datassay.errors import DataError, ModelError
from datassay.models.estimators import (
    by_class,
    checked_estimator,
    class_probabilities,
    fitted,
)
from datassay.models.user_code import user_code
from datassay.progress import Progress, silent

FOLDS = 5


@checks_arguments
def held_out_probabilities(
    samples: SampleSet, model: Any = None, *, seed: int = 0, progress: Progress = silent
) -> Float[np.ndarray, "n k"]:
    """What a classifier says of each sample after it was fitted to the other folds.

    Args:
        samples: n labelled samples; what follows the first axis of x is flattened.
        model: a scikit-learn classifier with predict_proba, cloned for each fold; None: histogram
            gradient boosting, stopped early.
        seed: of the folds, and the model's random state.
        progress: called with (step, samples done, samples in all).

    Returns:
        Class probabilities; 0 for a class that the other folds do not hold. Samples are put into an
        order of their own, by values and label, before they are folded, so that the order in which
        they come does not matter.

    Raises:
        DataError: these are no classes, or each has fewer samples than there are folds.
        ModelError: the model gives no probabilities, or cannot be fitted.

    Cost: five fits to four fifths of the samples.
    """
    if model is None:
        model = HistGradientBoostingClassifier().set_params(early_stopping=True)
    _check_classes(samples)
    model = checked_estimator(model, is_classification=True)
    if not hasattr(model, "predict_proba"):
        raise ModelError(
            f"model must have predict_proba; {type(model).__name__} has none. Give another."
        )
    return held_out_of(model, samples, seed, progress)


def held_out_of(
    model: Any, samples: SampleSet, seed: int, progress: Progress
) -> Float[np.ndarray, "n k"]:
    """What clones of an estimator say of each sample, fitted to the other folds.

    Args:
        model: a classifier or a regressor, as the targets need; it sees x as rows.
        samples: n of them.
        seed: of the folds, and the random state of each fit.
        progress: called with (step, samples done, samples in all).

    Returns:
        Class probabilities, values of the decision function where it has none, or predictions.

    Raises:
        DataError: too few samples to be folded.
        ModelError: it cannot be fitted, says what is no finite number or no probability, or its
            `classes_` does not name the columns.

    Cost: five fits.
    """
    if samples.is_classification:
        _check_classes(samples)
    elif len(samples) < FOLDS:
        raise DataError(f"at least {FOLDS} samples are needed; got {len(samples)}. Add samples.")
    x = np.asarray(samples.x).reshape(len(samples), -1)
    flat = samples.y.reshape(len(samples), -1)
    order = np.lexsort((*flat.T, *x.T[::-1]))
    x, y = x[order], samples.y[order]
    width = samples.n_classes if samples.is_classification else flat.shape[1]
    said, done = np.zeros((len(x), width)), 0
    for kept, held in _folds(x, y, seed, is_classification=samples.is_classification):
        one = fitted(model, x[kept], y[kept], seed)
        with user_code(lambda error: f"the estimator must judge what it never saw; it {error}"):
            said[order[held]] = said_of(one, x[held], width, samples.is_classification)
        done += len(held)
        progress("fit another judge", done, len(x))
    if not np.isfinite(said).all():
        raise ModelError(
            f"the model's outputs must be finite; {type(model).__name__} gave NaN or infinity. "
            "Choose another model."
        )
    return said


def _check_classes(samples: SampleSet) -> None:
    if not samples.is_classification or np.bincount(samples.y).max() < FOLDS:
        raise DataError(
            f"held-out class probabilities need classes, one of them with {FOLDS} samples or more; "
            f"got {len(samples)} samples of {samples.n_classes} classes. Add samples."
        )


def _folds(
    x: np.ndarray, y: np.ndarray, seed: int, *, is_classification: bool
) -> list[tuple[np.ndarray, np.ndarray]]:
    kind = StratifiedKFold if is_classification else KFold
    with warnings.catch_warnings():
        # A class with fewer samples than folds is spread as it can be.
        warnings.filterwarnings("ignore", "The least populated class", UserWarning)
        return list(kind(FOLDS, shuffle=True, random_state=seed).split(x, y))


def said_of(one: Any, x: np.ndarray, width: int, is_classification: bool) -> np.ndarray:
    """What a fitted estimator says of each sample.

    Args:
        one: the estimator.
        x: [n, d].
        width: classes or targets.
        is_classification: whether there are classes.

    Returns:
        [n, width]: class probabilities, values of the decision function where it has none, or
        predictions.

    Raises:
        ModelError: what it gives is no probability, or its `classes_` does not name the columns.
    """
    if not is_classification:
        return np.asarray(one.predict(x), np.float64).reshape(len(x), width)
    # A class whose only samples are held out is unknown to this fit.
    if hasattr(one, "predict_proba"):
        return class_probabilities(one, x, width)
    values = np.asarray(one.decision_function(x))
    if values.ndim == 1:  # of two classes, positive for the second
        values = np.stack([-values, values], 1) / 2
    return by_class(one, values, width, unseen=float(values.min()))
