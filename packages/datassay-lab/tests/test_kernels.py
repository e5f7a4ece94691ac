"""From kernels to networks, and what gradient descent learns first."""

import numpy as np
import pytest
import torch

from datassay_lab.kernels.universal_approximation import universal_approximation
from datassay_lab.learned_first.spectral_bias import spectral_bias
from datassay_lab.wide_network import (
    limit_kernels,
    sphere_samples,
    spread_steps,
    tangent_kernel,
    train_and_record,
    wide_network,
)


def test_limit_kernels_are_expectations_over_the_weights():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3, 4))
    w, v = rng.normal(size=(2_000_000, 4)), rng.normal(size=(2_000_000, 1))
    units, on = np.maximum(w @ x.T, 0), w @ x.T > 0
    limit = limit_kernels(x, x)
    for i, j in ((0, 0), (0, 1), (1, 2)):
        each = units[:, i] * units[:, j]
        both = each + (v[:, 0] ** 2) * on[:, i] * on[:, j] * (x[i] @ x[j])
        np.testing.assert_allclose(each.mean(), limit.outputs[i, j], rtol=0.02)
        np.testing.assert_allclose(both.mean(), limit.tangent[i, j], rtol=0.02, atol=0.01)
        np.testing.assert_allclose(both.var(), limit.variance[i, j], rtol=0.05)


@pytest.mark.parametrize(("scaling", "power"), [("ntk", -0.5), ("mean field", -1.0)])
def test_the_factor_before_the_sum_may_stand_before_the_first_layer(scaling, power):
    model = wide_network(3, 20, 0, scaling=scaling)
    x = np.random.default_rng(1).normal(size=(5, 3))
    w, v = (model[i].weight.detach().clone().requires_grad_() for i in (1, 3))
    outputs = 20**power * (torch.from_numpy(x) @ w.T).relu() @ v[0]
    rows = [torch.autograd.grad(f, (w, v), retain_graph=True) for f in outputs]
    jacobian = torch.stack([torch.cat([g.flatten() for g in row]) for row in rows])
    kernel, start = tangent_kernel(model, x)
    np.testing.assert_allclose(start, outputs.detach(), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(kernel, jacobian @ jacobian.T, rtol=1e-6, atol=1e-9)


def test_watched_training_is_plain_gradient_descent():
    x, y = sphere_samples(10, 4, np.random.default_rng(3))
    model = wide_network(4, 30, 5)
    looks = spread_steps(20, 5)
    run = train_and_record(model, x, y, rate=0.05, record_steps=looks, n_train=8)
    inputs, targets = torch.from_numpy(x), torch.from_numpy(y)
    for step in range(21):
        outputs = model(inputs)[:, 0]
        if step in looks:
            index = list(looks).index(step)
            np.testing.assert_allclose(run.outputs[index], outputs.detach(), rtol=1e-9)
        model.zero_grad()
        ((outputs - targets)[:8].square().sum() / 2).backward()
        with torch.no_grad():
            for weight in model.parameters():
                weight -= 0.05 * weight.grad


def test_squares_reach_the_best_quadratic_and_no_more():
    result = universal_approximation(
        widths=(0.2,), units=(4, 8, 64), n_points=500, repeats=1, activation="square", seed=4
    )
    x = np.random.default_rng(4).random((1000, 2))
    f = np.exp(-((x - 0.5) ** 2).sum(1) / 2 / 0.2**2)
    terms = np.column_stack([np.ones(1000), x, x**2, x[:, 0] * x[:, 1]])
    v = np.linalg.lstsq(terms[:500], f[:500], rcond=None)[0]
    best = np.sqrt(((terms[500:] @ v - f[500:]) ** 2).mean())
    np.testing.assert_allclose(result.root[0, 1:], best, rtol=1e-6)
    np.testing.assert_allclose(result.size[0], np.sqrt((f**2).mean()))


def test_barron_bound_is_the_fourier_integral():
    result = universal_approximation(
        n_inputs=1, widths=(0.3,), units=(4, 8), n_points=100, repeats=1
    )
    w = np.linspace(-60, 60, 400_001)
    density = 0.3 / np.sqrt(2 * np.pi) * np.exp(-((0.3 * w) ** 2) / 2)  # the bump's transform
    np.testing.assert_allclose(result.bound[0], (np.abs(w) * density).sum() * (w[1] - w[0]))
    assert np.all(result.root[0] <= result.bound[0] / np.sqrt(result.units))


def test_times_are_when_the_spectrum_crosses_a_half():
    result = spectral_bias(n_frequencies=5, n_samples=64, width=64, steps=500, repeats=1)
    for k, when in enumerate(result.times[0]):
        later = result.steps >= when
        assert np.all(result.amplitudes[later, k] >= 0.5)
        assert np.all(result.amplitudes[result.steps < when][-1:, k] < 0.5)
    assert np.all(np.diff(result.predicted) > 0)  # the kernel, too, puts low frequencies first
    assert np.all(np.abs(result.amplitudes[-1, :3] - 1) < 0.2)


def test_kernel_regression_is_that_of_scikit_learn():
    from sklearn.kernel_ridge import KernelRidge

    from datassay_lab.kernels.learned_features import N_TEST, RIDGES, _least_error

    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(N_TEST + 30, 4)), rng.normal(size=N_TEST + 30)
    kernel = limit_kernels(x, x).tangent
    mean = np.trace(kernel[:30, :30]) / 30
    models = [KernelRidge(alpha=r * mean, kernel="precomputed") for r in RIDGES]
    fits = [m.fit(kernel[:30, :30], y[:30]).predict(kernel[30:, :30]) for m in models]
    assert _least_error(kernel, y) == pytest.approx(min(((f - y[30:]) ** 2).mean() for f in fits))
