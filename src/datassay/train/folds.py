"""Splits of the samples: those a model learns from, and those it is evaluated on."""

from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from datassay.collect.curvature.output_loss import output_score
from datassay.collect.loss import loss_named
from datassay.data.samples import SampleSet
from datassay.data.settings import HELD_OUT
from datassay.data.splits import fold_pairs, group_folds, order_by_class
from datassay.errors import DataError, ModelError
from datassay.models.estimators import fit_clone
from datassay.models.user_code import user_code
from datassay.optional import select_rows
from datassay.progress import Progress
from datassay.results import result
from datassay.train.learner import estimator_outputs
from datassay.train.training import TrainedNetworks

FOLDS = 5


@result
class Splits:
    """The samples that each of S networks learns from, and those it is evaluated on.

    Attributes:
        train_idx: [S, kept] positions to learn from, ascending.
        queries: S sets to be evaluated on; the same for all where there is a validation part.
        test_idx: S arrays, the queries' positions; empty where there is a validation part.
    """

    train_idx: Int[np.ndarray, "S kept"]
    queries: tuple[SampleSet, ...]
    test_idx: tuple[Int[np.ndarray, " _"], ...] = ()

    @property
    def is_possible(self) -> bool:
        """Whether every set of queries allows an evaluation: R² needs targets that differ."""
        return all(s.is_classification or bool((s.y != s.y[0]).any()) for s in self.queries)

    def order(self, ranking: Int[np.ndarray, " n"], network: int) -> Int[np.ndarray, " kept"]:
        """Return a ranking of all samples, reduced to those that the network learns from."""
        return ranking[np.isin(ranking, self.train_idx[network], assume_unique=True)]

    def score(self, networks: TrainedNetworks) -> Float[np.ndarray, " R_S"]:
        """Return the score of R · S networks, each on its own queries: accuracy or mean R²."""
        # Network r S + s of ranking r is evaluated on set s.
        n_networks = len(next(iter(networks.state.values())))
        n_sets = len(self.queries)
        score = np.empty(n_networks)
        for s, queries in enumerate(self.queries):
            networks_of_set = networks.subset(slice(s, None, n_sets))
            score[s::n_sets] = validation_score(networks_of_set, queries)
        return score


def validation_score(networks: TrainedNetworks, val: SampleSet) -> Float[np.ndarray, " s"]:
    """Return the accuracy or R² of every network.

    Args:
        networks: S trained networks.
        val: the samples.

    Returns:
        [S]; accuracy in [0, 1], or R² averaged over targets.
    """
    outputs = networks.outputs(val.x)
    return np.array([output_score(f.double(), val) for f in outputs])


def make_splits(train: SampleSet, val: SampleSet | None, n_networks: int, seed: int = 0) -> Splits:
    """Return the training and held-out samples of each network."""
    # Without a validation part each network gives up one of five parts of the training samples, the
    # next one another, so that five networks evaluate all samples. All learn from equally many.
    n = len(train)
    if val is not None:
        return Splits(np.tile(np.arange(n), (n_networks, 1)), (val,) * n_networks)
    if train.groups is None:
        test_idx = _hold_out_stratified(train, n_networks, seed)
    else:
        test_idx = _hold_out_groups(train, train.groups, n_networks, seed)
    pools = [np.setdiff1d(np.arange(n), idx) for idx in test_idx]
    rng = np.random.default_rng(seed)
    size = min(map(len, pools))
    train_idx = [p if len(p) == size else np.sort(rng.permutation(p)[:size]) for p in pools]
    queries = tuple(train.subset(idx) for idx in test_idx)
    return Splits(np.stack(train_idx), queries, tuple(test_idx))


