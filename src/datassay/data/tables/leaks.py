"""Columns that tell the target almost alone: by their values, by their words, or two together."""

from __future__ import annotations

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
from datassay.results import result

# F1 of held-out rows, a mean over classes, that a leak reaches; words where some texts were cut;
# two columns, where all others together stay below WEAK.
ALONE = 0.985
WORDS = 0.95
TOGETHER = 0.995
WEAK = 0.9
# Where classes are separable, columns tell them that are no leaks: the values of a leak are words,
# or lie so many times apart as they are wide, or all other columns stay below FAR_BETTER.
GAP = 0.7
FAR_BETTER = 0.95
MANY = 30
# Of a quantity: steps from value to value in which it rises (or falls), and errors of a sum.
IN_ORDER, OFF = 0.98, 0.01
FEWEST_STEPS = 4  # that say so: a column of fewer values is no leak of a quantity
MOST_ERRORS = 0.15  # rows that a sum may miss
FEW_ROWS, FEWEST_COLUMNS = 50, 4
_ROWS = 2_000
_OF_CLASS = 50
_COLUMNS = 2_000  # looked at
_PAIRED = 30  # columns of which each two are looked at
_FOLDS = 5
_CHARACTERS = 2_000  # of a text, at its beginning and at its end
_WORD = r"[^\W\d_]+|\d+"


