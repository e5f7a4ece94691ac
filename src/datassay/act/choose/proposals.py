"""The acts that a data set suggests: what could be mended, dropped, weighed or split."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from jaxtyping import Float
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from datassay.act.choose.act import (
    BALANCE,
    DROP,
    PURIFY,
    REMOVE,
    REWEIGHT,
    Act,
    Blocks,
    relabelling,
    removal,
    splitting,
    weighting,
)  # fmt: skip
from datassay.act.partition.routing import compact, fit_router, linear_partition
from datassay.act.purify.loop import purify
from datassay.act.remove.summarize import suspects_first
from datassay.act.weigh.class_balance import class_balanced_weights
from datassay.act.weigh.features import standardized_inputs
from datassay.act.weigh.weights import local_variance_weights
from datassay.data.samples import SampleSet
from datassay.errors import DatassayError
from datassay.models.build import linear_or_named
from datassay.score.label_issues import LabelIssues

FRACTIONS = (0.1, 0.25, 0.5, 0.75)
# Largest class over smallest from which weights by class can matter.
UNEVEN = 1.5
# Purifying refits a convex model of p weights to n samples: at most so large an n p², and so often.
MOST_PURIFYING, PURIFY_STEPS = 1e8, 20
# Blocks take thousands of Newton steps: they are found on so many samples and columns.
MOST_DIVIDED, DIVIDED_COLUMNS, RESTARTS = 400, 8, 1
BLOCK_RIDGE = 1e-3
NEIGHBORS = 20


def proposals(
    train: SampleSet,
    issues: LabelIssues,
    information: Float[np.ndarray, " n"],
    *,
    takes_weights: bool = True,
    seed: int = 0,
) -> tuple[tuple[Act, ...], tuple[str, ...]]:
    """All acts worth trying, and why others are not.

    Args:
        train: n samples.
        issues: of their labels.
        information: of each sample, any unit; where samples are dropped the suspects go first,
            then the least informative.
        takes_weights: whether the model can weigh samples.
        seed: of controls, blocks and fits.

    Returns:
        The acts, and one sentence for each that was left out.
    """
    acts: list[Act] = []
    left_out: list[str] = []
    sources = (
        _labels(train, issues, seed),
        _fewer(train, information, issues, seed),
        _weights(train, seed) if takes_weights else _no_weights(),
        _purified(train, seed),
        _divided(train, seed),
    )
    for source in sources:
        for found in source:
            (left_out if isinstance(found, str) else acts).append(found)  # pyright: ignore[reportArgumentType]
    return tuple(acts), tuple(left_out)


Found = Iterator[Act | str]


def _labels(train: SampleSet, issues: LabelIssues, seed: int) -> Found:
    suspects = issues.is_issue
    n = int(suspects.sum())
    if not n:
        yield "Mending or removing suspects: no label is suspected."
        return
    yield relabelling(train, issues.suggested_label.reshape(train.y.shape), suspects)
    if n <= len(train) // 2:
        yield removal(REMOVE, "Remove suspects", train, suspects, seed)


def _fewer(train: SampleSet, information: np.ndarray, issues: LabelIssues, seed: int) -> Found:
    order = suspects_first(information, issues)
    for fraction in FRACTIONS:
        n = round(fraction * len(train))
        gone = np.zeros(len(train), bool)
        gone[order[:n]] = True
        stays = np.unique(train.y[~gone]) if train.is_classification else np.arange(2)
        if not 0 < n <= len(train) - 8 or len(stays) < 2:
            return
        words = f"Drop {100 * fraction:.0f} % of the samples"
        yield replace(removal(DROP, words, train, gone, seed), fraction=fraction)


def _weights(train: SampleSet, seed: int) -> Found:
    if len(train) > NEIGHBORS and train.y.ndim == 1:
        weights = local_variance_weights(standardized_inputs(train), train.y, NEIGHBORS)
        if np.ptp(weights) > 0:
            yield weighting(REWEIGHT, "Reweight by local variance", train, weights, seed)
        else:
            yield "Reweighting: all neighbours have one label, so all weights are the same."
    if not train.is_classification:
        return
    counts = np.bincount(train.y)
    counts = counts[counts > 0]
    if counts.max() < UNEVEN * counts.min():
        yield "Balancing classes: they are about even."
        return
    weights = class_balanced_weights(train.y, beta=1)
    yield weighting(BALANCE, "Balance the classes by weights", train, weights, seed)


def _no_weights() -> Found:
    yield "Weights: the model's fit takes none."


def _purified(train: SampleSet, seed: int) -> Found:
    weights = (train.x[0].size + 1) * (1 if train.n_classes <= 2 else train.n_classes)
    if train.y.ndim > 1:
        yield "Purifying: it is of one target a sample."
        return
    if len(train) < weights:
        yield (
            f"Purifying: a linear model of {weights:,} weights needs more than {len(train):,} "
            "samples to tell what does not belong."
        )
        return
    if len(train) * weights**2 > MOST_PURIFYING:
        yield "Purifying: it takes minutes here; datassay purify does it."
        return
    try:
        step = max(1, len(train) // PURIFY_STEPS)
        model = linear_or_named("logistic" if train.is_classification else "linear", train, seed)
        found = purify(model, train, order="fixed", step=step, seed=seed)
    except DatassayError as error:
        yield f"Purifying: {error}"
        return
    gone = np.ones(len(train), bool)
    gone[found.keep] = False
    if not gone.any():
        yield "Purifying: the samples agree; none is to be removed."
        return
    yield removal(PURIFY, "Purify", train, gone, seed)


def _divided(train: SampleSet, seed: int) -> Found:
    if train.y.ndim > 1:
        yield "Splitting: it is of one target a sample."
        return
    rows = np.asarray(train.x, np.float64).reshape(len(train), -1)
    targets = np.eye(train.n_classes)[train.y] if train.is_classification else train.y[:, None]
    loss = "cross_entropy" if train.is_classification else "mse"
    chosen = np.sort(np.random.default_rng((seed, 1)).permutation(len(train))[:MOST_DIVIDED])
    try:
        divided = linear_partition(
            rows, targets, loss, n_blocks=None, max_blocks=2, ridge=BLOCK_RIDGE,
            restarts=RESTARTS, seed=seed, chosen=chosen, most_features=DIVIDED_COLUMNS,
        )  # fmt: skip
    except DatassayError as error:
        yield f"Splitting: {error}"
        return
    block, responsibility = compact(divided, len(train))
    members = [np.flatnonzero(block == k) for k in range(responsibility.shape[1])]
    if len(members) < 2 or min(map(len, members)) < 8:
        yield "Splitting: one linear model explains held-out samples as well as two."
        return
    router = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    kept = None
    if divided is not None and divided.is_gated:  # else inputs were tried and did not tell
        kept, _, _ = fit_router(rows, block, responsibility, router, seed)
    share = np.array([len(one) for one in members]) / len(train)
    yield splitting(train, Blocks(tuple(members), share, kept), seed)
