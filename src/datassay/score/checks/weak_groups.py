"""Groups of samples that the model predicts badly, told by one or two of their columns."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import nlargest
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float, Shaped

from datassay.data.samples import SampleSet
from datassay.results import result
from datassay.score.checks.codes import comparable
from datassay.score.checks.issue import DataIssue
from datassay.stats import BETTER, Interval, by_groups, interval, mean_interval, verdicts

# Samples of one half that a group must have; of fewer in all nothing is looked for.
FEWEST, FEWEST_SAMPLES = 15, 120
LARGEST = 0.5  # part of all samples that a group may be
MOST_GROUPS, MOST_SAMPLES = 3, 20_000  # that are looked for, and that they are chosen by
MOST_VALUES, FEW_VALUES = 20, 8  # of a column of words; of numbers that are taken one by one
MOST_CONDITIONS = 300  # those of the largest effect go into pairs
# Standard errors from which a group is worth a look at the other half, and by which two conditions
# must do better than one.
WEAK, SIMPLER = 3.0, 1.0
# A group is told where accuracy is so much lower, or the error so many times that of all.
LOWER, TIMES = 0.1, 1.5
Condition = tuple[str, np.ndarray]  # in words, and which samples fulfil it


@result
class WeakGroup:
    """Samples whose held-out predictions are worse than those of others.

    Attributes:
        words: the conditions that they fulfil.
        samples: [n], which they are.
        error: their mean error on the half that did not choose them.
        loss: by how much it is larger than that of the others.
    """

    words: str
    samples: Bool[np.ndarray, " n"]
    error: Interval
    loss: Interval


def weak_groups(
    columns: pa.Table,
    errors: Float[np.ndarray, " n"],
    half: Bool[np.ndarray, " n"],
    groups: Shaped[np.ndarray, " n"] | None = None,
) -> list[WeakGroup]:
    """Groups with larger errors than other samples, found on one half and judged on the other.

    A condition is a value of a column, its being missing, or lying below or above a tenth of its
    values. Of all conditions and pairs of them the one is taken whose mean error is the most
    standard errors above that of the others; then the same without its samples, up to three.

    Args:
        columns: a row per sample.
        errors: of held-out predictions; 0 and 1 of classes.
        half: which samples the groups are chosen by.
        groups: of each sample, independent of those of another; None: each is one of its own.

    Returns:
        Those whose errors are larger on the other half too, at 5 % together (Holm).

    Cost: 300² n / 2 operations, n at most 20 000.
    Source: slices as of Chung et al. (2019), searched as Sagadeeva and Boehm (2021) do, by products
    of indicators; ours judges them on samples that did not choose them.
    """
    outcome, left = [], np.ones(len(errors), bool)
    chosen = np.flatnonzero(half)[:MOST_SAMPLES]

    def effect(condition: Condition) -> float:
        inside, own = condition[1][chosen], errors[chosen]
        return abs(float(_z(inside.sum(), own[inside].sum(), own)))

    conditions = nlargest(MOST_CONDITIONS, _conditions(columns, half), effect)
    masks = np.array([mask for _, mask in conditions], bool).reshape(len(conditions), len(errors))
    while len(outcome) < MOST_GROUPS:
        pick = chosen[left[chosen]]
        best = _worst(masks[:, pick].astype(np.float32), errors[pick].astype(np.float32))
        inside = left & masks[best].all(0)
        if not best or (inside & ~half).sum() < FEWEST:
            break
        error, others = (_mean(errors, m & ~half, groups) for m in (inside, ~inside))
        loss = interval(error.gain - others.gain, float(np.hypot(error.half, others.half)) / 1.96)
        words = " and ".join(conditions[c][0] for c in best)
        outcome.append(WeakGroup(words, inside, error, loss))
        left &= ~inside
    judged = verdicts([one.loss for one in outcome])
    return [one for one, verdict in zip(outcome, judged, strict=True) if verdict == BETTER]


def _conditions(columns: pa.Table, half: Bool[np.ndarray, " n"]) -> Iterator[Condition]:
    for name in columns.column_names:
        values = comparable(columns[name]).combine_chunks()
        if (missing := values.is_null().to_numpy(zero_copy_only=False)).any():
            yield f"{name} is missing", missing
        if pa.types.is_floating(values.type):
            is_time = pa.types.is_temporal(columns[name].type)
            yield from _of_numbers(name, values.to_numpy(zero_copy_only=False), half, is_time)
            continue
        coded = values.dictionary_encode()
        codes = coded.indices.fill_null(len(coded.dictionary)).to_numpy()
        counts = np.bincount(codes[~missing], minlength=len(coded.dictionary))
        for common in np.argsort(-counts, kind="stable")[:MOST_VALUES].tolist():
            yield f"{name} is {coded.dictionary[common]}", codes == common


def _of_numbers(
    name: str, values: Float[np.ndarray, " n"], half: Bool[np.ndarray, " n"], is_time: bool
) -> Iterator[Condition]:
    known = values[half & np.isfinite(values)]
    different = np.unique(known)
    if len(different) <= FEW_VALUES:
        yield from ((f"{name} is {v:.4g}", values == v) for v in different)
    edges = np.quantile(known, np.arange(0.1, 1, 0.1), method="higher") if len(known) else known
    for edge in np.unique(edges[edges > different[:1]]):
        words = str(np.datetime64(int(edge), "us"))[:10] if is_time else f"{edge:.4g}"
        edge = edge if is_time else float(words)  # as the reader has it
        yield f"{name} is below {words}", values < edge
        yield f"{name} is at least {words}", values >= edge


def _worst(masks: Float[np.ndarray, "c n"], errors: Float[np.ndarray, " n"]) -> list[int]:
    """Positions of one or two conditions; none where no group is weak."""
    z = _z(masks @ masks.T, (masks * errors) @ masks.T, errors)
    if z.max(initial=0.0) < WEAK:
        return []
    one, two = int(z.diagonal().argmax()), np.unravel_index(int(z.argmax()), z.shape)
    return [one] if z[two] < z[one, one] + SIMPLER else [int(c) for c in two]


def _z(count: Any, total: Any, errors: Float[np.ndarray, " n"]) -> Any:
    """How many standard errors the mean within lies above that of the others."""
    n, able = len(errors), (count >= FEWEST) & (count <= LARGEST * len(errors))
    count = np.where(able, count, 1)
    others = np.maximum(n - count, 1)
    spread = max(float(errors.std()), 1e-12) * np.sqrt(1 / count + 1 / others)
    return able * (total / count - (errors.sum() - total) / others) / spread


def _mean(errors: np.ndarray, which: np.ndarray, groups: np.ndarray | None) -> Interval:
    each = by_groups([errors[None, which]], [None if groups is None else groups[which]])[0][0]
    return mean_interval(each, float(np.isin(errors, (0, 1)).all()))


def weak_group_issues(
    train: SampleSet, held_out: Float[np.ndarray, "n k"], columns: pa.Table
) -> list[DataIssue]:
    """Weak groups as one issue of the data.

    Args:
        train: n samples.
        held_out: what a model without each says of it.
        columns: that may tell groups, a row per sample.

    Returns:
        The issue, with the figures of the half that did not choose the groups; none where none is
        weak.
    """
    if len(train) < FEWEST_SAMPLES:
        return []
    y, is_number = train.y.reshape(len(train), -1), False
    if train.is_classification:
        single = held_out.shape[1] == 1
        errors = ((held_out > 0.5) if single else held_out.argmax(1)[:, None]) != y
    else:
        is_number = not train.has_several_labels
        errors = np.abs(held_out - y) if is_number else (held_out > 0.5) != y
    errors = errors.mean(1).astype(float)
    own = np.unique(train.ids if train.groups is None else train.groups, return_inverse=True)[1]
    half = np.random.default_rng(0).permutation(own.max() + 1)[own] <= own.max() / 2
    overall, inside, texts = float(errors[~half].mean()), np.zeros(len(train), bool), []
    for one in weak_groups(columns, errors, half, train.groups):
        if one.error.gain < max(TIMES * overall, 0.0 if is_number else overall + LOWER):
            continue
        where = f"{'Of the rest, w' if texts else 'W'}here {one.words}, "
        texts.append(where + _figures(one, overall, is_number))
        inside |= one.samples
    text = " ".join([*texts, "Check the labels there, or collect more of such samples."])
    issue = DataIssue("weak groups", "look", int(inside.sum()), "samples", text, len(texts))
    return [issue] if texts else []


def _figures(one: WeakGroup, overall: float, is_number: bool) -> str:
    error, counted = one.error, f"({one.samples.sum():,} samples)."
    if is_number:
        between = f"({max(0.0, error.low):.3g} to {error.high:.3g})"
        return (
            f"the mean error is {error.gain:.3g} {between} against {overall:.3g} overall {counted}"
        )
    own, low, high, of_all = 100 * (1 - np.array([error.gain, error.high, error.low, overall]))
    between = f"({max(0.0, low):.0f} to {min(100.0, high):.0f} %)"
    return f"{own:.0f} % of labels are predicted {between} against {of_all:.0f} % overall {counted}"
