"""Weights of the explanations of the given labels, and what they say together.

Labels that held-out outputs contradict equally often everywhere may be wrong, or samples may be
equally hard everywhere: no likelihood tells the two apart. Explanations are therefore all kept,
each weighed by its likelihood less the price of its parameters, and their mean is what counts. One
by which the true classes lie apart has a prior beside it, ∝ exp(−CRISP Σ_i H(p_i) − RARE n s min(s,
MUCH)), H(p_i) the entropy of the true class and s the share of wrong labels. The explanations:
- hardness, by two calibrations: one scale for all classes, and one linear map between them, since
  classes that look alike are confused as if labels were given wrongly;
- noise of several forms and rates, with one scale, and where classes look alike with such a map;
- noise that gathers in a region: one estimator gives the true classes, all together give the rate.
"""

from collections.abc import Sequence
from math import log, sqrt

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from datassay.results import result
from datassay.score.labels.likelihood import (
    MOST_INTERCEPTS,
    NO_RATE,
    NoiseFit,
    fit_noise,
    uniform_transition,
)
from datassay.score.labels.maps import lies_apart, map_classes, map_fits

# The prior of classes that lie apart: of 320 digits of which 32 labels are the next class's, 31 are
# listed with it and none without. For all explanations alike a third of the wrong labels were.
CRISP, RARE, MUCH = 0.13, 1.5, 0.2
# With two classes, noise of one shows by itself: probabilities of its label then end short of 1. It
# is seen where that explains labels so many nats better than one rate and no noise do.
SEEN = 4.0
# Nats by which held-out outputs must explain the labels better than the classes' shares, or no
# label is suspected: of 80 sets of labels drawn by lot none gained more than 6, while 37 % wrong
# labels can leave 10. Of few samples there is less to gain: then this part of it.
LEAST_SKILL, LEAST_PART = 8.0, 0.5
UNSURE = 0.02  # of the weight, below the lower bound of the share of wrong labels
# Rates of wrong labels that are weighed, at most RATE_LIMIT times the error of guessing; of more
# than MOST_SAMPLES samples the likeliest rate alone.
RATES = (0.01, 0.02, 0.05, 0.1, 0.14, 0.23, 0.34, 0.46)
RATE_LIMIT, MOST_SAMPLES = 0.92, 20_000
# Classes of fewer labels, whose own samples must stand ABOVE standard errors above all others in
# order. Of four labels moved to a class of their own at random, all four were called wrong.
MOST_UNPREDICTED, ABOVE = 100, 1.64


@result
class Belief:
    """The weighted mean of all explanations.

    Attributes:
        is_predicted: whether held-out outputs predict the labels better than the classes' shares.
        p_wrong: probability that each label is wrong, [n]; 0 where the labels are not predicted.
        p_noiseless: weight of the explanations by which no label is wrong.
        least_share: share of wrong labels that 98 % of the weight exceeds.
    """

    is_predicted: bool
    p_wrong: Float[Tensor, " n"]
    p_noiseless: float
    least_share: float


