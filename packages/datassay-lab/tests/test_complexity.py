"""Complexity: overfitting, bias and variance, double descent, generative classifiers."""

import functools
import math

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from datassay.errors import SettingError
from datassay_lab.complexity.bias_variance import bias_variance, bias_variance_plots
from datassay_lab.complexity.double_descent import double_descent, double_descent_plots
from datassay_lab.complexity.generative_discriminative import (
    generative_discriminative,
    generative_discriminative_plots,
)
from datassay_lab.complexity.polynomial_overfitting import (
    polynomial_overfitting,
    polynomial_overfitting_plots,
)

FAST = {
    polynomial_overfitting: {"draws": 60},
    bias_variance: {},
    double_descent: {"n_samples": 40, "draws": 10, "ratios": (0.1, 0.3, 0.6, 1.0, 1.5, 3.0, 6.0)},
    generative_discriminative: {"sizes": (20, 80, 320, 2560), "repeats": 15},
}
PLOTS = {
    polynomial_overfitting: polynomial_overfitting_plots,
    bias_variance: bias_variance_plots,
    double_descent: double_descent_plots,
    generative_discriminative: generative_discriminative_plots,
}


@functools.cache
def fast(run):
    return run(**FAST[run], seed=1)


@pytest.mark.parametrize("run", FAST, ids=lambda run: run.__name__)
def test_the_statement_holds_and_is_the_same_again(run):
    result, again = fast(run), run(**FAST[run], seed=1)
    assert result.agreement.holds, result.agreement
    for name in result.__slots__:
        np.testing.assert_array_equal(getattr(result, name), getattr(again, name))


@pytest.mark.parametrize("run", PLOTS, ids=lambda run: run.__name__)
def test_figures_draw_theory_dashed(run):
    plots = PLOTS[run](fast(run))
    assert all(plot.title and plot.text and plot.figure.data for plot in plots)
    assert "dash" in {trace.line.dash for trace in plots[0].figure.data}
    assert len({trace.line.dash for trace in plots[0].figure.data}) > 1


@pytest.mark.parametrize(
    ("run", "wrong"),
    [
        (polynomial_overfitting, {"n_samples": 300}),
        (polynomial_overfitting, {"noise": 1e-3}),
        (bias_variance, {"targets": "training"}),
        (double_descent, {"penalty": 1.0}),
        (generative_discriminative, {"correlation": 1e-3}),
    ],
)
def test_it_would_notice_where_the_statement_is_false(run, wrong):
    assert not run(**FAST[run] | wrong).agreement.holds


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
    for place, penalty in enumerate(result.penalties):
        ridge = Ridge(penalty, fit_intercept=False, solver="cholesky")
        smoother = ridge.fit(features, np.eye(25)).predict(features)
        bias = ((smoother @ result.target - result.target) ** 2).mean()
        variance = result.noise * np.trace(smoother @ smoother.T) / 25
        np.testing.assert_allclose(result.expected[:, place], [bias, variance], rtol=1e-6)
        # Tested on the fitted targets, the error lacks 2 σ² tr S / n.
        own = bias_variance(penalties=(0.01, 1.0), draws=4000, targets="training")
        lacking = 2 * result.noise * np.trace(smoother) / 25
        gap = result.test_error[place] - own.test_error[place]
        np.testing.assert_allclose(gap, lacking, rtol=0.05)


def test_risk_is_the_closed_form_away_from_the_peak():
    result = double_descent(n_samples=30, ratios=(0.2, 0.5, 1.0, 2.0, 6.0), draws=300, seed=2)
    assert np.isnan(result.predicted[2])
    away = np.array([0, 1, 3, 4])
    risk = result.plain.mean(axis=0)
    np.testing.assert_allclose(risk[away], result.predicted[away], rtol=0.06)
    # by hand: n = 30, p = 6 of D = 180, σ² = 1/4
    assert math.isclose(result.predicted[0], (1 - 6 / 180 + 0.25) * (1 + 6 / 23))


def test_no_tuned_ridge_has_a_peak():
    result = fast(double_descent)
    plain, tuned = np.median(result.errors, axis=1)
    equal = list(result.ratios).index(1.0)
    assert plain[equal] > 3 * tuned[equal]
    assert tuned[equal] < 1.05 * tuned[:equal].min()
    assert np.median(result.norms, axis=0).argmax() == equal


def test_limits_are_the_errors_of_the_best_weights():
    result = fast(generative_discriminative)
    mean, half = 1.2 / math.sqrt(40), 20
    along = 40 * mean**2  # wᵀμ of w = μ
    spread = math.sqrt(mean**2 * (40 + 0.1 * half * (half - 1)))
    assert math.isclose(result.limits[0], math.erfc(along / spread / math.sqrt(2)) / 2)
    # Σ⁻¹ of the correlated half has row sums 1 / (1 + (half − 1) ρ)
    square = half * mean**2 * (1 + 1 / (1 + (half - 1) * 0.1))
    assert math.isclose(result.limits[1], math.erfc(math.sqrt(square / 2)) / 2)
    assert np.all(result.errors[1] > result.limits[1])  # nothing beats Bayes
    np.testing.assert_allclose(result.errors[:, -1].mean(1), result.limits, atol=0.01)


@pytest.mark.parametrize(
    ("run", "wrong", "said"),
    [
        (polynomial_overfitting, {"n_samples": 9}, "n_samples must be a whole number >= 10; got 9"),
        (polynomial_overfitting, {"degrees": (3, 1)}, "degrees must be 2 or more increasing"),
        (polynomial_overfitting, {"penalty": 0.0}, "penalty must be a number > 0"),
        (bias_variance, {"targets": "old"}, "targets must be one of fresh, training; got 'old'"),
        (bias_variance, {"draws": 2}, "draws must be a whole number >= 16"),
        (bias_variance, {"penalties": (1.0,)}, "penalties must be 2 or more increasing"),
        (double_descent, {"penalty": -1.0}, "penalty must be a number >= 0; got -1.0"),
        (double_descent, {"ratios": (0.5, 1.0)}, "ratios must be 3 or more increasing"),
        (double_descent, {"n_samples": 5}, "n_samples must be a whole number >= 10; got 5"),
        (generative_discriminative, {"correlation": 1.0}, "correlation must be a number > 0 and"),
        (generative_discriminative, {"sizes": (8, 9)}, "sizes must be 4 or more increasing"),
        (generative_discriminative, {"n_features": 3}, "n_features must be a whole number >= 4"),
    ],
)
def test_bad_settings_are_refused(run, wrong, said):
    with pytest.raises(SettingError, match=said):
        run(**wrong)
