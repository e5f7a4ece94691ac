"""What decisions teach about the labels that nobody has looked at.

Logistic regression on the reviewed outcomes, with the run's log odds as offset:
P(label i is wrong) = σ(o_i + f_i),  f ~ N(0, K),
o_i the run's log odds; a decision is the other one by a small chance, since reviewers slip. Three
hypotheses say what K is made of: the run's log odds are shifted and stretched alike for all (its
calibration); besides, by given class, by suggested one and by the pair (its transition matrix T
enters log odds as log T[c, l] / T[l, l], so this is T refitted); besides, by position.
Each is fitted by Laplace's method and weighed by its evidence.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.sparse import csr_array

from datassay.act.review.judged import Judged
from datassay.results import result

# Standard deviations, nats: of a shift of all, of a stretch (a nat), of a class, of a position.
# Chosen on simulated reviews so that the interval of the share of wrong labels holds it as often as
# it says, where the run's own log odds are far off too.
SHIFT, STRETCH, CLASS, PLACE = 3.0, 0.8, 1.5, 1.0
# How likely each hypothesis is before any decision: the simplest most.
PRIOR = np.array([0.6, 0.25, 0.15])
MOST_TAUGHT = 400  # the latest decisions; earlier ones are about likelier errors than what is left
TOP = 100  # log odds are stretched about the mean of so many of the highest
MOST_STRETCHED = 6.0  # nats from there; what is farther off is stretched as much
NEWTON_STEPS, LONGEST_STEP, STILL = 50, 3.0, 1e-8
JITTER, SMALLEST = 1e-9, 1e-300
# Chance that a decision is the wrong one. Chosen on simulated reviews with none and with 5 %.
SLIPS = 0.03


@result
class Outcomes:
    """Fitted to what was decided.

    Attributes:
        probability: that the given label is wrong, [n].
        spread: standard deviation of the sum of `probability` over the open samples, from not
            knowing f.
        weights: of the hypotheses: calibration, classes, places; sum to 1.
    """

    probability: Float[np.ndarray, " n"]
    spread: float
    weights: Float[np.ndarray, " hypotheses"]


def fit_outcomes(
    judged: Judged,
    suggested: Int[np.ndarray, " n"],
    reviewed: Int[np.ndarray, " m"],
    wrong: Bool[np.ndarray, " m"],
    is_open: Bool[np.ndarray, " n"],
) -> Outcomes:
    """Probabilities that follow the decisions."""
    # Cost: for each hypothesis at most NEWTON_STEPS of m³ operations (m ≤ MOST_TAUGHT), and 300 n.
    reviewed, wrong = reviewed[-MOST_TAUGHT:], wrong[-MOST_TAUGHT:]
    fits = [
        _fit(terms, judged.log_odds.astype(np.float64), reviewed, wrong, is_open)
        for terms in _hypotheses(judged, suggested)
    ]
    evidence = np.array([fit[2] for fit in fits]) + np.log(PRIOR[: len(fits)])
    weights = np.exp(evidence - evidence.max())
    weights /= weights.sum()
    each = np.stack([fit[0] for fit in fits])
    probability = weights @ each
    sums = each[:, is_open].sum(1)
    within = weights @ np.square([fit[1] for fit in fits])
    between = weights @ np.square(sums - weights @ sums)
    return Outcomes(probability, float(np.sqrt(within + between)), weights)


def _hypotheses(judged: Judged, suggested: Int[np.ndarray, " n"]) -> list[Sequence[Term]]:
    n, k = judged.log_posterior.shape
    given, everyone, one = judged.labels, np.zeros(n, np.int64), np.ones((n, 1))
    odds = judged.log_odds.astype(np.float64)
    odds = odds - np.sort(odds)[-TOP:].mean()
    stretched = odds.clip(-MOST_STRETCHED, MOST_STRETCHED)[:, None]
    coordinates = judged.coordinates.astype(np.float64)
    calibration = [Term(SHIFT, everyone, one), Term(STRETCH, everyone, stretched)]
    if not judged.is_of_classes:
        return [calibration]
    codes = (given, suggested, given * k + suggested)
    classes = [*calibration, *(Term(CLASS, code, one) for code in codes)]
    by_position = [*classes, Term(PLACE, everyone, coordinates), Term(PLACE, given, coordinates)]
    return [calibration, classes, by_position]


def _fit(
    terms: Sequence[Term],
    offset: Float[np.ndarray, " n"],
    reviewed: Int[np.ndarray, " m"],
    wrong: Bool[np.ndarray, " m"],
    is_open: Bool[np.ndarray, " n"],
) -> tuple[Float[np.ndarray, " n"], float, float]:
    """Laplace's method under one hypothesis."""
    # Source: Rasmussen and Williams (2006), algorithms 3.1 and 3.2, with an offset. As a slip, a
    # decision against sure log odds has no slope: there may be a maximum that calls many of them
    # slips, and another that follows them, where the fit without slips, which has one, leads.
    prior, start = covariance(terms, reviewed), offset[reviewed]
    at_run = np.zeros(len(reviewed))
    followed = _maximum(prior, start, wrong, at_run, slips=0.0)[0]
    found = [_maximum(prior, start, wrong, f, SLIPS) for f in (at_run, followed)]
    f, inner, root, likelihood, residual = max(found, key=lambda one: one[3] - one[0] @ one[4] / 2)
    evidence = likelihood - f @ residual / 2 - np.linalg.slogdet(inner)[1] / 2
    learnt = product(terms, sums_by_code(terms, reviewed, residual), slice(None))
    probability = _sigmoid(offset + learnt)
    change = probability * (1 - probability)  # of each p with its f
    among_open = sums_by_code(terms, np.flatnonzero(is_open), change[is_open])
    seen = root * product(terms, among_open, reviewed)
    variance = quadratic(terms, among_open) - seen @ np.linalg.solve(inner, seen)
    return probability, float(np.sqrt(max(0.0, variance))), float(evidence)


