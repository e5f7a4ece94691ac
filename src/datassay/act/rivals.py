"""Who won here: a ranking beside its trivial rivals on the same measure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from scipy.stats import rankdata

from datassay.act.removal_curve import RemovalCurve

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


def removal_contest(curve: RemovalCurve, fraction: float, measure: str, ours: str) -> Contest:
    """Every ranking's retrained score at one removed fraction.

    Args:
        curve: the removal curve, its rankings all removed "what costs least first".
        fraction: one of the curve's fractions.
        measure: what is measured, in plain words.
        ours: the ranking that stands first.

    Returns:
        The contest; differences are paired seed by seed.
    """
    names = [ours, *(r for r in curve.rankings if r != ours)]
    values = np.stack([curve.at(name, fraction) for name in names])  # [r, s]
    error = 1 / np.sqrt(values.shape[1]) if values.shape[1] > 1 else 0.0
    return _contest(measure, names, values, values, error)


def detection_contest(
    wrong: Bool[np.ndarray, " n"], scores: dict[str, Float[np.ndarray, " n"]], seed: int = 0
) -> Contest:
    """How well each score finds the samples known to be wrong.

    Args:
        wrong: which samples are wrong; at least one is and one is not.
        scores: name → score, higher: more likely wrong; the first is ours. "random" is added.
        seed: of the random ranking and of the bootstrap.

    Returns:
        The contest in AUROC; spreads and differences from 200 bootstrap resamples of the samples.
    """
    draw = np.random.default_rng(seed)
    scores = scores | {"random": draw.random(len(wrong))}
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
    """error × the deviation of the paired differences over repeats is their standard error."""
    means = values.mean(1)
    many = repeats.shape[1] > 1
    spreads = repeats.std(1, ddof=1) if many else np.zeros(len(names))
    best = int(means.argmax())
    rivals = [r for r in range(len(names)) if r != best]
    second = max(rivals, key=lambda r: means[r])
    lead = means[best] - means[second]
    noise = error * (repeats[best] - repeats[second]).std(ddof=1) if many else 0.0
    against = f"{means[best]:.3f} against {means[second]:.3f} for {names[second]}"
    if lead <= CLEAR_LEAD * noise or lead == 0:
        verdict = f"No clear winner: {names[best]} {against}, a lead within two standard errors."
    else:
        verdict = f"{names[best]} won: {against}."
    ours = f" Ours ({names[0]}) has {means[0]:.3f}." if 0 not in {best, second} else ""
    verdict = verdict[0].upper() + verdict[1:] + ours
    return Contest(measure, tuple(names), tuple(means.tolist()), tuple(spreads.tolist()), verdict)
