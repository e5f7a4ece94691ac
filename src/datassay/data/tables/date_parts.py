"""Numbers of dates: their parts, and the days since the first."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from sklearn.base import BaseEstimator, TransformerMixin

from datassay.data.tables.dates import PARTS


class DateParts(TransformerMixin, BaseEstimator):
    """Numbers of dates; a missing date gets the median of each part, and one column says so."""

    # Of each column: first_, from which days count; parts_, places in PARTS of those that vary and
    # days; medians_ of those parts; had_missing_, whether dates were missing in `fit`.

    def fit(self, X: np.ndarray, y: object = None) -> "DateParts":
        """Fit on [n, m] datetime64[us] the first dates, which parts vary, and their medians."""
        self.n_features_in_ = X.shape[1]
        self.had_missing_ = [bool(np.isnat(dates).any()) for dates in X.T]
        present = [dates[~np.isnat(dates)] for dates in X.T]
        self.first_ = np.array([dates.min() for dates in present])
        self.parts_ = []
        self.medians_ = []
        for dates, first_date in zip(present, self.first_, strict=True):
            numbers = _split_dates(dates, first_date)
            is_used = numbers.min(axis=0) < numbers.max(axis=0)
            is_used[PARTS.index("days")] = True
            self.parts_.append(np.flatnonzero(is_used))
            self.medians_.append(np.median(numbers[:, self.parts_[-1]], axis=0))
        return self

    def transform(self, X: np.ndarray) -> Float[np.ndarray, "n parts"]:
        """Return the parts that varied in `fit`, column by column, and where dates are missing."""
        blocks = []
        for j, dates in enumerate(X.T):
            is_missing = np.isnat(dates)
            numbers = _split_dates(dates, self.first_[j])[:, self.parts_[j]]
            numbers[is_missing] = self.medians_[j]
            blocks.append(numbers)
            if self.had_missing_[j]:
                blocks.append(is_missing[:, None])
        return np.hstack(blocks).astype(np.float64, copy=False)

    def get_feature_names_out(self, input_features: Sequence[str]) -> np.ndarray:
        """Return one name per column of what `transform` returns, such as "when year"."""
        names = []
        for j, name in enumerate(input_features):
            names += [f"{name} {PARTS[place]}" for place in self.parts_[j]]
            if self.had_missing_[j]:
                names.append(f"{name} missing")
        return np.array(names, dtype=object)


def _split_dates(dates: np.ndarray, first_date: np.datetime64) -> Float[np.ndarray, "n parts"]:
    """Return year, month, weekday, hour, days since the first date, [n, 5]; NaN if missing."""
    months = dates.astype("datetime64[M]")
    days = dates.astype("datetime64[D]")
    numbers = (
        dates.astype("datetime64[Y]").astype(np.int64) + 1970,
        months.astype(np.int64) % 12 + 1,
        (days.astype(np.int64) + 3) % 7,  # Monday is 0; 1970-01-01 was a Thursday
        (dates - days) / np.timedelta64(1, "h"),
        (dates - first_date) / np.timedelta64(1, "D"),
    )
    parts = np.stack(numbers, axis=1).astype(np.float64)
    parts[np.isnat(dates)] = np.nan
    return parts
