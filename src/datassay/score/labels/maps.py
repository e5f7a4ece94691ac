"""Explanations of given labels that have a linear map between classes, or integrate over T.

Classes that look alike are confused as if labels were given wrongly. So a map of log p between
classes explains much that noise explains, and more where predictions of rare classes are biased.
Noise of each form is therefore fitted with such a map as well: without noise it would be held
against noise that has none, and hide it.
"""

import inspect
from collections.abc import Sequence
from dataclasses import replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.distributions import Dirichlet, kl_divergence

from datassay.score.labels.likelihood import (
    COMMON_COUNT,
    NO_RATE,
    NoiseFit,
    count_labels,
    fit_transition,
    log_given,
    uniform_transition,
)

# Variances of the priors of the map's entries and intercepts, most steps of the first round and of
# others, values of a step, rounds, and nats that end them.
MAP_VARIANCE = 0.25
SHIFT_VARIANCE = 9.0
MAP_STEPS = (60, 12)
MAP_VALUES = 1e8
MAP_ROUNDS, LEAST_GAIN = 8, 0.02
# Nats that a map gains by chance, times k² (k − 1): chosen on sets of 3 to 5 classes, and of 10.
MAP_COST = 0.025
BOUND_ROUNDS = 12
# Classes lie apart, and none look alike, where the largest probability is above APART in the mean.
APART = 0.9


class _Solver(torch.optim.LBFGS):
    """L-BFGS that imports no compiler, which takes two seconds."""

    add_param_group = inspect.unwrap(torch.optim.LBFGS.add_param_group)


def map_fits(
    fits: Sequence[NoiseFit],
    labels: Int[Tensor, " n"],
    trusted: Bool[Tensor, " n"],
    *,
    is_hidden: bool,
) -> list[tuple[NoiseFit, float]]:
    """Return fits of noise with a map each, and their prices, nats.

    Where classes lie apart a map only takes what noise explains: none is fitted then, unless a map
    without noise explains more than noise (`is_hidden`). Of noise by class T is integrated out,
    since so many rates and a map are surer together than they are right.
    """
    mapped_fits = []
    for fit in fits:
        if fit.form == "by source" or (lies_apart(fit) and not is_hidden):
            continue
        mapped_fit, price = map_classes(fit, labels, trusted)
        if fit.form == "by class":
            mapped_fit = integrate_rates(mapped_fit, labels, trusted)
        mapped_fits.append((mapped_fit, price))
    return mapped_fits


def lies_apart(fit: NoiseFit) -> bool:
    """Return whether the true classes lie apart under the fit."""
    return float(fit.log_p.exp().amax(1).mean()) > APART


def map_classes(
    fit: NoiseFit, labels: Int[Tensor, " n"], trusted: Bool[Tensor, " n"]
) -> tuple[NoiseFit, float]:
    """Fit a linear map of log p between classes by MAP, in turn with the fit's form of noise.

    Returns:
        The fit with the map, and the price of the map, nats: its prior, and what chance gains.
    """
    n, k = fit.log_p.shape
    logits = fit.log_p - fit.log_p.mean(1, keepdim=True)
    step = max(1, int(n * k**2 / MAP_VALUES))
    rows, row_labels, row_trusted = logits[::step], labels[::step], trusted[::step]
    matrix = torch.zeros(k, k, dtype=torch.float64, requires_grad=True)
    shift = torch.zeros(k, dtype=torch.float64, requires_grad=True)
    is_open = ~row_trusted

    def log_prior() -> Tensor:
        return -(matrix.square().sum() / MAP_VARIANCE + shift.square().sum() / SHIFT_VARIANCE) / 2

    def log_joint() -> Float[Tensor, "rows k"]:
        log_p = torch.log_softmax(rows + rows @ matrix.T + shift, 1)
        return log_p + log_given(fit.transition, row_labels, row_trusted)

    def backward() -> Tensor:
        matrix.grad = shift.grad = None
        loss = -torch.logsumexp(log_joint(), 1).sum() - log_prior() / step
        loss.backward()
        return loss

    previous_loss = torch.inf
    for i in range(MAP_ROUNDS):
        solver = _Solver([matrix, shift], max_iter=MAP_STEPS[i > 0], line_search_fn="strong_wolfe")
        solver.step(backward)
        loss = float(backward().detach())
        if fit.form == "none" or previous_loss - loss < LEAST_GAIN:
            break
        previous_loss = loss
        with torch.no_grad():
            posterior = torch.softmax(log_joint(), 1)
        transition, cost = fit_transition(posterior[is_open], row_labels[is_open], fit.form)
        fit = replace(fit, transition=transition, cost=cost)
    with torch.no_grad():
        log_p = torch.log_softmax(logits + logits @ matrix.T + shift, 1)
        price = MAP_COST * k**2 * (k - 1) - float(log_prior())
    return _with_log_p(fit, log_p, log_given(fit.transition, labels, trusted)), price


def integrate_rates(
    fit: NoiseFit, labels: Int[Tensor, " n"], trusted: Bool[Tensor, " n"]
) -> NoiseFit:
    """Return noise by class with T integrated out: a lower bound of the evidence, less its cost.

    Each row of T has a Dirichlet prior of COMMON_COUNT labels at the fit's share of wrong ones;
    variational Bayes gives Dirichlet posteriors. Their divergence from the prior is the cost: many
    rates that few labels tell cost little, and few that many labels tell cost more.
    """
    k = len(fit.transition)
    p_wrong = -torch.expm1(fit.log_posterior.gather(1, labels[:, None]))
    rate = max(float(p_wrong[~trusted].mean()), NO_RATE)
    prior = COMMON_COUNT * uniform_transition(k, rate)
    for _ in range(BOUND_ROUNDS):
        posterior = fit.log_posterior[~trusted].exp()
        rows = prior + count_labels(posterior, labels[~trusted])
        expected_log = torch.digamma(rows) - torch.digamma(rows.sum(1, keepdim=True))
        fit = _with_log_p(fit, fit.log_p, log_given(expected_log.exp(), labels, trusted))
    return replace(fit, cost=float(kl_divergence(Dirichlet(rows), Dirichlet(prior)).sum()))  # pyrefly: ignore[unbound-name] (BOUND_ROUNDS > 0)


def _with_log_p(
    fit: NoiseFit, log_p: Float[Tensor, "n k"], log_t: Float[Tensor, "n k"]
) -> NoiseFit:
    """Return the fit with other log p and log P(given label | each true class)."""
    log_evidence = torch.logsumexp(log_p + log_t, 1)
    return replace(
        fit,
        log_likelihood=float(log_evidence.sum()),
        log_p=log_p,
        log_posterior=log_p + log_t - log_evidence[:, None],
    )
