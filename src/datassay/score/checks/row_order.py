"""Whether samples next to each other in the file are alike beyond chance."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int
from scipy.stats import rankdata

from datassay.data.pictures import Pictures
from datassay.data.samples import SampleSet
from datassay.score.checks.codes import RowCodes
from datassay.score.checks.duplicates import Duplicates
from datassay.score.checks.issue import DataIssue

Sums = tuple[float, float, float]
FEWEST = 30  # samples or links, of fewer nothing is told
# Standard errors from which an order is no chance, and what is worth a word: the part of a distance
# that is missing, and a correlation with the row number.
SURE, LEAST, LEAST_CORRELATION = 4.0, 0.1, 0.1
NAMED = 3  # columns in a sentence
BLOCKS = 1.5  # times as many changes of the label as there must be: the file is sorted by label
REMEDY = (
    " If the order is that of time, or of groups such as a patient or a recording, held-out scores "
    "are too good for new ones: name the column as time (--time) or groups (--groups)."
)


def order_issues(train: SampleSet, rows: RowCodes, outcome: Duplicates) -> list[DataIssue]:
    """What the order of the samples tells of their labels and inputs.

    Three tests: how often the label changes from a sample to the next (of numbers, by how many
    ranks); how far apart along the file a sample and its nearest neighbour of the same class lie;
    which columns of numbers are correlated with the row number, classes taken out. Each is compared
    with all orders of the samples, of the second and third all within classes; none of samples in
    known groups.

    Args:
        train: n samples, in the order of the file.
        rows: of these samples, for columns of numbers.
        outcome: their nearest neighbours.

    Returns:
        One issue of severity "look", of a file that is only sorted by label "fine"; none where
        no test is sure and its effect worth a word.

    Cost: a few sorts of n.
    Source: the question is that of cleanlab's Datalab (non-iid, by 25 permutations); ours are the
    exact moments over all orders of Mantel (1967).
    """
    n = len(train)
    if n < FEWEST or train.groups is not None:
        return []
    classes = train.y if train.is_classification else np.zeros(n, np.int64)
    label, is_sorted = _labels(train)
    texts = [label, _neighbors(classes, outcome), _columns(classes, rows)]
    texts = [text for text in texts if text]
    if texts and texts != [label * is_sorted]:
        return [DataIssue("row order", "look", n, "rows", " ".join(texts) + REMEDY)]
    return [DataIssue("row order", "fine", n, "rows", label)] if label else []


def mantel(a: Sums, d: Sums, n: int) -> tuple[float, float]:
    """Mean and standard deviation of Σ a_ij d_ij over all orders of n samples, exactly.

    Args:
        a: of a symmetric [n, n] matrix without diagonal: its sum, its sum of squares and the sum of
            its squared row sums.
        d: the same of the other.
        n: at least 4.

    Returns:
        Both, for d_ij those of the samples at i and j in the order.

    Source: Mantel (1967).
    """
    one, other = ((s[1], s[2] - s[1], s[0] ** 2 + 2 * s[1] - 4 * s[2]) for s in (a, d))
    mean = a[0] * d[0] / (n * (n - 1))
    shared = (2 * one[0] * other[0], 4 * one[1] * other[1], one[2] * other[2])
    square = shared[0] + (shared[1] + shared[2] / (n - 3)) / (n - 2)
    return mean, max(0.0, square / (n * (n - 1)) - mean**2) ** 0.5


def _labels(train: SampleSet) -> tuple[str, bool]:
    """How labels follow each other, in words, and whether the file is sorted by them."""
    n, y = len(train), train.y.reshape(len(train), -1)
    if y.shape[1] > 1 or (y == y[0]).all():
        return "", False
    if train.is_classification:
        counts = np.bincount(train.y).astype(float)
        ones = float(n**2 - (counts**2).sum())
        sums, steps = (ones, ones, float((counts * (n - counts) ** 2).sum())), np.diff(train.y) != 0
    else:
        ranks = rankdata(y[:, 0])
        sums, steps = _of_differences(ranks), np.abs(np.diff(ranks))
    follow = (2.0 * (n - 1), 2.0 * (n - 1), 4.0 * n - 6)  # of the matrix of next samples
    share = _missing(2.0 * float(steps.sum()), *mantel(sums, follow, n))
    if not share:
        return "", False
    if not train.is_classification:
        text = f"Targets of samples next to each other differ by {share:.0%} less than if shuffled."
        return text.replace("%", " %"), False
    if steps.sum() <= BLOCKS * (train.n_classes - 1):
        if isinstance(train.images, Pictures):  # as folders of classes are read
            return "", True
        return "Sorted by label: harmless where parts are drawn at random, as here.", True
    equal = 100 * (1 - steps.mean())
    chance = 100 * (1 - sums[0] / (n * (n - 1)))
    return f"{equal:.0f} % have the label of the row before, {chance:.0f} % if shuffled.", False


def _of_differences(values: Float[np.ndarray, " n"]) -> Sums:
    """The sums that `mantel` takes, of the matrix of |v_i − v_j|."""
    ordered, n = np.sort(values), len(values)
    rows = 2 * (np.arange(n) * ordered - np.cumsum(ordered) + ordered) + ordered.sum() - n * ordered
    square = 2.0 * n * float(((values - values.mean()) ** 2).sum())
    return float(rows.sum()), square, float((rows**2).sum())


def _missing(value: float, mean: float, deviation: float) -> float:
    """Which part of the mean is missing; 0 where that may be chance, or is little."""
    is_sure = deviation > 0 and mean - value > SURE * deviation
    return 1 - value / mean if is_sure and value <= (1 - LEAST) * mean else 0.0


def _neighbors(classes: Int[np.ndarray, " n"], outcome: Duplicates) -> str:
    """How far along the file the nearest neighbour of the same class lies."""
    n, nearest = len(classes), outcome.nearest[: len(classes)]
    able = (nearest >= 0) & (nearest < n) & (outcome.group[:n] < 0)
    able[able] &= (outcome.group[nearest[able]] < 0) & (classes[nearest[able]] == classes[able])
    total = np.zeros(3)  # the sum of distances, its mean and its variance
    for one in np.unique(classes[able]):
        own = classes == one
        size, place = int(own.sum()), np.cumsum(own) - 1
        if size < 4:
            continue
        pairs = place[np.stack([np.flatnonzero(able & own), nearest[able & own]], 1)]
        # Each link counts in both directions; two samples may be the nearest of each other.
        _, times = np.unique(np.sort(pairs, 1) @ [size, 1], return_counts=True)
        degree = np.bincount(pairs.ravel(), minlength=size)
        links = 2.0 * len(pairs), 2.0 * (times**2).sum(), float((degree**2).sum())
        mean, deviation = mantel(links, _of_differences(np.arange(float(size))), size)
        distance = 2.0 * float(np.abs(np.diff(pairs, axis=1)).sum())
        total += np.array([distance, mean, deviation**2])
    if able.sum() < FEWEST:
        return ""
    share = 100 * _missing(total[0], total[1], float(total[2]) ** 0.5)
    text = (
        f"Nearest neighbours are {share:.0f} % nearer to each other in the file than if shuffled."
    )
    return text if share else ""


def _columns(classes: Int[np.ndarray, " n"], rows: RowCodes) -> str:
    """Columns of numbers that rise or fall along the file, within classes."""
    n, results = len(classes), []
    for column, name in enumerate(rows.names):  # of images there are none
        values = rows.numbers[:n, column]
        known = ~np.isnan(values)
        if known.sum() < FEWEST:
            continue
        own = classes[known]
        position, value = (_within(own, v[known]) for v in (np.arange(float(n)), values))
        size = float(np.sqrt((position**2).sum() * (value**2).sum()))
        r = float(position @ value) / size if size > 0 else 0.0
        if abs(r) >= LEAST_CORRELATION and abs(r) * known.sum() ** 0.5 > SURE:
            results.append((abs(r), name))
    if not results:
        return ""
    results.sort(reverse=True)
    named = ", ".join(f"{name} ({r:.2f})" for r, name in results[:NAMED])
    more = f" and {len(results) - NAMED:,} more" * (len(results) > NAMED)
    return f"Correlated with the row number: {named}{more}."


def _within(classes: Int[np.ndarray, " n"], values: Float[np.ndarray, " n"]) -> np.ndarray:
    """Values less the mean of their class."""
    counts = np.maximum(np.bincount(classes), 1)
    return values - (np.bincount(classes, values) / counts)[classes]
