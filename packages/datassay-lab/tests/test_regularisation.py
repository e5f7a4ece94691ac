"""Explicit regularisation: weight decay, noise, dropout, normalised data."""

import dataclasses

import numpy as np
import pytest
import torch

from datassay.errors import SettingError
from datassay_lab.catalog import experiment
from datassay_lab.fits import exponent
from datassay_lab.regularisation.adversarial_training import adversarial_training
from datassay_lab.regularisation.dropout import dropout
from datassay_lab.regularisation.input_noise import input_noise
from datassay_lab.regularisation.normalization import normalization
from datassay_lab.regularisation.weight_decay import weight_decay


def test_weight_decay_shrinks_by_the_eigenvalue():
    result = weight_decay(n_features=8, n_samples=40, seed=3)
    assert result.agreement.holds
    assert result.predicted.shape == (3, 8)
    assert np.all(np.diff(result.shrinking, axis=0) < 0)  # a larger α leaves less
    assert np.all(np.diff(result.shrinking, axis=1) < 1e-9)  # and flat directions least


def test_weight_decay_would_notice_too_few_steps():
    assert not weight_decay(n_features=8, n_samples=40, steps=20).agreement.holds


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"n_features": 1}, "n_features must be a whole number >= 2; got 1"),
        ({"n_samples": 5}, "n_samples must be a whole number >= 21"),
        ({"alphas": (1.0, 0.1)}, "alphas must be 1 or more increasing"),
        ({"steps": 0}, "steps must"),
    ],
)
def test_weight_decay_refuses(wrong, said):
    with pytest.raises(SettingError, match=said):
        weight_decay(**wrong)


def test_noisy_inputs_are_ridge():
    result = input_noise(copies=(1, 10, 100, 1000), seed=2)
    assert result.agreement.holds
    assert result.distance[-1] < result.distance[0] / 5
    assert result.kept[0] > 0.7 > 0.4 > result.kept[-1]  # σ = 0 keeps its weight, σ = 1.5 loses it


def test_one_noisy_copy_is_not_ridge():
    assert not input_noise(copies=(1,)).agreement.holds


def test_noise_on_a_network_is_second_order_in_its_slope():
    result = input_noise(copies=(1,), network_noise=(0.01, 0.02, 0.04, 0.08), seed=1)
    rest = np.abs(result.increase - result.second_order)
    assert exponent(result.network_deviations, rest) == pytest.approx(4, abs=0.1)
    # The curvature term is real: without it the rest is of second order.
    rest = np.abs(result.increase - result.slope_term)
    assert exponent(result.network_deviations, rest) == pytest.approx(2, abs=0.1)


def test_dropout_is_an_ensemble_and_ridge():
    result = dropout(width=4, depth=2, n_features=6, train_steps=60, seed=1)
    assert result.agreement.holds
    assert result.geometric[1] > 1e-3  # two layers: an approximation only
    assert np.all(result.arithmetic > 1e-3)
    assert list(result.masks) == [16, 256]


def test_dropout_of_any_share_and_without_scaling():
    small = {"width": 3, "depth": 1, "n_features": 4, "train_steps": 30}
    assert dropout(keep=0.8, **small).agreement.holds
    assert not dropout(scale_weights=False, **small).agreement.holds


def test_dropout_ridge_is_what_sampled_masks_reach():
    rng = np.random.default_rng(5)
    x, keep, d = rng.normal(size=(30, 3)), 0.7, 3
    y = x @ np.ones(d)
    masked = x * (rng.random((20_000, *x.shape)) < keep)
    rows = masked.reshape(-1, d)
    sampled = keep * np.linalg.lstsq(rows, np.tile(y, 20_000), rcond=None)[0]
    penalty = (1 - keep) / keep * np.diag(np.diag(x.T @ x))
    assert sampled == pytest.approx(np.linalg.solve(x.T @ x + penalty, x.T @ y), rel=0.01)


def test_normalised_data_need_fewer_steps():
    result = normalization(spreads=(1.0, 4.0, 16.0), seed=1)
    assert result.agreement.holds
    assert result.normal_condition == pytest.approx(result.normal_condition[0])  # scale is gone
    assert exponent(result.raw_condition, result.raw_steps) == pytest.approx(1, abs=0.05)
    assert np.linalg.cond(result.raw_hessian) > 4 * np.linalg.cond(result.normal_hessian)


def test_normalization_would_notice_another_step_size():
    assert not normalization(spreads=(1.0, 4.0), step_scale=0.5).agreement.holds


QUICK = {"trained": (0.0, 0.1), "attacks": (0.0, 0.05, 0.1), "width": 8, "steps": 150}


def test_attacked_training_is_a_margin_less_the_norm():
    result = adversarial_training(**QUICK, seed=1)
    assert result.agreement.holds
    assert result.linear_accuracy == pytest.approx(result.linear_predicted)
    for accuracy in (result.linear_accuracy, result.network_accuracy):
        assert np.all(np.diff(accuracy, axis=1) <= 0)
        assert accuracy[1, -1] > accuracy[0, -1] + 0.1  # robust under the attack it trained on
    assert result.linear_accuracy[1, 0] < result.linear_accuracy[0, 0]  # the price
    assert result.norms[1] < result.norms[0]


def test_another_attack_has_another_closed_form():
    assert not adversarial_training(**QUICK, attack="gradient", seed=1).agreement.holds


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


@pytest.mark.parametrize(
    ("run", "wrong", "said"),
    [
        (adversarial_training, {"trained": (0.1, 0.2)}, "trained and attacks must start at 0"),
        (adversarial_training, {"attack": "pgd"}, "attack must be one of sign, gradient"),
        (adversarial_training, {"learning_rate": 0.0}, "learning_rate must be a number > 0"),
        (input_noise, {"n_samples": 12}, "n_samples must be a whole number >= 13"),
        (input_noise, {"largest_noise": 0.0}, "largest_noise must be a number > 0"),
        (input_noise, {"copies": (10, 1)}, "copies must be 1 or more increasing"),
        (input_noise, {"network_noise": (0.1,)}, "network_noise must be 2 or more"),
        (dropout, {"keep": 1.0}, "keep must be a number > 0 and < 1"),
        (dropout, {"width": 11, "depth": 2}, "width · depth and n_features must be <= 20"),
        (dropout, {"n_features": 21, "n_samples": 50}, "must be <= 20, for 2\\^20 masks"),
        (normalization, {"tolerance": 1.0}, "tolerance must be a number > 0 and < 1"),
        (normalization, {"step_scale": 1.5}, "step_scale must be a number > 0 and < 1"),
        (normalization, {"spreads": (0.5,)}, "spreads must be 1 or more increasing numbers >= 1"),
    ],
)
def test_refuses(run, wrong, said):
    with pytest.raises(SettingError, match=said):
        run(**wrong)


SMALL = [
    ("input-noise", {"copies": (1, 10)}),
    ("dropout", {"width": 3, "depth": 2, "n_features": 4, "train_steps": 10}),
    ("adversarial-training", QUICK | {"steps": 5}),
    ("normalization", {"spreads": (1.0, 2.0)}),
]


@pytest.mark.parametrize(("name", "small"), SMALL)
def test_figures_and_seeds(name, small):
    one, two = experiment(name).run(seed=4, **small), experiment(name).run(seed=4, **small)
    for field in dataclasses.fields(one):
        assert np.array_equal(getattr(one, field.name), getattr(two, field.name))
    plots = experiment(name).plots(one)
    assert any(getattr(t.line, "dash", None) == "dash" for p in plots for t in p.figure.data)
    assert all(p.title and p.text for p in plots)
