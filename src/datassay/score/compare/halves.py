"""Networks trained on random halves of the samples: what scores of samples must predict."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float, Int

from datassay.collect.collection import check_sets
from datassay.data.arguments import checks_arguments
from datassay.data.samples import SampleSet
from datassay.errors import SettingError
from datassay.optional import coalesce
from datassay.progress import Progress, silent
from datassay.results import Tabular, result
from datassay.rules import require
from datassay.score.compare.fits import fits_of, measure_of
from datassay.store.results import ResultStore
from datassay.train.recipe import Recipe

FEWEST, MOST = 20, 200  # halves, where their number is not given
STEP = "train on halves of the samples"


@result
class RetrainedHalves(Tabular):
    """What two networks, trained on each of h random halves, say of queries and samples.

    Attributes:
        halves: [h, n // 2], positions of the samples, ascending.
        outcome: [h, 2, m], of each query: its margin, output or loss.
        loss: [h, 2, n], of each training sample, in the half or not.
        measure: of the queries: "margin" (log odds) of classes, "output" of one target, else
            "loss".
        ids: [n], of the training samples.
        seconds: that training took, without what a store held.
    """

    halves: Int[np.ndarray, "h kept"]
    outcome: Float[np.ndarray, "h 2 m"]
    loss: Float[np.ndarray, "h 2 n"]
    measure: str
    ids: np.ndarray
    seconds: float = 0.0

    @property
    def member(self) -> Bool[np.ndarray, "h n"]:
        """Mask, [h, n], of the samples in each half."""
        is_member = np.zeros((len(self.halves), len(self.ids)), bool)
        np.put_along_axis(is_member, self.halves, True, axis=1)
        return is_member

    def select(self, rows: slice | Bool[np.ndarray, " h"]) -> "RetrainedHalves":
        """Return the results restricted to some of the halves."""
        return replace(
            self, halves=self.halves[rows], outcome=self.outcome[rows], loss=self.loss[rows]
        )

    def to_table(self) -> pa.Table:
        """Return one row per sample: id, mean loss when trained with it and without it."""
        member = self.member
        loss = self.loss.mean(1)
        return pa.table({
            "id": self.ids,
            "loss_with": _mean_of_masked(loss, member),
            "loss_without": _mean_of_masked(loss, ~member),
        })


def _mean_of_masked(
    values: Float[np.ndarray, "h n"], mask: Bool[np.ndarray, "h n"]
) -> Float[np.ndarray, " n"]:
    """Return the mean over rows where the mask is True; 0 where it never is."""
    return (values * mask).sum(0) / np.maximum(mask.sum(0), 1)


@checks_arguments
def retrained_halves(
    network: Any,
    train: SampleSet,
    val: SampleSet,
    *,
    recipe: Recipe | None = None,
    halves: int | None = None,
    seconds: float = 180.0,
    seed: int = 0,
    store: str | None = None,
    progress: Progress = silent,
) -> RetrainedHalves:
    """Train two networks on each of many random halves of the samples.

    Args:
        network: from a seed to a network at the weights that it starts from; or a scikit-learn
            estimator, fitted anew each time.
        train: n samples.
        val: m queries, with targets.
        recipe: how the networks are trained; None: Adam, 300 updates of 64 samples.
        halves: how many; None: as many as `seconds` allow, from 20 to 200.
        seconds: of training, where `halves` is None.
        seed: of the halves, first weights and batches.
        store: folder that keeps finished networks' results, so that a second call goes on.
        progress: called with (step, halves done, halves in all).

    Returns:
        Outcomes of the queries and losses of the samples. The first halves of a longer study are
        those of a shorter one, with the same networks.

    Raises:
        DataError: too few samples, or train and val do not belong together.
        ModelError: outputs do not fit the targets, the model cannot run for many networks, an
            estimator is for another task, or a training diverged.
        SettingError: halves is below 4, seconds is not positive, or the store belongs to another
            study.

    Cost: 2 h trainings, side by side where the networks are small; 2 h (n + m) values.
    Source: Ilyas et al. (2022) and Park et al. (2023): random halves. Two networks a half are ours.
    """
    check_sets(train, val)
    if halves is not None and halves < 4:
        raise SettingError(f"halves must be at least 4; got {halves}.")
    require(seconds > 0, "seconds", "be positive", f"{seconds:g}")
    fits = fits_of(network, train, val, recipe, seed)
    results_store = ResultStore(store, fits.identity | {"seed": seed})
    start_time = time.perf_counter()
    pieces = []
    subsets = []
    for rows, expect_total in _take_slices(fits.size, halves, seconds):
        for h in range(rows.start, rows.stop):
            order = np.random.default_rng((seed, h)).permutation(len(train))
            subsets.append(np.sort(order[: len(train) // 2]))
        fit_subsets = partial(fits.fit, np.stack(subsets[rows.start :]), rows.start)
        pieces.append(results_store.get_or_compute(f"halves-{rows.start}-{rows.stop}", fit_subsets))
        progress(STEP, rows.stop, max(rows.stop, expect_total()))
    combined = {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}
    duration = time.perf_counter() - start_time
    return RetrainedHalves(np.stack(subsets), **combined, measure=measure_of(train), ids=train.ids,
                           seconds=duration)  # fmt: skip


def _take_slices(
    size: int, halves: int | None, seconds: float
) -> Iterator[tuple[slice, Callable[[], int]]]:
    """Yield slices of `size` halves to train together, until the seconds are spent.

    Each comes with a function that guesses the number of halves in all, once they are trained.
    """
    start_time = time.perf_counter()
    stop = 0
    n_most = coalesce(halves, MOST)

    def expected_total() -> int:
        elapsed = time.perf_counter() - start_time
        by_time = int(stop * seconds / max(elapsed, 1e-9))
        if halves is not None:
            return n_most
        return min(n_most, max(FEWEST, by_time))

    while stop < n_most and (
        halves is not None or stop < FEWEST or time.perf_counter() - start_time < seconds
    ):
        rows = slice(stop, min(stop + size, n_most))
        stop = rows.stop
        yield rows, expected_total
