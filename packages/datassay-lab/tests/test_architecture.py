"""Architecture: what convolution prefers, and what layers commute with."""

from itertools import permutations

import numpy as np
import pytest
import torch

from datassay.errors import ModelError
from datassay.models import PermutationEquivariant
from datassay_lab.architecture.linear_convolution import linear_convolution, max_margin
from datassay_lab.architecture.permutation_equivariance import permutation_equivariance


@pytest.mark.slow
def test_depth_decides_which_norm_is_least_and_the_norms_are_told_apart(small):
    result = small("linear-convolution")
    assert result.cross_excess > 3 * result.agreement.limit
    for depth in (1, 3):
        result = linear_convolution(n_samples=6, size=16, steps=1500, depth=depth)
        assert result.dense_excess < result.agreement.limit
        assert depth > 1 or result.convolutional_excess > result.agreement.limit


def test_margin_of_least_norm_is_that_of_a_support_vector_machine():
    from sklearn.svm import LinearSVC

    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(6, 16)), rng.choice([-1, 1], 6)
    machine = LinearSVC(C=1e5, loss="hinge", fit_intercept=False, tol=1e-8, max_iter=10**6)
    expected = machine.fit(x, y).coef_[0]
    assert np.allclose(max_margin(y[:, None] * x, fourier=False), expected, atol=1e-4)


def test_fourier_margin_is_least_by_duality():
    from scipy.optimize import minimize

    signed = np.random.default_rng(5).normal(size=(4, 8))
    # min ‖β̂‖₁ s.t. margins ≥ 1 equals max Σα, α ≥ 0, with every dual coefficient within 1.
    spectra = np.fft.ifft(signed, axis=1)  # the dual norm of ‖Fβ‖₁
    room = {"type": "ineq", "fun": lambda a: 1 - np.abs(a @ spectra) ** 2}
    dual = minimize(lambda a: -a.sum(), np.ones(4) * 0.1, bounds=[(0, None)] * 4, constraints=room)
    assert np.abs(np.fft.fft(max_margin(signed, fourier=True))).sum() == pytest.approx(-dual.fun)


def test_what_breaks_shift_equivariance(small):
    result = small("shift-equivariance")
    assert result.interior_error == 0  # zeros at the edge do not reach the middle
    assert result.zero_error.max() > 0.1
    assert np.all(result.stride_error[::2] < 1e-12)
    assert np.all(result.stride_error[1::2] > 1e-3)
    assert result.rotation_error[-1] > 0.3 > 1e-6 > result.isotropic_error[-1]


def test_only_two_numbers_commute_with_all_permutations(small):
    result = small("permutation-equivariance")
    assert result.dimension == 2
    assert permutation_equivariance(size=4, draws=50, group="cyclic").dimension == 4
    assert result.dense_error > 0.1
    matrices = [np.eye(4)[list(p)] for p in permutations(range(4))]
    average = np.mean([p.T @ result.theta @ p for p in matrices], axis=0)
    assert np.allclose(result.average, average)
    constraints = np.vstack([np.kron(p, np.eye(4)) - np.kron(np.eye(4), p.T) for p in matrices])
    assert 16 - np.linalg.matrix_rank(constraints) == result.dimension
    assert np.array_equal(result.numbers, result.burnside) and result.numbers[2] == 16
    turn = np.eye(16)[np.rot90(np.arange(16).reshape(4, 4)).ravel()]
    commuting = np.kron(turn, np.eye(16)) - np.kron(np.eye(16), turn.T)
    assert 256 - np.linalg.matrix_rank(commuting) == result.numbers[0]


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
