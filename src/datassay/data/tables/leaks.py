"""Columns that tell the target almost alone: by their values, by their words, or two together."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float, Int

from datassay.data.source import Task
from datassay.data.tables.read import ReadColumn
from datassay.data.targets import MAX_GUESSED_CLASSES, guess_task
from datassay.ranks import longest_rise
from datassay.results import result

# Mean F1 over classes, of held-out rows, that a leak reaches: a column, the words of texts, or two
# columns where all others together stay below WEAK.
ALONE = 0.985
WORDS = 0.95
TOGETHER = 0.995
WEAK = 0.9
# Where classes are separable, good columns reach that, too. The values of a leak are words, or the
# gaps between classes are GAP times as wide as these, or all other columns stay below FAR_BETTER.
GAP = 0.7
FAR_BETTER = 0.95
MANY = 30  # rows of each class, of fewer of which values may lie apart by chance
# Where some labels are wrong, or the leak is: a column of few values; all others together err so
# many times as often. In 120 drawn tables no natural column reached .85; what others recorded of
# the label, with 1 to 10 % of errors, had .88 to 1.00, where all other columns had .30 to .92.
WITH_ERRORS, TIMES_AS_MUCH = 0.88, 3.0
CODES_PER_CLASS = 3
IN_ORDER = 0.98  # share of steps from value to value in which a quantity rises (or falls)
MOSTLY_IN_ORDER = 0.85  # share of rows in one order, where some targets are wrong
FEWEST_STEPS = 4  # that say so: a column of fewer values is no leak of a quantity
OFF = 0.01  # error of a sum, in units of the target's spread
MOST_ERRORS = 0.15  # share of rows that a sum may miss
FEW_ROWS = 50
FEWEST_COLUMNS = 4
_ROWS = 2_000
_OF_CLASS = 50
_COLUMNS = 2_000  # looked at
_PAIRED = 30  # columns of which each two are looked at
_FOLDS = 5
_CHARACTERS = 2_000  # of a text, at its beginning and at its end
_WORD = r"[^\W\d_]+|\d+"


@result
class Leak:
    """One or two columns that tell the target, and the share of it that they tell."""

    names: tuple[str, ...]
    share: float
    unused_as: str = ""  # why the column is no feature

    @property
    def sentence(self) -> str:
        """What the reader must know."""
        share = "over 99.9 %" if self.share > 0.9995 else f"{100 * self.share:.1f} %"
        share = f"the target almost alone ({share} of it, in rows held out)"
        if len(self.names) == 1:
            subject = f"Column {self.names[0]!r} predicts"
            remedy = "it is not known before the target is, drop it."
        else:
            subject = f"Columns {' and '.join(map(repr, self.names))} together predict"
            remedy = "they are not known before the target is, drop them."
        if self.unused_as:
            return f"{subject} {share}. It is left out: {self.unused_as}."
        return f"{subject} {share}. If {remedy}"


def find_leaks(columns: Sequence[ReadColumn], y: np.ndarray, task: Task | None) -> list[Leak]:
    """Return columns that predict the target almost alone, else pairs that do.

    A class is told by a tree of 2 k leaves on the column, by the commonest class of equal values,
    or by one word a class. A quantity is told where it rises (or falls) from each value to the
    next, so that another unit, a logarithm, a rank or a range of it is found; by two columns, where
    it is their weighted sum or their product of powers.

    Cost: 2 ms a column, 20 ms where it tells much, .1 s a text; 2 000 rows are looked at, so many
    of each class that rare ones are told from others.
    Source: ours.
    """
    columns = [c for c in columns if c.values is None or c.values.ndim == 1][:_COLUMNS]
    if len(y) < FEW_ROWS or y.ndim > 1:
        return []
    if (task or guess_task(y)) == "classification":
        return _Classes(y).leaks(columns)
    rows = np.linspace(0, len(y) - 1, min(len(y), _ROWS)).astype(np.int64)
    target = y[rows].astype(np.float64)
    numbers = {}
    leaks = []
    for read in columns:
        name = read.column.name
        values = _to_numbers(read, rows)
        if read.words is None:
            numbers[name] = values
        elif read.column.read_as == "text":
            continue
        share = _in_order(values, target, is_code=read.words is not None)
        if share:
            leaks.append(Leak((name,), share))
    return leaks or _sums(numbers, target)


def find_unused_leaks(
    columns: Sequence[ReadColumn], y: np.ndarray, task: Task | None
) -> list[Leak]:
    """Return columns left out as ids that predict the target; not those that sort the rows."""
    notes = {c.column.name: c.column.note for c in columns}
    columns = [
        replace(c, column=replace(c.column, read_as="number" if c.words is None else "text"))
        for c in columns
        if c.words is not None or _is_unsorted(c.values)
    ]
    leaks = (leak for column in columns for leak in find_leaks([column], y, task))
    return [replace(leak, unused_as=notes[leak.names[0]]) for leak in leaks]


def _is_unsorted(values: np.ndarray | None) -> bool:
    """Return whether numbers neither rise nor fall throughout; False if no numbers."""
    if values is None or values.dtype.kind not in "iuf" or values.ndim > 1:
        return False
    steps = np.diff(values.astype(np.float64))
    return not ((steps >= 0).all() or (steps <= 0).all())


def _to_numbers(read: ReadColumn, rows: Int[np.ndarray, " m"]) -> Float[np.ndarray, " m"]:
    """Return a column's rows as float64, words as codes, NaN if missing, [m]."""
    if read.words is not None:
        codes = read.words.take(pa.array(rows)).dictionary_encode().indices
        return codes.to_numpy(zero_copy_only=False).astype(np.float64)
    assert read.values is not None
    values = read.values[rows]
    if values.dtype.kind == "M":
        return np.where(np.isnat(values), np.nan, values.astype(np.int64).astype(np.float64))
    return values.astype(np.float64)


