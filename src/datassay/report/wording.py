"""How numbers and counts read in sentences, cards and tables."""

from __future__ import annotations

import math

import numpy as np


def number(value: float) -> str:
    """A number with three significant digits, trailing zeros kept: 0.940, 12.3, 1.20e-05.

    Args:
        value: any float.

    Returns:
        The text; "n/a" where the value is not a number.
    """
    if math.isnan(value):
        return "n/a"
    if value and not 1e-3 <= abs(value) < 1e6:
        return f"{value:.2e}"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:#.3g}".rstrip(".")


def count(amount: int, noun: str, plural: str | None = None) -> str:
    """A count with its noun: "1 sample", "1,437 samples".

    Args:
        amount: how many.
        noun: the singular.
        plural: the plural, where it is not the singular with an s.

    Returns:
        The text.
    """
    return f"{amount:,} {noun if amount == 1 else plural or noun + 's'}"


def percent(share: float) -> str:
    """A share as a percentage: "0.4 %", "10 %".

    Args:
        share: in [0, 1].

    Returns:
        The text, with one decimal where the share is not a whole percentage.
    """
    hundredths = 100 * share
    whole = abs(hundredths - round(hundredths)) < 1e-9
    return f"{hundredths:.0f} %" if whole else f"{hundredths:.1f} %"


def score_change(difference: float, metric: str) -> str:
    """The size of a change of score: accuracy in points, anything else in its own unit.

    Args:
        difference: new score minus old; only its size is printed.
        metric: "accuracy" or "R²".

    Returns:
        The text, such as "0.8 points of accuracy" or "0.012 of R²".
    """
    if metric == "accuracy":
        return f"{abs(100 * difference):.1f} points of accuracy"
    return f"{abs(difference):.3f} of {metric}"


def label_text(class_names: tuple[str, ...], label: object) -> str:
    """A label as the reader knows it: the class's name, or the target's value.

    Args:
        class_names: one string a class; empty means regression.
        label: a class index, a number, or a vector of numbers.

    Returns:
        Plain text; a vector shows its first three values.
    """
    if class_names:
        return class_names[int(label)]  # pyright: ignore[reportArgumentType]
    values = np.atleast_1d(np.asarray(label, float)).ravel()
    more = ", …" if len(values) > 3 else ""
    return ", ".join(f"{v:.4g}" for v in values[:3]) + more


def interval_text(change: float, half: float, metric: str) -> str:
    """A change with its interval: "+0.4 points (95 % interval −0.1 to +0.9)".

    Args:
        change: new score minus old.
        half: half-width of the interval.
        metric: "accuracy" or "R²".

    Returns:
        The text; accuracy in points.
    """
    unit = " points" if metric == "accuracy" else ""
    low, high = signed(change - half, metric), signed(change + half, metric)
    return f"{signed(change, metric)}{unit} (95 % interval {low} to {high})"


def signed(change: float, metric: str) -> str:
    """A change of score with its sign, accuracy in points.

    Args:
        change: new score minus old.
        metric: "accuracy" or "R²".

    Returns:
        The text, such as "+0.41" or "−0.012".
    """
    text = f"{100 * change:+.2f}" if metric == "accuracy" else f"{change:+.3f}"
    return text.replace("-", "−")
