"""Calibration and label noise together, by maximum likelihood of the given labels (METHODS §2b).

P(given y | outputs) = Σ_c p[c] T[c, y],  p = softmax(Σ_j w_j f_j + b): f_j are held-out outputs of
estimator j, p the probabilities of the true class, T[c, l] = P(given l | true c). Under the fit,
P(true c | given y) ∝ p[c] T[c, y] = q[c]. For a trusted label T is the identity: q is known.

Expectation maximisation: q from (w, b, T); then T from the expected counts N[c, l] = Σ q_i[c] over
the samples given l, in closed form; and one Newton step for (w, b), a logistic regression on q.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import log
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from datassay.results import result

Form = Literal["none", "one rate", "pairs", "by class", "by source"]
# Pseudo-counts: of right labels, and in each row of T of labels at the common rate.
RIGHT_COUNT, COMMON_COUNT = 5.0, 10.0
# The share of wrong labels of fits without noise, and the one that other fits start from.
NO_RATE, FIRST_RATE = 1e-4, 0.1
INTERCEPT_VARIANCE = 9.0  # of their normal prior
WEAK = 1e-6  # a ridge, per sample, that keeps the Hessian regular
SCALE = 2.0  # standard deviation of the logits that fits start from
PAIR_ROUNDS = 20
LEAST_WEIGHT = 1e-6  # of an estimator that is not left out
# Classes up to which each has an intercept: a Newton step takes n k² operations for them.
MOST_INTERCEPTS = 100
ROUNDS, SMALLEST_STEP = 60, 1e-3
# Nats per sample that a round must gain, or it is the last: of few classes, beyond MOST_INTERCEPTS.
LEAST_GAIN = (1e-10, 1e-7)


@result
class NoiseFit:
    """A calibration and label noise fitted to the given labels.

    Attributes:
        form: of the noise: none; any other label as often as any; some pairs of classes more often
            than others; depending on the class; or any other label, at a rate of each source.
        log_likelihood: of the given labels, nats.
        log_p: log probability of each true class from the outputs alone, [n, k].
        log_posterior: the same when the given label is known as well, [n, k].
        transition: T, [k, k].
        weights: w, [estimators]; 0: the estimator is left out.
        cost: nats that chance alone gains by the parameters of T beyond one rate.
    """

    form: Form
    log_likelihood: float
    log_p: Float[Tensor, "n k"]
    log_posterior: Float[Tensor, "n k"]
    transition: Float[Tensor, "k k"]
    weights: Float[Tensor, " estimators"]
    cost: float


def uniform_transition(k: int, rate: float) -> Float[Tensor, "k k"]:
    """Return the T of one rate of wrong labels, each other label equally likely."""
    spread = torch.full((k, k), rate / max(1, k - 1), dtype=torch.float64)
    return spread.fill_diagonal_(1 - rate)


def class_cost(k: int) -> float:
    """Return the cost of noise by class, in nats: 1/2 for each parameter of T beyond one rate."""
    return (k * (k - 1) - 1) / 2


def by_class(outputs: Float[Tensor, "n outputs"]) -> Float[Tensor, "n k"]:
    """Return one column per class: a single output f becomes (1 − f, f)."""
    if outputs.shape[1] == 1:
        return torch.cat([1 - outputs, outputs], 1)
    return outputs


def fit_noise(
    outputs: Sequence[Float[Tensor, "n k"]],
    labels: Int[Tensor, " n"],
    form: Form,
    start: Float[Tensor, "k k"] | None = None,
    trusted: Bool[Tensor, " n"] | None = None,
) -> NoiseFit:
    """Return calibration weights w ≥ 0 and label noise, fitted by maximum likelihood.

    Estimators whose weight is not positive are left out, and the others fitted again.

    Args:
        outputs: held-out outputs of each estimator, each [n, k].
        labels: given labels, class indices.
        form: of the noise.
        start: T to start from.
        trusted: labels that are known to be right; None: no label is.

    Cost: ROUNDS of n (k² + estimators² k) operations, n k (estimators + 4) values.
    """
    stacked = torch.stack(list(outputs), 2).double()
    estimator_idx = list(range(len(outputs)))
    if trusted is None:
        trusted = torch.zeros(len(labels), dtype=torch.bool)
    while True:
        fit = _fit_by_em(stacked[:, :, estimator_idx], labels, form, start, trusted)
        pairs = zip(estimator_idx, fit.weights.tolist(), strict=True)
        positive_idx = [j for j, weight in pairs if weight > LEAST_WEIGHT]
        if len(estimator_idx) == 1 or len(positive_idx) == len(estimator_idx):
            break
        estimator_idx = positive_idx or estimator_idx[:1]
    weights = torch.zeros(len(outputs), dtype=torch.float64)
    weights[estimator_idx] = fit.weights
    return replace(fit, weights=weights)


def _fit_by_em(
    outputs: Float[Tensor, "n k j"],
    labels: Int[Tensor, " n"],
    form: Form,
    start: Float[Tensor, "k k"] | None,
    trusted: Bool[Tensor, " n"],
) -> NoiseFit:
    """Fit by EM: update the posterior q, then T, then (w, b), until convergence."""
    k, j = outputs.shape[1:]
    spread = outputs.std((0, 1), correction=0)
    weights = torch.where(spread > 0, SCALE / (j * spread), 0.0)
    intercepts = torch.zeros(k, dtype=torch.float64)
    if start is None:
        start = uniform_transition(k, NO_RATE if form == "none" else FIRST_RATE)
    transition = start
    cost = 0.0
    # Choosing by a mask copies: not where no label is trusted, as in most data.
    is_open: Tensor | slice = slice(None)
    if bool(trusted.any()):
        is_open = ~trusted
    open_labels = labels[is_open]
    previous_mean = -torch.inf
    least_gain = LEAST_GAIN[k > MOST_INTERCEPTS]

    log_p = torch.log_softmax(outputs @ weights + intercepts, 1)
    for _ in range(ROUNDS):
        # In place: with many classes memory costs the most.
        joint = log_given(transition, labels, trusted).add_(log_p)
        log_evidence = torch.logsumexp(joint, 1)
        mean = float(log_evidence.mean())
        if mean - previous_mean < least_gain:
            break
        previous_mean = mean
        posterior = joint.sub_(log_evidence[:, None]).exp_()
        if form != "none":
            transition, cost = fit_transition(posterior[is_open], open_labels, form)
        weights, intercepts, log_p = step_calibration(
            outputs, posterior, log_p, weights, intercepts
        )
    joint = log_given(transition, labels, trusted).add_(log_p)
    log_evidence = torch.logsumexp(joint, 1)
    total = float(log_evidence.sum())
    return NoiseFit(form, total, log_p, joint - log_evidence[:, None], transition, weights, cost)


def log_given(
    transition: Float[Tensor, "k k"], labels: Int[Tensor, " n"], trusted: Bool[Tensor, " n"]
) -> Float[Tensor, "n k"]:
    """Return log P(given label | each true class); a trusted label has its own class alone."""
    log_t = transition.log().T[labels]
    if bool(trusted.any()):
        identity = torch.eye(len(transition), dtype=torch.float64)
        log_t[trusted] = identity.log()[labels[trusted]]
    return log_t


def count_labels(
    posterior: Float[Tensor, "n k"], labels: Int[Tensor, " n"]
) -> Float[Tensor, "k k"]:
    """Return expected numbers of labels, [true, given], from P(true class)."""
    k = posterior.shape[1]
    return torch.zeros(k, k, dtype=torch.float64).index_add_(0, labels, posterior).T


def fit_transition(
    posterior: Float[Tensor, "n k"], labels: Int[Tensor, " n"], form: Form
) -> tuple[Float[Tensor, "k k"], float]:
    """Return the transition matrix T likeliest under the posterior q, and its cost in nats."""
    # posterior: P(true class). T[true, given]. The cost grows with the number of free rates.
    n, k = posterior.shape
    counts = count_labels(posterior, labels)
    if form == "pairs":
        return _fit_pair_rates(counts)
    n_wrong = float(counts.sum() - counts.diagonal().sum())
    one_rate = uniform_transition(k, max(n_wrong, NO_RATE) / (n + RIGHT_COUNT))
    if form == "one rate":
        return one_rate, 0.0
    right_counts = torch.diag(RIGHT_COUNT * counts.sum(1) / n)
    rows = counts + COMMON_COUNT * one_rate + right_counts  # each row is shrunk to one rate
    return rows / rows.sum(1, keepdim=True), class_cost(k)


def _fit_pair_rates(counts: Float[Tensor, "k k"]) -> tuple[Float[Tensor, "k k"], float]:
    """Return T with separate rates for some (true, given) pairs, and their total cost in nats.

    A pair has its own rate if it is above the common one, and gains more nats than the pair costs:
    log(k (k − 1)) to name it among all, and 1/2 for its rate. counts: expected numbers, by pair.
    """
    k = len(counts)
    rows = counts.sum(1, keepdim=True).clamp_min(NO_RATE)
    pair_cost = log(k * (k - 1)) + 0.5
    off_diagonal = ~torch.eye(k, dtype=torch.bool)
    has_rate = torch.zeros_like(off_diagonal)
    for _ in range(PAIR_ROUNDS):
        is_common = off_diagonal & ~has_rate
        rate = float((counts * is_common).sum() / (rows * is_common).sum().clamp_min(NO_RATE))
        rate = max(rate, NO_RATE / (k - 1))
        ratio = counts / (rate * rows)
        gain = counts * ratio.clamp_min(NO_RATE).log() - counts + rate * rows  # of Poisson counts
        needs_rate = off_diagonal & (ratio > 1) & (gain > pair_cost)
        if torch.equal(needs_rate, has_rate):
            break
        has_rate = needs_rate
    transition = torch.where(has_rate, counts / rows, rate).fill_diagonal_(0.0)  # pyrefly: ignore[unbound-name] (PAIR_ROUNDS > 0)
    transition += torch.diag((1 - transition.sum(1)).clamp_min(NO_RATE))
    return transition / transition.sum(1, keepdim=True), pair_cost * int(has_rate.sum())


def step_calibration(
    outputs: Float[Tensor, "n k j"],
    posterior: Float[Tensor, "n k"],
    log_p: Float[Tensor, "n k"],
    weights: Float[Tensor, " j"],
    intercepts: Float[Tensor, " k"],
) -> tuple[Float[Tensor, " j"], Float[Tensor, " k"], Float[Tensor, "n k"]]:
    """Return w, b and log p after a damped Newton step of logistic regression on soft labels q.

    q is `posterior`. The step is halved until the loss does not rise, or to SMALLEST_STEP.
    """
    n = len(outputs)
    j = outputs.shape[2]
    p = log_p.exp()
    weighted = p[:, :, None] * outputs
    mean = weighted.sum(1)
    flat_outputs = outputs.flatten(0, 1)
    residual = p - posterior
    prior = 1 / INTERCEPT_VARIANCE
    gradient = residual.flatten() @ flat_outputs
    hessian = weighted.flatten(0, 1).T @ flat_outputs - mean.T @ mean
    if p.shape[1] <= MOST_INTERCEPTS:
        gradient = torch.cat([gradient, residual.sum(0) + prior * intercepts])
        mixed = weighted.sum(0).T - mean.T @ p  # [j, k]
        by_intercept = torch.diag(p.sum(0) + prior) - p.T @ p
        hessian = torch.cat([torch.cat([hessian, mixed], 1), torch.cat([mixed.T, by_intercept], 1)])
    hessian.diagonal().add_(WEAK * n)
    step = weights.new_zeros(j + p.shape[1])
    step[: len(gradient)] = torch.linalg.solve(hessian, gradient)

    def loss(b: Tensor, log_p: Tensor) -> float:
        return float(prior / 2 * b.square().sum() - posterior.flatten() @ log_p.flatten())

    loss_before = loss(intercepts, log_p)
    step_length = 1.0
    while True:
        new_weights = weights - step_length * step[:j]
        new_intercepts = intercepts - step_length * step[j:]
        log_p = torch.log_softmax((outputs @ new_weights).add_(new_intercepts), 1)
        if loss(new_intercepts, log_p) <= loss_before or step_length <= SMALLEST_STEP:
            return new_weights, new_intercepts, log_p
        step_length /= 2
