"""What is left to review: the order, how right it is, how many errors remain, when to stop."""

from collections import Counter
from collections.abc import Collection, Mapping

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import expit, logit

from datassay import rules
from datassay.act.review.decisions import KEEP, RELABEL, Decision
from datassay.act.review.judged import Judged
from datassay.act.review.outcomes import Outcomes, fit_outcomes
from datassay.data.samples import SampleSet
from datassay.optional import text_if
from datassay.results import result

BATCH = 24  # decisions until the order is renewed; also the size of `probe`
LEAST_CHANCE = 0.1  # of a draw, added to the standard deviation of whether a label is wrong
WORTHWHILE = 0.05  # expected share of errors in a batch below which the classes take turns
# Levels: of the interval as reported, and of the model's, which simulated reviews left more often
# if the most suspect were looked at, and less often if labels were drawn (60 sets that chose).
LEVEL = 0.9
OWN_LEVEL = 0.95
DRAWN_LEVEL = 0.8
# The prior of a share of wrong labels falls by e for every BEYOND outside the run's bounds: labels
# by rules of thumb are wrong more often than they look.
BEYOND = 0.16
GRID = 2000  # shares of wrong labels that are weighed
SMALLEST = 1e-5  # of them
LEAST_SPREAD = 0.5  # labels
LEAST_DECISIONS = 60  # before which a review is never called finished


@result
class Remaining:
    """A review so far, and what it says of the labels not yet reviewed.

    Attributes:
        order: positions of those labels, the most worthwhile first, [r].
        probability: that the given label is wrong, [n]; 0 or 1 for the reviewed.
        suggested: class per sample, [n]: the likeliest other one for those in `order`, the decided
            one for the reviewed; −1 for numbers and for several labels.
        errors_left: expected in `order`.
        interval: of errors_left, 90 %, calibrated on simulated reviews.
        share_wrong: interval of the share of wrong labels, of all but those passed.
        errors_found: among the reviewed.
        can_stop: whether going on would find next to nothing.
        learns: whether the order follows the decisions; of numbers and several labels it is fixed.
    """

    order: Int[np.ndarray, " r"]
    probability: Float[np.ndarray, " n"]
    suggested: Int[np.ndarray, " n"]
    errors_left: float
    interval: tuple[float, float]
    share_wrong: tuple[float, float]
    errors_found: int
    can_stop: bool
    learns: bool

    @property
    def outcome(self) -> str:
        """What the review found, and how much is left, in words."""
        n = len(self.probability)
        n_open = len(self.order)
        text = f"{n - n_open:,} of {n:,} labels reviewed, {self.errors_found:,} of them wrong"
        if not n_open:
            return f"{text}."
        low, high = (f"{int(end):,}" for end in self.interval)
        ends = low if low == high else f"{low} to {high}"
        interval = f"{100 * LEVEL:.0f} % interval"
        return f"{text}; of the other {n_open:,}, {ends} are wrong too ({interval})."

    @property
    def sentence(self) -> str:
        """The outcome, and whether the review can stop here."""
        return self.outcome + text_if(self.can_stop and len(self.order) > 0, " You can stop here.")

    def expected_precision(self, top: int) -> float:
        """Return the share of wrong labels to expect among the next `top`; nan if none is left."""
        positions = self.order[:top]
        if len(positions):
            return float(self.probability[positions].mean())
        return float("nan")


