"""The user's own scikit-learn estimator: by name, by class or made, and fitted as their code."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone
from torch import nn

from datassay import rules
from datassay.errors import ModelError
from datassay.models.networks import NETWORKS
from datassay.models.reference import imported_reference
from datassay.models.user_code import user_code

NEEDED = ("fit", "predict", "get_params")


def named_estimator(name: str) -> Any:
    """The estimator that "package.module:name" stands for; None of a network or anything else."""
    # Its class, or a function without arguments that returns one, will do: "sklearn.svm:SVC".
    rule = f"model must be one of {', '.join(NETWORKS)}, or package.module:name"
    candidate = imported_reference(name, rule)
    if callable(candidate) and not isinstance(candidate, nn.Module):
        with user_code(
            lambda error: (
                f"model {name!r} must be a network, an estimator, or a function without arguments "
                f"that returns one; calling it raised {error}"
            )
        ):
            candidate = candidate()
    return candidate if is_estimator(candidate) else None


def is_estimator(candidate: Any) -> bool:
    """Whether it can be cloned, fitted and asked, and is no network."""
    is_made = all(hasattr(candidate, name) for name in NEEDED) and not isinstance(candidate, type)
    return is_made and not isinstance(candidate, nn.Module)


def checked_estimator(model: Any, *, is_classification: bool) -> Any:
    """An estimator for the task, not fitted."""
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
        needed, kind = ("classes", "classifier") if is_classification else ("numbers", "regressor")
        means = "with predict_proba or decision_function" if is_classification else "with predict"
        raise ModelError(
            f"model must be a {kind}, {means}, since the target holds {needed}; got "
            f"{type(model).__name__}. Give a {kind}."
        )
    return model


def fitted(
    model: Any, x: np.ndarray, y: np.ndarray, seed: int, weight: np.ndarray | None = None
) -> Any:
    """A clone of an estimator, fitted, with a random state where it has one."""
    with user_code(
        lambda error: (
            f"the estimator must be able to learn from {len(x):,} samples; "
            f"{type(model).__name__} raised {error}"
        )
    ):
        one: Any = clone(model)
        if "random_state" in one.get_params():
            one.set_params(random_state=seed)
        return one.fit(x, y) if weight is None else one.fit(x, y, sample_weight=weight)


def class_probabilities(one: Any, x: np.ndarray, n_classes: int) -> np.ndarray:
    """What a fitted classifier's `predict_proba` says, [n, k] in the order of the classes."""
    values = np.asarray(one.predict_proba(x))
    placed = by_class(one, values, n_classes, unseen=0.0)
    remedy = "Correct it, or wrap it in CalibratedClassifierCV."
    name = f"predict_proba of {type(one).__name__}"
    rules.probabilities(name, placed, remedy=remedy, error=ModelError)
    return placed


def by_class(one: Any, values: np.ndarray, n_classes: int, *, unseen: float) -> np.ndarray:
    """Columns of a fitted classifier in the order of the classes, [n, k] in float64."""
    # unseen: for a class that it does not name.
    classes = np.asarray(getattr(one, "classes_", None))
    known = np.arange(n_classes)
    names_all = classes.ndim == 1 and len(np.unique(classes)) == len(classes)
    if not names_all or not all((known == name).any() for name in classes):
        raise ModelError(
            f"model must have classes_ that name classes of 0 to {n_classes - 1}, each once; "
            f"{type(one).__name__} has {classes.tolist()}. Set it in fit: np.unique(y)."
        )
    if values.ndim != 2 or values.shape[1] != len(classes):
        raise ModelError(
            f"model must give a column for each of its {len(classes)} classes_; "
            f"{type(one).__name__} gave shape {list(values.shape)}. Fix classes_ or the columns."
        )
    placed = np.full((len(values), n_classes), unseen, np.float64)
    placed[:, classes.astype(np.int64)] = values
    return placed