def _in_order(x: Float[np.ndarray, " n"], y: Float[np.ndarray, " n"], *, is_code: bool) -> float:
    """Return the share of steps between values of x along which y only rises, or only falls.

    0 where that is no leak. Values of a code have no order: they are ordered by their mean y.
    """
    is_known = ~np.isnan(x)
    if is_known.sum() < max(FEW_ROWS, len(x) / 2):
        return 0.0
    y = y[is_known]
    _, codes, counts = np.unique(x[is_known], return_inverse=True, return_counts=True)
    if is_code:
        if len(counts) > len(y) / 5:
            return 0.0
        rank_of_code = np.argsort(np.argsort(np.bincount(codes, y) / counts))
        codes = rank_of_code[codes]
    order = np.lexsort((y, codes))
    start = np.flatnonzero(np.diff(codes[order], prepend=-1))  # of each value's rows
    low = y[order][start]  # the least and the largest y of each value
    high = y[order][np.append(start[1:], len(y)) - 1]
    is_counted = (low[1:] != high[:-1]) | (low[:-1] != high[1:])
    if is_counted.sum() < FEWEST_STEPS or np.bincount(codes).max() > len(y) / 2:
        return 0.0
    rises = low[1:] >= high[:-1]
    falls = high[1:] <= low[:-1]
    share = float(max(rises[is_counted].mean(), falls[is_counted].mean()))
    if share >= IN_ORDER:
        return share
    most_equal = int(np.unique(y, return_counts=True)[1].max())  # in order whatever x is
    rise = max(longest_rise(codes, y), longest_rise(-codes, y))
    is_in_order = rise - most_equal >= MOSTLY_IN_ORDER * (len(y) - most_equal)
    return rise / len(y) if is_in_order else 0.0


def _sums(numbers: dict[str, Float[np.ndarray, " n"]], y: Float[np.ndarray, " n"]) -> list[Leak]:
    """Return the pair of columns whose weighted sum or product of powers is the target."""
    numbers = {n: v for n, v in numbers.items() if not np.isnan(v).any() and v.std() > 0}
    if not FEWEST_COLUMNS <= len(numbers) <= len(y) / 5:
        return []
    leaks = _find_sum_of_two(numbers, y)
    logs = {n: np.log(v) for n, v in numbers.items() if v.min() > 0}
    if leaks or len(logs) < 2 or y.min() <= 0:
        return leaks
    return _find_sum_of_two(logs, np.log(y))


