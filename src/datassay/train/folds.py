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
        queries: one set per network; the same for all where there is a validation part.
        test_idx: [S] positions of the queries; empty where there is a validation part.
    """

    train_idx: Int[np.ndarray, "S kept"]
    queries: tuple[SampleSet, ...]
    test_idx: tuple[Int[np.ndarray, " _"], ...] = ()

    @property
    def is_possible(self) -> bool:
        """Whether every set allows an evaluation: R² needs targets that differ."""
        return all(s.is_classification or bool((s.y != s.y[0]).any()) for s in self.queries)

    def order(self, ranking: Int[np.ndarray, " n"], network: int) -> Int[np.ndarray, " kept"]:
        """Return a ranking of all samples without those that the network is evaluated on."""
        return ranking[np.isin(ranking, self.train_idx[network], assume_unique=True)]

    def score(self, networks: TrainedNetworks) -> Float[np.ndarray, " R_S"]:
        """Return accuracy, or R² averaged over targets, of R · S networks: ranking by ranking."""
        n_networks = len(next(iter(networks.state.values())))
        n_parts = len(self.queries)
        score = np.empty(n_networks)
        for s, queries in enumerate(self.queries):
            networks_of_set = networks.subset(slice(s, None, n_parts))
            score[s::n_parts] = validation_score(networks_of_set, queries)
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
    """Choose the samples that each network learns from and is evaluated on."""
    # Without a validation part each network gives up another fifth of the training samples: they
    # are sorted by class (by the target in a regression with one), at random within it, and every
    # fifth is taken, so that each part holds every class in proportion and five networks evaluate
    # all samples. Groups stay together; where parts then differ in size, all networks still learn
    # from equally many samples.
    n = len(train)
    if val is not None:
        return Splits(np.tile(np.arange(n), (n_networks, 1)), (val,) * n_networks)
    n_folds = round(1 / HELD_OUT)
    by_id = np.argsort(train.ids, kind="stable")
    if train.is_classification and train.groups is None:
        is_repeated = np.bincount(train.y)[train.y] > 1
        if is_repeated.any():
            by_id = by_id[is_repeated[by_id]]
    size = max(1, len(by_id) // n_folds)
    test_idx = []
    for network in range(n_networks) if train.groups is None else ():
        rng = np.random.default_rng((seed, network // n_folds))
        strata = train.y[by_id] if train.y.ndim == 1 else None
        order = by_id[order_by_class(strata, rng, len(by_id))]
        test_idx.append(np.sort(order[network % n_folds :: n_folds][:size]))
    if train.groups is not None:
        strata = None
        if train.is_classification:
            strata = train.y[by_id]
        for division in range(-(-n_networks // n_folds)):
            folds = group_folds(train.groups[by_id], strata, n_folds, seed + division)
            parts = [np.sort(by_id[folds == fold]) for fold in range(folds.max() + 1)]
            test_idx += [parts[network % len(parts)] for network in range(n_folds)]
        test_idx = test_idx[:n_networks]
    pools = [np.setdiff1d(np.arange(n), idx) for idx in test_idx]
    rng = np.random.default_rng(seed)
    size = min(map(len, pools))
    train_idx = [p if len(p) == size else np.sort(rng.permutation(p)[:size]) for p in pools]
    queries = tuple(train.subset(idx) for idx in test_idx)
    return Splits(np.stack(train_idx), queries, tuple(test_idx))


def held_out_outputs(
    model: Any, samples: SampleSet, seed: int, progress: Progress, most_rows: int | None = None
) -> Float[np.ndarray, "n k"]:
    """Return an estimator's outputs for each sample, from clones fitted to the other folds."""
    # most_rows: each fit draws this many of its rows where it has more.
    # Cost: five fits.
    if samples.is_classification:
        check_classes(samples)
    elif len(samples) < FOLDS:
        raise DataError(f"at least {FOLDS} samples are needed; got {len(samples)}. Add samples.")
    x = np.asarray(samples.x).reshape(len(samples), -1)
    flat = samples.y.reshape(len(samples), -1)
    order = np.lexsort((*flat.T, *x.T[::-1]))
    y = samples.y[order]
    groups = samples.groups
    draw = np.random.default_rng(seed)
    groups = select_rows(groups, order)
    if samples.is_classification:
        width = samples.n_classes
    else:
        width = flat.shape[1]
    outputs = np.zeros((len(x), width))
    n_done = 0
    for train_idx, test_idx in fold_pairs(
        y, FOLDS, seed, is_classification=samples.is_classification, groups=groups
    ):
        if most_rows is not None and len(train_idx) > most_rows:
            train_idx = np.sort(draw.permutation(train_idx)[:most_rows])
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
    """Raise DataError for samples whose classes cannot be split into folds."""
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
    """Assign samples to folds at random and evenly, stratified by class; groups stay whole."""
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
