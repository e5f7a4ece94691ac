"""Who won here: a ranking beside its trivial rivals on the same measure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from scipy.stats import rankdata

from datassay.act.removal_curve import RANDOM, RemovalCurve

# A lead below this many standard errors of the paired difference is called a tie.
CLEAR_LEAD = 2.0
N_RESAMPLES = 200


@dataclass(frozen=True, slots=True)
class Contest:
    """One measure, every ranking's value on it, and the winner in words.

    Attributes:
        measure: what is measured and which way is better, in plain words.
        rankings: [r] names; the first is ours.
        values: [r], higher is better, unit as `measure` says.
        spreads: [r], standard deviation over seeds; 0 where there is only one value.
        verdict: one sentence naming who won and by how much, a tie said to be one.
    """

    measure: str
    rankings: tuple[str, ...]
    values: tuple[float, ...]
    spreads: tuple[float, ...]
    verdict: str


def removal_contest(
    curve: RemovalCurve, fraction: float, measure: str, rankings: list[str]
) -> Contest:
    """Every ranking's retrained score at one removed fraction.

    Args:
        curve: the removal curve.
        fraction: one of the curve's fractions.
        measure: what is measured, in plain words.
        rankings: those of the curve's that compete, ours first. Random is added.

    Returns:
        The contest; differences are paired seed by seed.
    """
    names = [*rankings, RANDOM]
    values = np.stack([curve.at(name, fraction) for name in names])  # [r, s]
    error = 1 / np.sqrt(values.shape[1]) if values.shape[1] > 1 else 0.0
    return _contest(measure, names, values, values, error)


def detection_contest(
    wrong: Bool[np.ndarray, " n"], scores: dict[str, Float[np.ndarray, " n"]], seed: int = 0
) -> Contest:
    """How well each score finds the samples known to be wrong.

    Args:
        wrong: which samples are wrong; at least one is and one is not.
        scores: name → score, higher: more likely wrong; the first is ours. Random is added.
        seed: of the random ranking and of the bootstrap.

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
    measure = "finding the wrong labels (AUROC, higher is better)"
    return _contest(measure, list(scores), values[:, None], np.array(resampled).T, 1.0)


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
    values: Float[np.ndarray, "r s"],
    repeats: Float[np.ndarray, "r repeats"],
    error: float,
) -> Contest:
    """Error × the deviation of the paired differences over repeats is their standard error."""
    means = values.mean(1)
    many = repeats.shape[1] > 1
    spreads = repeats.std(1, ddof=1) if many else np.zeros(len(names))
    rival = 1 + int(means[1:].argmax())
    lead = means[0] - means[rival]
    noise = error * (repeats[0] - repeats[rival]).std(ddof=1) if many else 0.0
    figures = f"{means[0]:.3f} against {means[rival]:.3f} for {names[rival]}, the best rival"
    if abs(lead) <= CLEAR_LEAD * noise or lead == 0:
        verdict = f"No clear winner: {names[0]} has {figures}; within two standard errors."
    elif lead > 0:
        verdict = f"{names[0][0].upper()}{names[0][1:]} won: {figures}."
    else:
        verdict = f"A rival won: {names[0]} has {figures}."
    if RANDOM in names and rival != names.index(RANDOM):
        verdict += f" Random has {means[names.index(RANDOM)]:.3f}."
    return Contest(measure, tuple(names), tuple(means.tolist()), tuple(spreads.tolist()), verdict)