def _find_sum_of_two(
    numbers: dict[str, Float[np.ndarray, " n"]], y: Float[np.ndarray, " n"]
) -> list[Leak]:
    """Return [pair of columns whose weighted sum plus a constant is the target]; else []."""
    names = list(numbers)
    x = np.stack(list(numbers.values()), 1)
    x = np.column_stack([(x - x.mean(0)) / x.std(0), np.ones(len(y))])
    # Beside an exact sum of two, the others weigh nothing.
    weights = np.linalg.lstsq(x, y, rcond=None)[0]
    i, j = np.sort(np.argsort(-np.abs(weights[:-1]))[:2])
    x_pair = x[:, [i, j, -1]]
    error = np.abs(y - x_pair @ np.linalg.lstsq(x_pair, y, rcond=None)[0])
    spread = np.quantile(np.abs(y - np.median(y)), 1 - MOST_ERRORS)
    share = float((error <= OFF * spread).mean())
    if share < 1 - MOST_ERRORS:
        return []
    return [Leak((names[i], names[j]), share)]


class _Classes:
    """m rows that stand for the k frequent classes, of five rows at least; how columns tell them.

    Attributes:
        names: [k], of the classes, in lower case.
        shares: [k], of the classes in the data.
        sizes, starts: [k], of each class's stretch of the m rows.
        rows: [m], positions in the data; y, weight and fold: [m], of each row.
    """

    def __init__(self, y: np.ndarray):
        names, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
        frequent = np.argsort(-counts, kind="stable")[:MAX_GUESSED_CLASSES]
        frequent = frequent[counts[frequent] >= _FOLDS]
        self.names = [str(name).casefold() for name in names[frequent]]
        self.k = len(frequent)
        self.shares = counts[frequent] / counts[frequent].sum()
        rng = np.random.default_rng(0)
        max_rows = max(_OF_CLASS, _ROWS // max(1, self.k))
        rows = [rng.permutation(np.flatnonzero(codes == c))[:max_rows] for c in frequent]
        self.sizes = sizes = np.array([len(idx) for idx in rows], np.int64)
        self.starts = np.cumsum(sizes) - sizes
        self.rows = np.concatenate([*rows, sizes[:0]])  # also where there is no class
        self.y = np.repeat(np.arange(self.k), sizes)
        self.weight = np.repeat(1 / sizes, sizes)
        self.fold = (np.arange(len(self.y)) - np.repeat(self.starts, sizes)) % _FOLDS

    def leaks(self, columns: list[ReadColumn]) -> list[Leak]:
        """Return columns that predict the classes alone, else the first pair that does."""
        if self.k < 2:
            return []
        numbers: dict[str, np.ndarray] = {}
        shares: dict[str, float] = {}
        leaks: dict[str, float] = {}
        for read in columns:
            name = read.column.name
            if read.column.read_as != "text":
                numbers[name] = _to_numbers(read, self.rows)
                share = shares[name] = self._score_column(numbers[name])
                if share >= ALONE and (read.words is not None or self._are_separate(numbers[name])):
                    leaks[name] = share
            if read.words is not None and name not in leaks:
                share = self._score_words(read.words.take(pa.array(self.rows)).to_pylist())
                if share >= WORDS:
                    leaks[name] = share
        remaining = {name: values for name, values in numbers.items() if name not in leaks}
        # A dozen rows of a class are often told by chance, by a column that is only good.
        if self.sizes.min() >= MANY:
            good = {name for name in remaining if shares[name] >= WITH_ERRORS}
            leaks |= {n: shares[n] for n in good if self._is_far_better(remaining, n, shares[n])}
        names = (read.column.name for read in columns)
        return [Leak((n,), leaks[n]) for n in names if n in leaks] or self._find_pairs(numbers)

    def _are_separate(self, x: Float[np.ndarray, " m"], fewest: float = MANY) -> bool:
        """Return whether classes' values lie in ranges far apart, as no measurement's would."""
        # fewest: rows of a class from which on its tails count.
        n_digits = 12 - int(np.log10(np.nanmax(np.abs(x), initial=1)))  # 12 of the largest
        x = np.round(x, n_digits)
        low, high = (extreme.reduceat(x, self.starts) for extreme in (np.fmin, np.fmax))
        order = low.argsort()
        gap = (low[order][1:] - high[order][:-1]).min()
        if not gap > 0:
            return False
        # Noise added to a code is bounded. A measurement has tails: its width counts times the
        # ratio of width to core.
        classes = np.split(x, self.starts[1:])
        width = high - low
        core = np.array([np.ptp(np.nanquantile(values, [0.1, 0.9])) for values in classes])
        width_with_tails = np.where(width > 0, np.inf, 0.0)
        np.divide(width**2, core, out=width_with_tails, where=core > 0)
        return bool(gap > GAP * np.where(self.sizes >= fewest, width_with_tails, width).max())

    def _is_far_better(
        self, numbers: dict[str, Float[np.ndarray, " m"]], name: str, share: float
    ) -> bool:
        """Return whether all other columns predict the classes far less well than `share` (F1)."""
        has_codes = len(np.unique(numbers[name])) <= CODES_PER_CLASS * self.k
        if share < ALONE and not has_codes:
            return False
        others_share = self._score_others(numbers, name)
        errs_as_often = 1 - others_share < TIMES_AS_MUCH * (1 - share)
        return others_share < FAR_BETTER and (share >= ALONE or not errs_as_often)

    def _score_others(self, numbers: dict[str, Float[np.ndarray, " m"]], *names: str) -> float:
        """Return the F1 of predicting the classes from all columns but those named."""
        from sklearn.ensemble import ExtraTreesClassifier  # slow to import

        columns = [np.nan_to_num(_scale(v)) for name, v in numbers.items() if name not in names]
        if not columns:
            return 0.0
        return self._cross_validate(ExtraTreesClassifier(50, random_state=0), np.stack(columns, 1))

    def _score_column(self, x: Float[np.ndarray, " m"]) -> float:
        """Return the best F1 of predicting the classes from one column, by value or by a tree."""
        is_known = ~np.isnan(x)
        scores = [self._score_values(np.unique(x, return_inverse=True)[1])]
        if is_known.sum() >= max(FEW_ROWS, len(x) / 2):
            x = _scale(x)[:, None]
            scores.append(self._score_tree(x, is_known))
            if not is_known.all():
                scores.append(self._score_tree(x, np.ones_like(is_known)))
        return max(scores)

    def _score_values(self, codes: Int[np.ndarray, " m"]) -> float:
        """Return the F1 of predicting the class most frequent among other rows of equal value."""
        counts = np.zeros((_FOLDS, codes.max() + 1, self.k))
        np.add.at(counts, (self.fold, codes, self.y), self.weight)
        counts_elsewhere = counts.sum(0) - counts  # in the other folds
        return self._compute_f1(counts_elsewhere[self.fold, codes].argmax(1))

    def _score_tree(self, x: Float[np.ndarray, "m d"], among: Bool[np.ndarray, " m"]) -> float:
        """Return the F1, on held-out rows, of a tree of 2 k leaves on some rows; 0 if it is low."""
        # A leaf holds rows next to each other by x, and perhaps those without a value: it errs in
        # every second stretch of a class. F1 is low where classes miss 2 k times what it lacks.
        n_leaves = max(8, 2 * self.k)
        y = self.y[among]
        n_changes = np.count_nonzero(np.diff(y[np.lexsort((y, x[among, 0]))]))
        if (n_changes - n_leaves) / 2 > 2 * (1 - WEAK) * self.k * np.bincount(y).max():
            return 0.0
        from sklearn.tree import DecisionTreeClassifier  # slow to import

        tree = DecisionTreeClassifier(max_leaf_nodes=n_leaves, random_state=0)
        fitted = tree.fit(x[among], y, self.weight[among])
        if self._compute_f1(fitted.predict(x[among]), among) < WEAK:  # most columns end here
            return 0.0
        return self._cross_validate(tree, x, among)

    def _cross_validate(
        self, model: Any, x: Float[np.ndarray, "m d"], among: Any = slice(None)
    ) -> float:
        """Return the F1 of an estimator's cross-validated predictions of the rows `among`."""
        x = x[among]
        y = self.y[among]
        weight = self.weight[among]
        fold = self.fold[among]
        predicted = np.empty_like(y)
        for test in (fold == f for f in range(_FOLDS)):
            predicted[test] = model.fit(x[~test], y[~test], weight[~test]).predict(x[test])
        return self._compute_f1(predicted, among)

    def _compute_f1(self, predicted: Int[np.ndarray, " m"], among: Any = slice(None)) -> float:
        """Return the mean F1 over classes, weighted by their frequency in all data."""
        rates = np.zeros((self.k, self.k))  # [class, prediction]
        np.add.at(rates, (self.y[among], predicted), 1.0)
        rates *= (self.shares / np.maximum(rates.sum(1), 1))[:, None]
        totals = np.maximum(rates.sum(0) + rates.sum(1), 1e-12)  # no division by 0
        return float((2 * np.diag(rates) / totals).mean())

    def _score_words(self, texts: list[str | None]) -> float:
        """Return the F1 of predicting the class by one word for each; 0 if texts repeat."""
        # The word of a class is that of the highest F1; a text without any is of the class left.
        if len({*texts}) <= len(texts) / 5:
            return 0.0
        from scipy.sparse import csr_array, hstack
        from sklearn.feature_extraction.text import CountVectorizer  # slow to import

        folded = [(text or "").casefold() for text in texts]
        ends = [f"{t[:_CHARACTERS]} {t[_CHARACTERS:][-_CHARACTERS:]}" for t in folded]
        words = CountVectorizer(token_pattern=_WORD, lowercase=False, binary=True)
        names = csr_array([[float(name in text) for name in self.names] for text in ends])
        # "- … 0": no text is without a word.
        occurs: Any = csr_array(hstack([words.fit_transform([f"- {e} 0" for e in ends]), names]))
        is_train = self.fold % 2 == 0
        totals = np.bincount(self.y[is_train], minlength=self.k)
        counts = occurs[is_train].T @ (np.eye(self.k)[self.y[is_train]] / totals)
        f1 = 2 * counts / (1 + counts.sum(1, keepdims=True))
        order = f1.max(0).argsort()
        predicted = np.full(len(ends), order[0])
        for c in order[1:]:
            predicted[occurs[:, [f1[:, c].argmax()]].toarray()[:, 0] > 0] = c
        return self._compute_f1(predicted[~is_train], ~is_train)

    def _find_pairs(self, numbers: dict[str, Float[np.ndarray, " m"]]) -> list[Leak]:
        """Return the first pair of columns that predicts the classes, if the others do not."""
        if not FEWEST_COLUMNS <= len(numbers) <= _PAIRED:
            return []
        codes = {name: np.unique(v, return_inverse=True)[1] for name, v in numbers.items()}
        for pair in combinations(numbers, 2):
            a, b = (numbers[name] for name in pair)
            codes_a, codes_b = (codes[name] for name in pair)
            # Tails need not count, as all other columns must be weak besides.
            share = float(self._are_separate(a - b, np.inf) or self._are_separate(a + b, np.inf))
            n_b = codes_b.max() + 1
            if (codes_a.max() + 1) * n_b <= len(a) / 5:
                share = max(share, self._score_values(codes_a * n_b + codes_b))
            if share >= TOGETHER and self._score_others(numbers, *pair) < WEAK:
                return [Leak(pair, share)]
        return []


def _scale(x: Float[np.ndarray, " m"]) -> Float[np.ndarray, " m"]:
    """Return values shifted and scaled so that float32, in which trees split, tells them apart."""
    if not np.isnan(x).all():
        x = x - np.median(x[~np.isnan(x)])
    return x / np.nanmax(np.abs(x), initial=1e-300)  # no division by 0
