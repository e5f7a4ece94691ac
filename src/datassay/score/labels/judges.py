"""Estimators that judge labels besides the ridge fit, and checks of what users give."""

import warnings
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from datassay import rules
from datassay.data.arguments import checks_arguments
from datassay.data.samples import SampleSet
from datassay.errors import DataError, ModelError, SettingError
from datassay.models.estimators import checked_estimator
from datassay.models.tabular import LOGISTIC, TREES, column_parts, few_threads, fit_seconds
from datassay.optional import text_if
from datassay.progress import Progress, silent
from datassay.train.folds import FOLDS, check_classes, held_out_outputs

# Smaller probabilities count as this: folds of a few thousand samples know no smaller ones.
LEAST_PROBABILITY = 1e-4
# Probabilities that agree with so many of so many labels at least are taken for a model's that was
# trained on the samples.
SUSPICIOUS = 0.99
FEWEST = 10
# Logistic regression, and of tables boosted trees, judge labels beside the network where there are
# so many rows and at most so many classes: of 12 tables at 300 and 600 rows the order of suspects
# gains .02 of AUROC by them, and loses .018 in the worst case; of 29 drawn tables of 31 to 79 rows
# it gains .027, standard error .014, and loses .065 in the worst.
FEWEST_ROWS, MOST_CLASSES = 40, 20
# Most seconds of boosted trees in five folds. Of pixels they say nothing that the network does not.
MOST_SECONDS = 7
MOST_ROWS = 50_000  # that a fit learns from; all rows are judged
# Trees stopped early differ from split to split, the more the fewer rows: of so many splits, as
# rows and seconds allow, the mean is taken (AUROC .01 higher at 1000 rows, .002 at 4000). Linear
# models do not. Quick trees take this part of the seconds of others and judge as well: five splits
# of them rank better than three of others (.933 and .931, 16 tables that chose nothing) in as long.
MOST_SPLITS = 5
SPLITS_ROWS = 10_000
SPLITS_SECONDS = 2.0
QUICK = 0.6


def check_judges(is_samples: bool, model: Any, pred_probs: Any) -> None:
    """Raise unless samples come with a model or pred_probs, and a linearisation without model."""
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
    """Return the user's class probabilities in float64; raise if they are no probabilities."""
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
        names = ", ".join(class_names[:10]) + text_if(k > 10, ", ...")
        raise DataError(
            f"pred_probs must be [{n}, {k}]; got shape {p.shape}. Give a row per sample and a "
            f"column per class, in the order {names}."
        )
    rules.probabilities("pred_probs", p, remedy="Give probabilities.", error=DataError)
    return torch.from_numpy(p)


def checked_trusted(trusted: Any, n: int) -> Bool[Tensor, " n"]:
    """Return a mask of the labels known to be right; raise unless it is bools, not all True."""
    if trusted is None:
        return torch.zeros(n, dtype=torch.bool)
    flags = np.asarray(trusted)
    if flags.shape != (n,) or flags.dtype != bool or flags.all():
        lack = text_if(flags.dtype == bool, " with no False")
        raise SettingError(
            f"trusted must be [{n}] bool with a False to judge; got shape {flags.shape} of "
            f"{flags.dtype}{lack}."
        )
    return torch.from_numpy(flags.copy())


def checked_groups(groups: Any, n: int) -> Shaped[np.ndarray, " n"] | None:
    """Return the group of each sample as a string; raise if all are in one group."""
    if groups is None:
        return None
    words = np.asarray(groups).astype(str)
    if words.shape != (n,) or len(np.unique(words)) < 2:
        if words.shape != (n,):
            got = f"shape {words.shape}"
        else:
            got = f"{str(words[0])!r} of all"
        raise SettingError(f"groups must be [{n}] names or numbers, two or more; got {got}.")
    return words


def judge_warnings(
    probabilities: Float[Tensor, "n k"], labels: Int[Tensor, " n"]
) -> tuple[str, ...]:
    """Return warnings about class probabilities that are too sure, or not held out."""
    messages = []
    low = float((probabilities < LEAST_PROBABILITY).double().mean())
    if low:
        messages += [
            f"{low:.0%} of the probabilities are below {LEAST_PROBABILITY:g}: they count as that"
        ]
    share = float((probabilities.argmax(1) == labels).double().mean())
    if len(labels) >= FEWEST and share >= SUSPICIOUS:
        messages += [
            f"the probabilities agree with {share:.0%} of the labels, as those of a model do that "
            "was trained on these very samples; held-out ones, by cross_val_predict(..., "
            'method="predict_proba"), can contradict wrong labels'
        ]
    return tuple(messages)


def log_probabilities(probabilities: Float[Tensor, "n k"]) -> Float[Tensor, "n k"]:
    """Return logarithms of class probabilities, raised to LEAST_PROBABILITY at least."""
    return probabilities.double().clamp_min(LEAST_PROBABILITY).log()


