"""Groups of samples that the model predicts badly, told by one or two of their columns."""

from collections.abc import Iterator
from heapq import nlargest
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float, Shaped

from datassay.data.samples import SampleSet
from datassay.optional import coalesce, select_rows
from datassay.results import result
from datassay.score.checks.codes import to_comparable
from datassay.score.checks.issue import DataIssue
from datassay.score.checks.together import scores
from datassay.stats import BETTER, Interval, interval, mean_interval, sum_by_group, verdicts

FEWEST = 15  # samples of one half that a group must have
FEWEST_SAMPLES = 120  # in all, below which nothing is looked for
LARGEST = 0.5  # part of all samples that a group may be
MOST_GROUPS = 3
MOST_SAMPLES = 20_000  # by which groups are chosen
MOST_VALUES = 20  # of a column of words that become conditions
FEW_VALUES = 8  # of a column of numbers up to which each becomes a condition
MOST_CONDITIONS = 300  # those of the largest effect, alone and in pairs
# Standard errors from which a group is tested on the other half, and by which two conditions must
# do better than one.
WEAK, SIMPLER = 3.0, 1.0
# A group is reported if accuracy is lower by LOWER, or the error TIMES that of all samples.
LOWER, TIMES = 0.1, 1.5
Condition = tuple[str, np.ndarray]  # in words, and which samples fulfil it


@result
class WeakGroup:
    """Samples whose held-out predictions are worse than those of others.

    Attributes:
        words: the conditions that they fulfil.
        samples: [n], which they are.
        error: their mean error on the half by which they were not chosen.
    """

    words: str
    samples: Bool[np.ndarray, " n"]
    error: Interval