@result
class Leak:
    """Columns that tell the target, one or two, and the share of it that they tell."""

    names: tuple[str, ...]
    share: float
    unused_as: str = ""  # why the column is no feature

    @property
    def sentence(self) -> str:
        """What the reader must know."""
        share = f"the target almost alone ({self.share:.1%} of it, in rows held out)"
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
    """Return columns that tell the target almost alone, else pairs that do.

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
        values = _numbers(read, rows)
        if read.words is None:
            numbers[name] = values
        elif read.column.read_as == "text":
            continue
        if share := _in_order(values, target, is_code=read.words is not None):
            leaks.append(Leak((name,), share))
    return leaks or _sums(numbers, target)


def find_unused_leaks(
    columns: Sequence[ReadColumn], y: np.ndarray, task: Task | None
) -> list[Leak]:
    """Return columns left out as ids that tell the target though the rows are in no such order."""
    notes = {c.column.name: c.column.note for c in columns}
    columns = [
        replace(c, column=replace(c.column, read_as="number" if c.words is None else "text"))
        for c in columns
        if c.words is not None or _is_unsorted(c.values)
    ]
    leaks = (leak for column in columns for leak in find_leaks([column], y, task))
    return [replace(leak, unused_as=notes[leak.names[0]]) for leak in leaks]


def _is_unsorted(values: np.ndarray | None) -> bool:
    """Return whether numbers, if they are some, neither rise nor fall from row to row."""
    if values is None or values.dtype.kind not in "iuf" or values.ndim > 1:
        return False
    steps = np.diff(values.astype(np.float64))
    return not ((steps >= 0).all() or (steps <= 0).all())


def _numbers(read: ReadColumn, rows: Int[np.ndarray, " m"]) -> Float[np.ndarray, " m"]:
    """Return numbers and dates as float64, words as codes; NaN where they are missing."""
    if read.words is not None:
        codes = read.words.take(pa.array(rows)).dictionary_encode().indices
        return codes.to_numpy(zero_copy_only=False).astype(np.float64)
    assert read.values is not None
    values = read.values[rows]
    if values.dtype.kind == "M":
        return np.where(np.isnat(values), np.nan, values.astype(np.int64).astype(np.float64))
    return values.astype(np.float64)


def _in_order(x: Float[np.ndarray, " n"], y: Float[np.ndarray, " n"], *, is_code: bool) -> float:
    """Return the share of steps to a next value in which all of y rises, or falls; 0: no leak."""
    is_known = ~np.isnan(x)
    if is_known.sum() < max(FEW_ROWS, len(x) / 2):
        return 0.0
    x, y = x[is_known], y[is_known]
    codes, counts = np.unique(x, return_inverse=True, return_counts=True)[1:]
    if is_code:
        if len(counts) > len(y) / 5:
            return 0.0
        codes = np.argsort(np.argsort(np.bincount(codes, y) / counts))[codes]
    ordered = y[np.lexsort((y, codes))]
    start = np.flatnonzero(np.diff(codes[np.lexsort((y, codes))], prepend=-1))
    low = ordered[start]
    high = ordered[np.append(start[1:], len(y)) - 1]
    is_counted = (low[1:] != high[:-1]) | (low[:-1] != high[1:])
    if is_counted.sum() < FEWEST_STEPS or np.bincount(codes).max() > len(y) / 2:
        return 0.0
    rises = low[1:] >= high[:-1]
    falls = high[1:] <= low[:-1]
    share = float(max(rises[is_counted].mean(), falls[is_counted].mean()))
    if share >= IN_ORDER:
        return share
    return 0.0


def _sums(numbers: dict[str, Float[np.ndarray, " n"]], y: Float[np.ndarray, " n"]) -> list[Leak]:
    """Find two columns of which the target is a weighted sum, or a product of powers."""
    numbers = {n: v for n, v in numbers.items() if not np.isnan(v).any() and v.std() > 0}
    if not FEWEST_COLUMNS <= len(numbers) <= len(y) / 5:
        return []
    for is_log in (False, True):
        if is_log:
            numbers = {n: np.log(v) for n, v in numbers.items() if v.min() > 0}
            if len(numbers) < 2 or y.min() <= 0:
                return []
        target = np.log(y) if is_log else y
        x = np.stack(list(numbers.values()), 1)
        x = np.column_stack([(x - x.mean(0)) / x.std(0), np.ones(len(y))])
        # Beside an exact sum of two, the others weigh nothing.
        pair = np.sort(np.argsort(-np.abs(np.linalg.lstsq(x, target, rcond=None)[0][:-1]))[:2])
        x = x[:, [*pair, -1]]
        error = np.abs(target - x @ np.linalg.lstsq(x, target, rcond=None)[0])
        spread = np.quantile(np.abs(target - np.median(target)), 1 - MOST_ERRORS)
        if (share := float((error <= OFF * spread).mean())) >= 1 - MOST_ERRORS:
            return [Leak((list(numbers)[pair[0]], list(numbers)[pair[1]]), share)]
    return []


class _Classes:
    """Rows that stand for all classes but those of fewer than five, and how a column tells them."""

    def __init__(self, y: np.ndarray):
        names, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
        frequent = np.argsort(-counts, kind="stable")[:MAX_GUESSED_CLASSES]
        frequent = frequent[counts[frequent] >= _FOLDS]
        self.names = [str(name).casefold() for name in names[frequent]]
        self.k = len(frequent)
        self.shares = counts[frequent] / counts[frequent].sum()
        random = np.random.default_rng(0)
        max_rows = max(_OF_CLASS, _ROWS // max(1, self.k))
        rows = [random.permutation(np.flatnonzero(codes == c))[:max_rows] for c in frequent]
        self.sizes = sizes = np.array([len(idx) for idx in rows], np.int64)
        self.starts = np.cumsum(sizes) - sizes
        self.rows = np.concatenate([*rows, sizes[:0]])
        self.y = np.repeat(np.arange(self.k), sizes)
        self.weight = np.repeat(1 / sizes, sizes)
        self.fold = (np.arange(len(self.y)) - np.repeat(self.starts, sizes)) % _FOLDS

    def leaks(self, columns: list[ReadColumn]) -> list[Leak]:
        """Return columns that tell the classes alone, else the first two that do so together."""
        if self.k < 2:
            return []
        numbers: dict[str, np.ndarray] = {}
        shares: dict[str, float] = {}
        sure: dict[str, float] = {}
        for read in columns:
            name = read.column.name
            if read.column.read_as != "text":
                numbers[name] = _numbers(read, self.rows)
                share = shares[name] = self._score_column(numbers[name])
                if share >= ALONE and (read.words is not None or self._are_separate(numbers[name])):
                    sure[name] = share
            if read.words is not None and name not in sure:
                texts = read.words.take(pa.array(self.rows)).to_pylist()
                share = 0.0
                if len({*texts}) > len(texts) / 5:
                    share = self._by_words(texts)
                if share >= WORDS:
                    sure[name] = share
        unsure = {name: values for name, values in numbers.items() if name not in sure}
        # A dozen rows of a class are often told by chance, by a column that is only good.
        for name in unsure if self.sizes.min() >= MANY else ():
            if shares[name] >= ALONE and self._score_others(unsure, name) < FAR_BETTER:
                sure[name] = shares[name]
        names = (read.column.name for read in columns)
        return [Leak((n,), sure[n]) for n in names if n in sure] or self._pairs(numbers)

    def _are_separate(self, x: Float[np.ndarray, " m"], fewest: float = MANY) -> bool:
        """Return whether the classes' values lie as far apart as no measurement's would."""
        x = np.round(x, 12 - int(np.log10(np.nanmax(np.abs(x), initial=1))))  # exact up to rounding
        low, high = (extreme.reduceat(x, self.starts) for extreme in (np.fmin, np.fmax))
        order = low.argsort()
        gap = (low[order][1:] - high[order][:-1]).min()
        if not gap > 0:
            return False
        # What was added to a code is bounded; a measurement has tails, and counts as wider.
        classes = np.split(x, self.starts[1:])
        width = high - low
        middle = np.array([np.ptp(np.nanquantile(values, [0.1, 0.9])) for values in classes])
        wider = np.where(width > 0, np.inf, 0.0)
        np.divide(width**2, middle, out=wider, where=middle > 0)
        return bool(gap > GAP * np.where(self.sizes >= fewest, wider, width).max())

    def _score_others(self, numbers: dict[str, Float[np.ndarray, " m"]], *names: str) -> float:
        """Return the F1 of the classes by all columns but those named."""
        from sklearn.ensemble import ExtraTreesClassifier  # slow to import

        columns = [np.nan_to_num(_scale(v)) for name, v in numbers.items() if name not in names]
        if not columns:
            return 0.0
        return self._held_out(ExtraTreesClassifier(50, random_state=0), np.stack(columns, 1))

    def _score_column(self, x: Float[np.ndarray, " m"]) -> float:
        """Return the best F1 of the classes by one column: by its values or by a tree on it."""
        is_known = ~np.isnan(x)
        shares = [self._by_value(np.unique(x, return_inverse=True)[1])]
        if is_known.sum() >= max(FEW_ROWS, len(x) / 2):
            x = _scale(x)[:, None]
            shares.append(self._by_tree(x, is_known))
            if not is_known.all():
                shares += [self._by_tree(x, is_known | True)]
        return max(shares)

    def _by_value(self, codes: Int[np.ndarray, " m"]) -> float:
        """Return the F1 where a row is of the class commonest among others of its value."""
        counts = np.zeros((_FOLDS, codes.max() + 1, self.k))
        np.add.at(counts, (self.fold, codes, self.y), self.weight)
        counts_elsewhere = counts.sum(0) - counts
        return self._f1(counts_elsewhere[self.fold, codes].argmax(1))

    def _by_tree(self, x: Float[np.ndarray, "m d"], among: Bool[np.ndarray, " m"]) -> float:
        from sklearn.tree import DecisionTreeClassifier  # slow to import

        tree = DecisionTreeClassifier(max_leaf_nodes=max(8, 2 * self.k), random_state=0)
        fitted = tree.fit(x[among], self.y[among], self.weight[among])
        if self._f1(fitted.predict(x[among]), among) < WEAK:  # most columns end here
            return 0.0
        return self._held_out(tree, x, among)

    def _held_out(self, model: Any, x: Float[np.ndarray, "m d"], among: Any = slice(None)) -> float:
        x = x[among]
        y = self.y[among]
        weight = self.weight[among]
        fold = self.fold[among]
        predicted = np.empty_like(y)
        for test in (fold == f for f in range(_FOLDS)):
            predicted[test] = model.fit(x[~test], y[~test], weight[~test]).predict(x[test])
        return self._f1(predicted, among)

    def _f1(self, predicted: Int[np.ndarray, " m"], among: Any = slice(None)) -> float:
        """Return the mean F1 of the classes, each as frequent as it is in the data."""
        rates = np.zeros((self.k, self.k))
        np.add.at(rates, (self.y[among], predicted), 1.0)
        rates *= (self.shares / np.maximum(rates.sum(1), 1))[:, None]
        return float((2 * np.diag(rates) / np.maximum(rates.sum(0) + rates.sum(1), 1e-12)).mean())

    def _by_words(self, texts: list[str | None]) -> float:
        """Return the F1 where a text is of the class whose word it holds, else of one without."""
        from scipy.sparse import csr_array, hstack
        from sklearn.feature_extraction.text import CountVectorizer  # slow to import

        folded = [(text or "").casefold() for text in texts]
        ends = [f"{t[:_CHARACTERS]} {t[_CHARACTERS:][-_CHARACTERS:]}" for t in folded]
        words = CountVectorizer(token_pattern=_WORD, lowercase=False, binary=True)
        names = csr_array([[float(name in text) for name in self.names] for text in ends])
        occurs: Any = csr_array(hstack([words.fit_transform([f"- {e} 0" for e in ends]), names]))
        is_train = self.fold % 2 == 0
        totals = np.bincount(self.y[is_train], minlength=self.k)
        counts = occurs[is_train].T @ (np.eye(self.k)[self.y[is_train]] / totals)
        f1 = 2 * counts / (1 + counts.sum(1, keepdims=True))
        order = f1.max(0).argsort()
        predicted = np.full(len(ends), order[0])
        for c in order[1:]:
            predicted[occurs[:, [f1[:, c].argmax()]].toarray()[:, 0] > 0] = c
        return self._f1(predicted[~is_train], ~is_train)

    def _pairs(self, numbers: dict[str, Float[np.ndarray, " m"]]) -> list[Leak]:
        """Find the first two columns that tell the classes together, where the others do not."""
        if not FEWEST_COLUMNS <= len(numbers) <= _PAIRED:
            return []
        codes = {name: np.unique(v, return_inverse=True)[1] for name, v in numbers.items()}
        for pair in combinations(numbers, 2):
            (a, b), (codes_a, codes_b) = ([values[n] for n in pair] for values in (numbers, codes))
            # All others are asked besides: tails need not be.
            share = float(self._are_separate(a - b, np.inf) or self._are_separate(a + b, np.inf))
            if (codes_a.max() + 1) * (codes_b.max() + 1) <= len(a) / 5:
                share = max(share, self._by_value(codes_a * (codes_b.max() + 1) + codes_b))
            if share >= TOGETHER and self._score_others(numbers, *pair) < WEAK:
                return [Leak(pair, share)]
        return []


def _scale(x: Float[np.ndarray, " m"]) -> Float[np.ndarray, " m"]:
    """Scale values so that float32, in which trees split, keeps their differences."""
    if not np.isnan(x).all():
        x = x - np.median(x[~np.isnan(x)])
    return x / np.nanmax(np.abs(x), initial=1e-300)
