"""Held-out probabilities of a scikit-learn classifier: each sample is judged by fits without it."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn.ensemble import HistGradientBoostingClassifier

from datassay.data.arguments import checks_arguments
from datassay.data.samples import SampleSet
from datassay.errors import ModelError
from datassay.models.estimators import checked_estimator
from datassay.progress import Progress, silent
from datassay.train.folds import check_classes, held_out_outputs


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
    check_classes(samples)
    model = checked_estimator(model, is_classification=True)
    if not hasattr(model, "predict_proba"):
        raise ModelError(
            f"model must have predict_proba; {type(model).__name__} has none. Give another."
        )
    return held_out_outputs(model, samples, seed, progress)