def weak_groups(
    columns: pa.Table,
    errors: Float[np.ndarray, " n"],
    half: Bool[np.ndarray, " n"],
    groups: Shaped[np.ndarray, " n"] | None = None,
) -> list[WeakGroup]:
    """Return groups with larger errors, chosen on one half of samples, tested on the other.

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
    outcome = []
    losses = []
    is_open = np.ones(len(errors), bool)
    search_idx = np.flatnonzero(half)[:MOST_SAMPLES]
    unit = float(np.isin(errors, (0, 1)).all())

    def effect(condition: Condition) -> float:  # standard errors
        inside = condition[1][search_idx]
        half_errors = errors[search_idx]
        return abs(float(_compare_errors(inside.sum(), half_errors[inside].sum(), half_errors)))

    def mean_error(mask: Bool[np.ndarray, " n"]) -> Interval:
        mask_groups = select_rows(groups, mask)
        return mean_interval(sum_by_group([errors[None, mask]], [mask_groups])[0][0], unit)

    conditions = nlargest(MOST_CONDITIONS, _list_conditions(columns, half), effect)
    masks = np.array([mask for _, mask in conditions], bool).reshape(len(conditions), len(errors))
    while len(outcome) < MOST_GROUPS:
        rows = search_idx[is_open[search_idx]]
        worst = _find_worst(masks[:, rows].astype(np.float32), errors[rows].astype(np.float32))
        inside = is_open & masks[worst].all(0)
        if not worst or (inside & ~half).sum() < FEWEST:
            break
        error = mean_error(inside & ~half)
        other_error = mean_error(~(inside | half))
        spread = float(np.hypot(error.half, other_error.half)) / 1.96
        losses.append(interval(error.gain - other_error.gain, spread))
        outcome.append(WeakGroup(" and ".join(conditions[c][0] for c in worst), inside, error))
        is_open &= ~inside
    # BETTER: the difference is surely above 0, that is, the group's errors are larger.
    return [group for group, v in zip(outcome, verdicts(losses), strict=True) if v == BETTER]


def _list_conditions(columns: pa.Table, half: Bool[np.ndarray, " n"]) -> Iterator[Condition]:
    """Yield conditions (words, mask [n]) on columns: values, deciles, missing ones."""
    for name in columns.column_names:
        values = to_comparable(columns[name]).combine_chunks()
        if (missing := values.is_null().to_numpy(zero_copy_only=False)).any():
            yield f"{name} is missing", missing
        if pa.types.is_floating(values.type):
            is_time = pa.types.is_temporal(columns[name].type)
            yield from _bin(name, values.to_numpy(zero_copy_only=False), half, is_time)
            continue
        coded = values.dictionary_encode()
        codes = coded.indices.fill_null(len(coded.dictionary)).to_numpy()
        counts = np.bincount(codes[~missing], minlength=len(coded.dictionary))
        for common in np.argsort(-counts, kind="stable")[:MOST_VALUES].tolist():
            yield f"{name} is {coded.dictionary[common]}", codes == common


def _bin(name: str, values: np.ndarray, half: np.ndarray, is_time: bool) -> Iterator[Condition]:
    """Yield conditions on a numeric column: equal to a value, below or above a decile."""
    finite = values[half & np.isfinite(values)]
    different = np.unique(finite)
    if len(different) <= FEW_VALUES:
        yield from ((f"{name} is {v:.4g}", values == v) for v in different)
    if len(finite):
        edges = np.quantile(finite, np.arange(0.1, 1, 0.1), method="higher")
    else:
        edges = finite
    for edge in np.unique(edges[edges > different[:1]]):
        if is_time:
            words = str(np.datetime64(int(edge), "us"))[:10]
        else:
            words = f"{edge:.4g}"
            edge = float(words)  # as the reader has it
        yield f"{name} is below {words}", values < edge
        yield f"{name} is at least {words}", values >= edge


def _find_worst(masks: Float[np.ndarray, "c n"], errors: Float[np.ndarray, " n"]) -> list[int]:
    """Return the indices of the one or two conditions of the weakest group; [] if none is."""
    z = _compare_errors(
        masks @ masks.T, (masks * errors) @ masks.T, errors
    )  # of pairs; diagonal: of one
    if z.max(initial=0.0) < WEAK:
        return []
    condition = int(z.diagonal().argmax())
    pair = np.unravel_index(int(z.argmax()), z.shape)
    if z[pair] < z[condition, condition] + SIMPLER:
        return [condition]
    return [int(c) for c in pair]


def _compare_errors(count: Any, total: Any, errors: Float[np.ndarray, " n"]) -> Any:
    """Return the z-score of the mean of `count` errors against the mean of the others.

    total: their sum. 0 where a group is too small or too large; count and total may be arrays.
    """
    n = len(errors)
    is_allowed = (count >= FEWEST) & (count <= LARGEST * len(errors))
    count = np.where(is_allowed, count, 1)
    n_others = np.maximum(n - count, 1)
    spread = max(float(errors.std()), 1e-12) * np.sqrt(1 / count + 1 / n_others)
    return is_allowed * (total / count - (errors.sum() - total) / n_others) / spread


def find_weak_groups(
    train: SampleSet, held_out: Float[np.ndarray, "n k"] | None, columns: pa.Table
) -> tuple[list[WeakGroup], float]:
    """Return groups with larger errors than average, and the mean error of all.

    The groups are chosen by a random half of the samples; errors are those of the other half.
    """
    if held_out is None or len(train) < FEWEST_SAMPLES:
        return [], np.nan
    is_number = not (train.is_classification or train.has_several_labels)
    y = train.y.reshape(len(train), -1)
    if train.is_classification:
        errors = 1 - scores(train, held_out)
    elif is_number:
        errors = np.abs(held_out - y).mean(1)
    else:
        errors = ((held_out > 0.5) != y).mean(1)
    group = np.unique(coalesce(train.groups, train.ids), return_inverse=True)[1]
    half = np.random.default_rng(0).permutation(group.max() + 1)[group] <= group.max() / 2
    overall = float(errors[~half].mean())
    threshold = max(TIMES * overall, 0.0 if is_number else overall + LOWER)
    groups = weak_groups(columns, errors, half, train.groups)
    return [weak for weak in groups if weak.error.gain >= threshold], overall


def weak_group_issues(
    train: SampleSet, held_out: Float[np.ndarray, "n k"] | None, columns: pa.Table
) -> list[DataIssue]:
    """Return weak groups as one issue; [] without any.

    Args:
        train: n samples.
        held_out: what a model without each says of it; None: not known, nothing is looked for.
        columns: that may tell groups, a row per sample.

    Returns:
        The issue, with figures of the half that did not choose the groups; none: none is weak.
    """
    texts: list[str] = []
    template = "the mean error is {:.3g} ({:.3g} to {:.3g}) against {:.3g} overall"
    is_number = not (train.is_classification or train.has_several_labels)
    if not is_number:
        template = "{:.0f} % of labels are predicted ({:.0f} to {:.0f} %) against {:.0f} % overall"
    groups, overall = find_weak_groups(train, held_out, columns)
    for group in groups:
        figures = np.array([group.error.gain, max(0.0, group.error.low), group.error.high, overall])
        if not is_number:  # accuracies: low and high change places
            figures = 100 * (1 - figures[[0, 2, 1, 3]].clip(0, 1))
        beginning = f"{'Of the rest, w' if texts else 'W'}here {group.words}, "
        texts.append(f"{beginning}{template.format(*figures)} ({group.samples.sum():,} samples).")
    count = sum(int(group.samples.sum()) for group in groups)  # no two share a sample
    text = " ".join([*texts, "Check the labels there, or collect more of such samples."])
    issue = DataIssue("weak groups", "look", count, "samples", text, len(texts))
    return [issue] if texts else []
