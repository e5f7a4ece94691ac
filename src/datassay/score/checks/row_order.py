"""Whether samples next to each other in the file are alike beyond chance."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from datassay.data.samples import SampleSet
from datassay.score.checks.codes import RowCodes
from datassay.score.checks.duplicates import Duplicates
from datassay.score.checks.issue import DataIssue, named_ids

# Of a symmetric matrix without diagonal: its sum, that of its squares, of its squared row sums.
Sums = tuple[float, float, float]
FEWEST = 30  # samples or links, of fewer nothing is told
# Standard errors from which an order is no chance, and what is worth a word: the part of a distance
# that is missing, and a correlation with the row number.
SURE, LEAST, LEAST_CORRELATION = 4.0, 0.1, 0.1
BLOCKS = 1.5  # times as many changes of the label as there must be: the file is sorted by it
REMEDY = (
    "If the order is that of time, or of groups such as a patient or a recording, held-out scores "
    "are too good for new ones: name the column as time (--time) or groups (--groups)."
)


def order_issues(train: SampleSet, rows: RowCodes, outcome: Duplicates) -> list[DataIssue]:
    """What the order of the samples tells of their labels and inputs.

    Three statistics against all orders of the samples: how often the label changes from one to the
    next (of numbers, by how many ranks); within classes, how far apart along the file nearest
    neighbours lie, and which columns of numbers are correlated with the row number.

    Args:
        train: n samples, in the order of the file; nothing is told where they have groups.
        rows: for columns of numbers, of these samples first.
        outcome: nearest neighbours, likewise.

    Returns:
        One issue, "fine" where the file is only sorted by label; none where no statistic is four
        standard errors away, and a tenth.

    Cost: a few sorts of n.
    Source: the question is that of cleanlab's Datalab (25 permutations of the second statistic);
    moments over all orders are exact, by Mantel (1967).
    """
    n = len(train)
    if n < FEWEST or train.groups is not None:
        return []
    classes = train.y if train.is_classification else np.zeros(n, np.int64)
    labels, is_sorted = _labels(train)
    others = [_neighbors(classes, outcome), _columns(classes, rows)]
    others = [text for text in [labels * (not is_sorted), *others] if text]
    if others:
        text = " ".join([*[labels] * is_sorted, *others, REMEDY])
        return [DataIssue("row order", "look", n, "rows", text)]
    # Folders of images are read class by class.
    is_folder = train.kind == "image" and train.ids.dtype.kind in "UO"
    is_told = is_sorted and not is_folder
    return [DataIssue("row order", "fine", n, "rows", labels)] if is_told else []


def order_moments(a: Sums, d: Sums, n: int) -> tuple[float, float]:
    """Mean and standard deviation of Σ a_ij d_ij over all orders of n ≥ 4 samples (Mantel 1967)."""
    one, other = ((s[1], s[2] - s[1], s[0] ** 2 + 2 * s[1] - 4 * s[2]) for s in (a, d))
    two, three, four = (x * y for x, y in zip(one, other, strict=True))
    mean = a[0] * d[0] / (n * (n - 1))
    square = (2 * two + (4 * three + four / (n - 3)) / (n - 2)) / (n * (n - 1))
    return mean, max(0.0, square - mean**2) ** 0.5


def _labels(train: SampleSet) -> tuple[str, bool]:
    """How labels follow each other, in words, and whether the file is sorted by them."""
    n, y = len(train), train.y.reshape(len(train), -1)
    if y.shape[1] > 1:
        return "", False
    if train.is_classification:
        counts = np.bincount(train.y).astype(float)
        differ = float(n**2 - (counts**2).sum())
        sums = differ, differ, float((counts * (n - counts) ** 2).sum())
        steps = (np.diff(train.y) != 0).astype(float)
    else:
        _, code, counts = np.unique(y, return_inverse=True, return_counts=True)
        ranks = (np.cumsum(counts) - (counts - 1) / 2)[code.ravel()]
        sums, steps = difference_sums(ranks), np.abs(np.diff(ranks))
    follow = 2.0 * (n - 1), 2.0 * (n - 1), 4.0 * n - 6
    share = _missing(2 * float(steps.sum()), *order_moments(sums, follow, n))
    if not share:
        return "", False
    if not train.is_classification:
        less = f"{100 * share:.0f} % less than if shuffled."
        return f"Targets of samples next to each other differ by {less}", False
    if steps.sum() <= BLOCKS * (train.n_classes - 1):
        return "Sorted by label: harmless where parts are drawn at random, as here.", True
    equal, chance = 100 * (1 - steps.mean()), 100 * (1 - sums[0] / (n * (n - 1)))
    return f"{equal:.0f} % have the label of the row before, {chance:.0f} % if shuffled.", False


def difference_sums(values: Float[np.ndarray, " n"]) -> Sums:
    """Of the matrix of |v_i − v_j|."""
    v, n = np.sort(values), len(values)
    rows = 2 * (np.arange(1, n + 1) * v - np.cumsum(v)) + v.sum() - n * v
    return float(rows.sum()), 2.0 * n * n * float(v.var()), float((rows**2).sum())


def _missing(value: float, mean: float, deviation: float) -> float:
    """Which part of the mean is missing; 0 where that may be chance, or is little."""
    is_sure = mean - value > SURE * deviation > 0 and value <= (1 - LEAST) * mean
    return 1 - value / mean if is_sure else 0.0


def _neighbors(classes: Int[np.ndarray, " n"], outcome: Duplicates) -> str:
    """How far along the file the ten nearest neighbours of the same class lie."""
    n, k = len(classes), outcome.neighbors.shape[1]
    links = np.stack([np.arange(n).repeat(k), outcome.neighbors[:n].ravel()], 1)
    links = links[links[:, 1] < n]
    # Which of equal rows is the neighbour depends on their order.
    is_able = (outcome.group[links] < 0).all(1) & (classes[links[:, 0]] == classes[links[:, 1]])
    links, total = links[is_able], np.zeros(3)  # the sum of log distances, its mean, its variance
    for one in np.unique(classes[links[:, 0]]):
        place, size = np.cumsum(classes == one) - 1, int((classes == one).sum())
        own = np.sort(place[links[classes[links[:, 0]] == one]], 1)
        if size < 4:
            continue
        # A link counts in both directions, and twice where both are neighbours of each other.
        times, degree = np.unique(own @ [size, 1], return_counts=True)[1], np.bincount(own.flat)
        sums = 2.0 * len(own), 2.0 * float((times**2).sum()), float((degree**2).sum())
        away, counts = np.log(np.arange(1.0, size)), np.arange(size - 1.0, 0, -1)
        rows = np.append(0.0, np.cumsum(away))
        rows = rows + rows[::-1]
        along = float(rows.sum()), 2 * float(counts @ away**2), float((rows**2).sum())
        mean, deviation = order_moments(sums, along, size)
        total += 2 * float(np.log(np.diff(own)).sum()), mean, deviation**2
    if len(links) < FEWEST or total[1] - total[0] <= SURE * total[2] ** 0.5:
        return ""
    share = 1 - np.exp((total[0] - total[1]) / (2 * len(links)))
    less = f"{100 * share:.0f} % nearer to each other in the file than if shuffled."
    return f"Nearest neighbours are {less}" if share >= LEAST else ""


def _columns(classes: Int[np.ndarray, " n"], rows: RowCodes) -> str:
    """Columns of numbers that rise or fall along the file, within classes."""
    found = []
    for column, name in enumerate(rows.names):  # of images there are none
        values = rows.numbers[: len(classes), column]
        known = np.flatnonzero(~np.isnan(values))
        counts = np.maximum(np.bincount(classes[known]), 1)
        # Less the means of their classes.
        order, value = (
            v - (np.bincount(classes[known], v) / counts)[classes[known]]
            for v in (known.astype(float), values[known].astype(float))
        )
        size = float(np.sqrt((order**2).sum() * (value**2).sum()))
        r = abs(float(order @ value)) / size if size > 0 else 0.0
        if len(known) >= FEWEST and r >= LEAST_CORRELATION and r * len(known) ** 0.5 > SURE:
            found.append((r, name))
    names = np.array([f"{name} ({r:.2f})" for r, name in sorted(found, reverse=True)])
    return f"Correlated with the row number: {named_ids(names)}." if found else ""