def remaining(judged: Judged, known: Mapping[int, int], passed: Collection[int] = ()) -> Remaining:
    """Return the labels not yet reviewed, by how likely they are wrong given the decisions.

    The most likely errors come first, by `outcomes.fit_outcomes`. Where a batch of them is expected
    to hold less than WORTHWHILE errors, the classes take turns instead, the least reviewed first,
    so that an estimator that is blind to one class's errors is found out.

    Args:
        judged: the run's label scores.
        known: position → true class: the new one, or the given one where it was kept; in the order
            in which they were decided. Of numbers and several labels 1 where something was wrong,
            else 0. Only what a person looked at: suggestions taken unseen teach that all are right.
        passed: positions that are left out of the order and teach nothing: removed, unsure, or
            decided unseen.

    Returns:
        What is left. The interval is that of logit-normal shares of errors in `order`, their
        spread what the decisions leave open of the fit, less likely where the share of all wrong
        labels leaves the bounds of the run; before the first decisions it is wide, since how many
        labels are wrong cannot be known from outputs alone. `probe` tells the most: once those are
        decided they alone give the interval.

    Raises:
        SettingError: a position or a class is out of range.

    Cost: 0.5 s for 60 000 samples of 10 classes and 100 decisions.
    """
    n = len(judged)
    k = judged.log_posterior.shape[1]
    reviewed = np.array(list(known), np.int64)
    decided = np.array(list(known.values()), np.int64)
    rules.positions("decisions", [*known, *passed], n)
    is_class = (decided >= 0) & (decided < (k or 2))
    rules.require(is_class.all(), "true classes", f"lie in 0..{(k or 2) - 1}", decided[~is_class])
    if judged.is_of_classes:
        is_wrong = decided != judged.labels[reviewed]
    else:
        is_wrong = decided > 0
    is_open = np.ones(len(judged), bool)
    is_open[[*known, *passed]] = False
    suggested = np.full(n, -1)
    if judged.is_of_classes:
        other_log_p = judged.log_posterior.copy()
        other_log_p[np.arange(n), judged.labels] = -np.inf
        suggested = other_log_p.argmax(1)
    probability, interval = _estimate(judged, suggested, reviewed, is_wrong, is_open, OWN_LEVEL)
    order = _order_open(judged, probability, is_open, reviewed)
    errors_left = float(probability[order].sum())
    n_found = int(is_wrong.sum())
    n_open = len(order)
    probed = probe(judged)
    is_probed = np.isin(reviewed, probed)
    if judged.is_of_classes and set(probed) <= {*known, *passed}:
        # The labels drawn estimate the share of all better than those searched for errors: the
        # interval is of all but them, less the errors found there.
        not_probed = is_open.copy()
        not_probed[reviewed[~is_probed]] = True
        n_wrong = int(is_wrong[~is_probed].sum())
        draw = reviewed[is_probed], is_wrong[is_probed]
        ends = _estimate(judged, suggested, *draw, not_probed, DRAWN_LEVEL)[1]
        low = max(0.0, ends[0] - n_wrong)
        high = max(interval[0], ends[1] - n_wrong)
        interval = min(low, n_open), min(high, n_open)
        errors_left = float(np.clip(errors_left, *interval))
    n_all = n_open + len(reviewed)
    low, high = ((n_found + end) / max(1, n_all) for end in interval)
    next_errors = float(probability[order[:BATCH]].sum())
    can_stop = not n_open or (
        len(reviewed) >= LEAST_DECISIONS
        and int(is_wrong[-BATCH:].sum()) <= WORTHWHILE * BATCH
        and next_errors <= WORTHWHILE * BATCH
    )
    probability[reviewed] = is_wrong
    suggested[reviewed] = -1
    if judged.is_of_classes:
        suggested[reviewed] = decided
    return Remaining(
        order=order,
        probability=probability,
        suggested=suggested,
        errors_left=errors_left,
        interval=interval,
        share_wrong=(low, high),
        errors_found=n_found,
        can_stop=can_stop,
        learns=judged.is_of_classes,
    )


def remaining_after(
    judged: Judged, decisions: Mapping[int, Decision], samples: SampleSet, n: int | None = None
) -> Remaining:
    """Return what the first n decisions, by position, leave; None: all of them."""
    n_at_time = Counter(decision.when for decision in decisions.values())
    pairs = list(decisions.items())[:n]
    truth = {}  # position → true class; of numbers and several labels whether something was wrong
    for position, decision in pairs:
        if n_at_time[decision.when] > 1:  # accepted together: nobody looked at each
            continue
        if decision.decision == KEEP:
            truth[position] = int(samples.y[position]) if samples.is_classification else 0
        elif decision.decision == RELABEL:
            truth[position] = 1
            if samples.is_classification:
                truth[position] = samples.class_names.index(decision.label)
    return remaining(judged, truth, [position for position, _ in pairs if position not in truth])


def _estimate(
    judged: Judged, suggested: Int[np.ndarray, " n"], reviewed: Int[np.ndarray, " m"],
    is_wrong: Bool[np.ndarray, " m"], is_open: Bool[np.ndarray, " n"], level: float,
) -> tuple[Float[np.ndarray, " n"], tuple[float, float]]:  # fmt: skip
    """Return each label's P(wrong), and an interval of the number of wrong open labels."""
    # suggested: likeliest other class. reviewed, is_wrong: the decisions. is_open: not yet decided.
    fitted = fit_outcomes(judged, suggested, reviewed, is_wrong, is_open)
    counts = int(is_open.sum()), int(is_wrong.sum()), len(reviewed)
    bounds = _bound_errors(fitted, *counts, judged.share, level)
    return fitted.probability.copy(), bounds


