"""Compare a ranking with trivial rivals on the same measure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float
from scipy.stats import norm, rankdata
from scipy.stats import t as student_t

from datassay.act.remove.removal_curve import RANDOM, RemovalCurve

# A lead is clear when the 95 % interval of the paired difference excludes zero.
CONFIDENCE = 0.975
N_RESAMPLES = 200


@dataclass(frozen=True, slots=True)
class Contest:
    """One measure, every ranking's value on it, and the winner in words.

    Attributes:
        measure: what is measured and which way is better, in plain words.
        rankings: [r] names, ours first.
        values: [r], higher is better, unit as `measure` says.
        spreads: [r], standard deviation over seeds; 0 where there is only one value.
        outcome: "won" by ours, "tie" (within the 95 % interval over seeds or resamples) or "lost"
            to a rival.
        verdict: one sentence naming who won and by how much, a tie said to be one.
    """

    measure: str
    rankings: tuple[str, ...]
    values: tuple[float, ...]
    spreads: tuple[float, ...]
    outcome: Literal["won", "tie", "lost"]
    verdict: str


def removal_contest(
    curve: RemovalCurve, fraction: float, measure: str, ours: Sequence[str], rivals: Sequence[str]
) -> Contest:
    """Every ranking's retrained score at one removed fraction.

    Args:
        curve: the removal curve.
        fraction: one of the curve's fractions.
        measure: what is measured, in plain words.
        ours: our rankings in the curve.
        rivals: the others that compete. Random is added.

    Returns:
        The contest; differences are paired seed by seed.
    """
    names = [*ours, *rivals, RANDOM]
    values = np.stack([curve.at(name, fraction) for name in names])  # [r, s]
    n_seeds = values.shape[1]
    error = student_t.ppf(CONFIDENCE, n_seeds - 1) / np.sqrt(n_seeds) if n_seeds > 1 else 0.0
    return _contest(measure, names, len(ours), values, values, float(error))


def detection_contest(
    wrong: Bool[np.ndarray, " n"],
    scores: dict[str, Float[np.ndarray, " n"]],
    seed: int = 0,
    *,
    what: str = "the wrong labels",
    n_ours: int = 1,
) -> Contest:
    """How well each score finds the samples known to be wrong.

    Args:
        wrong: which samples are wrong; at least one is and one is not.
        scores: name → score, higher: more likely wrong; ours come first. Random is added.
        seed: of the random ranking and of the bootstrap.
        what: is found, in plain words.
        n_ours: how many scores are ours.

    Returns:
        The contest in AUROC; spreads and differences from 200 bootstrap resamples of the samples.
    """
    draw = np.random.default_rng(seed)
    scores = scores | {RANDOM: draw.random(len(wrong))}
    values = np.array([auroc(wrong, s) for s in scores.values()])
    resampled = []
    for _ in range(N_RESAMPLES):
        some = draw.integers(len(wrong), size=len(wrong))
        if wrong[some].any() and not wrong[some].all():
            resampled.append([auroc(wrong[some], s[some]) for s in scores.values()])
    measure = f"finding {what} (AUROC, higher is better)"
    error = float(norm.ppf(CONFIDENCE))
    return _contest(measure, list(scores), n_ours, values[:, None], np.array(resampled).T, error)


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


def _contest(
    measure: str,
    names: list[str],
    n_ours: int,
    values: Float[np.ndarray, "r s"],
    repeats: Float[np.ndarray, "r repeats"],
    error: float,
) -> Contest:
    """Error × the deviation of a paired difference over repeats is half its 95 % interval."""
    means = values.mean(1)
    many = repeats.shape[1] > 1
    spreads = repeats.std(1, ddof=1) if many else np.zeros(len(names))
    best, rival = int(means[:n_ours].argmax()), n_ours + int(means[n_ours:].argmax())
    lead = means[best] - means[rival]
    noise = error * (repeats[best] - repeats[rival]).std(ddof=1) if many else 0.0
    figures = f"{means[best]:.3f} against {means[rival]:.3f} for {names[rival]}, the best rival"
    if abs(lead) <= noise or lead == 0:
        outcome = "tie"
        verdict = f"No clear winner: {names[best]} has {figures}; within the 95 % interval."
    elif lead > 0:
        outcome, verdict = "won", f"{names[best][0].upper()}{names[best][1:]} won: {figures}."
    else:
        outcome, verdict = "lost", f"A rival won: {names[best]} has {figures}."
    if rival != names.index(RANDOM):
        verdict += f" Random has {means[names.index(RANDOM)]:.3f}."
    return Contest(
        measure, tuple(names), tuple(means.tolist()), tuple(spreads.tolist()), outcome, verdict
    )
