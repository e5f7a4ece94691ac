"""The Taylor index: the sum over multi-indices as printed, and what it says about noise."""

from itertools import product
from math import factorial

import numpy as np
import pytest
import torch

from datassay.act.sample.taylor import taylor_index, taylor_terms
from datassay.collect.curvature.derivatives import derivatives, point_function
from datassay.errors import SettingError

BOX = np.array([[-1.0, 1.0]] * 3)


def cubic(x):
    a, b, c = x[..., 0], x[..., 1], x[..., 2]
    return torch.stack([a * b * c + a**3, b**2 * c - a], -1)


def partial(k, x):
    """∂^k of both outputs of `cubic` by hand: its polynomials term by term."""

    def term(coefficient, powers):
        value = np.full(len(x), float(coefficient))
        for j, (power, times) in enumerate(zip(powers, k, strict=True)):
            if times > power:
                return np.zeros(len(x))
            value *= factorial(power) / factorial(power - times) * x[:, j] ** (power - times)
        return value

    first = term(1, (1, 1, 1)) + term(1, (3, 0, 0))
    return np.stack([first, term(1, (0, 2, 1)) - term(1, (1, 0, 0))])


def brute_force(x, epsilon, order):
    """Σ_{1≤|k|≤n} ε^k ‖∂^k f‖² / k! over distinct multi-indices, each once."""
    total = np.zeros(len(x))
    for k in product(range(order + 1), repeat=3):
        if 1 <= sum(k) <= order:
            k_factorial = np.prod([factorial(j) for j in k])
            total += np.prod(epsilon ** np.array(k)) * (partial(k, x) ** 2).sum(0) / k_factorial
    return total


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("epsilon", [0.3, (0.1, 0.5, 2.0)])
def test_the_index_is_the_printed_sum_over_multi_indices(order, epsilon):
    x = np.random.default_rng(0).uniform(-1, 1, (7, 3))
    _, tensors = derivatives(point_function(cubic, x), x, order, bounds=BOX)
    every = np.broadcast_to(np.asarray(epsilon, float), 3)
    np.testing.assert_allclose(taylor_index(tensors, epsilon), brute_force(x, every, order))
    terms = taylor_terms(tensors, epsilon)
    assert terms.shape == (7, order)
    np.testing.assert_allclose(terms[:, :1].sum(1), brute_force(x, every, 1))


def test_units_of_inputs_and_outputs():
    x, u, t = np.random.default_rng(1).uniform(-1, 1, (5, 3)), 3.0, 2.0
    _, plain = derivatives(point_function(cubic, x), x, 2, bounds=BOX)
    scaled = point_function(lambda z: t * cubic(z / u), x * u)
    _, found = derivatives(scaled, x * u, 2, bounds=u * BOX)
    np.testing.assert_allclose(taylor_index(found, 0.1 * u**2), t**2 * taylor_index(plain, 0.1))


def test_it_is_the_variance_of_a_quadratic_under_noise():
    """S0 App. B for n = 2: exact where nothing is neglected."""

    def quadratic(x):
        return x[..., 0] ** 2 + x[..., 0] * x[..., 1] - 3 * x[..., 1]

    x, epsilon = np.array([[0.4, -0.2]]), 0.2
    _, tensors = derivatives(point_function(quadratic, x), x, 2, bounds=BOX[:2])
    noise = np.random.default_rng(0).normal(scale=epsilon**0.5, size=(300_000, 2))
    variance = quadratic(x + noise).var()
    assert taylor_index(tensors, epsilon)[0] == pytest.approx(variance, rel=1e-2)


@pytest.mark.parametrize(
    ("epsilon", "message"),
    [(0.0, "positive"), (-1.0, "positive"), (np.nan, "positive"), (np.inf, "finite"),
     ((0.1, 0.2), "one for each of 3"), ((0.1, 0.2, 0.0), "positive")],
)  # fmt: skip
def test_epsilon_is_refused(epsilon, message):
    with pytest.raises(SettingError, match=message):
        taylor_index((np.ones((2, 1, 3)),), epsilon)
