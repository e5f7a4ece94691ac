"""Architecture: what convolution prefers, and what layers commute with."""

from itertools import permutations

import numpy as np
import pytest
import torch

from datassay.errors import ModelError, SettingError
from datassay.models import PermutationEquivariant
from datassay_lab.architecture.linear_convolution import (
    linear_convolution,
    linear_convolution_plots,
)
from datassay_lab.architecture.permutation_equivariance import (
    permutation_equivariance,
    permutation_equivariance_plots,
)
from datassay_lab.architecture.shift_equivariance import (
    shift_equivariance,
    shift_equivariance_plots,
)

SMALL_LINEAR = {"n_samples": 6, "size": 16, "steps": 1500}
SMALL_SHIFT = {"n_images": 5, "size": 12, "channels": 3, "n_angles": 5}
SMALL_SET = {"size": 4, "draws": 50}


def test_linear_convolution_reaches_the_margin_of_its_norm():
    result = linear_convolution(**SMALL_LINEAR)
    assert result.agreement.holds
    assert result.cross_excess > 3 * result.agreement.limit  # the two norms are told apart
    again = [linear_convolution(**SMALL_LINEAR | {"steps": 20}) for _ in range(2)]
    assert np.array_equal(again[0].convolutional, again[1].convolutional)


def test_dense_networks_find_the_same_margin_at_every_depth():
    result = linear_convolution(**SMALL_LINEAR, depth=3)
    assert result.dense_excess < result.agreement.limit


def test_linear_convolution_is_dense_at_depth_one():
    result = linear_convolution(**SMALL_LINEAR, depth=1)
    assert not result.agreement.holds
    assert result.dense_excess < result.agreement.limit < result.convolutional_excess


def test_margin_of_least_norm_is_that_of_a_support_vector_machine():
    from sklearn.svm import LinearSVC

    from datassay_lab.architecture.linear_convolution import max_margin

    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(6, 16)), rng.choice([-1, 1], 6)
    machine = LinearSVC(C=1e5, loss="hinge", fit_intercept=False, tol=1e-8, max_iter=10**6)
    expected = machine.fit(x, y).coef_[0]
    assert np.allclose(max_margin(y[:, None] * x, fourier=False), expected, atol=1e-4)


def test_fourier_margin_is_least_by_duality():
    from scipy.optimize import minimize

    from datassay_lab.architecture.linear_convolution import max_margin

    signed = np.random.default_rng(5).normal(size=(4, 8))
    # min ‖β̂‖₁ s.t. margins ≥ 1 equals max Σα, α ≥ 0, with every dual coefficient within 1.
    spectra = np.fft.ifft(signed, axis=1)  # the dual norm of ‖Fβ‖₁
    room = {"type": "ineq", "fun": lambda a: 1 - np.abs(a @ spectra) ** 2}
    dual = minimize(lambda a: -a.sum(), np.ones(4) * 0.1, bounds=[(0, None)] * 4, constraints=room)
    assert np.abs(np.fft.fft(max_margin(signed, fourier=True))).sum() == pytest.approx(-dual.fun)


def test_circular_convolution_commutes_with_shifts():
    result = shift_equivariance(**SMALL_SHIFT)
    assert result.agreement.holds
    assert result.interior_error == 0  # zeros at the edge do not reach the middle
    assert result.zero_error.max() > 0.1
    assert np.all(result.stride_error[::2] < 1e-12)
    assert np.all(result.stride_error[1::2] > 1e-3)
    assert result.rotation_error[-1] > 0.3 > 1e-6 > result.isotropic_error[-1]
    assert np.array_equal(result.images, shift_equivariance(**SMALL_SHIFT).images)


def test_zeros_at_the_edge_break_shift_equivariance():
    assert not shift_equivariance(**SMALL_SHIFT, padding="zeros").agreement.holds


