"""Step size, initialisation, noise."""

import numpy as np
import pytest
import torch
from scipy.linalg import solve_continuous_lyapunov

from datassay.collect import hessian, loss_at
from datassay_lab.steps.step_size import schedules, step_size


def test_floors_and_schedules(small):
    result = small("step-size")
    assert result.loss == pytest.approx(result.expected, rel=0.4)
    assert result.growth > 10  # beyond 2 / λ₁
    assert result.decay == pytest.approx(-1, abs=0.25)
    low, large, *decaying = result.loss[:, -1]
    assert low < large / 5
    assert max(decaying) < large / 5
    # One feature, by hand: ε = 0.8, λ = 1, σ = 2 → ½ · 0.8 · 4 / 1.2.
    one = step_size(n_features=1, condition=1.0, noise=2.0, steps=100, runs=50, seed=1)
    assert one.predicted[4] == pytest.approx(0.5 * 0.8 * 4 / 1.2)


def test_schedules_start_large_and_fall():
    constant, high, stairs, cosine, inverse = schedules(0.01, 0.4, 1000, 10.0)
    assert constant(5) == 0.02
    assert all(rule(0) == pytest.approx(0.8) for rule in (high, stairs, cosine, inverse))
    assert [stairs(t) / 0.8 for t in (249, 250, 999)] == pytest.approx([1, 0.1, 0.001])
    assert cosine(500) == pytest.approx(0.4)
    assert 1e6 * inverse(1_000_000) == pytest.approx(20, rel=1e-3)


def test_signals_follow_the_recursion(small):
    result = small("xavier")
    gains, layers = result.gains[:, None], result.layers
    assert result.predicted[0] == pytest.approx(gains ** (2 * layers + 2))  # linear
    assert result.predicted[1] == pytest.approx(gains**2 * (gains**2 / 2) ** layers)  # ReLU
    z = np.random.default_rng(0).standard_normal(400_000)
    first = 1.0 * (np.tanh(z) ** 2).mean()
    assert result.predicted[2, 1, 1] == pytest.approx(first, rel=0.01)
    assert result.predicted_gradient[1, :, 0] == pytest.approx((result.gains**2 / 2) ** 6)  # ReLU
    assert result.silent == pytest.approx([0, 0.5, 0, 0, 0, 0], abs=0.05)
    assert result.gradient[3, 2, 0] < 1e-5 < 0.5 < result.gradient[1, 2, 0]  # sigmoid, ReLU


def test_the_gradient_is_that_of_torch():
    from datassay_lab.steps.xavier import ACTIVATIONS, SAMPLES, _moments

    rng, nets = np.random.default_rng(0), torch.nn.functional
    weights, first = [rng.normal(size=(3, 3)) for _ in range(3)], rng.normal(size=(3, SAMPLES))
    theirs = (lambda z: z, nets.relu, torch.tanh, torch.sigmoid,
              lambda z: nets.leaky_relu(z, 0.1), nets.elu)  # fmt: skip
    for functions, act in zip(ACTIVATIONS.values(), theirs, strict=True):
        ours, _ = _moments(weights, first, functions, (1.5,), np.random.default_rng(1))
        before = 1.5 * torch.from_numpy(weights[0] @ first)
        before.requires_grad_()
        last = 1.5 * torch.from_numpy(weights[1]) @ act(before)
        last = 1.5 * torch.from_numpy(weights[2]) @ act(last)
        last.backward(torch.from_numpy(np.random.default_rng(1).standard_normal((3, SAMPLES))))
        assert ours[1, 0, 0] == pytest.approx(float(before.grad.square().mean()))


@pytest.mark.slow
def test_small_batches_end_flatter(small):
    result = small("flat-minima")
    assert np.all(result.trace[0] < result.trace[-1])
    assert np.all(result.top < result.edge)
    assert list(result.batch_sizes) == [4, 16, 100]


def test_sharpness_is_that_of_the_whole_hessian():
    from datassay_lab.steps.flat_minima import _digits, _largest_eigenvalue, _starts, _trace

    samples, _ = _digits(30, 0.0, 0)
    here = loss_at(_starts(samples, 2, 1, 0)[0], samples, "mse")
    values = torch.linalg.eigvalsh(hessian(here))
    assert _trace(here, 0) == pytest.approx(float(values.sum()), rel=0.1)
    assert _largest_eigenvalue(here, 0) == pytest.approx(float(values[-1]), rel=0.02)


def test_sgd_rests_with_the_lyapunov_covariance(small):
    from datassay_lab.steps.stationary_covariance import _problem

    result = small("stationary-covariance")
    assert result.error[0] < 0.12  # a short run; the step is 2.5 times the default's smallest
    assert result.error[1] > result.error[0]
    assert result.exact_distance.max() < 0.12
    x, residual, values = _problem(np.random.default_rng(1), 2, 20)
    gradients = x * residual[:, None]
    noise = 0.05 / values[0] / 5 * gradients.T @ gradients / 20
    assert result.predicted == pytest.approx(solve_continuous_lyapunov(np.diag(values), noise))


def test_rest_by_hand_for_one_kind_of_sample():
    from datassay_lab.steps.stationary_covariance import _fixed_point

    # Inputs ±1: the Hessian of every batch is 1, so v = (1 − η)² v + η² Λ / b exactly.
    x, rate, batch = np.array([[1.0], [-1.0]]), 0.3, 4
    result = _fixed_point(x, np.array([1.0]), np.array([[2.0]]), rate, batch)
    assert result[0, 0] == pytest.approx(rate * 2 / batch / (2 - rate))
