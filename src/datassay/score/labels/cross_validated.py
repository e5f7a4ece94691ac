"""Held-out class probabilities of a scikit-learn classifier."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import StratifiedKFold

from datassay.data.arguments import checks_arguments
from datassay.data.samples import SampleSet
from datassay.errors import DataError
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
        seed: of the folds, and of the boosting.
        progress: called with (step, folds done, folds in all).

    Returns:
        Class probabilities; 0 for a class that the other folds do not hold. Samples are put into an
        order of their own, by values and label, before they are folded, so that the order in which
        they come does not matter.

    Raises:
        DataError: these are no classes, or each has fewer samples than there are folds.

    Cost: five fits to four fifths of the samples.
    """
    if not samples.is_classification or np.bincount(samples.y).max() < FOLDS:
        raise DataError(
            f"held-out class probabilities need classes, one of them with {FOLDS} samples or more; "
            f"got {len(samples)} samples of {samples.n_classes} classes. Add samples."
        )
    x, y = samples.x.reshape(len(samples), -1), samples.y
    if model is None:
        model = HistGradientBoostingClassifier(random_state=seed).set_params(early_stopping=True)
    order = np.lexsort((y, *x.T[::-1]))
    x, y = x[order], y[order]
    found = np.zeros((len(y), samples.n_classes))
    with warnings.catch_warnings():
        # A class with fewer samples than folds is spread as it can be.
        warnings.filterwarnings("ignore", "The least populated class", UserWarning)
        folds = list(StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(x, y))
    for done, (kept, held) in enumerate(folds, 1):
        fitted: Any = clone(model)
        fitted.fit(x[kept], y[kept])
        found[np.ix_(order[held], fitted.classes_)] = fitted.predict_proba(x[held])
        progress("fit another judge", done, FOLDS)
    return found
