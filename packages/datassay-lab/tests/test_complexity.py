"""Complexity: overfitting, bias and variance, double descent, generative classifiers."""

import math

import numpy as np
from sklearn.linear_model import Ridge

from datassay_lab.complexity.bias_variance import bias_variance
from datassay_lab.complexity.double_descent import double_descent
from datassay_lab.complexity.polynomial_overfitting import polynomial_overfitting


def test_polynomials_are_the_least_squares_ones():
    result = polynomial_overfitting(draws=20, penalty=1e-3)
    x, t = result.samples
    for row, degree in enumerate(result.degrees):
        expected = np.polyfit(x, t, degree)[::-1]
        np.testing.assert_allclose(result.coefficients[row, : degree + 1], expected, rtol=1e-5)
    rows = np.vander(x, 10, increasing=True)
    ridge = Ridge(1e-3, fit_intercept=False, solver="cholesky").fit(rows, t).coef_
    np.testing.assert_allclose(result.coefficients[-1], ridge, rtol=1e-5, atol=1e-7)
    assert result.train_error[:, 9].max() < 1e-8  # ten coefficients, ten samples
    assert np.all(np.diff(result.train_error, axis=1) < 1e-9)
    assert np.abs(result.coefficients[3]).max() > 100 * np.abs(result.coefficients[4]).max()


def test_parts_are_those_of_the_smoother():
    result = bias_variance(penalties=(0.01, 1.0), draws=4000)
    np.testing.assert_allclose(result.parts, result.expected, rtol=0.05, atol=2e-4)
    features = np.exp(-((result.x[:, None] - np.linspace(0, 1, 24)) ** 2) / 2 / 0.01)
    for index, penalty in enumerate(result.penalties):
        ridge = Ridge(penalty, fit_intercept=False, solver="cholesky")
        smoother = ridge.fit(features, np.eye(25)).predict(features)
        bias = ((smoother @ result.target - result.target) ** 2).mean()
        variance = result.noise * np.trace(smoother @ smoother.T) / 25
        np.testing.assert_allclose(result.expected[:, index], [bias, variance], rtol=1e-6)
        # Tested on the fitted targets, the error lacks 2 σ² tr S / n.
        own = bias_variance(penalties=(0.01, 1.0), draws=4000, targets="training")
        lacking = 2 * result.noise * np.trace(smoother) / 25
        gap = result.test_error[index] - own.test_error[index]
        np.testing.assert_allclose(gap, lacking, rtol=0.05)


def test_risk_is_the_closed_form_away_from_the_peak():
    result = double_descent(n_samples=30, ratios=(0.2, 0.5, 1.0, 2.0, 6.0), draws=100, seed=2)
    assert np.isnan(result.predicted[2])
    away = np.array([0, 1, 3, 4])
    risk = result.plain.mean(axis=0)
    np.testing.assert_allclose(risk[away], result.predicted[away], rtol=0.06)
    # by hand: n = 30, p = 6 of D = 180, σ² = 1/4
    assert math.isclose(result.predicted[0], (1 - 6 / 180 + 0.25) * (1 + 6 / 23))


def test_no_tuned_ridge_has_a_peak(small):
    result = small("double-descent")
    plain, tuned = np.median(result.errors, axis=1)
    equal = list(result.ratios).index(1.0)
    assert plain[equal] > 3 * tuned[equal]
    assert tuned[equal] < 1.05 * tuned[:equal].min()
    assert np.median(result.norms, axis=0).argmax() == equal


def test_limits_are_the_errors_of_the_best_weights(small):
    result = small("generative-discriminative")
    mean, half = 1.2 / math.sqrt(40), 20
    along = 40 * mean**2  # wᵀμ of w = μ
    spread = math.sqrt(mean**2 * (40 + 0.1 * half * (half - 1)))
    assert math.isclose(result.limits[0], math.erfc(along / spread / math.sqrt(2)) / 2)
    # Σ⁻¹ of the correlated half has row sums 1 / (1 + (half − 1) ρ)
    square = half * mean**2 * (1 + 1 / (1 + (half - 1) * 0.1))
    assert math.isclose(result.limits[1], math.erfc(math.sqrt(square / 2)) / 2)
    assert np.all(result.errors[1] > result.limits[1])  # nothing beats Bayes
    np.testing.assert_allclose(result.errors[:, -1].mean(1), result.limits, atol=0.01)
