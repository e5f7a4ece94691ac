"""The user's own scikit-learn estimator: found by name, checked, and fitted."""

from typing import Any

import numpy as np
from torch import nn

from datassay import rules
from datassay.errors import ModelError
from datassay.models.networks import NETWORKS
from datassay.models.reference import import_reference
from datassay.models.user_code import user_code

NEEDED = ("fit", "predict", "get_params")


def named_estimator(name: str) -> Any:
    """Return the estimator that "package.module:name" refers to; None where it is no estimator."""
    # The name may be of its class, or of a function without arguments that returns one:
    # "sklearn.svm:SVC".
    rule = f"model must be one of {', '.join(NETWORKS)}, or package.module:name"
    candidate = import_reference(name, rule)
    if callable(candidate) and not isinstance(candidate, nn.Module):
        with user_code(
            lambda error: (
                f"model {name!r} must be a network, an estimator, or a function without arguments "
                f"that returns one; calling it raised {error}"
            )
        ):
            candidate = candidate()
    if not is_estimator(candidate):
        return None
    return candidate


def is_estimator(candidate: Any) -> bool:
    """Return whether an object can be cloned, fitted and asked to predict, and is no network."""
    has_methods = all(hasattr(candidate, name) for name in NEEDED)
    return has_methods and not isinstance(candidate, type | nn.Module)


def checked_estimator(model: Any, *, is_classification: bool) -> Any:
    """Return an unfitted estimator for the task; raise where it does not suit."""
    # is_classification: whether the targets are classes.
    if isinstance(model, type) and all(hasattr(model, name) for name in NEEDED):
        with user_code(lambda error: f"{model.__name__} must be made without arguments: {error}"):
            model = model()
    if not is_estimator(model):
        name = model.__name__ if isinstance(model, type) else type(model).__name__
        raise ModelError(
            f"model must be a scikit-learn estimator, with {', '.join(NEEDED)}; got {name}. Give "
            "one such as HistGradientBoostingClassifier(), or collect a network's Linearization."
        )
    tells_classes = any(hasattr(model, name) for name in ("predict_proba", "decision_function"))
    if tells_classes != is_classification:
        content = "numbers"
        kind = "regressor"
        methods = "with predict"
        if is_classification:
            content = "classes"
            kind = "classifier"
            methods = "with predict_proba or decision_function"
        raise ModelError(
            f"model must be a {kind}, {methods}, since the target holds {content}; got "
            f"{type(model).__name__}. Give a {kind}."
        )
    return model


def fit_clone(
    model: Any, x: np.ndarray, y: np.ndarray, seed: int, weight: np.ndarray | None = None
) -> Any:
    """Fit a clone of an estimator; a random state, where it has one, is set to `seed`."""
    with user_code(
        lambda error: (
            f"the estimator must be able to learn from {len(x):,} samples; "
            f"{type(model).__name__} raised {error}"
        )
    ):
        from sklearn.base import clone  # slow to import

        estimator: Any = clone(model)
        if "random_state" in estimator.get_params():
            estimator.set_params(random_state=seed)
        if weight is None:
            return estimator.fit(x, y)
        return estimator.fit(x, y, sample_weight=weight)


def class_probabilities(classifier: Any, x: np.ndarray, n_classes: int) -> np.ndarray:
    """Return a fitted classifier's `predict_proba`, [n, k], columns in the order of the classes."""
    values = np.asarray(classifier.predict_proba(x))
    probabilities = by_class(classifier, values, n_classes, unseen=0.0)
    remedy = "Correct it, or wrap it in CalibratedClassifierCV."
    name = f"predict_proba of {type(classifier).__name__}"
    rules.probabilities(name, probabilities, remedy=remedy, error=ModelError)
    return probabilities


def by_class(classifier: Any, values: np.ndarray, n_classes: int, *, unseen: float) -> np.ndarray:
    """Reorder a fitted classifier's columns to the order of the classes: [n, k] in float64."""
    # unseen: value for a class that the classifier has never seen.
    classes = np.asarray(getattr(classifier, "classes_", None))
    all_classes = np.arange(n_classes)
    is_distinct = classes.ndim == 1 and len(np.unique(classes)) == len(classes)
    if not is_distinct or not all((all_classes == name).any() for name in classes):
        raise ModelError(
            f"model must have classes_ that name classes of 0 to {n_classes - 1}, each once; "
            f"{type(classifier).__name__} has {classes.tolist()}. Set it in fit: np.unique(y)."
        )
    if values.ndim != 2 or values.shape[1] != len(classes):
        raise ModelError(
            f"model must give a column for each of its {len(classes)} classes_; "
            f"{type(classifier).__name__} gave shape {list(values.shape)}. Fix classes_ or the "
            "columns."
        )
    columns = np.full((len(values), n_classes), unseen, np.float64)
    columns[:, classes.astype(np.int64)] = values
    return columns
