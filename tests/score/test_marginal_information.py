"""S1 eq. 1 on linearised networks: every run by brute force, the integral by quadrature."""

from itertools import product

import numpy as np
import pytest
import torch

from datassay.errors import SettingError
from datassay.score.information.marginal import marginal_information
from datassay.score.sample_information import sample_information
from helpers.linearizations import (
    close,
    linearization,
    random_jacobians,
    random_linearization,
    weights,
)

RUN = {"lr": 2e-3, "steps": 60, "weight_decay": 0.3}
FRESH = np.array([3, 17, 9, 20])
SHAPES = {"binary": (24, 1, 1), "joint": (24, 2, 1), "averaged": (24, 1, 3)}


def brute_force(phi, r, kind="flow"):
    """w of S [p, c], of S₋ᵢ [n, p, c], of S₋ᵢ and z_j [n, q, p, c]."""
    kept = [i for i in range(len(r)) if i not in FRESH]

    def trained(at):
        step, steps, penalty = RUN.values()
        return weights(phi[at].flatten(0, 1), r[at].flatten(0, 1), kind, step, steps, penalty)

    others = [[k for k in kept if k != i] for i in kept]
    replaced = [torch.stack([trained([*rest, j]) for j in FRESH]) for rest in others]
    return trained(kept), torch.stack([trained(rest) for rest in others]), torch.stack(replaced)


def quadrature(u):
    """KL(N(0, 1) ‖ (1/q) Σ_j N(u_j, 1)) of u [..., q], Gauss-Hermite."""
    nodes, weight = np.polynomial.hermite_e.hermegauss(120)
    u = u.numpy()[..., None]
    density = np.exp(u * nodes - u**2 / 2).mean(-2)
    return -(weight * np.log(density)).sum(-1) / weight.sum()


@pytest.mark.parametrize(("p", "forms"), [(40, [True]), (10, [True, False])])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["flow", "descent", "converged"])
def test_the_closed_forms_are_retrainings(kind, shape, p, forms):
    phi, r, val = random_jacobians(*SHAPES[shape], p, 6, seed=2)
    whole, without, replaced = brute_force(phi, r, kind)
    for dual, sigma in product(forms, (0.5, 2.0)):
        lin = linearization(phi, r, val, dual=dual)
        run = {**RUN, "dynamics": kind, "sigma": sigma, "draws": 2}
        functional = marginal_information(lin, FRESH, **run)
        isotropic = marginal_information(lin, FRESH, smoothing="isotropic", **run)
        out, mixed = val.flatten(0, 1) @ (without - whole), val.flatten(0, 1) @ (replaced - whole)
        assert close(functional.left_out, out.square().sum((1, 2)) / (12 * sigma**2))
        assert close(functional.replaced, mixed.square().sum((2, 3)).mean(1) / (12 * sigma**2))
        assert close(isotropic.left_out, (without - whole).square().sum((1, 2)) / (2 * sigma**2))
        moved = (replaced - whole).square().sum((2, 3)).mean(1)
        assert close(isotropic.replaced, moved / (2 * sigma**2))
        assert isotropic.ids.tolist() == [i for i in range(24) if i not in FRESH]


@pytest.mark.parametrize(("sigma", "draws"), [(1.0, 200), (0.1, 2000)])
def test_the_integral_of_predictions_is_quadrature(sigma, draws):
    phi, r, val = random_jacobians(24, 1, 1, 10, 6, seed=2)
    whole, _, replaced = brute_force(phi, r)
    information = marginal_information(
        linearization(phi, r, val, dual=False), FRESH, sigma=sigma, draws=draws, **RUN
    )
    shifts = torch.einsum("mp,nqp->nmq", val[:, 0], (replaced - whole)[..., 0]) / sigma
    oracle = quadrature(shifts).mean(1)
    error = information.information - oracle
    assert (np.abs(error) < 4.5 * information.standard_error + 1e-12).all()
    assert (information.standard_error < 0.2 * oracle).all()
    assert (information.information <= information.replaced + 1e-12).all()


def test_the_integral_of_one_weight_is_quadrature():
    phi, r, val = random_jacobians(24, 1, 1, 1, 6, seed=5)
    whole, _, replaced = brute_force(phi, r)
    lin, sigma = linearization(phi, r, val, dual=False), float((replaced - whole).std())
    information = marginal_information(
        lin, FRESH, smoothing="isotropic", sigma=sigma, draws=4000, **RUN
    )
    oracle = quadrature((replaced - whole)[..., 0, 0] / sigma)
    error = np.abs(information.information - oracle)
    assert (error < 4.5 * information.standard_error + 1e-12).all()


def test_a_copy_in_its_place_tells_nothing_and_units_cancel():
    phi, r, val = random_jacobians(24, 1, 1, 10, 6, seed=3)
    phi[3], r[3] = phi[0], r[0]
    lin = linearization(phi, r, val, dual=True)
    alone = marginal_information(lin, [3], **RUN)
    assert alone.information[0] < 1e-20 < alone.information[1]
    # Of one fresh sample the mixture is one normal, and eq. 1 has a closed form.
    np.testing.assert_allclose(alone.information, alone.replaced, rtol=0.2)
    a = marginal_information(lin, FRESH, sigma=0.2, **RUN)
    b = marginal_information(linearization(phi, 7 * r, val, dual=True), FRESH, sigma=1.4, **RUN)
    np.testing.assert_allclose(a.information, b.information, rtol=1e-9)
    names = ["id", "marginal_information", "standard_error", "replaced", "left_out"]
    assert a.to_table().column_names == names


def test_left_out_is_sample_information_of_those_trained_on():
    lin = random_linearization(24, 1, 1, 10, 6, seed=4)
    kept = np.setdiff1d(np.arange(24), FRESH)
    for smoothing, reduction in product(["functional", "isotropic"], ["sum", "mean"]):
        run = {"smoothing": smoothing, "lr": 1e-3, "weight_decay": 0.01, "steps": 50}
        ours = marginal_information(lin, FRESH, draws=2, reduction=reduction, **run)
        theirs = sample_information(lin.subset(kept), reduction=reduction, **run)
        np.testing.assert_allclose(ours.left_out, theirs.information, rtol=1e-8)


@pytest.mark.parametrize(
    ("fresh", "more", "message"),
    [
        ([], {}, r"fresh must hold distinct whole positions from 0 to 7; got shape \[0\]"),
        ([1, 1], {}, r"from 0 to 7; got \[1, 1\]"),
        ([1, 9], {}, r"from 0 to 7; got \[1, 9\]"),
        ([0.5], {}, "got shape .* type float64"),
        (np.arange(7), {}, "leave at least 2 samples to train on; got 7 of 8"),
        ([1], {"draws": 1}, "draws must be at least 2; got 1"),
        ([1], {"smoothing": "sgd"}, "smoothing must be 'functional' or 'isotropic'"),
        ([1], {"sigma": 0.0}, "sigma must be finite and positive"),
    ],
)
def test_bad_arguments(fresh, more, message):
    with pytest.raises(SettingError, match=message):
        marginal_information(random_linearization(8, 1, 1, 6, 3, seed=7), fresh, **more)


def test_a_fresh_sample_that_makes_descent_unstable_is_refused():
    phi, r, val = random_jacobians(8, 1, 1, 12, 3, seed=7)
    phi[5] *= 30
    lin = linearization(phi, r, val, dual=True)
    with pytest.raises(SettingError, match="stable with any fresh sample in; got η"):
        marginal_information(lin, [5], dynamics="descent", lr=0.02)
