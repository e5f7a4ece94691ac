"""How numbers and counts read in sentences, cards and tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np


def number(value: float) -> str:
    """Three significant digits, zeros kept: 0.940, 12.3, 1.20e-05; "n/a" for NaN."""
    if math.isnan(value):
        return "n/a"
    if value and not 1e-3 <= abs(value) < 1e6:
        return f"{value:.2e}"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:#.3g}".rstrip(".")


def p_value(value: float) -> str:
    """A p value with its sign, no smaller than anybody cares: "p = 0.0120", "p < 0.001"."""
    return f"p = {number(value)}" if value >= 1e-3 else "p < 0.001"


def count(amount: int, noun: str, plural: str | None = None) -> str:
    """A count with its noun: "1 sample", "1,437 samples"; `plural` where an s is not enough."""
    return f"{amount:,} {noun if amount == 1 else plural or noun + 's'}"


def percent(share: float) -> str:
    """A share as a percentage: "10 %", with one decimal where it is not whole: "0.4 %"."""
    hundredths = 100 * share
    if 0 < hundredths < 0.05:
        return "under 0.1 %"
    whole = abs(hundredths - round(hundredths)) < 1e-9
    return f"{hundredths:.0f} %" if whole else f"{hundredths:.1f} %"


def share(part: float) -> str:
    """A measured share with one decimal at most: "12.3 %"."""
    return percent(round(float(part), 3))


def thousands(amount: int) -> str:
    """A whole number as it is read: "1,437"."""
    return f"{amount:,}"


def fixed(value: float, digits: int = 3) -> str:
    """A number with so many digits behind the point: "0.940"."""
    return f"{value:.{digits}f}"


def rough_percent(share: float) -> str:
    """An estimated share in whole per cent: "about 31 %", "over 99 %", "under 1 %"."""
    if math.isnan(share):
        return "n/a"
    if not 0.01 <= share <= 0.99:
        return "under 1 %" if share < 0.5 else "over 99 %"
    return f"about {100 * share:.0f} %"


def value_text(value: object, limit: int = 40) -> str:
    """A value of the user's table, short; empty where it is missing."""
    if value is None or value != value:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else shortened(str(value), limit)


def shortened(text: str, limit: int = 28) -> str:
    """A user's text in one line, cut."""
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def in_points(metric: str) -> bool:
    """Whether a change of the metric is given in percentage points."""
    return metric.endswith("accuracy")


def score_change(difference: float, metric: str) -> str:
    """Size of a change: "0.8 points of accuracy", or in its own unit "0.012 of R²"."""
    if in_points(metric):
        return f"{abs(100 * difference):.1f} points of {metric}"
    return f"{abs(difference):.3f} of {metric}"


def label_text(class_names: tuple[str, ...], label: Any) -> str:
    """A label as the reader knows it: class name, or target; of a vector its first three values."""
    if class_names:
        return class_names[int(label)]
    values = np.atleast_1d(np.asarray(label, float)).ravel()
    more = ", …" if len(values) > 3 else ""
    return ", ".join(f"{v:.4g}" for v in values[:3]) + more


def labels_given(values: object, names: Sequence[str] = ()) -> str:
    """Of several labels, 0 or 1 each, those that are given, by name or number: "labels 0, 3"."""
    given = np.flatnonzero(np.asarray(values) == 1).tolist()
    if names:
        return ", ".join(names[j] for j in given) or "no label"
    name = "label" if len(given) == 1 else "labels"
    return shortened(f"{name} {', '.join(map(str, given))}", 60) if given else "no label"


def gain_text(change: Any, metric: str) -> str:
    """A `gain` with its interval, `low` and `high`, which leads where it includes 0.

    Returns:
        "1.6 points of accuracy (0.7 to 2.4)"; "−4.5 to 4.0 points of accuracy (estimate 2.5)".
    """
    value, least, most = gain_numbers(change.gain, change.low, change.high, metric)
    unit = f" points of {metric}" if in_points(metric) else f" of {metric}"
    if change.low <= 0 <= change.high:
        return f"{least} to {most}{unit} (estimate {value})"
    return f"{value}{unit} ({least} to {most})"


def gain_numbers(gain: float, low: float, high: float, metric: str) -> tuple[str, str, str]:
    """A gain and both ends as every sentence has them; a digit more where that is 0."""
    values = [one * (100 if in_points(metric) else 1) for one in (gain, low, high)]
    digits = 1 if in_points(metric) else 3
    digits += bool(values[0] and not round(values[0], digits))
    value, least, most = (f"{one:.{digits}f}".replace("-", "−") for one in values)
    return value, least, most


def score_text(value: float, metric: str) -> str:
    """A score: "96.4 % accuracy", or of another metric "R² 0.512"."""
    return f"{100 * value:.1f} % {metric}" if in_points(metric) else f"{metric} {value:.3f}"
