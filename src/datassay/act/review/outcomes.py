"""What decisions teach about the labels that nobody has looked at.

Logistic regression on the reviewed outcomes, with the run's log odds o_i as offset:
P(label i is wrong) = σ(o_i + f_i),  f ~ N(0, K).
Reviewers slip: a decision is the other one with a chance of 1, 3 or 10 %. Three hypotheses say what
f deviates by:
- calibration: the run's log odds are shifted and stretched alike for all;
- classes: besides, by given class, by suggested one and by the pair (the run's transition matrix T
  enters log odds as log T[c, l] / T[l, l], so this is T refitted);
- places: besides, by position.
Each is fitted under each chance of slips by Laplace's method, and weighed by its evidence.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.sparse import csr_array
from scipy.special import expit, logsumexp, softmax

from datassay.act.review.judged import Judged
from datassay.results import result

# Standard deviations, nats: of a shift of all, of a stretch (per nat), of a class, of a position.
# Chosen on simulated reviews so that the interval of the share of wrong labels holds it as often as
# it says, where the run's own log odds are far off too.
SHIFT = 5.0
STRETCH = 0.8
CLASS = 1.5
PLACE = 1.0
# How likely each hypothesis is before any decision: the simplest most.
PRIOR = np.array([0.6, 0.25, 0.15])
MOST_DECISIONS = 400  # the latest are used; earlier ones are about likelier errors than the rest
TOP = 100  # highest log odds, about whose mean all are stretched
MOST_STRETCHED = 6.0  # nats from that mean; log odds farther off are stretched by as much
NEWTON_STEPS = 50
LONGEST_STEP = 3.0  # nats
CONVERGED = 1e-8  # nats, of a step
JITTER = 1e-9
SMALLEST = 1e-300  # probability
# Chances that a decision is wrong, and how likely each is before any decision. Chosen on simulated
# reviews of 60 drawn tables with none, 3 and 10 %.
SLIPS = (0.01, 0.03, 0.1)
SLIPS_PRIOR = (0.25, 0.25, 0.5)
# How likely it is, before any decision, that no label is wrong: what is found are then slips.
NONE_WRONG = 0.25


@result
class Outcomes:
    """Probabilities of wrong labels, fitted to the decisions.

    Attributes:
        probability: that the given label is wrong, [n], if any is.
        weights: of the hypotheses calibration, classes, places, each by SLIPS; last, that no label
            is wrong, [c]. They sum to 1.
        expected: number of open labels that are wrong, under each, [c].
        spread: standard deviation of that number, [c].
    """

    probability: Float[np.ndarray, " n"]
    weights: Float[np.ndarray, " c"]
    expected: Float[np.ndarray, " c"]
    spread: Float[np.ndarray, " c"]


def fit_outcomes(
    judged: Judged,
    suggested: Int[np.ndarray, " n"],
    reviewed: Int[np.ndarray, " m"],
    is_wrong: Bool[np.ndarray, " m"],
    is_open: Bool[np.ndarray, " n"],
) -> Outcomes:
    """Return P(label is wrong) given the decisions, fitted and averaged over hypotheses."""
    # Cost: for each hypothesis and chance of slips at most NEWTON_STEPS of m³ operations
    # (m ≤ MOST_DECISIONS), and 300 n.
    reviewed = reviewed[-MOST_DECISIONS:]
    is_wrong = is_wrong[-MOST_DECISIONS:]
    hypotheses = _list_hypotheses(judged, suggested)
    offset = judged.log_odds.astype(np.float64)
    fits = [
        _fit_hypothesis(terms, offset, reviewed, is_wrong, is_open, slips)
        for terms in hypotheses
        for slips in SLIPS
    ]
    probabilities, spreads, evidences = map(np.array, zip(*fits, strict=True))
    prior = PRIOR[: len(hypotheses)] / PRIOR[: len(hypotheses)].sum()
    log_weights = evidences + np.log((1 - NONE_WRONG) * np.outer(prior, SLIPS_PRIOR).ravel())
    # If no label is wrong, each decision "wrong" is a slip.
    n_slips = np.count_nonzero(is_wrong)
    n_right = np.count_nonzero(~is_wrong)
    log_evidence = n_slips * np.log(SLIPS) + n_right * np.log1p(np.negative(SLIPS))
    log_none = np.log(NONE_WRONG) + logsumexp(log_evidence, b=SLIPS_PRIOR)
    weights = softmax(np.append(log_weights, log_none))
    p = probabilities[:, is_open]
    spread = np.sqrt(np.square(spreads) + (p * (1 - p)).sum(1))
    return Outcomes(
        probability=weights[:-1] @ probabilities / weights[:-1].sum(),
        weights=weights,
        expected=np.append(p.sum(1), 0.0),
        spread=np.append(spread, 0.0),
    )


def _list_hypotheses(judged: Judged, suggested: Int[np.ndarray, " n"]) -> "list[Sequence[Term]]":
    """Return the terms that f, the correction of log odds, is the sum of, by hypothesis."""
    n, k = judged.log_posterior.shape
    given_label = judged.labels
    everyone = np.zeros(n, np.int64)
    ones = np.ones((n, 1))
    odds = judged.log_odds.astype(np.float64)
    odds = odds - np.sort(odds)[-TOP:].mean()
    stretched = odds.clip(-MOST_STRETCHED, MOST_STRETCHED)[:, None]
    coordinates = judged.coordinates.astype(np.float64)
    calibration = [Term(SHIFT, everyone, ones), Term(STRETCH, everyone, stretched)]
    if not judged.is_of_classes:
        return [calibration]
    codes = (given_label, suggested, given_label * k + suggested)
    classes = [*calibration, *(Term(CLASS, code, ones) for code in codes)]
    places = [Term(PLACE, code, coordinates) for code in (everyone, given_label)]
    return [calibration, classes, [*classes, *places]]


def _fit_hypothesis(
    terms: "Sequence[Term]",
    offset: Float[np.ndarray, " n"],
    reviewed: Int[np.ndarray, " m"],
    is_wrong: Bool[np.ndarray, " m"],
    is_open: Bool[np.ndarray, " n"],
    slips: float,
) -> tuple[Float[np.ndarray, " n"], float, float]:
    """Return P(label is wrong), the spread of its sum over open labels, and log evidence.

    By Laplace's approximation, for one hypothesis and one rate of mistaken decisions (slips).
    Source: Rasmussen and Williams (2006), algorithms 3.1 and 3.2, with an offset.
    """
    # Taken as a slip, a decision against sure log odds has no slope. So there may be one maximum
    # that calls many decisions slips, and one that follows them, to which the fit without slips,
    # with its single maximum, leads.
    prior = covariance(terms, reviewed)
    start = offset[reviewed]
    start_at_zero = np.zeros(len(reviewed))
    start_without_slips = _find_mode(prior, start, is_wrong, start_at_zero, slips=0.0).f
    starts = (start_at_zero, start_without_slips)
    modes = [_find_mode(prior, start, is_wrong, f, slips) for f in starts]
    mode = max(modes, key=lambda mode: mode.log_posterior)
    evidence = mode.log_posterior - np.linalg.slogdet(mode.inner)[1] / 2
    learnt_log_odds = product(terms, sums_by_code(terms, reviewed, mode.slope), slice(None))
    probability = expit(offset + learnt_log_odds)
    derivative = probability * (1 - probability)  # of each p with its f
    among_open = sums_by_code(terms, np.flatnonzero(is_open), derivative[is_open])
    explained = mode.root * product(terms, among_open, reviewed)
    variance = quadratic(terms, among_open) - explained @ np.linalg.solve(mode.inner, explained)
    return probability, float(np.sqrt(max(0.0, variance))), float(evidence)


@result
class _Mode:
    """Mode of the posterior of f, with what Laplace's method needs there."""

    f: Float[np.ndarray, " m"]
    inner: Float[np.ndarray, "m m"]  # I + √W K √W
    root: Float[np.ndarray, " m"]  # √W
    log_likelihood: float
    slope: Float[np.ndarray, " m"]  # of the log-likelihood in f; K⁻¹ f at the mode

    @property
    def log_posterior(self) -> float:
        """Log-likelihood and log prior of f, up to a constant."""
        return self.log_likelihood - float(self.f @ self.slope) / 2