def _maximum(
    prior: Float[np.ndarray, "m m"],
    start: Float[np.ndarray, " m"],
    wrong: Bool[np.ndarray, " m"],
    f: Float[np.ndarray, " m"],
    slips: float,
) -> tuple[
    Float[np.ndarray, " m"],
    Float[np.ndarray, "m m"],
    Float[np.ndarray, " m"],
    float,
    Float[np.ndarray, " m"],
]:
    """Newton's method from f: f, I + √W K √W, √W, log-likelihood and its slope, which is K⁻¹ f."""
    for _ in range(NEWTON_STEPS):
        _, slope, curvature = _decided(start + f, wrong, slips)
        root = np.sqrt(curvature)
        inner = np.eye(len(f)) + root[:, None] * prior * root
        target = curvature * f + slope
        step = prior @ (target - root * np.linalg.solve(inner, root * (prior @ target))) - f
        f = f + step * min(1.0, LONGEST_STEP / max(np.abs(step).max(initial=0.0), JITTER))
        if np.abs(step).max(initial=0.0) < STILL:
            break
    likelihood, residual, _ = _decided(start + f, wrong, slips)
    return f, inner, root, likelihood, residual  # pyrefly: ignore[unbound-name] (NEWTON_STEPS > 0)


def _decided(
    log_odds: Float[np.ndarray, " m"], wrong: Bool[np.ndarray, " m"], slips: float
) -> tuple[float, Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
    """Log-likelihood of decisions, each the other one by a chance of slips; slopes, curvatures."""
    p = _sigmoid(log_odds)
    decided = slips + (1 - 2 * slips) * p  # as wrong
    change, spread = (1 - 2 * slips) * p * (1 - p), (decided * (1 - decided)).clip(SMALLEST)
    likelihood = np.log(np.where(wrong, decided, 1 - decided).clip(SMALLEST)).sum()
    return float(likelihood), (wrong - decided) * change / spread, change**2 / spread


def _sigmoid(log_odds: Float[np.ndarray, " m"]) -> Float[np.ndarray, " m"]:
    return np.exp(-np.logaddexp(0.0, -log_odds))


Sums = list[Float[np.ndarray, "_ _"]]  # of each term, [codes, r]


@result
class Term:
    """One kind of deviation that samples share.

    Attributes:
        spread: s, nats, its standard deviation.
        codes: who shares it, [n]; small integers.
        values: how strongly, [n, r].
    """

    spread: float
    codes: Int[np.ndarray, " n"]
    values: Float[np.ndarray, "n r"]


def covariance(terms: Sequence[Term], rows: Int[np.ndarray, " m"]) -> Float[np.ndarray, "m m"]:
    """K between some samples."""
    total = np.zeros((len(rows), len(rows)))
    for term in terms:
        codes, values = term.codes[rows], term.values[rows]
        total += term.spread**2 * (codes[:, None] == codes) * (values @ values.T)
    return total


def sums_by_code(
    terms: Sequence[Term], rows: Int[np.ndarray, " m"], weights: Float[np.ndarray, " m"]
) -> Sums:
    """What K w needs of weighted samples."""
    sums = []
    for term in terms:
        codes, size = term.codes[rows], int(term.codes.max(initial=0)) + 1
        shape = (size, len(rows))
        by_code = csr_array((weights, (codes, np.arange(len(rows)))), shape)
        sums.append(by_code @ term.values[rows])
    return sums


def product(
    terms: Sequence[Term], sums: Sums, rows: Int[np.ndarray, " m"] | slice
) -> Float[np.ndarray, " m"]:
    """K w at some samples."""
    parts = [
        term.spread**2 * np.einsum("mr,mr->m", each[term.codes[rows]], term.values[rows])
        for term, each in zip(terms, sums, strict=True)
    ]
    return np.sum(parts, axis=0)


def quadratic(terms: Sequence[Term], sums: Sums) -> float:
    """The form wᵀ K w."""
    return sum(
        term.spread**2 * float(np.square(each).sum())
        for term, each in zip(terms, sums, strict=True)
    )
