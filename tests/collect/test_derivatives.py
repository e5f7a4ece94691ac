"""Derivatives to any order: exact against analytic ones, differences against the exact."""

import sys

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
    taken, result = derivatives(point_function(f, x), x, 3, method=method, bounds=BOX)
    assert taken == method
    assert [t.shape for t in result] == [(20, 2, 2), (20, 2, 2, 2), (20, 2, 2, 2, 2)]
    third = np.stack([result[2][:, :, 0, 0, 1], result[2][:, :, 1, 1, 1]], -1)
    for tensor, truth, tolerance in zip(
        (*result[:2], third), analytic(x), np.broadcast_to(close, 3), strict=True
    ):
        np.testing.assert_allclose(tensor, truth, atol=tolerance * np.abs(truth).max())
    for position in ((0, 1, 0), (1, 0, 0)):
        exact = 0 if method == "finite" else 1e-7
        np.testing.assert_allclose(result[2][:, :, *position], result[2][:, :, 0, 0, 1], rtol=exact)
    u, t = np.array([3.0, 0.5]), 7.0  # units
    scaled = point_function(lambda z: t * f(z / (torch.tensor(u) if f is wave else u)), x * u)
    _, other = derivatives(scaled, x * u, 2, method=method, bounds=BOX * u[:, None])
    np.testing.assert_allclose(other[0], t * result[0] / u, rtol=1e-6, atol=1e-9)
    if method == "autograd":
        np.testing.assert_allclose(other[1], t * result[1] / np.outer(u, u))


@pytest.mark.parametrize("order", [1, 2, 3])
def test_the_error_of_differences_falls_with_the_square_of_the_step(monkeypatch, order):
    """Steps ten and five times those taken, where rounding does not count."""
    x, module = points(5), sys.modules[derivatives.__module__]
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
    network = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh(), torch.nn.Linear(3, 2))
    taken, result = derivatives(point_function(network, x), x, 2, bounds=BOX)
    assert taken == "autograd" and result[1].shape == (20, 2, 2, 2)
    assert result[0].dtype == np.float64


def test_differences_never_ask_beyond_the_domain():
    wanted = []

    def edgy(x):
        wanted.append(x)
        return np.sqrt(x[:, 0]) + x[:, 1]

    x = np.array([[0.0, 0.0], [1.0, 1.0], [0.5, 1.0]])
    box = np.array([[0.0, 1.0], [0.0, 1.0]])
    derivatives(point_function(edgy, x), x, 2, method="finite", bounds=box)
    every = np.concatenate(wanted)
    assert every.min() >= 0
    assert every.max() <= 1


def of(f, order=1, x=None, **settings):
    x = points(3) if x is None else x
    return derivatives(point_function(f, x), x, order, bounds=BOX, **settings)


def root(x):
    return torch.as_tensor(x)[..., 0].abs().sqrt()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: of(3), "int, which cannot be called"),
        (lambda: of(lambda x: x.nothing), "with numpy, AttributeError.*with torch, AttributeError"),
        (lambda: of(lambda x: x[:1, 0]), "got shape"),
        (lambda: of(lambda x: np.zeros((len(x), 2, 2))), "got shape"),
        (lambda: of(lambda x: np.where(x[:, 0] > 0, np.inf, 0.0), x=points()), "NaN or infinity, "),
        (lambda: of(black_box, 0), "order must be"), (lambda: of(black_box, -1), "order must be"),
        (lambda: of(black_box, method="guess"), "derivatives must be one of"),
        (lambda: of(black_box, method="autograd"), "Take 'finite' or 'auto'"),
        (lambda: of(root, x=np.array([[0.0, 1.0]]), method="autograd"), "finite deriv.*order 1"),
    ],
)  # fmt: skip
def test_what_cannot_be_differentiated_is_told(call, message):
    with pytest.raises((DataError, SettingError), match=message):
        call()
