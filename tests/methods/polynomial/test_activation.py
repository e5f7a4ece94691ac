"""Activations as polynomials against moments, quadrature and Chebyshev's criterion."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import erf

from datassay.errors import SettingError
from datassay.methods.polynomial.activation import ACTIVATIONS, l2_activation, minimax_activation


def density(u):
    return np.exp(-(u**2) / 2) / np.sqrt(2 * np.pi)


def half_moments(h, most):
    """∫_0^h u^j φ du by parts, from erf on."""
    result = [erf(h / np.sqrt(2)) / 2, density(0.0) - density(h)]
    for j in range(2, most + 1):
        result.append((j - 1) * result[j - 2] - h ** (j - 1) * density(h))
    return np.array(result)


@pytest.mark.parametrize("degree", [1, 2, 3, 6])
def test_l2_of_relu_in_closed_form(degree):
    half = half_moments(3.0, 2 * degree)
    powers = np.arange(degree + 1)
    both = half[: 2 * degree + 1] * (1 + (-1.0) ** np.arange(2 * degree + 1))
    closed = np.linalg.solve(both[powers[:, None] + powers], half[powers + 1])
    np.testing.assert_allclose(l2_activation("relu", degree).coef, closed, atol=1e-10)


@pytest.mark.parametrize("name", ["sigmoid", "tanh"])
def test_l2_by_adaptive_quadrature(name):
    f, powers, scale = ACTIVATIONS[name], np.arange(4), 0.7

    def integral(g):
        return quad(lambda u: density(u / scale) * g(u), -2, 2, epsabs=1e-12)[0]

    gram = [[integral(lambda u, r=r, s=s: u ** (r + s)) for s in powers] for r in powers]
    right = [integral(lambda u, r=r: f(np.array(u)) * u**r) for r in powers]
    result = l2_activation(name, 3, half_width=2.0, scale=scale)
    np.testing.assert_allclose(result.coef, np.linalg.solve(gram, right), atol=1e-9)
    square = integral(lambda u: (f(np.array(u)) - result.values(np.array(u))) ** 2)
    assert result.rms_error == pytest.approx(np.sqrt(square / integral(lambda u: 1.0)), rel=1e-7)


@pytest.mark.parametrize("name", ["relu", "sigmoid", "tanh"])
@pytest.mark.parametrize("degree", [2, 3])
def test_minimax_error_alternates(name, degree):
    result = minimax_activation(name, degree)
    u = np.linspace(-3, 3, 6001)
    error = density(u) * (ACTIVATIONS[name](u) - result.values(u))
    extreme = np.flatnonzero(np.abs(error) > (1 - 1e-4) * result.max_error)
    signs = np.sign(error[extreme])
    alternations = 1 + int((np.diff(signs) != 0).sum())
    assert alternations >= degree + 2  # Chebyshev: then no polynomial is better
    assert result.max_error == pytest.approx(np.abs(error).max(), rel=1e-5)
    assert result.excess <= 1e-8


def test_a_polynomial_is_its_own_approximation():
    def cubic(u):
        return 1 - 2 * u + 0.25 * u**3

    for result in (l2_activation(cubic, 4), minimax_activation(cubic, 4)):
        np.testing.assert_allclose(result.coef, [1, -2, 0, 0.25, 0], atol=1e-8)
        assert result.max_error < 1e-8


@pytest.mark.parametrize("fit", [l2_activation, minimax_activation])
def test_units_of_relu_and_of_a_factor(fit):
    one, other = fit("relu", 3), fit("relu", 3, half_width=1.5, scale=0.5)
    np.testing.assert_allclose(other.coef, one.coef * 0.5 ** (1.0 - np.arange(4)), atol=1e-7)
    assert other.rms_error == pytest.approx(0.5 * one.rms_error, rel=1e-6)
    assert other.max_error == pytest.approx(0.5 * one.max_error, rel=1e-6)
    louder = fit(lambda u: 7 * np.maximum(u, 0), 3)
    np.testing.assert_allclose(louder.coef, 7 * one.coef, atol=1e-7)


def test_s3_polynomials_of_relu():
    l2, largest = l2_activation("relu", 3), minimax_activation("relu", 3)
    np.testing.assert_allclose(l2.coef, [0.188, 0.5, 0.21, 0], atol=0.002)  # S3 eq. (3.21)
    np.testing.assert_allclose(largest.coef, [0.0759, 0.5, 0.3699, 0], atol=1e-4)
    u = np.linspace(-3, 3, 6001)
    printed = 0.096 + 0.5 * u + 0.3 * u**2  # S3 eq. (3.22): not the optimum
    theirs = np.abs(density(u) * (np.maximum(u, 0) - printed)).max()
    assert theirs > 1.2 * largest.max_error
    assert np.isnan(l2.excess)
    half = 1 / np.sqrt(8 * np.pi)  # under the whole normal law
    whole = l2_activation("relu", 2, half_width=8.0).coef
    np.testing.assert_allclose(whole, [half, 0.5, half], atol=1e-9)


@pytest.mark.parametrize("fit", [l2_activation, minimax_activation])
@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"activation": "gelu"}, r"one of relu, sigmoid, tanh, .* got 'gelu'"),
        ({"activation": np.log}, r"finite number for each"),
        ({"activation": lambda u: 1.0}, r"got shape \(\)"),
        ({"degree": 21}, r"degree must be from 0 to 20; got 21"),
        ({"half_width": 0.0}, r"half_width must be finite and positive; got 0.0"),
        ({"scale": -1.0}, r"scale must be finite and positive"),
        ({"scale": 0.1}, r"at most 20 times the scale"),
    ],
)
def test_bad_settings(fit, given, match):
    with np.errstate(all="ignore"), pytest.raises(SettingError, match=match):
        fit(**{"activation": "relu", **given})
