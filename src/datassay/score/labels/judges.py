"""Who judges labels besides the fit: checked probabilities, and how much they count."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from sklearn.ensemble import HistGradientBoostingClassifier
from threadpoolctl import threadpool_limits
from torch import Tensor

from datassay.data.arguments import checks_arguments
from datassay.data.samples import SampleSet
from datassay.errors import DataError, ModelError, SettingError
from datassay.models.estimators import checked_estimator, no_probabilities
from datassay.progress import Progress, silent
from datassay.train.folds import check_classes, held_out_outputs

# Smaller probabilities count as this: folds of a few thousand samples know no smaller ones.
LEAST_PROBABILITY = 1e-4
SUSPICIOUS = 0.99  # share of labels that are the likeliest
FEWEST = 10  # of fewer samples that says nothing
# A prior of the weights, nats per sample, where either judge alone separates the classes.
WEAK = 1e-6
STEPS, STILL = 60, 1e-12
ONE_THREAD = 50_000  # rows up to which trees are grown by one thread


def check_judges(is_samples: bool, model: Any, pred_probs: Any) -> None:
    """Refuse two judges, none, and an estimator for a linearisation."""
    if model is not None and pred_probs is not None:
        raise SettingError(
            "model and pred_probs are two ways to score labels; got both. Leave one out."
        )
    if is_samples and model is None and pred_probs is None:
        raise SettingError(
            "label_issues of samples needs a judge: model=HistGradientBoostingClassifier(), "
            "pred_probs=, or collect(model, train, val) instead."
        )
    if model is not None and not is_samples:
        raise SettingError(
            "model judges samples; got a Linearization, which is of a network. Pass the SampleSet, "
            "or leave model out."
        )


def checked_probabilities(
    pred_probs: Any, n: int, class_names: tuple[str, ...]
) -> Float[Tensor, "n k"]:
    """Class probabilities that the user gave, in float64; refused if they are none."""
    k = len(class_names)
    try:
        p = np.asarray(pred_probs, np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"pred_probs must be [{n}, {k}] numbers; got a {type(pred_probs).__name__}. Pass what "
            'cross_val_predict(model, x, y, method="predict_proba") gives.'
        ) from error
    if not k:
        raise DataError("pred_probs are of classes; these targets are none. Leave them out.")
    if p.shape != (n, k):
        names = ", ".join(class_names[:10]) + ", ..." * (k > 10)
        raise DataError(
            f"pred_probs must be [{n}, {k}]; got shape {p.shape}. Give a row per sample and a "
            f"column per class, in the order {names}."
        )
    if len(bad := no_probabilities(p)):
        raise DataError(
            f"pred_probs must be at least 0 and sum to 1 in each row; {len(bad)} rows do not, the "
            f"first at position {bad[0]}: {p[bad[0]][:5].tolist()}. Give probabilities."
        )
    return torch.from_numpy(p)


def judge_warnings(
    probabilities: Float[Tensor, "n k"], labels: Int[Tensor, " n"]
) -> tuple[str, ...]:
    """What the user should know of probabilities that judge alone."""
    reported, low = [], float((probabilities < LEAST_PROBABILITY).double().mean())
    if low:
        reported += [
            f"{low:.0%} of the probabilities are below {LEAST_PROBABILITY:g}: they count as that"
        ]
    share = float((probabilities.argmax(1) == labels).double().mean())
    if len(labels) >= FEWEST and share >= SUSPICIOUS:
        reported += [
            f"the probabilities agree with {share:.0%} of the labels, as those of a model do that "
            "was trained on these very samples; held-out ones, by cross_val_predict(..., "
            'method="predict_proba"), can contradict wrong labels'
        ]
    return tuple(reported)


def log_probabilities(probabilities: Float[Tensor, "n k"]) -> Float[Tensor, "n k"]:
    """Logarithms of class probabilities, none below LEAST_PROBABILITY."""
    return probabilities.double().clamp_min(LEAST_PROBABILITY).log()


def judge_weight(
    held_out: Float[Tensor, "n k"], log_p: Float[Tensor, "n k"], labels: Int[Tensor, " n"]
) -> float:
    """How much a nat of the other model's log probability counts beside one unit of the outputs."""
    # softmax(a f + w log p + c log π), π the shares of the classes, is fitted to the labels; both
    # judges are held out, so the fit says what each adds to the other.
    # Source: stacking (Wolpert 1992) by maximum likelihood.
    n, k = held_out.shape
    share = labels.bincount(minlength=k).double().clamp_min(0.5) / n
    judged = torch.stack([held_out, log_p, share.log().expand(n, k)], 2)  # [n, k, 3]
    given = torch.nn.functional.one_hot(labels, k).double()
    weights = torch.tensor([1.0, 0.5, 0.0], dtype=torch.float64)

    def loss(weights: Float[Tensor, "3"]) -> float:
        fit = (torch.log_softmax(judged @ weights, 1) * given).sum()
        return float(WEAK * n * weights.square().sum() - fit)

    for _ in range(STEPS):
        p = torch.softmax(judged @ weights, 1)
        gradient = torch.einsum("nk,nkj->j", p - given, judged) + 2 * WEAK * n * weights
        mean = torch.einsum("nk,nkj->nj", p, judged)
        hessian = torch.einsum("nk,nki,nkj->ij", p, judged, judged) - mean.T @ mean
        hessian.diagonal().add_(2 * WEAK * n)
        step = torch.linalg.solve(hessian, gradient)
        now, size = loss(weights), 1.0
        while loss(weights - size * step) > now and size > STILL:
            size /= 2
        weights = weights - size * step
        if float(step.abs().max()) < STILL:
            break
    a, w = float(weights[0]), float(weights[1])
    if w <= 0:
        return 0.0
    return w / a if a > 0 else float("inf")


@checks_arguments
def held_out_probabilities(
    samples: SampleSet, model: Any = None, *, seed: int = 0, progress: Progress = silent
) -> Float[np.ndarray, "n k"]:
    """Predictions of a classifier for each sample, fitted to the other folds.

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
    is_ours = model is None
    if is_ours:
        model = HistGradientBoostingClassifier().set_params(early_stopping=True)
    check_classes(samples)
    model = checked_estimator(model, is_classification=True)
    if not hasattr(model, "predict_proba"):
        raise ModelError(
            f"model must have predict_proba; {type(model).__name__} has none. Give another."
        )
    # Threads wait for each other at each node of a tree: of few rows longer than they work.
    few = is_ours and len(samples) <= ONE_THREAD
    with threadpool_limits(1, "openmp") if few else nullcontext():
        return held_out_outputs(model, samples, seed, progress)
