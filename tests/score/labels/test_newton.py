"""Derivatives in closed form against automatic ones, and what Newton's last steps are for."""

import pytest
import torch

from datassay.score.labels import transitions
from datassay.score.labels.likelihood import calibrate, derivatives, polished, prior_derivatives

N, K = 50, 4
FORMS = {
    "one rate": transitions.one_rate(K),
    "one rate per class": transitions.one_rate_per_class(K),
    "one target per class": transitions.one_target_per_class(
        torch.tensor([1, 2, 3, 0]), torch.tensor([True, False, True, True])
    ),
    "full": transitions.full(K),
}


def problem(seed=0):
    g = torch.Generator().manual_seed(seed)
    outputs = torch.rand(N, K, generator=g, dtype=torch.float64)
    labels = (outputs + 0.3 * torch.randn(N, K, generator=g)).argmax(1)
    return outputs, labels


def test_gradient_and_hessian():
    outputs, labels = problem()
    inputs = torch.cat([outputs, torch.ones(N, 1).double()], 1)
    g = torch.Generator().manual_seed(1)
    mixing = torch.randn(K + 1, K, generator=g, dtype=torch.float64)
    odds = torch.randn(K, K, generator=g, dtype=torch.float64)

    def joint(z, u):
        return torch.log_softmax(inputs @ z, 1) + torch.log_softmax(u, 1).T[labels]

    def likelihood(x):
        z, u = x[: mixing.numel()].reshape(K + 1, K), x[mixing.numel() :].reshape(K, K)
        return torch.logsumexp(joint(z, u), 1).sum()

    def prior(u):
        log_t = torch.log_softmax(u.reshape(K, K), 1)
        return 0.5 * log_t.diagonal().sum() + 2.0 / K * log_t.sum()

    log_p, log_q = torch.log_softmax(inputs @ mixing, 1), torch.log_softmax(joint(mixing, odds), 1)
    both = torch.cat([mixing.flatten(), odds.flatten()])
    for result, function, x in (
        (derivatives(inputs, labels, log_p, log_q, odds.softmax(1)), likelihood, both),
        (prior_derivatives(odds.softmax(1), 0.5, 2.0), prior, odds.flatten()),
    ):
        for ours, oracle in zip(result, ("jacobian", "hessian"), strict=True):
            truth = getattr(torch.autograd.functional, oracle)(function, x)
            torch.testing.assert_close(ours, truth)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("calibration", ["temperature", "intercepts", "matrix"])
def test_rounding_of_the_outputs_or_another_order_changes_no_digit_that_counts(form, calibration):
    outputs, labels = problem()

    def fitted(outputs, labels):
        fit = calibrate(outputs, labels, FORMS[form], calibration, transitions.evenly(K, 0.1), 8.0)
        return polished(fit, outputs, labels)

    fit, order = fitted(outputs, labels), torch.randperm(N)
    near = fitted((outputs * (1 + 1e-14))[order], labels[order])
    torch.testing.assert_close(near.log_posterior, fit.log_posterior[order], rtol=0, atol=1e-9)
    torch.testing.assert_close(near.transition, fit.transition, rtol=0, atol=1e-9)


@pytest.mark.parametrize("form", FORMS)
def test_a_form_gives_back_its_own_transition(form):
    parameters = torch.linspace(-3, -1, FORMS[form].size, dtype=torch.float64)
    transition = FORMS[form].log_transition(parameters).exp()
    torch.testing.assert_close(transition.sum(1), torch.ones(K).double())
    torch.testing.assert_close(FORMS[form].parameters(transition), parameters)
