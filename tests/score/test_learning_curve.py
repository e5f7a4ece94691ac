"""The predicted learning curve against training the linearised model step by step."""

import numpy as np
import torch

from datassay.score.learning_curve import learning_curve
from datassay.score.linear.training_run import Dynamics
from helpers.linearizations import linearization, random_jacobians


def test_descent_residual_matches_training_step_by_step():
    for b, c, p, dual in ((1, 1, 40, True), (2, 1, 12, False), (1, 3, 8, True)):
        phi, r, _ = random_jacobians(15, b, c, p, 3, seed=1, decay=0.5)
        x, y = phi.flatten(0, 1), r.flatten(0, 1)
        eta = 0.5 / float(torch.linalg.matrix_norm(x, 2) ** 2)
        curve = learning_curve(linearization(phi, r, dual=dual), Dynamics("descent", eta, 30, 0.0))
        w, left = torch.zeros(p, c).double(), {}
        for step in range(1, int(curve.steps.max()) + 1):
            w = w + eta * x.T @ (y - x @ w)
            left[step] = float((y - x @ w).square().sum() / y.square().sum())
        expected = [left[int(s)] for s in curve.steps]
        np.testing.assert_allclose(curve.total, expected, rtol=1e-7, atol=1e-12)


def test_modes_decay_as_exponentials_and_bands_cover_them():
    phi, r, _ = random_jacobians(30, 1, 1, 200, 3, seed=2, decay=0.7)
    run = Dynamics("flow", 1e-3, 100, 0.0)
    curve = learning_curve(linearization(phi, r, dual=True), run)
    expected = np.exp(-2 * 1e-3 * curve.steps * curve.eigenvalues[0])
    np.testing.assert_allclose(curve.residual[0], expected, rtol=1e-9, atol=1e-14)
    assert curve.groups == ("mode 1", "modes 2 to 10", "modes 11 to 30")
    assert (np.diff(curve.eigenvalues) <= 0).all()
    assert (np.diff(curve.residual, axis=1) <= 1e-12).all()
    np.testing.assert_allclose(curve.energy.sum(), float(r.square().sum()))


def test_equal_eigenvalues_share_their_energy():
    """Three outputs with the same features: each eigenvalue three times, in any basis of three."""
    phi, _, _ = random_jacobians(12, 1, 1, 40, 3, seed=4)
    joint = torch.einsum("np,ab->napb", phi[:, 0], torch.eye(3).double()).reshape(12, 3, 120)
    r = torch.randn(12, 3, 1, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    run = Dynamics("converged", 1e-3, 100, 0.0)
    _, q = torch.linalg.eigh(phi[:, 0] @ phi[:, 0].T)
    each = (q.T @ r[..., 0]).square().mean(1).flip(0)  # of each eigenvalue's three modes
    energy = learning_curve(linearization(joint, r, dual=True), run).energy
    np.testing.assert_allclose(energy, np.repeat(each.numpy(), 3), rtol=1e-9)


def test_what_the_kernel_cannot_reach_is_never_learned():
    phi, r, _ = random_jacobians(20, 1, 1, 4, 3, seed=3)
    x, y = phi[:, 0], r[:, 0]
    curve = learning_curve(linearization(phi, r, dual=True), Dynamics("converged", 1e9, 10, 0.0))
    fitted = x @ torch.linalg.lstsq(x, y).solution
    floor = float((y - fitted).square().sum() / y.square().sum())
    assert curve.total[-1] == np.float64(floor) or abs(curve.total[-1] - floor) < 1e-9
    assert len(curve.eigenvalues) == 4