def further_judges(
    train: SampleSet, seed: int, progress: Progress = silent, most_splits: int = MOST_SPLITS
) -> dict[str, Float[np.ndarray, "n k"]]:
    """Predict held-out class probabilities by classifiers that stand beside the network.

    Args:
        train: n labelled samples.
        seed: of the folds and the models.
        progress: called with (step, samples done, samples in all).
        most_splits: largest number of splits into folds over which trees are averaged.

    Returns:
        Probabilities by the estimator's name: logistic regression, and of rows boosted trees where
        they take few seconds; each fit learns from 50 000 rows at most, which the name then says.
        Empty for images, or fewer than FEWEST_ROWS rows.

    Raises:
        DataError: each class has fewer samples than there are folds.

    Cost: five fits of each to four fifths of the samples; of trees that take little five times as
        many, over other splits.
    """
    models = _choose_models(train)
    with _ignore_convergence(models):
        return _predict_held_out(models, train, seed, progress, most_splits)


@contextmanager
def judge_in_background(train: SampleSet, seed: int) -> Iterator[Future[dict[str, np.ndarray]]]:
    """Yield a future of what `further_judges` returns, computed on a thread."""
    models = _choose_models(train)
    with _ignore_convergence(models), ThreadPoolExecutor(1) as pool:
        yield pool.submit(_predict_held_out, models, train, seed, silent, MOST_SPLITS)


@contextmanager
def _ignore_convergence(models: dict[str, Any]) -> Iterator[None]:
    """Ignore scikit-learn's ConvergenceWarning; import nothing where there are no models."""
    if not models:
        yield
        return
    from sklearn.exceptions import ConvergenceWarning  # slow to import

    with warnings.catch_warnings():
        # Nobody asked for these models, and a fit that ends early judges as well.
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def _predict_held_out(
    models: dict[str, Any], train: SampleSet, seed: int, progress: Progress, most_splits: int
) -> dict[str, Float[np.ndarray, "n k"]]:
    """Return {model name: held-out class probabilities}; trees are averaged over splits."""
    is_large = len(train) * (1 - 1 / FOLDS) > MOST_ROWS
    probabilities: dict[str, Any] = {}
    suffix = text_if(is_large, f" ({MOST_ROWS:,} rows a fit)")
    for name, model in models.items():
        n_splits = 1
        if name == TREES:
            n_splits = min(most_splits, _count_splits(train))
        seeds = range(seed, seed + n_splits)
        with few_threads(len(train)):
            p_sum = sum(held_out_outputs(model, train, s, progress, MOST_ROWS) for s in seeds)
            probabilities[name + suffix] = p_sum / n_splits
    return probabilities


def _tree_seconds(train: SampleSet) -> float:
    """Return an estimate of the seconds that quick boosted trees take over all folds."""
    n = min(len(train), MOST_ROWS)
    columns = len(column_parts(train))
    return QUICK * FOLDS * fit_seconds(n, columns, train.n_classes)


def _count_splits(train: SampleSet) -> int:
    """Return how many splits into folds trees can be averaged over in SPLITS_SECONDS; 1 to 5."""
    affordable = min(SPLITS_ROWS // len(train), int(SPLITS_SECONDS / _tree_seconds(train)))
    return min(MOST_SPLITS, max(1, affordable))


def _choose_models(train: SampleSet) -> dict[str, Any]:
    """Return {name: classifier} for rows or word counts; empty for other kinds or few samples."""
    is_words = train.kind == "text" and train.x.ndim == 2
    if not (train.kind == "row" or is_words) or len(train) < FEWEST_ROWS:
        return {}
    if not 0 < train.n_classes <= MOST_CLASSES:
        return {}
    from sklearn.linear_model import LogisticRegression  # slow to import

    from datassay.models.table_estimators import TableClassifier

    if is_words:
        linear = LogisticRegression()
    else:
        linear = TableClassifier(LOGISTIC)
    is_slow = is_words or _tree_seconds(train) > MOST_SECONDS
    trees = {}
    if not is_slow:
        trees = {TREES: TableClassifier(parts=column_parts(train), quick=True)}
    return trees | {LOGISTIC: linear}


@checks_arguments
def held_out_probabilities(
    samples: SampleSet, model: Any = None, *, seed: int = 0, progress: Progress = silent
) -> Float[np.ndarray, "n k"]:
    """Predict class probabilities of each sample by a classifier fitted to the other folds.

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
        from datassay.models.table_estimators import TableClassifier

        model = TableClassifier(parts=column_parts(samples))
    check_classes(samples)
    model = checked_estimator(model, is_classification=True)
    if not hasattr(model, "predict_proba"):
        raise ModelError(
            f"model must have predict_proba; {type(model).__name__} has none. Give another."
        )
    return held_out_outputs(model, samples, seed, progress)