def weigh_readings(
    outputs: Sequence[Float[Tensor, "n k"]],
    labels: Int[Tensor, " n"],
    trusted: Bool[Tensor, " n"],
    noiseless_fit: NoiseFit,
    noisy_fits: Sequence[NoiseFit],
) -> Belief:
    """Return the average of the explanations, weighted by their posterior probability.

    Args:
        outputs: held-out outputs of each estimator, each [n, k].
        labels: given labels, class indices.
        trusted: labels that are known to be right.
        noiseless_fit: the fit without noise.
        noisy_fits: fits with noise, that of one rate among them where it may count.

    Cost: up to MOST_SAMPLES a fit for each rate and each estimator; MAP_ROUNDS of n k² operations.
    """
    n, k = noiseless_fit.log_p.shape
    is_open = ~trusted
    counts = labels.bincount(minlength=k).double()
    baseline = float((counts * (counts.clamp_min(1) / n).log()).sum())  # nats, of their shares
    if noiseless_fit.log_likelihood - baseline < min(LEAST_SKILL, -LEAST_PART * baseline):
        return Belief(False, torch.zeros(n, dtype=torch.float64), 1.0, 0.0)
    uniform_fits = [fit for fit in noisy_fits if fit.form == "one rate"]
    if uniform_fits and n <= MOST_SAMPLES:
        largest = RATE_LIMIT * (k - 1) / k
        rates = sorted({min(rate, largest) for rate in RATES})
        starts = [uniform_transition(k, rate) for rate in rates]
        # "none" keeps T as it starts, at each of the rates.
        uniform_fits += [fit_noise(outputs, labels, "none", start, trusted) for start in starts]
    none_wrong = torch.zeros(n, dtype=torch.float64)
    # One entry per explanation, the fit without noise first, which log weights are relative to.
    log_weights = [0.0]
    p_wrong = [none_wrong]

    noiseless_entropy = _sum_entropy(noiseless_fit.log_p[is_open])

    def add_fit(fit: NoiseFit, price: float) -> None:
        """Append the log weight of a fit, its parameters' price in nats off, and P(label wrong)."""
        gain = fit.log_likelihood - noiseless_fit.log_likelihood - price
        p = -torch.expm1(fit.log_posterior.gather(1, labels[:, None])[:, 0]).clamp_max(0.0)
        p_wrong.append(p)
        if lies_apart(fit):
            gain += CRISP * (noiseless_entropy - _sum_entropy(fit.log_p[is_open]))
            gain -= RARE * float(p[is_open].sum()) * min(float(p[is_open].mean()), MUCH)
        log_weights.append(gain)

    has_map = 2 < k <= MOST_INTERCEPTS
    if has_map:
        mapped_fit, price = map_classes(noiseless_fit, labels, trusted)
        log_weights.append(mapped_fit.log_likelihood - noiseless_fit.log_likelihood - price)
        p_wrong.append(none_wrong)
    n_noiseless = len(log_weights)
    rate_price = log(max(1, len(uniform_fits)))  # the rates share the prior of one explanation
    explanations = [(fit, rate_price) for fit in uniform_fits]
    explanations += [(fit, 0.0) for fit in noisy_fits if fit.form != "one rate"]
    for fit, price in explanations:
        add_fit(fit, price + fit.cost)
    if has_map:
        is_hidden = log_weights[1] > max(log_weights[2:], default=0.0)
        for fit, price in map_fits(noisy_fits, labels, trusted, is_hidden=is_hidden):
            add_fit(fit, price + fit.cost + rate_price * (fit.form == "one rate"))
    for output in outputs if 1 < len(outputs) and n <= MOST_SAMPLES else ():
        estimator_fit = fit_noise([output], labels, "one rate", trusted=trusted)
        gain, p = _vary_rate(estimator_fit.log_p.exp(), noiseless_fit.log_p.exp(), labels, trusted)
        log_weights.append(gain - noiseless_fit.log_likelihood - log(len(outputs)))
        p_wrong.append(p)
    weight = torch.softmax(torch.tensor(log_weights, dtype=torch.float64), 0)
    p_wrong_by_fit = torch.stack(p_wrong)
    least_share = _bound_share(weight, p_wrong_by_fit[:, is_open].mean(1))
    p_noiseless = float(weight[:n_noiseless].sum())
    return Belief(True, weight @ p_wrong_by_fit, p_noiseless, least_share)


def find_unpredicted_classes(
    log_p: Float[Tensor, "n k"], labels: Int[Tensor, " n"]
) -> Bool[Tensor, " k"]:
    """Return a mask of small classes that held-out predictions rank no better than chance, [k].

    Nothing tells then whether the labels are wrong or the inputs do not show the class. By the
    rank-sum test (Mann and Whitney 1947), one-sided, its normal approximation. Cost: n log n a
    class.
    """
    n, k = log_p.shape
    is_unpredicted = torch.zeros(k, dtype=torch.bool)
    counts = labels.bincount(minlength=k)
    is_small = (0 < counts) & (counts < min(MOST_UNPREDICTED, n))
    for c in is_small.nonzero()[:, 0].tolist():
        is_own = labels == c
        n_own = int(counts[c])
        log_p_of_own = log_p[is_own, c]
        log_p_of_others = log_p[~is_own, c].sort().values
        n_below = torch.searchsorted(log_p_of_others, log_p_of_own)
        n_up_to = torch.searchsorted(log_p_of_others, log_p_of_own, right=True)
        excess = float((n_below + n_up_to).sum()) / 2 - n_own * (n - n_own) / 2  # ties count half
        error = sqrt(n_own * (n - n_own) * (n + 1) / 12)
        is_unpredicted[c] = excess < ABOVE * error
    return is_unpredicted


