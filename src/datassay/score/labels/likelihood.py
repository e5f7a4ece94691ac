"""Calibration and label noise together, by maximum likelihood of the given labels (METHODS §2b).

P(given y | judges) = Σ_c p[c] T[c, y],  p = softmax(Σ_j w_j f_j + b): f_j are the held-out outputs
of judge j, p the probabilities of the true class, T[c, l] = P(given l | true c). Under the fit,
P(true c | given y) ∝ p[c] T[c, y] = q[c]. Of a label that is trusted T is the identity: q is known.

Expectation maximisation: q from (w, b, T); then T from the expected counts N[c, l] = Σ q_i[c] over
the samples given l, in closed form; and one Newton step for (w, b), a logistic regression on q.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import log
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from datassay.results import result

Form = Literal["none", "one rate", "pairs", "by class"]
# Pseudo-counts: of right labels, and in each row of T of the common rate.
RIGHT_COUNT, COMMON_COUNT = 5.0, 10.0
# The share of wrong labels where none is assumed, and that fits start from.
NO_RATE, FIRST_RATE = 1e-4, 0.1
# Variance of the normal prior of the intercepts, and a ridge that keeps the Hessian regular.
INTERCEPT_VARIANCE, WEAK = 9.0, 1e-6
SCALE = 2.0  # of the outputs, in standard deviations, that fits start from
PAIR_ROUNDS = 20
LEAST_WEIGHT = 1e-6  # of a judge that is heard
# Classes up to which each has an intercept: a Newton step takes n k² operations for them.
MOST_INTERCEPTS = 100
ROUNDS, SMALLEST_STEP = 60, 1e-3
STILL = (1e-10, 1e-7)  # nats a sample that a round must gain; of more than MOST_INTERCEPTS classes


@result
class Fitted:
    """One explanation of the given labels.

    Attributes:
        form: of the noise: none; any other label as often as any; some pairs of classes more often
            than others; or depending on the class.
        log_likelihood: of the given labels, nats.
        log_p: log probability of each true class from the judges alone, [n, k].
        log_posterior: the same, the given label known, [n, k].
        transition: T, [k, k].
        weights: w, [judges]; 0: what the judge says is not heard.
        cost: nats that chance alone gains by the parameters of T beyond one rate.
    """

    form: Form
    log_likelihood: float
    log_p: Float[Tensor, "n k"]
    log_posterior: Float[Tensor, "n k"]
    transition: Float[Tensor, "k k"]
    weights: Float[Tensor, " judges"]
    cost: float


def evenly(k: int, rate: float) -> Float[Tensor, "k k"]:
    """T of one rate of wrong labels, spread evenly."""
    spread = torch.full((k, k), rate / max(1, k - 1), dtype=torch.float64)
    return spread.fill_diagonal_(1 - rate)


def cost_by_class(k: int) -> float:
    """Half a nat for each free parameter of T but the one rate."""
    return (k * (k - 1) - 1) / 2


def by_class(outputs: Float[Tensor, "n outputs"]) -> Float[Tensor, "n k"]:
    """One column per class: a single output f becomes (1 − f, f)."""
    return torch.cat([1 - outputs, outputs], 1) if outputs.shape[1] == 1 else outputs


def fitted(
    judges: Sequence[Float[Tensor, "n k"]],
    labels: Int[Tensor, " n"],
    form: Form,
    start: Float[Tensor, "k k"] | None = None,
    trusted: Bool[Tensor, " n"] | None = None,
) -> Fitted:
    """The likeliest calibration and noise of a form; judges whose weight is not positive are left.

    Args:
        judges: held-out outputs, each [n, k].
        labels: given.
        form: of the noise.
        start: T to start from.
        trusted: labels that are known to be right; None: none is.

    Returns:
        The fit.

    Cost: ROUNDS of n (k² + judges² k) operations, n k (judges + 4) values.
    """
    stacked, heard = torch.stack(list(judges), 2).double(), list(range(len(judges)))
    trusted = torch.zeros(len(labels), dtype=torch.bool) if trusted is None else trusted
    while True:
        found = _expectation_maximisation(stacked[:, :, heard], labels, form, start, trusted)
        kept = [j for j, w in zip(heard, found.weights.tolist(), strict=True) if w > LEAST_WEIGHT]
        if len(heard) == 1 or len(kept) == len(heard):
            break
        heard = kept or heard[:1]
    weights = torch.zeros(len(judges), dtype=torch.float64)
    weights[heard] = found.weights
    return replace(found, weights=weights)


def _expectation_maximisation(
    judges: Float[Tensor, "n k j"],
    labels: Int[Tensor, " n"],
    form: Form,
    start: Float[Tensor, "k k"] | None,
    trusted: Bool[Tensor, " n"],
) -> Fitted:
    k, j = judges.shape[1:]
    spread = judges.std((0, 1), correction=0)
    weights = torch.where(spread > 0, SCALE / (j * spread), 0.0)
    intercepts = torch.zeros(k, dtype=torch.float64)
    transition = evenly(k, NO_RATE if form == "none" else FIRST_RATE) if start is None else start
    certain = torch.eye(k, dtype=torch.float64).log()[labels[trusted]]
    is_open, before, still, cost = ~trusted, -torch.inf, STILL[k > MOST_INTERCEPTS], 0.0
    open_labels = labels[is_open]

    def log_given() -> Float[Tensor, "n k"]:
        """Log P(given | each true class); of a trusted label its own class alone."""
        log_t = transition.log().T[labels]
        log_t[trusted] = certain
        return log_t

    for _ in range(ROUNDS):
        log_p = torch.log_softmax(judges @ weights + intercepts, 1)
        joint = log_given().add_(log_p)  # in place: of many classes pages are the dearest
        each = torch.logsumexp(joint, 1)
        if float(each.mean()) - before < still:
            break
        before = float(each.mean())
        posterior = joint.sub_(each[:, None]).exp_()
        if form != "none":
            transition, cost = _transition(posterior[is_open], open_labels, form)
        weights, intercepts = _calibrated(judges, posterior, log_p, weights, intercepts)
    log_p = torch.log_softmax(judges @ weights + intercepts, 1)
    joint = log_p + log_given()
    each = torch.logsumexp(joint, 1)
    return Fitted(form, float(each.sum()), log_p, joint - each[:, None], transition, weights, cost)


def _transition(
    posterior: Float[Tensor, "n k"], labels: Int[Tensor, " n"], form: Form
) -> tuple[Float[Tensor, "k k"], float]:
    """T from the expected counts of (true class, given label), and what its parameters cost."""
    n, k = posterior.shape
    counts = torch.zeros(k, k, dtype=torch.float64).index_add_(0, labels, posterior).T
    if form == "pairs":
        return _of_pairs(counts)
    wrong = float(counts.sum() - counts.diagonal().sum())
    common = evenly(k, max(wrong, NO_RATE) / (n + RIGHT_COUNT))
    if form == "one rate":
        return common, 0.0
    right = torch.diag(RIGHT_COUNT * counts.sum(1) / n)
    rows = counts + COMMON_COUNT * common + right  # each row is shrunk to the one rate
    return rows / rows.sum(1, keepdim=True), cost_by_class(k)


def _of_pairs(counts: Float[Tensor, "k k"]) -> tuple[Float[Tensor, "k k"], float]:
    """A rate of its own for each pair of classes that needs one, and one for all others."""
    # A pair needs one where it gains more than naming it among all k (k − 1) costs, and half a nat.
    k, rows = len(counts), counts.sum(1, keepdim=True).clamp_min(NO_RATE)
    cost = log(k * (k - 1)) + 0.5
    others, own = ~torch.eye(k, dtype=torch.bool), torch.zeros(k, k, dtype=torch.bool)
    for _ in range(PAIR_ROUNDS):
        rest = others & ~own
        rate = float((counts * rest).sum() / (rows * rest).sum().clamp_min(NO_RATE))
        rate = max(rate, NO_RATE / (k - 1))
        ratio = counts / (rate * rows)
        gained = counts * ratio.clamp_min(NO_RATE).log() - counts + rate * rows
        found = others & (ratio > 1) & (gained > cost)
        if torch.equal(found, own):
            break
        own = found
    transition = torch.where(own, counts / rows, rate).fill_diagonal_(0.0)  # pyrefly: ignore[unbound-name] (PAIR_ROUNDS > 0)
    transition += torch.diag((1 - transition.sum(1)).clamp_min(NO_RATE))
    return transition / transition.sum(1, keepdim=True), cost * int(own.sum())


def _calibrated(
    judges: Float[Tensor, "n k j"],
    posterior: Float[Tensor, "n k"],
    log_p: Float[Tensor, "n k"],
    weights: Float[Tensor, " j"],
    intercepts: Float[Tensor, " k"],
) -> tuple[Float[Tensor, " j"], Float[Tensor, " k"]]:
    """One damped Newton step of a logistic regression on the posterior."""
    n, j, p = len(judges), judges.shape[2], log_p.exp()
    weighted = p[:, :, None] * judges
    mean, across = weighted.sum(1), judges.flatten(0, 1)
    left = p - posterior
    prior = 1 / INTERCEPT_VARIANCE
    gradient = left.flatten() @ across
    hessian = weighted.flatten(0, 1).T @ across - mean.T @ mean
    if p.shape[1] <= MOST_INTERCEPTS:
        gradient = torch.cat([gradient, left.sum(0) + prior * intercepts])
        both = weighted.sum(0).T - mean.T @ p  # [j, k]
        own = torch.diag(p.sum(0) + prior) - p.T @ p
        hessian = torch.cat([torch.cat([hessian, both], 1), torch.cat([both.T, own], 1)])
    hessian.diagonal().add_(WEAK * n)
    step = weights.new_zeros(j + p.shape[1])
    step[: len(gradient)] = torch.linalg.solve(hessian, gradient)

    def loss(b: Tensor, log_p: Tensor) -> float:
        return float(prior / 2 * b.square().sum() - posterior.flatten() @ log_p.flatten())

    def after(size: float) -> float:
        b = intercepts - size * step[j:]
        return loss(b, torch.log_softmax((judges @ (weights - size * step[:j])).add_(b), 1))

    now, size = loss(intercepts, log_p), 1.0
    while not after(size) <= now and size > SMALLEST_STEP:
        size /= 2
    return weights - size * step[:j], intercepts - size * step[j:]
