"""Compare a ranking with trivial baselines on the same measure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float
from scipy.stats import rankdata

from datassay.act.remove.removal_curve import RANDOM, RemovalCurve
from datassay.stats import BETTER, SAME, WORSE, Interval, interval, mean_interval, sentence

N_RESAMPLES = 200
OUTCOMES: dict[str, Literal["won", "tie", "lost"]] = {BETTER: "won", SAME: "tie", WORSE: "lost"}


@dataclass(frozen=True, slots=True)
class Contest:
    """One measure, every ranking's value on it, and the winner in words.

    Attributes:
        measure: what is measured and which way is better, in plain words.
        rankings: [r] names, ours first.
        values: [r], higher is better, unit as `measure` says.
        spreads: [r], standard deviation over seeds; 0 where there is only one value.
        outcome: "won" by ours, "tie" (within the 95 % interval over seeds or resamples) or "lost"
            to a baseline.
        verdict: one sentence naming the winner and by how much, or a tie.
    """

    measure: str
    rankings: tuple[str, ...]
    values: tuple[float, ...]
    spreads: tuple[float, ...]
    outcome: Literal["won", "tie", "lost"]
    verdict: str


def removal_contest(
    curve: RemovalCurve,
    fraction: float,
    measure: str,
    ours: Sequence[str],
    baselines: Sequence[str],
) -> Contest:
    """Every ranking's retrained score at one removed fraction."""
    names = [*ours, *baselines, RANDOM]
    values = np.stack([curve.at(name, fraction) for name in names])  # [r, s]
    means = values.mean(1)
    best, baseline = _leaders(means, len(ours))
    lead = mean_interval(values[best] - values[baseline])
    return _contest(measure, names, means, values, best, baseline, lead)


def detection_contest(
    wrong: Bool[np.ndarray, " n"],
    scores: dict[str, Float[np.ndarray, " n"]],
    seed: int = 0,
    *,
    what: str = "the wrong labels",
    n_ours: int = 1,
) -> Contest:
    """How well each score finds the samples known to be wrong."""
    draw = np.random.default_rng(seed)
    scores = scores | {RANDOM: draw.random(len(wrong))}
    values = np.array([auroc(wrong, s) for s in scores.values()])
    resampled = []
    for _ in range(N_RESAMPLES):
        some = draw.integers(len(wrong), size=len(wrong))
        if wrong[some].any() and not wrong[some].all():
            resampled.append([auroc(wrong[some], s[some]) for s in scores.values()])
    measure = f"finding {what} (AUROC, higher is better)"
    best, baseline = _leaders(values, n_ours)
    repeats = np.array(resampled).T
    error = (repeats[best] - repeats[baseline]).std(ddof=1) if len(resampled) > 1 else np.inf
    lead = interval(float(values[best] - values[baseline]), float(error))
    return _contest(measure, list(scores), values, repeats, best, baseline, lead)


def auroc(wrong: Bool[np.ndarray, " n"], score: Float[np.ndarray, " n"]) -> float:
    """Probability that a wrong sample scores higher than a right one, ties counted half.

    Args:
        wrong: which samples are wrong; both kinds must occur.
        score: higher: more likely wrong.

    Returns:
        The area under the receiver operating characteristic, by the rank-sum statistic.
    """
    n_wrong = int(wrong.sum())
    n_right = len(wrong) - n_wrong
    rank_sum = rankdata(score)[wrong].sum()
    return float((rank_sum - n_wrong * (n_wrong + 1) / 2) / (n_wrong * n_right))


def _leaders(means: Float[np.ndarray, " r"], n_ours: int) -> tuple[int, int]:
    """The best of ours and the best of the baselines behind them."""
    return int(means[:n_ours].argmax()), n_ours + int(means[n_ours:].argmax())


def _contest(
    measure: str,
    names: list[str],
    means: Float[np.ndarray, " r"],
    repeats: Float[np.ndarray, "r repeats"],
    best: int,
    baseline: int,
    lead: Interval,
) -> Contest:
    many = repeats.shape[1] > 1
    spreads = repeats.std(1, ddof=1) if many else np.zeros(len(names))
    message = sentence(lead.verdict, names[best], f"{names[baseline]}, the best baseline")
    message += f": {means[best]:.3f} against {means[baseline]:.3f}."
    if baseline != names.index(RANDOM):
        message += f" Random has {means[names.index(RANDOM)]:.3f}."
    outcome = OUTCOMES[lead.verdict]
    return Contest(
        measure, tuple(names), tuple(means.tolist()), tuple(spreads.tolist()), outcome, message
    )