def is_seen(fit: NoiseFit, noiseless_fit: NoiseFit, uniform_fits: Sequence[NoiseFit]) -> bool:
    """Return whether noise of one of two classes is likelier by SEEN nats than its rivals.

    Args:
        fit: a fit of any form of noise.
        noiseless_fit: the fit without noise.
        uniform_fits: fits of one rate.
    """
    if fit.form != "by class" or fit.log_p.shape[1] != 2:
        return False
    rivals = (noiseless_fit, *uniform_fits)
    return fit.log_likelihood - fit.cost - max(f.log_likelihood for f in rivals) > SEEN


def read_one_way(
    noisy_fits: Sequence[NoiseFit],
    noiseless_fit: NoiseFit,
    uniform_fit: NoiseFit,
    labels: Int[Tensor, " n"],
) -> tuple[int, int, float, float] | None:
    """Return which of two classes is often labelled as the other, if noise is one-sided.

    Returns:
        (true class, given class, share of the true class so given, expected number of wrong
        labels); None: no fit sees such noise.
    """
    for fit in noisy_fits:
        if is_seen(fit, noiseless_fit, [uniform_fit]):
            wrong_rates = fit.transition - torch.diag(fit.transition.diagonal())
            true_class = int(wrong_rates.amax(1).argmax())
            p_wrong = 1 - fit.log_posterior.exp().gather(1, labels[:, None])[:, 0]
            n_wrong = float(p_wrong[labels != true_class].sum())
            return true_class, 1 - true_class, float(wrong_rates.max()), n_wrong
    return None


def _sum_entropy(log_p: Float[Tensor, "n k"]) -> float:
    """Return the entropy of the classes, in nats, summed over samples."""
    return -float((log_p.exp() * log_p).sum())


def _vary_rate(
    truth: Float[Tensor, "n k"],
    p_given: Float[Tensor, "n k"],
    labels: Int[Tensor, " n"],
    trusted: Bool[Tensor, " n"],
) -> tuple[float, Float[Tensor, " n"]]:
    """Evaluate noise whose rate varies with the inputs: log-likelihood, and P(label is wrong).

    Args:
        truth: p[c], probabilities of the true class by one estimator, [n, k].
        p_given: q[l], probabilities of the given label by all estimators, [n, k].
        labels: given, [n].
        trusted: labels that are known to be right, [n].

    Returns:
        The log likelihood of the labels, nats, and the probability that each is wrong, [n]. A
        label differs from the class c at the rate r = 1 − q[argmax p], and is then l with
        probability q[l] / (1 − q[c]). Hence
        P(label l) = p[l] (1 − r) + r q[l] Σ_{c ≠ l} p[c] / (1 − q[c]).
    """
    rate = 1 - p_given.gather(1, truth.argmax(1)[:, None])[:, 0]
    rate = rate.clamp(NO_RATE, 0.5).masked_fill(trusted, 0.0)
    rows = labels[:, None]
    p_given = p_given.clamp_max(1 - NO_RATE)
    ratio = truth / (1 - p_given)
    p, q, ratio_of_label = (values.gather(1, rows)[:, 0] for values in (truth, p_given, ratio))
    p_right = p * (1 - rate)
    total = p_right + rate * q * (ratio.sum(1) - ratio_of_label)
    return float(total.log().sum()), 1 - p_right / total


def _bound_share(weight: Float[Tensor, " r"], share: Float[Tensor, " r"]) -> float:
    """Return a lower bound of the wrong share, which all but UNSURE of the weight exceeds."""
    # weight: of each explanation, summing to 1. share: of wrong labels by each.
    order = share.argsort()
    n_below = int((weight[order].cumsum(0) < UNSURE).sum())
    return float(share[order][n_below])
