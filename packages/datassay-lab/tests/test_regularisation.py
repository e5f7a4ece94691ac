"""Explicit regularisation: weight decay, noise, dropout, normalised data."""

import numpy as np
import pytest
import torch

from datassay_lab.fits import exponent
from datassay_lab.regularisation.dropout import dropout
from datassay_lab.regularisation.input_noise import input_noise


def test_weight_decay_shrinks_by_the_eigenvalue(small):
    result = small("weight-decay")
    assert result.predicted.shape == (3, 8)
    assert np.all(np.diff(result.shrinking, axis=0) < 0)  # a larger α leaves less
    assert np.all(np.diff(result.shrinking, axis=1) < 1e-9)  # and flat directions least
    assert np.all(np.diff((result.lasso == 0).sum(1)) >= 0) and not np.any(result.shrinking == 0)
    from sklearn.linear_model import Lasso

    rng = np.random.default_rng(3)  # draws as the experiment does
    x = rng.normal(size=(40, 8)) * 2.0 ** (-np.arange(8) / 2)
    y = x @ rng.normal(size=8) + 0.1 * rng.normal(size=40)
    theirs = Lasso(alpha=0.1, fit_intercept=False, tol=1e-12, max_iter=100_000).fit(x, y)
    assert result.lasso[1] == pytest.approx(theirs.coef_, abs=1e-6)


def test_noisy_inputs_are_ridge(small):
    result = small("input-noise")
    assert result.distance[-1] < result.distance[0] / 5
    assert result.kept[0] > 0.7 > 0.4 > result.kept[-1]  # σ = 0 keeps its weight, σ = 1.5 loses it


def test_noise_on_a_network_is_second_order_in_its_slope():
    result = input_noise(copies=(1,), network_noise=(0.01, 0.02, 0.04, 0.08), seed=1)
    rest = np.abs(result.increase - result.second_order)
    assert exponent(result.network_deviations, rest) == pytest.approx(4, abs=0.1)
    # The curvature term is real: without it the rest is of second order.
    rest = np.abs(result.increase - result.slope_term)
    assert exponent(result.network_deviations, rest) == pytest.approx(2, abs=0.1)


def test_dropout_is_an_ensemble_and_ridge(small):
    result = small("dropout")
    assert result.geometric[1] > 1e-3  # two layers: an approximation only
    assert np.all(result.arithmetic > 1e-3)
    assert list(result.masks) == [16, 256]

    other = dropout(width=3, depth=1, n_features=4, train_steps=30, keep=0.8)
    assert other.agreement.holds


def test_dropout_ridge_is_what_sampled_masks_reach():
    rng = np.random.default_rng(5)
    x, keep, d = rng.normal(size=(30, 3)), 0.7, 3
    y = x @ np.ones(d)
    masked = x * (rng.random((20_000, *x.shape)) < keep)
    rows = masked.reshape(-1, d)
    sampled = keep * np.linalg.lstsq(rows, np.tile(y, 20_000), rcond=None)[0]
    penalty = (1 - keep) / keep * np.diag(np.diag(x.T @ x))
    assert sampled == pytest.approx(np.linalg.solve(x.T @ x + penalty, x.T @ y), rel=0.01)


def test_normalised_data_need_fewer_steps(small):
    result = small("normalization")
    assert result.normal_condition == pytest.approx(result.normal_condition[0])  # scale is gone
    assert exponent(result.raw_condition, result.raw_steps) == pytest.approx(1, abs=0.05)
    assert np.linalg.cond(result.raw_hessian) > 4 * np.linalg.cond(result.normal_hessian)


def test_attacked_training_is_a_margin_less_the_norm(small):
    result = small("adversarial-training")
    assert result.linear_accuracy == pytest.approx(result.linear_predicted)
    for accuracy in (result.linear_accuracy, result.network_accuracy):
        assert np.all(np.diff(accuracy, axis=1) <= 0)
        assert accuracy[1, -1] > accuracy[0, -1] + 0.1  # robust under the attack it trained on
    assert result.linear_accuracy[1, 0] < result.linear_accuracy[0, 0]  # the price
    assert result.norms[1] < result.norms[0]


def test_attacks_fool_as_the_library_does():
    from datassay.data import SampleSet, add_adversarial
    from datassay_lab.regularisation.adversarial_training import (
        _accuracies,
        _attacked_loss,
        _starts,
        _train,
    )

    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, size=(300, 5))
    y = (x[:, 0] + 0.3 * x[:, 1] > 0).astype(int)
    x[0], x[1] = -100, 100  # the library clips to the range of the samples
    data = torch.from_numpy(x), torch.from_numpy(2.0 * y - 1)
    _, _, network = _starts(5, 6, 0)
    _train(network, data, _attacked_loss(0.05, "sign"), 100, 0.02)
    clean, attacked = _accuracies(network, data, (0.0, 0.1), "sign")
    samples = SampleSet(x, y, np.arange(300), ("no", "yes"))
    success = add_adversarial(samples, network, 0.0, epsilon=0.1).success
    assert attacked == pytest.approx(clean * (1 - success), abs=0.01)