def _order_open(
    judged: Judged,
    probability: Float[np.ndarray, " n"],
    is_open: Bool[np.ndarray, " n"],
    reviewed: Int[np.ndarray, " m"],
) -> Int[np.ndarray, " r"]:
    """Return open labels, most suspect first; if that finds few errors, classes take turns."""
    learns = judged.is_of_classes and len(reviewed)
    suspicion_key = -probability if learns else np.zeros(len(judged))
    order = np.lexsort((-judged.log_odds, suspicion_key))
    order = order[is_open[order]]
    if not learns or probability[order[:BATCH]].sum() > WORTHWHILE * BATCH:
        return order
    # Next is the class with the fewest looked at, counting those already placed.
    k = judged.log_posterior.shape[1]
    n_reviewed = np.bincount(judged.labels[reviewed], minlength=k)
    n_before = np.zeros(len(order), np.int64)  # labels of its class that come before
    for c in range(k):
        of_class = np.flatnonzero(judged.labels[order] == c)
        n_before[of_class] = n_reviewed[c] + np.arange(len(of_class))
    return order[np.argsort(n_before, kind="stable")]


def _bound_errors(
    fitted: Outcomes, n_open: int, n_found: int, n_reviewed: int, share: tuple[float, float],
    level: float,
) -> tuple[float, float]:  # fmt: skip
    """Return an interval of the number of errors among n_open labels."""
    # share: bounds of the share of wrong labels by the run, which limit the fitted density.
    if not n_open:
        return 0.0, 0.0
    # On the logit of the share r of open labels that are wrong, and on a grid of r.
    mean = np.clip(fitted.expected / n_open, 0.25 / n_open, 1 - 0.25 / n_open)
    r = np.union1d((np.arange(GRID) + 0.5) / GRID, np.geomspace(SMALLEST, 1 / GRID, 50))
    deviation = np.maximum(fitted.spread, LEAST_SPREAD) / n_open / (mean * (1 - mean))
    z_scores = (logit(r)[:, None] - logit(mean)) / deviation
    density = np.exp(-np.square(z_scores) / 2) / deviation @ fitted.weights
    log_density = np.log(density.clip(np.finfo(float).tiny) / (r * (1 - r)))
    share_of_all = (n_found + r * n_open) / (n_reviewed + n_open)
    outside = np.maximum(share[0] - share_of_all, share_of_all - share[1])
    log_density -= np.maximum(0, outside) / BEYOND
    mass = (np.exp(log_density - log_density.max()) * np.gradient(r)).cumsum()
    quantiles = (1 - level) / 2, (1 + level) / 2
    low, high = (r[np.searchsorted(mass, mass[-1] * quantile)] for quantile in quantiles)
    if not n_found:  # no error found: so few decisions prove no more than that errors are few
        low = 0.0
        high = max(high, min(share[1], 1 / (n_reviewed + 2)))
    return float(np.floor(low * n_open)), float(np.ceil(high * n_open))


def probe(judged: Judged) -> Int[np.ndarray, " b"]:
    """Return BATCH labels drawn to estimate how many are wrong; all if there are no more.

    A systematic draw along the order: each label with a chance in proportion to the standard
    deviation of whether it is wrong, and LEAST_CHANCE, so that none is sure to be right unseen.

    Args:
        judged: the run's label scores.

    Returns:
        Positions, the most suspect first.

    Cost: a sort of n.
    """
    order = np.argsort(-judged.log_odds, kind="stable")
    if len(order) <= BATCH:
        return order
    log_odds = judged.log_odds[order].astype(np.float64)
    number = np.arange(BATCH)
    chances = (np.sqrt(expit(log_odds) * expit(-log_odds)) + LEAST_CHANCE).cumsum()
    drawn = np.searchsorted(chances, (number + 0.5) / BATCH * chances[-1])
    drawn = np.maximum.accumulate(drawn - number) + number  # none twice
    return order[np.minimum(drawn, len(order) - BATCH + number)]
