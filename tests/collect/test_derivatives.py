"""Derivatives to any order: exact against analytic ones, differences against the exact."""

import numpy as np
import pytest
import torch

from datassay.collect.curvature.derivatives import derivatives, point_function
from datassay.errors import DataError, SettingError

BOX = np.array([[-1.0, 1.0], [0.0, 2.0]])


def wave(x):
    """Takes tensors: two outputs of two inputs."""
    a, b = x[..., 0], x[..., 1]
    return torch.stack([torch.sin(2 * a) * b**3, a**2 * b], -1)


def black_box(x):
    """The same, of NumPy arrays only."""
    a, b = np.asarray(x)[:, 0], np.asarray(x)[:, 1]
    return np.column_stack([np.sin(2 * a) * b**3, a**2 * b])


def analytic(x):
    """Orders 1, 2 and 3 by hand, [N, 2, 2], [N, 2, 2, 2] and ∂aab, ∂bbb."""
    a, b = x.T
    s, c, zero = np.sin(2 * a), np.cos(2 * a), np.zeros_like(a)
    first = np.array([[2 * c * b**3, 3 * s * b**2], [2 * a * b, a**2]])
    second = np.array([
        [[-4 * s * b**3, 6 * c * b**2], [6 * c * b**2, 6 * s * b]],
        [[2 * b, 2 * a], [2 * a, zero]],
    ])
    third = np.array([[-12 * s * b**2, 6 * s], [zero + 2, zero]])  # ∂aab and ∂bbb
    return np.moveaxis(first, -1, 0), np.moveaxis(second, -1, 0), np.moveaxis(third, -1, 0)


def points(n=20, seed=0):
    return np.random.default_rng(seed).uniform(BOX[:, 0] + 0.1, BOX[:, 1] - 0.1, (n, 2))


@pytest.mark.parametrize(
    ("f", "method", "close"),
    [(wave, "autograd", 1e-12), (black_box, "finite", [1e-9, 1e-6, 1e-3])],
    ids=["autograd", "finite"],
)
def test_derivatives_are_those_worked_out_by_hand(f, method, close):
    x = points()
    taken, found = derivatives(point_function(f, x), x, 3, method=method, bounds=BOX)
    assert taken == method
    assert [t.shape for t in found] == [(20, 2, 2), (20, 2, 2, 2), (20, 2, 2, 2, 2)]
    third = np.stack([found[2][:, :, 0, 0, 1], found[2][:, :, 1, 1, 1]], -1)
    for tensor, truth, tolerance in zip(
        (*found[:2], third), analytic(x), np.broadcast_to(close, 3), strict=True
    ):
        np.testing.assert_allclose(tensor, truth, atol=tolerance * np.abs(truth).max())
    for place in ((0, 1, 0), (1, 0, 0)):
        np.testing.assert_array_equal(found[2][:, :, *place], found[2][:, :, 0, 0, 1]) if (
            method == "finite"
        ) else np.testing.assert_allclose(found[2][:, :, *place], found[2][:, :, 0, 0, 1])


@pytest.mark.parametrize("order", [1, 2, 3])
def test_the_error_of_differences_falls_with_the_square_of_the_step(monkeypatch, order):
    """Steps ten and five times those taken, where rounding does not count."""
    x, module = (
        points(5),
        __import__("datassay.collect.curvature.derivatives", fromlist=["ROUNDING"]),
    )
    f = point_function(black_box, x)
    exact = derivatives(point_function(wave, x), x, order, method="autograd", bounds=BOX)[1][-1]
    errors = []
    for step in (0.04, 0.02):
        monkeypatch.setattr(module, "ROUNDING", (step / 2) ** (order + 2))
        near = derivatives(f, x, order, method="finite", bounds=BOX)[1][-1]
        errors.append(np.abs(near - exact).max())
    assert 3.8 < errors[0] / errors[1] < 4.2


def test_auto_takes_autograd_only_where_it_can_be_believed():
    def severed(x):
        with torch.no_grad():
            return torch.sin(x[..., 0]) * x[..., 1]

    x = points()
    for f, expected in ((wave, "autograd"), (black_box, "finite"), (severed, "finite")):
        assert derivatives(point_function(f, x), x, 1, bounds=BOX)[0] == expected
    constant = point_function(lambda x: 0 * x[..., 0] + 1, x)
    assert not derivatives(constant, x, 2, bounds=BOX)[1][0].any()


def test_differences_never_ask_beyond_the_domain():
    asked = []

    def edgy(x):
        asked.append(x)
        return np.sqrt(x[:, 0]) + x[:, 1]

    x = np.array([[0.0, 0.0], [1.0, 1.0], [0.5, 1.0]])
    box = np.array([[0.0, 1.0], [0.0, 1.0]])
    derivatives(point_function(edgy, x), x, 2, method="finite", bounds=box)
    every = np.concatenate(asked)
    assert every.min() >= 0
    assert every.max() <= 1


def test_a_network_is_taken_in_double_precision():
    network = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh(), torch.nn.Linear(3, 2))
    x = points(4)
    taken, found = derivatives(point_function(network, x), x, 2, bounds=BOX)
    assert taken == "autograd"
    assert found[1].shape == (4, 2, 2, 2)
    assert found[0].dtype == np.float64


def test_derivatives_commute_with_units():
    x, u, t = points(), np.array([3.0, 0.5]), 7.0
    _, plain = derivatives(point_function(wave, x), x, 2, bounds=BOX)
    scaled = point_function(lambda z: t * wave(torch.as_tensor(z) / torch.as_tensor(u)), x * u)
    _, found = derivatives(scaled, x * u, 2, bounds=BOX * u[:, None])
    np.testing.assert_allclose(found[0], t * plain[0] / u)
    np.testing.assert_allclose(found[1], t * plain[1] / np.outer(u, u))


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (3, "int, which cannot be called"),
        (lambda x: x.nothing, "with numpy, AttributeError.*with torch, AttributeError"),
        (lambda x: x[:1, 0], "got shape"),
        (lambda x: np.zeros((len(x), 2, 2)), "got shape"),
        (lambda x: np.where(x[:, 0] > 0, np.inf, 0.0), "NaN or infinity, the first"),
    ],
)
def test_a_function_that_cannot_be_used_is_told_why(f, message):
    with pytest.raises(DataError, match=message):
        point_function(f, points())


def test_orders_methods_and_undifferentiable_functions_are_refused():
    x = points(3)
    f = point_function(black_box, x)
    for order in (0, -1, 1.5, True):
        with pytest.raises((SettingError, Exception), match=r"order|violates"):
            derivatives(f, x, order, bounds=BOX)
    with pytest.raises(SettingError, match="derivatives must be one of"):
        derivatives(f, x, 1, method="guess", bounds=BOX)
    with pytest.raises(DataError, match="Take 'finite' or 'auto'"):
        derivatives(f, x, 1, method="autograd", bounds=BOX)
    root = point_function(lambda x: torch.as_tensor(x)[..., 0].abs().sqrt(), x)
    zero = np.array([[0.0, 1.0]])
    with pytest.raises(DataError, match=r"finite derivatives.*order 1"):
        derivatives(root, zero, 1, method="autograd", bounds=BOX)