def test_only_two_numbers_commute_with_all_permutations():
    result = permutation_equivariance(**SMALL_SET, seed=2)
    assert result.agreement.holds
    assert result.dimension == 2
    assert result.dense_error > 0.1
    matrices = [np.eye(4)[list(p)] for p in permutations(range(4))]
    average = np.mean([p.T @ result.theta @ p for p in matrices], axis=0)
    assert np.allclose(result.average, average)
    constraints = np.vstack([np.kron(p, np.eye(4)) - np.kron(np.eye(4), p.T) for p in matrices])
    assert 16 - np.linalg.matrix_rank(constraints) == result.dimension
    assert np.array_equal(result.average, permutation_equivariance(**SMALL_SET, seed=2).average)


def test_a_smaller_group_leaves_more_numbers():
    result = permutation_equivariance(**SMALL_SET, group="cyclic")
    assert result.dimension == 4
    assert not result.agreement.holds


def test_lemma_needs_a_function_that_is_one_to_one():
    theta = np.array([[1.0, -1.0], [1.0, -1.0]])
    x = np.random.default_rng(0).normal(size=2)
    assert np.allclose(np.abs(theta @ x[::-1]), np.abs(theta @ x)[::-1])  # equivariant all the same


def test_equivariant_layer_is_the_matrix_of_the_lemma():
    layer = PermutationEquivariant()
    x = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    theta = layer.own.item() * torch.eye(4) + layer.shared.item() * torch.ones(4, 4)
    assert torch.allclose(layer(x), x @ theta.T, atol=1e-6)
    assert torch.allclose(layer(x[:, :, None])[..., 0], layer(x), atol=1e-6)
    assert PermutationEquivariant(1, 3)(x[:, :, None]).shape == (5, 4, 3)


def test_equivariant_layer_refuses():
    with pytest.raises(ModelError, match="in_channels and out_channels must be at least 1"):
        PermutationEquivariant(0)
    with pytest.raises(ModelError, match=r"inputs must be \[n, M, 2\]"):
        PermutationEquivariant(2, 1)(torch.zeros(3, 4))


@pytest.mark.parametrize(
    ("run", "wrong", "said"),
    [
        (linear_convolution, {"n_samples": 1}, "n_samples must be a whole number >= 2"),
        (linear_convolution, {"size": 10}, "size must be a whole number >= 11"),
        (linear_convolution, {"depth": 0}, "depth must"),
        (linear_convolution, {"step_size": 0.0}, "step_size must"),
        (shift_equivariance, {"size": 11}, "size must be a whole number >= 12"),
        (shift_equivariance, {"size": 13}, "size must be even"),
        (shift_equivariance, {"padding": "mirror"}, "padding must be one of circular, zeros"),
        (shift_equivariance, {"n_angles": 1}, "n_angles must"),
        (permutation_equivariance, {"size": 2}, "size must be a whole number in 3 to 8"),
        (permutation_equivariance, {"size": 9}, "size must be a whole number in 3 to 8"),
        (permutation_equivariance, {"group": "odd"}, "group must be one of all, cyclic"),
    ],
)
def test_architecture_refuses(run, wrong, said):
    with pytest.raises(SettingError, match=said):
        run(**wrong)


@pytest.mark.parametrize(
    ("run", "plots", "small", "needs"),
    [
        (linear_convolution, linear_convolution_plots, SMALL_LINEAR, "cvxpy"),
        (shift_equivariance, shift_equivariance_plots, SMALL_SHIFT, "torch"),
        (permutation_equivariance, permutation_equivariance_plots, SMALL_SET, "torch"),
    ],
)
def test_architecture_plots(run, plots, small, needs):
    pytest.importorskip(needs)
    drawn = plots(run(**small))
    assert 1 <= len(drawn) <= 3
    assert all(plot.figure.data and plot.text for plot in drawn)
    assert any(getattr(t, "line", None) and t.line.dash for p in drawn for t in p.figure.data)
