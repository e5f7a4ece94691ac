"""Groups of samples that the model predicts badly, told by one or two of their columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import nlargest

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float, Int

from datassay.data.samples import SampleSet
from datassay.results import result
from datassay.score.checks.codes import comparable
from datassay.score.checks.issue import DataIssue
from datassay.stats import BETTER, Interval, by_groups, interval, mean_interval, verdicts

# Samples of one half that a group must have; of fewer in all nothing is looked for.
FEWEST, FEWEST_SAMPLES = 15, 120
LARGEST = 0.5  # part of all samples that a group may be
MOST_GROUPS = 3
MOST_VALUES, FEW_VALUES = 20, 8  # of a column of words; of numbers that are taken one by one
MOST_CONDITIONS = 300  # those of the largest effect go into pairs
MOST_SAMPLES = 20_000  # that groups are chosen by
SIMPLER = 1.0  # standard errors by which a pair of conditions must do better than one alone
WEAK = 3.0  # standard errors from which a group is worth a look at the other half
# A group is told where accuracy is so many points lower, or the error so many times that of all.
POINTS, TIMES = 0.1, 1.5


@dataclass(frozen=True, slots=True)
class Condition:
    """A column's values, in words, and the samples that have them."""

    words: str
    samples: Bool[np.ndarray, " n"]


@result
class WeakGroup:
    """Samples that are predicted worse than others.

    Attributes:
        words: the conditions that they fulfil.
        samples: [n], which they are.
        loss: by how much their mean error is larger than that of the others, with its interval.
        error: their mean error, with its interval.
        overall: that of all samples.
    """

    words: str
    samples: Bool[np.ndarray, " n"]
    loss: Interval
    error: Interval
    overall: float


def weak_groups(
    columns: pa.Table,
    errors: Float[np.ndarray, " n"],
    half: Bool[np.ndarray, " n"],
    groups: np.ndarray | None = None,
) -> tuple[WeakGroup, ...]:
    """Groups with larger errors than the other samples, found on one half and judged on the other.

    A condition is a value of a column, its being missing, or lying below or above a tenth of its
    values. Of all conditions and all pairs of them the one is taken whose mean error is the most
    standard errors above that of the others; then the same without its samples, three times.

    Args:
        columns: a row per sample.
        errors: of held-out predictions; 0 and 1 of classes.
        half: which samples the groups are chosen by; the others say how large their errors are.
        groups: of each sample, independent of those of another; None: each is a group of its own.

    Returns:
        Those whose errors are larger on the other half too, at 5 % together (Holm).

    Cost: 300² n / 2 operations, n at most 20 000.
    Source: slices as of Chung et al. (2019) and Sagadeeva and Boehm (2021), by products of
    indicators; ours judges them on samples that did not choose them.
    """
    outcome, left = [], np.ones(len(errors), bool)
    chosen = np.flatnonzero(half)[:MOST_SAMPLES]
    own = errors[chosen]

    def effect(condition: Condition) -> float:
        inside = condition.samples[chosen]
        return abs(float(_z(inside.sum(), own[inside].sum(), own)))

    conditions = nlargest(MOST_CONDITIONS, _conditions(columns, half), effect)
    masks = np.array([c.samples for c in conditions], bool).reshape(len(conditions), -1)
    for _ in range(MOST_GROUPS):
        pick = chosen[left[chosen]]
        best = _worst(masks[:, pick], errors[pick])
        if not best:
            break
        inside = left & masks[list(best)].all(0)
        outcome.append(_judged([conditions[c].words for c in best], inside, ~half, errors, groups))
        left &= ~inside
    outcome = [one for one in outcome if one is not None]
    losses = [one.loss for one in outcome]
    return tuple(o for o, v in zip(outcome, verdicts(losses), strict=True) if v == BETTER)


def _conditions(columns: pa.Table, half: Bool[np.ndarray, " n"]) -> Iterator[Condition]:
    for name in columns.column_names:
        values = comparable(columns[name])
        missing = values.is_null().to_numpy()
        if missing.any():
            yield Condition(f"{name} is missing", missing)
        if pa.types.is_floating(values.type):
            numbers, time = values.to_numpy(), pa.types.is_temporal(columns[name].type)
            yield from _of_numbers(name, numbers, half & np.isfinite(numbers), is_time=time)
            continue
        code = values.combine_chunks().dictionary_encode()
        index = code.indices.to_numpy(zero_copy_only=False)
        counts = np.bincount(index[~missing].astype(int), minlength=len(code.dictionary))
        for common in np.argsort(-counts, kind="stable")[:MOST_VALUES]:
            yield Condition(f"{name} is {code.dictionary[int(common)]}", index == common)


def _of_numbers(
    name: str, values: Float[np.ndarray, " n"], known: Bool[np.ndarray, " n"], *, is_time: bool
) -> Iterator[Condition]:
    if not known.any():
        return
    different = np.unique(values[known])
    if len(different) <= FEW_VALUES:
        yield from (Condition(f"{name} is {v:.4g}", values == v) for v in different)
    edges = np.quantile(values[known], np.arange(0.1, 1, 0.1), method="higher")
    for edge in np.unique(edges)[np.unique(edges) > different[0]]:
        text = str(np.datetime64(int(edge), "us"))[:10] if is_time else f"{edge:.4g}"
        edge = edge if is_time else float(text)  # as the reader has it
        yield Condition(f"{name} is below {text}", values < edge)
        yield Condition(f"{name} is at least {text}", values >= edge)