def _find_mode(
    prior: Float[np.ndarray, "m m"],
    start: Float[np.ndarray, " m"],
    is_wrong: Bool[np.ndarray, " m"],
    f: Float[np.ndarray, " m"],
    slips: float,
) -> _Mode:
    """Find the mode of the posterior of f by Newton's method, starting at f."""
    for _ in range(NEWTON_STEPS):
        _, slope, curvature = _log_likelihood(start + f, is_wrong, slips)
        root = np.sqrt(curvature)
        inner = np.eye(len(f)) + root[:, None] * prior * root
        target = curvature * f + slope
        step = prior @ (target - root * np.linalg.solve(inner, root * (prior @ target))) - f
        f = f + step * min(1.0, LONGEST_STEP / max(np.abs(step).max(initial=0.0), JITTER))
        if np.abs(step).max(initial=0.0) < CONVERGED:
            break
    log_likelihood, slope, _ = _log_likelihood(start + f, is_wrong, slips)
    return _Mode(f, inner, root, log_likelihood, slope)  # pyrefly: ignore[unbound-name] (STEPS > 0)


def _log_likelihood(
    log_odds: Float[np.ndarray, " m"], is_wrong: Bool[np.ndarray, " m"], slips: float
) -> tuple[float, Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
    """Return the log-likelihood of decisions, its slope, and its expected negative curvature.

    log_odds: of wrong labels. is_wrong: the decisions. slips: rate of mistaken decisions.
    """
    p = expit(log_odds)
    q = slips + (1 - 2 * slips) * p  # probability that the decision is "wrong"
    change = (1 - 2 * slips) * p * (1 - p)  # derivative of q
    variance = (q * (1 - q)).clip(SMALLEST)
    log_likelihood = np.log(np.where(is_wrong, q, 1 - q).clip(SMALLEST)).sum()
    return float(log_likelihood), (is_wrong - q) * change / variance, change**2 / variance


Sums = list[Float[np.ndarray, "_ _"]]  # of each term, [codes, r]


@result
class Term:
    """One kind of deviation: K_ij = s² values_i · values_j where codes are equal, else 0.

    Attributes:
        spread: s, nats, its standard deviation.
        codes: samples with one code share it, [n]; small integers.
        values: how strongly, [n, r].
    """

    spread: float
    codes: Int[np.ndarray, " n"]
    values: Float[np.ndarray, "n r"]


def covariance(terms: Sequence[Term], rows: Int[np.ndarray, " m"]) -> Float[np.ndarray, "m m"]:
    """Return the prior covariance K of f between some samples."""
    total = np.zeros((len(rows), len(rows)))
    for term in terms:
        codes = term.codes[rows]
        values = term.values[rows]
        total += term.spread**2 * (codes[:, None] == codes) * (values @ values.T)
    return total


def sums_by_code(
    terms: Sequence[Term], rows: Int[np.ndarray, " m"], weights: Float[np.ndarray, " m"]
) -> Sums:
    """Return weighted sums of values per code, with which K @ w is a table lookup."""
    sums = []
    for term in terms:
        codes = term.codes[rows]
        shape = (int(term.codes.max(initial=0)) + 1, len(rows))
        by_code = csr_array((weights, (codes, np.arange(len(rows)))), shape)
        sums.append(by_code @ term.values[rows])
    return sums


def product(
    terms: Sequence[Term], sums: Sums, rows: Int[np.ndarray, " m"] | slice
) -> Float[np.ndarray, " m"]:
    """Return K @ w at some samples, from the sums of `sums_by_code`."""
    parts = [
        term.spread**2 * np.einsum("mr,mr->m", code_sums[term.codes[rows]], term.values[rows])
        for term, code_sums in zip(terms, sums, strict=True)
    ]
    return np.sum(parts, axis=0)


def quadratic(terms: Sequence[Term], sums: Sums) -> float:
    """Return the quadratic form wᵀ K w, from the sums of `sums_by_code`."""
    return sum(
        term.spread**2 * float(np.square(code_sums).sum())
        for term, code_sums in zip(terms, sums, strict=True)
    )
