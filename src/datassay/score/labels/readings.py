"""How far each explanation of the given labels is believed, before one says what is wrong.

Held-out outputs that are contradicted everywhere alike may be wrong labels or samples that are hard
everywhere alike: no likelihood parts the two. Explanations are therefore weighed by

    log L + log prior,   prior ∝ exp(−CRISP Σ_i H(p_i) − RARE n s min(s, MUCH)),

H(p_i) the entropy of the true class as the explanation has it, s the share of wrong labels: of
equal likelihoods that one counts by which inputs tell the classes apart and few labels are wrong.
Hardness competes by two calibrations, one scale for all classes and one linear map between them,
since classes that look alike are confused as if labels were given wrongly. Noise may gather in a
region: there one estimator has the true classes, and all together have the rate.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from datassay.results import result
from datassay.score.labels.likelihood import MOST_INTERCEPTS, NO_RATE, Fitted, evenly, fitted

# Weights of the prior, chosen on one half of 206 drawn sets; the other half has the same figures.
CRISP, RARE, MUCH = 0.13, 1.5, 0.2
# Nats by which held-out outputs must explain the labels better than the classes' shares, or nothing
# is said of any label: of 56 sets of labels drawn by lot none gained more than 6. Of few samples
# there is less to gain: then this part of it.
LEAST_SKILL, LEAST_PART = 10.0, 0.5
UNSURE = 0.02  # of the weight, by which fewer labels may be wrong than is said
# Rates of wrong labels that are weighed, up to RATE_LIMIT of what guessing misses; of more samples
# the likeliest rate alone.
RATES = (0.01, 0.02, 0.05, 0.1, 0.14, 0.23, 0.34, 0.46)
RATE_LIMIT, MOST_SAMPLES = 0.92, 20_000
# Variances of the prior of a map between classes and of its intercepts; rounds; values of a round.
MAP_VARIANCE, SHIFT_VARIANCE, MAP_ROUNDS, MAP_VALUES = 0.25, 9.0, 60, 1e8
# Nats that a map gains by chance, times k² (k − 1): chosen on sets of 3 to 5 classes, and of 10.
MAP_COST = 0.025


@result
class Belief:
    """What all explanations say together.

    Attributes:
        is_predicted: whether held-out outputs tell the labels better than the classes' shares.
        wrong: probability that each label is wrong, [n]; 0 where nothing predicts the labels.
        hard: weight of the explanations by which nothing is wrong.
        least: share of wrong labels that 98 % of the weight exceeds.
    """

    is_predicted: bool
    wrong: Float[Tensor, " n"]
    hard: float
    least: float


def weigh_readings(
    judges: Sequence[Float[Tensor, "n k"]],
    labels: Int[Tensor, " n"],
    trusted: Bool[Tensor, " n"],
    hard: Fitted,
    noisy: Sequence[Fitted],
) -> Belief:
    """Return what hardness and noise say together, each weighed by how it explains the labels.

    Args:
        judges: held-out outputs, each [n, k].
        labels: given.
        trusted: labels that are known to be right.
        hard: the fit without noise.
        noisy: fits with noise, that of one rate among them where it may count.

    Returns:
        The belief.

    Cost: a fit for each rate, MAP_ROUNDS of n k² operations.
    """
    n, k = hard.log_p.shape
    is_open = ~trusted
    counts = labels.bincount(minlength=k).double()
    by_shares = float((counts * (counts.clamp_min(1) / n).log()).sum())
    if hard.log_likelihood - by_shares < min(LEAST_SKILL, -LEAST_PART * by_shares):
        return Belief(False, torch.zeros(n, dtype=torch.float64), 1.0, 0.0)
    even = [fit for fit in noisy if fit.form == "one rate"]
    if even and n <= MOST_SAMPLES:
        largest = RATE_LIMIT * (k - 1) / k
        rates = sorted({min(rate, largest) for rate in RATES})
        even += [fitted(judges, labels, "none", evenly(k, rate), trusted) for rate in rates]
    fits = [*even, *(fit for fit in noisy if fit.form != "one rate")]
    weights, wrong = [0.0], [torch.zeros(n, dtype=torch.float64)]
    if 2 < k <= MOST_INTERCEPTS:
        gained, log_p = _map_classes(judges, labels, hard)
        weights.append(gained + _weigh_crispness(log_p[is_open], hard.log_p[is_open]))
        weights[-1] -= MAP_COST * k**2 * (k - 1)
        wrong.append(wrong[0])
    n_hard = len(weights)
    for number, fit in enumerate(fits):
        p = -torch.expm1(fit.log_posterior.gather(1, labels[:, None])[:, 0])
        weight = fit.log_likelihood - hard.log_likelihood - fit.cost
        weight += _weigh_crispness(fit.log_p[is_open], hard.log_p[is_open])
        weight -= _price_errors(p[is_open])
        weights.append(weight - log(len(even) if number < len(even) else 1))
        wrong.append(p.clamp_min(0.0))
    for judge in judges if len(judges) > 1 else ():
        truth = fitted([judge], labels, "one rate", trusted=trusted)
        log_likelihood, p = _vary_rate(truth.log_p.exp(), hard.log_p.exp(), labels, trusted)
        weight = log_likelihood - hard.log_likelihood - log(len(judges))
        weight += _weigh_crispness(truth.log_p[is_open], hard.log_p[is_open])
        weights.append(weight - _price_errors(p[is_open]))
        wrong.append(p)
    weight = torch.softmax(torch.tensor(weights, dtype=torch.float64), 0)
    together = torch.stack(wrong)
    least = _bound_share(weight, together[:, is_open].mean(1))
    return Belief(True, weight @ together, float(weight[:n_hard].sum()), least)


def _weigh_crispness(log_p: Float[Tensor, "n k"], hard: Float[Tensor, "n k"]) -> float:
    """Return the log prior of the true classes over those of the explanation without noise."""
    entropy, entropy_hard = (-float((each.exp() * each).sum()) for each in (log_p, hard))
    return CRISP * (entropy_hard - entropy)


def _price_errors(wrong: Float[Tensor, " n"]) -> float:
    """Return the nats that the prior takes from an explanation by which these labels are wrong."""
    return RARE * float(wrong.sum()) * min(float(wrong.mean()), MUCH)


def _vary_rate(
    truth: Float[Tensor, "n k"],
    given: Float[Tensor, "n k"],
    labels: Int[Tensor, " n"],
    trusted: Bool[Tensor, " n"],
) -> tuple[float, Float[Tensor, " n"]]:
    """Return how noise whose rate depends on the inputs explains the labels, and which are wrong.

    Args:
        truth: p[c], probabilities of the true class as one judge has them, [n, k].
        given: q[l], probabilities of the given label as all judges have them, [n, k].
        labels: given, [n].
        trusted: labels that are known to be right, [n].

    Returns:
        The log likelihood of the labels, and the probability that each is wrong, [n]. A label
        differs from the class c with the rate r = 1 − q[argmax p], and is then l with q[l] / (1 −
        q[c]), so that P(label l) = p[l] (1 − r) + r q[l] Σ_{c ≠ l} p[c] / (1 − q[c]).
    """
    rate = 1 - given.gather(1, truth.argmax(1)[:, None])[:, 0]
    rate = rate.clamp(NO_RATE, 0.5).masked_fill(trusted, 0.0)
    rows, given = labels[:, None], given.clamp_max(1 - NO_RATE)
    ratio = truth / (1 - given)
    p, q, own = (each.gather(1, rows)[:, 0] for each in (truth, given, ratio))
    right = p * (1 - rate)
    total = right + rate * q * (ratio.sum(1) - own)
    return float(total.log().sum()), 1 - right / total


def _bound_share(weight: Float[Tensor, " r"], share: Float[Tensor, " r"]) -> float:
    """Return the share of wrong labels that all but UNSURE of the weight lies above."""
    order = share.argsort()
    n_below = int((weight[order].cumsum(0) < UNSURE).sum())
    return float(share[order][n_below])


def _map_classes(
    judges: Sequence[Float[Tensor, "n k"]], labels: Int[Tensor, " n"], hard: Fitted
) -> tuple[float, Float[Tensor, "n k"]]:
    """Return what a linear map between the classes gains, penalised, and its log probabilities."""
    n, k = hard.log_p.shape
    logits = torch.stack(list(judges), 2).double() @ hard.weights
    logits -= logits.mean(1, keepdim=True)
    step = max(1, int(n * k**2 / MAP_VALUES))
    rows, given = logits[::step], labels[::step, None]
    matrix = torch.zeros(k, k, dtype=torch.float64, requires_grad=True)
    shift = torch.zeros(k, dtype=torch.float64, requires_grad=True)
    solver = torch.optim.LBFGS([matrix, shift], max_iter=MAP_ROUNDS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        log_p = torch.log_softmax(rows + rows @ matrix.T + shift, 1)
        prior = matrix.square().sum() / MAP_VARIANCE + shift.square().sum() / SHIFT_VARIANCE
        return prior / (2 * step) - log_p.gather(1, given).sum()

    def backward() -> Tensor:
        solver.zero_grad()
        value = loss()
        value.backward()
        return value

    solver.step(backward)
    with torch.no_grad():
        log_p = torch.log_softmax(logits + logits @ matrix.T + shift, 1)
        before = float(hard.log_p[::step].gather(1, given).sum())
        return -step * (float(loss()) + before), log_p
