"""Learning curve: validation error of the user's model, fitted to growing parts of the data.

`score` has another learning curve: the training error of one fit over its updates.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Int

from datassay.data.arguments import checks_arguments
from datassay.data.samples import SampleSet
from datassay.errors import DataError, SettingError
from datassay.methods.complexity.settings import Curve
from datassay.progress import Progress, part_of, silent
from datassay.results import Tabular, result
from datassay.store.digests import digest
from datassay.store.results import ResultStore
from datassay.train.learner import Learner

STEP = "fit to growing parts of the data"
# By default N_SIZES sizes, from n / SPAN, but at least FEWEST_A_CLASS samples per class, up to n.
N_SIZES, SPAN, FEWEST_A_CLASS = 8, 64, 4


@result
class AccuracyCurve(Tabular):
    """Errors of R fits at each of K sizes on m validation samples.

    Attributes:
        sizes: [K], numbers of training samples, ascending.
        errors: [K, R, m], error of each validation sample, whose mean is 1 − accuracy or 1 − R².
        start: error of the best constant guess, that is without samples.
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

    def up_to(self, n: int) -> "AccuracyCurve":
        """Return the part of the curve with at most n training samples."""
        is_small = self.sizes <= n
        return AccuracyCurve(self.sizes[is_small], self.errors[is_small], self.start, self.metric)

    def to_table(self) -> pa.Table:
        """Return one row per fit: samples, repeat, score."""
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
    sizes: Sequence[int] | None = Curve.sizes,
    seed: int = Curve.seed,
    store: str | Path | None = Curve.store,
    progress: Progress = silent,
) -> AccuracyCurve:
    """Fit a model to growing random parts of the training samples and score each fit.

    Each repeat has its own random order, and each size takes the first samples of it: subsets are
    nested within a repeat and keep the classes in proportion.

    Args:
        learner: `Networks` or `Estimators`; sets the number of repeats.
        train: n samples.
        val: m samples that no fit sees.
        sizes: numbers of training samples; None: `default_sizes`.
        seed: random seed of the orders.
        store: folder that keeps the errors of each finished size, so that the same call later
            only fits what is missing; None keeps nothing.
        progress: called with (step, fits done, total fits).

    Returns:
        Errors of every fit.

    Raises:
        DataError: there are fewer than 2 validation samples, or all their targets are equal.
        SettingError: sizes are not 4 or more ascending numbers in 1..n, or the store belongs to
            other data, another model or other settings.
        ModelError: an estimator cannot be fitted to a subset.

    Cost: R fits per size.
    """
    if sizes is None:
        all_sizes = default_sizes(train)
    else:
        all_sizes = np.asarray(sizes, np.int64)
    check_sizes(all_sizes, len(train))
    start = _score_constant(val)
    repeats = learner.repeats
    orders = np.stack([nested_order(train, np.random.default_rng([seed, r]))
                       for r in range(repeats)])  # fmt: skip
    provenance = learner.identity(train, val) | {"validation targets": digest({"y": val.y})}
    results = ResultStore(store, provenance | {"seed of the subsets": seed})
    total = len(all_sizes) * repeats
    for k, n in enumerate(all_sizes):
        report = part_of(progress, STEP, k * repeats, total)
        if f"size-{n}" not in results:
            fit_errors = learner.errors(train, val, np.sort(orders[:, :n], 1), report)
            results.put(f"size-{n}", {"errors": fit_errors})
        else:
            report(STEP, repeats, repeats)
    errors = [results.get(f"size-{n}")["errors"] for n in all_sizes]
    metric = "R²"
    if train.is_classification:
        metric = "accuracy"
    return AccuracyCurve(all_sizes, np.stack(errors), start, metric)


def default_sizes(train: SampleSet) -> Int[np.ndarray, " K"]:
    """Return 8 sizes at equal ratios, from n / 64 (4 samples per class at least) to n."""
    n = len(train)
    smallest = max(round(n / SPAN), FEWEST_A_CLASS * max(2, train.n_classes))
    if 2 * smallest > n:
        raise DataError(
            f"a learning curve needs at least {2 * smallest} training samples here, twice "
            f"{FEWEST_A_CLASS} a class; got {n}. Add samples, or give sizes."
        )
    return np.unique(np.geomspace(smallest, n, N_SIZES).round().astype(np.int64))


def check_sizes(sizes: Int[np.ndarray, " K"], n: int) -> None:
    """Raise unless there are 4 or more ascending sizes in 1..n."""
    if len(sizes) < 4 or (np.diff(sizes) <= 0).any() or sizes[0] < 1 or sizes[-1] > n:
        raise SettingError(
            "sizes must be at least 4 ascending numbers of training samples, at most the "
            f"{n:,} there are; got {', '.join(map(str, sizes[:6])) or 'none'}."
        )


def nested_order(train: SampleSet, draw: np.random.Generator) -> Int[np.ndarray, " n"]:
    """Draw an order of the samples whose every beginning keeps the classes in proportion.

    Args:
        train: n samples.
        draw: random generator.

    Returns:
        [n], positions in train.
    """
    order = draw.permutation(len(train))
    if not train.is_classification:
        return order
    quantile = np.empty(len(train))  # how far each sample is in the order of its class, in [0, 1)
    for c in range(train.n_classes):
        members = order[train.y[order] == c]
        quantile[members] = (np.arange(len(members)) + draw.random()) / max(len(members), 1)
    return np.argsort(quantile, kind="stable")


def _score_constant(val: SampleSet) -> float:
    """Return the validation error of the best constant; raise if targets are all equal."""
    if len(val) < 2 or (val.y == val.y[0]).all():
        raise DataError(
            "the validation samples must be at least 2 with targets that differ; got "
            f"{len(val)}. Raise val_fraction, or give more."
        )
    if not val.is_classification:
        return 1.0
    return float(1 - np.bincount(val.y).max() / len(val))
