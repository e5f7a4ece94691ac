"""How numbers and counts read in sentences, cards and tables."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from datassay.act.review.decisions import NONE, set_word
from datassay.optional import inflect, text_if
from datassay.stats import SHOWN, shows_loss

BARELY = 0.0005  # of accuracy, which is told to a tenth of a point
WIDE = 0.2  # interval of a gain of R² of which two decimals are told


def number(value: float) -> str:
    """Format with three significant digits, zeros kept: 0.940, 12.3, 1.20e-05; NaN: "n/a"."""
    if math.isnan(value):
        return "n/a"
    if value and not 1e-3 <= abs(value) < 1e6:
        return f"{value:.2e}"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:#.3g}".rstrip(".")


def p_value(value: float) -> str:
    """Format a p value with its sign, 0.001 at least: "p = 0.0120", "p < 0.001"."""
    if value >= 1e-3:
        return f"p = {number(value)}"
    return "p < 0.001"


def count(amount: int, noun: str, plural: str | None = None) -> str:
    """Format a count with its noun: "1 sample", "1,437 samples"; `plural` if irregular."""
    return f"{amount:,} {noun if amount == 1 else plural or noun + 's'}"


def percent(share: float) -> str:
    """Format a share as a percentage: "10 %", with a decimal where it is not whole: "0.4 %"."""
    hundredths = 100 * share
    if 0 < hundredths < 0.05:
        return "under 0.1 %"
    is_whole = abs(hundredths - round(hundredths)) < 1e-9
    if is_whole:
        return f"{hundredths:.0f} %"
    return f"{hundredths:.1f} %"


def share(fraction: float) -> str:
    """Format a measured share with one decimal at most: "12.3 %"."""
    return percent(round(float(fraction), 3))


def thousands(amount: int) -> str:
    """Format a whole number as it is read: "1,437"."""
    return f"{amount:,}"


def fixed(value: float, digits: int = 3) -> str:
    """Format a number with so many digits behind the point: "0.940"."""
    return f"{value:.{digits}f}"


def rough_percent(share: float) -> str:
    """Format an estimated share in whole per cent: "about 31 %", "over 99 %", "under 1 %"."""
    if math.isnan(share):
        return "n/a"
    if not 0.01 <= share <= 0.99:
        if share < 0.5:
            return "under 1 %"
        return "over 99 %"
    return f"about {100 * share:.0f} %"


def value_text(value: object, limit: int = 40) -> str:
    """Return a table value as a short text; "" if it is missing."""
    if value is None or value != value:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    return shortened(str(value), limit)


def shortened(text: str, limit: int = 28) -> str:
    """Cut a user's text to one short line."""
    text = " ".join(text.split())
    if len(text) <= limit:
        return text
    return text[: limit - 1] + "…"


def in_points(metric: str) -> bool:
    """Return whether a change of the metric is given in percentage points."""
    return metric.endswith("accuracy")


def score_change(difference: float, metric: str) -> str:
    """Format a change's size: "0.8 points of accuracy", or in its unit "0.012 of R²"."""
    if in_points(metric):
        return f"{abs(100 * difference):.1f} points of {metric}"
    return f"{abs(difference):.3f} of {metric}"


def quantity(value: float) -> str:
    """Format with four significant digits, from 10 000 on to whole numbers: 12.34, 130800."""
    if 9999.5 <= abs(value) < 1e15:
        return f"{value:.0f}"
    return f"{value:.4g}"


def label_text(class_names: tuple[str, ...], label: Any) -> str:
    """Return a label as the reader knows it: its class name, or up to three target values."""
    if class_names:
        return class_names[int(label)]
    values = np.atleast_1d(np.asarray(label, float)).ravel()
    ending = text_if(len(values) > 3, ", …")
    return ", ".join(quantity(v) for v in values[:3]) + ending


def labels_given(values: object, names: Sequence[str] = ()) -> str:
    """Name those of several 0/1 labels that are 1: "seal + bearing", "labels 0, 3", or "none"."""
    positions = np.flatnonzero(np.asarray(values) == 1).tolist()
    if names:
        return set_word(names, values)
    name = inflect(len(positions), "label", "labels")
    if not positions:
        return NONE
    return shortened(f"{name} {', '.join(map(str, positions))}", 60)


def gain_text(change: Any, metric: str, before: float = 0.0) -> str:
    """Format a `gain` with its interval, `low` and `high`, which leads where it includes 0.

    Args:
        change: the gain.
        metric: its name.
        before: the score without the change; a gain to 100 % is no bound.

    Returns:
        "1.6 points of accuracy (0.7 to 2.4)"; "−4.5 to 4.0 points of accuracy (estimate 2.5)";
        "6.3 points of accuracy (at least 0.8)".
    """
    value, lowest, highest = gain_numbers(change.gain, change.low, change.high, metric)
    if in_points(metric):
        unit = f" points of {metric}"
    else:
        unit = f" of {metric}"
    if change.low < SHOWN and not shows_loss(change.high):
        return f"{lowest} to {highest}{unit} (estimate {value})"
    if in_points(metric) and before + change.high > 1 - BARELY:
        return f"{value}{unit} (at least {lowest})"
    return f"{value}{unit} ({lowest} to {highest})"


def gain_numbers(gain: float, low: float, high: float, metric: str) -> tuple[str, str, str]:
    """Format a gain and its interval's ends, with one digit more where only that shows the gain."""
    scale = 1
    digits = 2 if high - low > WIDE else 3
    if in_points(metric):
        scale = 100
        digits = 1
    scaled_gain = gain * scale
    if round(scaled_gain, digits) == 0 != round(scaled_gain, digits + 1):
        digits += 1
    values = (scaled_gain, low * scale, high * scale)
    value, lowest, highest = (f"{x:z.{digits}f}".replace("-", "−") for x in values)  # z: no −0
    return value, lowest, highest


def score_text(value: float, metric: str) -> str:
    """Format a score: "96.4 % accuracy", or of another metric "R² 0.512"."""
    if in_points(metric):
        return f"{100 * value:.1f} % {metric}"
    return f"{metric} {value:.3f}".replace("-", "−")
