"""What is left to review: the order, how right it is, how many errors remain, when to stop."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
from jaxtyping import Float, Int

from datassay.act.review.judged import Judged
from datassay.errors import SettingError
from datassay.results import result


@result
class Remaining:
    """A review so far, and what it says of the labels that nobody has looked at.

    Attributes:
        order: positions of those labels, the most worthwhile first, [r].
        probability: that the given label is wrong, [n]; 0 or 1 of those looked at.
        suggested: the likeliest class, [n]: of `order` the likeliest other one, of those looked at
            the one decided on; −1 of numbers and of several labels.
        errors_left: expected in `order`.
        interval: of the same, 95 %.
        errors_found: among those looked at.
        can_stop: whether going on would find next to nothing.
        sentence: the same in words.
        learns: whether the order follows the decisions; of numbers and several labels it is fixed.
    """

    order: Int[np.ndarray, " r"]
    probability: Float[np.ndarray, " n"]
    suggested: Int[np.ndarray, " n"]
    errors_left: float
    interval: tuple[float, float]
    errors_found: int
    can_stop: bool
    sentence: str
    learns: bool

    def expected_precision(self, top: int) -> float:
        """The share of wrong labels to expect among the next `top`; nan of none."""
        some = self.order[:top]
        return float(self.probability[some].mean()) if len(some) else float("nan")


def remaining(judged: Judged, known: Mapping[int, int], passed: Collection[int] = ()) -> Remaining:
    """Order what is left by what the decisions taught.

    Args:
        judged: by the run.
        known: position → true class: the new one, or the given one where it was kept. Of numbers
            and several labels 1 where something was wrong, else 0.
        passed: positions that are left out of the order and teach nothing: removed, or unsure.

    Returns:
        What is left.

    Raises:
        SettingError: a position or a class that is none.
    """
    _check(judged, known, passed)
    n = len(judged)
    probability = 1 / (1 + np.exp(-judged.log_odds.astype(np.float64)))
    wrong = {
        i: c != judged.labels[i] if judged.is_of_classes else bool(c) for i, c in known.items()
    }
    is_open = np.ones(n, bool)
    is_open[[*known, *passed]] = False
    for i, value in wrong.items():
        probability[i] = float(value)
    order = np.argsort(-judged.log_odds, kind="stable")
    order = order[is_open[order]]
    left = float(probability[order].sum())
    half = 1.96 * float(np.sqrt((probability[order] * (1 - probability[order])).sum()))
    interval = (max(0.0, left - half), left + half)
    return Remaining(
        order=order,
        probability=probability,
        suggested=_suggested(judged, known),
        errors_left=left,
        interval=interval,
        errors_found=int(sum(wrong.values())),
        can_stop=interval[1] < 1,
        sentence=f"About {left:,.0f} errors are left ({interval[0]:,.0f} to {interval[1]:,.0f}).",
        learns=False,
    )


def _suggested(judged: Judged, known: Mapping[int, int]) -> Int[np.ndarray, " n"]:
    n = len(judged)
    if not judged.is_of_classes:
        return np.full(n, -1)
    others = judged.log_posterior.copy()
    others[np.arange(n), judged.labels] = -np.inf
    suggested = others.argmax(1)
    for i, c in known.items():
        suggested[i] = c
    return suggested


def _check(judged: Judged, known: Mapping[int, int], passed: Collection[int]) -> None:
    n = len(judged)
    for i in (*known, *passed):
        if not 0 <= i < n:
            raise SettingError(f"positions must lie in 0 ... {n - 1}; got {i}. Correct them.")
    k = judged.log_posterior.shape[1] or 2
    for i, c in known.items():
        if not 0 <= c < k:
            raise SettingError(f"a true class must lie in 0 ... {k - 1}; got {c} at position {i}.")