def _hold_out_stratified(train: SampleSet, n_networks: int, seed: int) -> list[np.ndarray]:
    """Return each network's held-out positions, ascending, stratified by class."""
    # Samples are sorted by class (by the target in a regression with one), at random within it, and
    # every fifth is taken. Classes of a single sample are left to the training where others exist.
    # Parts of targets hold all: the largest, last in the order, tell most of R².
    n_folds = round(1 / HELD_OUT)
    by_id = np.argsort(train.ids, kind="stable")
    if train.is_classification:
        is_repeated = np.bincount(train.y)[train.y] > 1
        if is_repeated.any():
            by_id = by_id[is_repeated[by_id]]
    size = -(-len(by_id) // n_folds)
    if train.is_classification:
        size = max(1, len(by_id) // n_folds)
    strata = train.y[by_id] if train.y.ndim == 1 else None
    parts = []
    for network in range(n_networks):
        rng = np.random.default_rng((seed, network // n_folds))
        order = by_id[order_by_class(strata, rng, len(by_id))]
        parts.append(np.sort(order[network % n_folds :: n_folds][:size]))
    return parts


def _hold_out_groups(
    train: SampleSet, groups: np.ndarray, n_networks: int, seed: int
) -> list[np.ndarray]:
    """Return each network's held-out positions, ascending; groups are never divided."""
    n_folds = round(1 / HELD_OUT)
    by_id = np.argsort(train.ids, kind="stable")
    strata = select_rows(train.class_labels, by_id)
    parts = []
    for division in range(-(-n_networks // n_folds)):
        folds = group_folds(groups[by_id], strata, n_folds, seed + division)
        fold_idx = [np.sort(by_id[folds == fold]) for fold in range(folds.max() + 1)]
        parts += [fold_idx[network % len(fold_idx)] for network in range(n_folds)]
    return parts[:n_networks]


def held_out_outputs(
    model: Any, samples: SampleSet, seed: int, progress: Progress, most_rows: int | None = None
) -> Float[np.ndarray, "n k"]:
    """Return out-of-fold outputs of an estimator for every sample, [n, k]."""
    # most_rows: each fit draws this many of its rows where it has more.
    # Cost: five fits.
    if samples.is_classification:
        check_classes(samples)
    elif len(samples) < FOLDS:
        raise DataError(f"at least {FOLDS} samples are needed; got {len(samples)}. Add samples.")
    x = np.asarray(samples.x).reshape(len(samples), -1)
    targets = samples.y.reshape(len(samples), -1)
    order = np.lexsort((*targets.T, *x.T[::-1]))  # so that the rows' order does not matter
    y = samples.y[order]
    groups = select_rows(samples.groups, order)
    rng = np.random.default_rng(seed)
    width = samples.n_classes if samples.is_classification else targets.shape[1]
    outputs = np.zeros((len(x), width))
    n_done = 0
    for train_idx, test_idx in fold_pairs(
        y, FOLDS, seed, is_classification=samples.is_classification, groups=groups
    ):
        if most_rows is not None and len(train_idx) > most_rows:
            train_idx = np.sort(rng.permutation(train_idx)[:most_rows])
        estimator = fit_clone(model, x[order[train_idx]], y[train_idx], seed)
        with user_code(lambda error: f"the estimator must judge what it never saw; it {error}"):
            outputs[order[test_idx]] = estimator_outputs(
                estimator, x[order[test_idx]], width, samples.is_classification
            )
        n_done += len(test_idx)
        progress("fit another judge", n_done, len(x))
    if not np.isfinite(outputs).all():
        raise ModelError(
            f"the model's outputs must be finite; {type(model).__name__} gave NaN or infinity. "
            "Choose another model."
        )
    return outputs


def check_classes(samples: SampleSet) -> None:
    """Raise DataError unless some class has enough samples for each fold."""
    if not samples.is_classification or np.bincount(samples.y).max() < FOLDS:
        raise DataError(
            f"held-out class probabilities need classes, one of them with {FOLDS} samples or more; "
            f"got {len(samples)} samples of {samples.n_classes} classes. Add samples."
        )


def fold_numbers(
    targets: Float[Tensor, "n k"],
    loss: str,
    n_folds: int,
    seed: int,
    groups: Shaped[np.ndarray, " n"] | None = None,
) -> Int[Tensor, " n"]:
    """Return each sample's fold, 0 to n_folds − 1, stratified by class; groups stay together."""
    strata = None
    if loss_named(loss).has_one_class:
        strata = targets.argmax(1).numpy()
    if groups is not None:
        return torch.from_numpy(group_folds(groups, strata, n_folds, seed))
    if strata is not None and targets.shape[1] == 1:
        strata = targets[:, 0].numpy()
    order = order_by_class(strata, np.random.default_rng(seed), len(targets))
    numbers = np.empty(len(targets), dtype=np.int64)
    numbers[order] = np.arange(len(targets)) % n_folds
    return torch.from_numpy(numbers)
