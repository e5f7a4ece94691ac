"""What removing samples costs the user's own estimator, fitted anew to what each ranking keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Int

from datassay.act.remove.held_out import Judging, judging
from datassay.act.remove.removal_curve import FRACTIONS, RemovalCurve, removal_orders
from datassay.collect.curvature.output_loss import output_score
from datassay.data.samples import SampleSet
from datassay.models.estimators import fitted
from datassay.models.user_code import user_code
from datassay.progress import Progress, silent


def refit_curve(
    estimator: Any,
    train: SampleSet,
    val: SampleSet | None,
    rankings: Mapping[str, Int[np.ndarray, " n"]],
    *,
    repeats: int,
    fractions: Sequence[float] = FRACTIONS,
    seed: int = 0,
    progress: Progress = silent,
) -> RemovalCurve:
    """As `removal_curve`, of a scikit-learn estimator.

    Args:
        estimator: a classifier or a regressor, as the targets need; clones of it see x as rows.
        train: n training samples.
        val: the samples to be judged on; None: another fifth of train each repeat.
        rankings: name → [n] positions in the order of removal; "random" is added.
        repeats: fits a point, each with another random state.
        fractions: of the samples to remove, in [0, 1); 0 is added where missing.
        seed: of the random order, the fifths and the fits.
        progress: called with (step, fits done, fits in all).

    Returns:
        Accuracy (or R²) by ranking, fraction and repeat.

    Raises:
        ModelError: the estimator cannot be fitted to what is kept.

    Cost: rankings · fractions · repeats fits.
    """
    fractions = sorted({0.0, *fractions})
    parts = judging(train, val, repeats, seed)
    orders = removal_orders(rankings, parts, len(train), seed)
    n = parts.rest.shape[1]
    score = np.empty((len(orders), len(fractions), repeats))
    done, total = 0, repeats * (1 + len(orders) * (len(fractions) - 1))
    for f, fraction in enumerate(fractions):
        for r, order in enumerate(orders.values()):
            if not f and r:  # nothing is removed yet: one fit for all rankings
                score[r, 0] = score[0, 0]
                continue
            for s in range(repeats):
                kept = np.sort(order[s][round(fraction * n) :])
                score[r, f, s] = _score(estimator, train, kept, parts, s, seed)
                done += 1
                progress("refit on what is kept", done, total)
    metric = "accuracy" if train.is_classification else "R²"
    return RemovalCurve(np.array(fractions), tuple(orders), score, metric)


def _score(
    estimator: Any,
    train: SampleSet,
    kept: Int[np.ndarray, " kept"],
    parts: Judging,
    repeat: int,
    seed: int,
) -> float:
    queries = parts.queries[repeat]
    one = fitted(estimator, _rows(train)[kept], train.y[kept], seed + repeat)
    with user_code(lambda error: f"the estimator must predict; {type(one).__name__} {error}"):
        said = np.asarray(one.predict(_rows(queries)))
    if train.is_classification:
        return float((said == queries.y).mean())
    return float(output_score(torch.as_tensor(said.reshape(len(queries), -1)).double(), queries))


def _rows(samples: SampleSet) -> np.ndarray:
    return np.asarray(samples.x).reshape(len(samples), -1)