def _worst(masks: Bool[np.ndarray, "c n"], errors: Float[np.ndarray, " n"]) -> tuple[int, ...]:
    """Positions of one or two conditions; empty where none is weak."""
    some = masks.astype(np.float32)
    z = _z(some @ some.T, (some * errors.astype(np.float32)) @ some.T, errors)
    if z.max(initial=0.0) < WEAK:
        return ()
    one, two = int(z.diagonal().argmax()), np.unravel_index(int(z.argmax()), z.shape)
    return (one,) if z[two] < z[one, one] + SIMPLER else tuple(int(i) for i in two)


def _z(
    count: Int[np.ndarray, "..."], total: Float[np.ndarray, "..."], errors: Float[np.ndarray, " n"]
) -> Float[np.ndarray, "..."]:
    """How many standard errors the mean within lies above that of the others."""
    n, able = len(errors), (count >= FEWEST) & (count <= LARGEST * len(errors))
    count = np.where(able, count, 1)
    difference = total / count - (errors.sum() - total) / np.maximum(n - count, 1)
    spread = errors.std() * np.sqrt(1 / count + 1 / np.maximum(n - count, 1))
    return np.where(able & (spread > 0), difference / np.where(spread > 0, spread, 1.0), 0.0)


def _judged(
    words: list[str],
    inside: Bool[np.ndarray, " n"],
    judge: Bool[np.ndarray, " n"],
    errors: Float[np.ndarray, " n"],
    groups: np.ndarray | None,
) -> WeakGroup | None:
    """The group's errors on the half that did not choose it; None where it has too few samples."""
    if (inside & judge).sum() < FEWEST:
        return None
    is_share, means = bool(np.isin(errors, (0, 1)).all()), []
    for mask in (inside & judge, ~inside & judge):
        each = by_groups([errors[None, mask]], [None if groups is None else groups[mask]])[0][0]
        means.append(mean_interval(each, float(is_share)))
    own, others = means
    error = float(np.hypot(own.half, others.half)) / 1.96
    loss = interval(own.gain - others.gain, error)
    text = " and ".join(words)
    return WeakGroup(text, inside, loss, own, float(errors[judge].mean()))


def weak_group_issues(
    train: SampleSet, held_out: Float[np.ndarray, "n k"], columns: pa.Table
) -> list[DataIssue]:
    """Weak groups of samples as one issue of the data; none where there is none."""
    if len(train) < FEWEST_SAMPLES or not columns.num_columns:
        return []
    errors = _errors(train, held_out)
    outcome = []
    for one in weak_groups(columns, errors, _half(train), train.groups):
        least = POINTS if train.is_classification else 0.0
        if one.loss.gain >= least and one.error.gain >= TIMES * one.overall:
            outcome.append(one)
    if not outcome:
        return []
    texts = [_sentence(train, one) for one in outcome]
    texts[1:] = [f"Of the rest, w{text[1:]}" for text in texts[1:]]
    more = " Check the labels there, or collect more of such samples."
    inside = np.any([one.samples for one in outcome], 0)
    return [
        DataIssue(
            "weak groups", "look", int(inside.sum()), "samples", " ".join(texts) + more,
            len(outcome),
        )
    ]  # fmt: skip


def _errors(train: SampleSet, held_out: Float[np.ndarray, "n k"]) -> Float[np.ndarray, " n"]:
    if train.is_classification:
        single = held_out.shape[1] == 1
        predicted = held_out[:, 0] > 0.5 if single else held_out.argmax(1)
        return (predicted != train.y).astype(float)
    y = train.y.reshape(len(train), -1)
    if train.has_several_labels:
        return ((held_out > 0.5) != y).mean(1)
    return np.abs(held_out - y).mean(1)


def _half(train: SampleSet) -> Bool[np.ndarray, " n"]:
    """A random half, of whole groups, whatever the order of the samples."""
    group = np.unique(train.ids if train.groups is None else train.groups, return_inverse=True)[1]
    n_groups = int(group.max()) + 1
    return (np.random.default_rng(0).permutation(n_groups) < n_groups / 2)[group]


def _sentence(train: SampleSet, one: WeakGroup) -> str:
    counted = f"{int(one.samples.sum()):,} samples"
    error = one.error
    if not (train.is_classification or train.has_several_labels):
        return (
            f"Where {one.words}, the mean error is {error.gain:.3g} ({max(0.0, error.low):.3g} to "
            f"{error.high:.3g}) against {one.overall:.3g} overall ({counted})."
        )
    low, high = 1 - min(1.0, error.high), 1 - max(0.0, error.low)
    return (
        f"Where {one.words}, {100 * (1 - error.gain):.0f} % of labels are predicted "
        f"({100 * low:.0f} to {100 * high:.0f} %) against {100 * (1 - one.overall):.0f} % "
        f"overall ({counted})."
    )
