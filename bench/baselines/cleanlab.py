"""Confident learning: what cleanlab says of labels, given class probabilities."""

from collections.abc import Callable

import numpy as np

from datassay.data import SampleSet

SCORES = {
    "self-confidence": {},  # its default
    "adjusted margin": {"method": "normalized_margin", "adjust_pred_probs": True},
}


def score(y: np.ndarray, probabilities: np.ndarray, name: str = "self-confidence") -> np.ndarray:
    """[n], higher: more likely wrong."""
    from cleanlab.rank import get_label_quality_scores

    return -get_label_quality_scores(y, probabilities, **SCORES[name])


def flagged(y: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """[n] bool, what it flags by its own cut."""
    from cleanlab.filter import find_label_issues

    return find_label_issues(y, probabilities, n_jobs=1)


def of(model: Callable, name: str, samples: SampleSet, seed: int) -> np.ndarray:
    """Its score of a model's five-fold probabilities."""
    return score(samples.y, model(samples, seed), name)
