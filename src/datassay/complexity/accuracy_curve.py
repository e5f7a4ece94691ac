"""The error of the user's own model after fits to growing parts of the user's own data.

Not `score/learning_curve.py`, which is the training error of one fit over its updates.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Int

from datassay.collect.store.manifest import digest
from datassay.collect.store.results import ResultStore
from datassay.complexity.learners import Learner
from datassay.data.arguments import checks_arguments
from datassay.data.samples import SampleSet
from datassay.errors import DataError, SettingError
from datassay.progress import Progress, part_of, silent
from datassay.results import result

STEP = "fit to growing parts of the data"
# The default sizes: so many, from a 64th of the samples, or this many a class, up to all of them.
N_SIZES, SPAN, FEWEST_A_CLASS = 8, 64, 4


@result
class AccuracyCurve:
    """Errors of R fits at each of K sizes on m validation samples.

    Attributes:
        sizes: [K], training samples, ascending.
        errors: [K, R, m], what each validation sample adds to the error, which is their mean:
            1 − accuracy, or 1 − R².
        start: the error of the best constant guess, that of a model of no samples.
        metric: "accuracy" or "R²".
    """

    sizes: Int[np.ndarray, " K"]
    errors: Float[np.ndarray, "K R m"]
    start: float
    metric: str

    @property
    def score(self) -> Float[np.ndarray, "K R"]:
        """Accuracy or R² of every fit."""
        return 1 - self.errors.mean(2)

    def up_to(self, n: int) -> AccuracyCurve:
        """The part of the curve with at most n training samples."""
        kept = self.sizes <= n
        return AccuracyCurve(self.sizes[kept], self.errors[kept], self.start, self.metric)

    def to_table(self) -> pa.Table:
        """One row a fit: samples, repeat, score."""
        k, r = self.score.shape
        return pa.table({
            "samples": np.repeat(self.sizes, r),
            "repeat": np.tile(np.arange(r), k),
            "score": self.score.ravel(),
        })


@checks_arguments
def accuracy_curve(
    learner: Learner,
    train: SampleSet,
    val: SampleSet,
    *,
    sizes: Sequence[int] | None = None,
    seed: int = 0,
    store: str | Path | None = None,
    progress: Progress = silent,
) -> AccuracyCurve:
    """Fit a model to growing random parts of the training samples and score each fit.

    Every repeat has an order of its own, of which each size takes the first samples: subsets are
    nested within a repeat, and hold the classes in proportion.

    Args:
        learner: `Networks` or `Estimators`; says how often a size is repeated.
        train: n samples.
        val: m samples that no fit sees.
        sizes: numbers of training samples; None: `default_sizes`.
        seed: of the orders.
        store: folder that keeps the errors of every finished size, so that a second call of the
            same kind only fits what is missing; None keeps nothing.
        progress: called with (step, fits done, fits in all).

    Returns:
        The errors of every fit.

    Raises:
        DataError: fewer than 2 validation samples, or all of their targets alike.
        SettingError: sizes are not ascending numbers of samples in 1..n, or fewer than 4; or the
            store belongs to other data, another model or other settings.
        ModelError: an estimator refuses a subset.

    Cost: the fits of all sizes, R each.
    """
    chosen = default_sizes(train) if sizes is None else np.asarray(sizes, np.int64)
    check_sizes(chosen, len(train))
    start = _start(val)
    repeats = learner.repeats
    orders = np.stack([nested_order(train, np.random.default_rng([seed, r]))
                       for r in range(repeats)])  # fmt: skip
    cause = learner.identity(train, val) | {"validation targets": digest({"y": val.y})}
    kept, total = ResultStore(store, cause | {"seed of the subsets": seed}), len(chosen) * repeats
    for k, n in enumerate(chosen):
        report = part_of(progress, STEP, k * repeats, total)
        if f"size-{n}" not in kept:
            fit_errors = learner.errors(train, val, np.sort(orders[:, :n], 1), report)
            kept.put(f"size-{n}", {"errors": fit_errors})
        else:
            report(STEP, repeats, repeats)
    errors = [kept.get(f"size-{n}")["errors"] for n in chosen]
    metric = "accuracy" if train.is_classification else "R²"
    return AccuracyCurve(chosen, np.stack(errors), start, metric)


def default_sizes(train: SampleSet) -> Int[np.ndarray, " K"]:
    """Eight sizes in even ratios, from a 64th of the samples to all of them.

    Args:
        train: n samples.

    Returns:
        [K], at least 4 samples a class and 8 in all at the smallest.

    Raises:
        DataError: too few samples for four sizes.
    """
    n = len(train)
    low = max(round(n / SPAN), FEWEST_A_CLASS * max(2, train.n_classes))
    if 2 * low > n:
        raise DataError(
            f"a learning curve needs at least {2 * low} training samples here, twice "
            f"{FEWEST_A_CLASS} a class; got {n}. Add samples, or give sizes."
        )
    return np.unique(np.geomspace(low, n, N_SIZES).round().astype(np.int64))


def check_sizes(sizes: Int[np.ndarray, " K"], n: int) -> None:
    """Refuse sizes that no curve can be drawn through.

    Args:
        sizes: numbers of training samples.
        n: how many there are.

    Raises:
        SettingError: fewer than 4, not ascending, or outside 1..n.
    """
    if len(sizes) < 4 or (np.diff(sizes) <= 0).any() or sizes[0] < 1 or sizes[-1] > n:
        raise SettingError(
            "sizes must be at least 4 ascending numbers of training samples, at most the "
            f"{n:,} there are; got {', '.join(map(str, sizes[:6])) or 'none'}."
        )


def nested_order(train: SampleSet, draw: np.random.Generator) -> Int[np.ndarray, " n"]:
    """A random order of the samples whose beginnings hold the classes in proportion.

    Args:
        train: n samples.
        draw: where the order is from.

    Returns:
        [n] positions.
    """
    order = draw.permutation(len(train))
    if not train.is_classification:
        return order
    place = np.empty(len(train))
    for c in range(train.n_classes):
        own = order[train.y[order] == c]
        place[own] = (np.arange(len(own)) + draw.random()) / max(len(own), 1)
    return np.argsort(place, kind="stable")


def _start(val: SampleSet) -> float:
    if len(val) < 2 or (val.y == val.y[0]).all():
        raise DataError(
            "the validation samples must be at least 2 with targets that differ; got "
            f"{len(val)}. Raise val_fraction, or give more."
        )
    if not val.is_classification:
        return 1.0
    return float(1 - np.bincount(val.y).max() / len(val))
