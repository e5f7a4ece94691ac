"""Ridge-penalised fits against scikit-learn, scipy and closed forms; many weightings at once."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from datassay.collect.curvature.output_geometry import DenseFeatures, SharedFeatures
from datassay.errors import SettingError
from datassay.train import convex as module
from datassay.train.convex import fit_convex
from helpers.geometries import SHAPES, draw, sample_loss


def by_scipy(x, targets, loss, ridge, weight):
    """The minimum of the objective as it is written, derivatives by autograd."""
    k = targets.shape[1]
    rows = SharedFeatures(x, k).rows(slice(None))

    def objective(flat):
        w = torch.tensor(flat, requires_grad=True)
        losses = torch.func.vmap(sample_loss, (None, 0, 0, None))(w, rows, targets, loss)
        value = (weight * losses).sum() / weight.sum() + 0.5 * ridge * w @ w
        (slope,) = torch.autograd.grad(value, w)
        return value.item(), slope.numpy()

    start = np.zeros(k * x.shape[1])
    return minimize(objective, start, jac=True, options={"gtol": 1e-9}).x


@pytest.mark.parametrize(("loss", "k"), SHAPES)
def test_against_the_definition_several_weightings_at_once(loss, k):
    x, targets = draw(15, 3, k, loss, 0)
    weight = torch.ones(3, 15).double()
    weight[1, 4] = 0
    weight[2] = torch.linspace(0.1, 3, 15)
    fit = fit_convex(SharedFeatures(x, k), targets, loss, 0.05, sample_weight=weight)
    assert (fit.gradient_norm < 1e-9).all()
    for result, w in zip(fit.weights, weight, strict=True):
        np.testing.assert_allclose(result, by_scipy(x, targets, loss, 0.05, w), atol=1e-6)


def test_squared_error_is_ridge_regression():
    x, targets = draw(20, 4, 2, "mse", 2)
    expected = torch.linalg.solve(x.T @ x / 20 + 0.3 * torch.eye(4).double(), x.T @ targets / 20)
    fit = fit_convex(SharedFeatures(x, 2), targets, "mse", 0.3)
    torch.testing.assert_close(fit.weights[0].reshape(2, 4).T, expected)


@pytest.mark.parametrize(("loss", "k"), SHAPES)
def test_the_path_for_many_weights_reaches_the_same_minimum(monkeypatch, loss, k):
    x, targets = draw(30, 5, k, loss, 3)
    weight = torch.ones(2, 30).double()
    weight[1, :5] = 0
    args = (SharedFeatures(x, k), targets, loss, 0.02)
    newton = fit_convex(*args, sample_weight=weight)
    monkeypatch.setattr(module, "LARGEST_NEWTON", 0)
    lbfgs = fit_convex(*args, sample_weight=weight)
    assert (lbfgs.gradient_norm < 2e-6).all()
    torch.testing.assert_close(lbfgs.weights, newton.weights, rtol=0, atol=2e-4)


def test_leaving_out_by_weight_is_leaving_out_and_a_start_changes_nothing():
    x, targets = draw(25, 4, 3, "cross_entropy", 4)
    weight = torch.ones(1, 25).double()
    weight[0, :3] = 0
    features = SharedFeatures(x, 3)
    start = torch.randn(1, 12, generator=torch.Generator().manual_seed(0)).double()
    kept = start.clone()
    fit = fit_convex(
        features, targets, "cross_entropy", 0.01, sample_weight=7 * weight, start=start
    )
    without = fit_convex(SharedFeatures(x[3:], 3), targets[3:], "cross_entropy", 0.01)
    torch.testing.assert_close(fit.weights, without.weights, rtol=0, atol=1e-7)
    assert torch.equal(start, kept)


def test_separable_classes_far_from_zero():
    """Newton's full step overshoots here: halving must bring it down."""
    x = torch.tensor([[40.0, 1], [35, 1], [-30, 1], [-45, 1]]).double()
    targets = torch.tensor([[1.0], [1], [0], [0]]).double()
    start = torch.tensor([[-2.0, 3.0]]).double()
    fit = fit_convex(SharedFeatures(x, 1), targets, "cross_entropy", 1e-4, start=start)
    assert fit.gradient_norm < 1e-8
    cold = fit_convex(SharedFeatures(x, 1), targets, "cross_entropy", 1e-4)
    torch.testing.assert_close(fit.weights, cold.weights, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("u", [0.1, 7.0])
def test_units(u):
    """Features × u with ridge × u² divide the weights by u; targets × t multiply them by t."""
    x, targets = draw(20, 3, 2, "mse", 5)
    before = fit_convex(SharedFeatures(x, 2), targets, "mse", 0.1).weights
    after = fit_convex(
        DenseFeatures(u * SharedFeatures(x, 2).rows(slice(None))), 3 * targets, "mse", 0.1 * u**2
    )
    torch.testing.assert_close(after.weights, 3 * before / u)


def test_bad_settings_and_the_ridge_that_is_advised_is_enough():
    """It was "got 0.0001. Try 0.0001." whatever the scale of the inputs."""
    x, targets = draw(8, 3, 3, "cross_entropy", 6)
    for ridge in (0.0, -1.0, float("nan")):
        with pytest.raises(SettingError, match="ridge must be positive so that the fit has one"):
            fit_convex(SharedFeatures(x, 3), targets, "cross_entropy", ridge)
    features = SharedFeatures(1e7 * x, 3)
    with pytest.raises(SettingError, match=r"ridge must be large enough.*or try") as refused:
        fit_convex(features, targets, "cross_entropy", 1e-4)
    advised = float(str(refused.value).split("or try ")[1].rstrip("."))
    assert advised > 1e-4
    assert torch.isfinite(fit_convex(features, targets, "cross_entropy", advised).weights).all()
