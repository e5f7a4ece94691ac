"""Moments over pairs against the n x n matrix they never form; partners; streaming; what fails."""

from importlib import import_module

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from datassay.collect.curvature.output_geometry import output_geometry
from datassay.data.samples import SampleSet
from datassay.data.synthetic.mixtures import sd_mixture
from datassay.errors import DataError, SettingError
from datassay.models.networks import mlp
from datassay.score.influence_moments import gradient_moments, influence_moments, pair_moments
from datassay.score.linear import panels
from datassay.score.variance.pair_influence import geometry_influence, pair_influence
from datassay.train.convex import fit_convex
from helpers.geometries import SHAPES, dense, draw, geometry, off_diagonal, pair_matrix

module = import_module("datassay.score.influence_moments")  # its face hands on the function


def moments(x):
    """Mean, variance, skewness and kurtosis of the pairs, read off the matrix."""
    v = off_diagonal(x)
    c = v - v.mean()
    return v.mean(), (c**2).mean(), (c**3).mean() / c.std() ** 3, (c**4).mean() / c.std() ** 4


def figures(result):
    return result.mean, result.variance, result.skewness, result.kurtosis


@settings(max_examples=15, deadline=None)
@given(
    n=st.integers(4, 20),
    d=st.integers(2, 5),
    shape=st.sampled_from(SHAPES),
    seed=st.integers(0, 99),
    damping=st.sampled_from([0.0, 0.01, 1.0]),
)
def test_all_moments_are_those_of_the_matrix(n, d, shape, seed, damping):
    loss, k = shape
    fit = geometry(n, d, k, loss, seed, ridge=0.05)
    expected = pair_matrix(fit, fit.weights, slice(None), 0.05, damping)
    for either in (fit, dense(fit)):
        pairs = geometry_influence(either, np.arange(n), 0.05, damping)
        np.testing.assert_allclose(pairs.block(slice(None), slice(None)), expected, atol=1e-9)
        result = pair_moments(pairs)
        np.testing.assert_allclose(figures(result), moments(expected), rtol=1e-6, atol=1e-12)
        assert result.skewness_error == result.kurtosis_error == 0
    assert pairs.gradient_norm < 1e-8


@pytest.mark.parametrize("u", [0.1, 7.0])
def test_units(u):
    """Features × u with penalties × u² leave X as it is: gradients × u meet H × u²."""
    x, _ = draw(15, 3, 3, "cross_entropy", 1)
    g, hessian = x @ torch.randn(3, 3).double(), x.T @ x
    before = gradient_moments(g, hessian, ridge=0.1, damping=0.2)
    after = gradient_moments(u * g, u**2 * hessian, ridge=0.1 * u**2, damping=0.2 * u**2)
    np.testing.assert_allclose(figures(after), figures(before), rtol=1e-8)
    # The loss × u: gradients, H and penalties × u, so X × u.
    scaled = gradient_moments(u * g, u * hessian, ridge=0.1 * u, damping=0.2 * u)
    np.testing.assert_allclose(scaled.mean, u * before.mean)
    np.testing.assert_allclose(scaled.variance, u**2 * before.variance)
    np.testing.assert_allclose(figures(scaled)[2:], figures(before)[2:], rtol=1e-8)


def test_a_network_is_gauss_newton_on_its_jacobians(monkeypatch):
    torch.manual_seed(0)
    train, model = sd_mixture((30, 10)), mlp((40,), 4, width=3, depth=1).double()
    fit = output_geometry(model, train, projection=None)
    j, (slope, curvature) = fit.features.jacobian, fit.derivatives()
    g = torch.einsum("nkp,nk->np", j, slope)
    hessian = torch.einsum("nkp,nkl,nlq->pq", j, curvature, j) / 40 + 0.03 * torch.eye(g.shape[1])
    x = -g @ torch.linalg.solve(hessian, g.T)
    result = influence_moments(model, train, ridge=0.01, damping=0.02)
    np.testing.assert_allclose(figures(result), moments(x), rtol=1e-6)
    assert result.gradient_norm == pytest.approx(float(g.mean(0).norm()), rel=1e-9)
    assert result.to_table()["variance"].to_pylist() == [result.variance]
    monkeypatch.setattr(module, "MOST_IN_PAIRS", 16)
    first, again, other = (influence_moments(model, train, seed=s) for s in (0, 0, 1))
    assert first == again
    assert first.skewness != other.skewness and first.variance == other.variance


def test_streaming_equals_in_memory(monkeypatch, tmp_path):
    g = np.random.default_rng(0).normal(size=(50, 7)).astype(np.float32)
    whole = torch.from_numpy(g).double()
    fisher = whole.T @ whole / 50
    direct = -whole @ torch.linalg.solve(fisher + 0.1 * torch.eye(7), whole.T)
    file = np.memmap(tmp_path / "gradients", np.float32, "w+", shape=g.shape)
    file[:] = g
    file.flush()
    monkeypatch.setattr(module, "CHUNK_SAMPLES", 8)
    monkeypatch.setattr(panels, "SYMMETRIC_ROWS", 3)
    read_only = np.memmap(tmp_path / "gradients", np.float32, "r", shape=g.shape)
    calls = []
    for gradients in (whole, g, read_only, lambda: (g[:20], whole[20:45], read_only[45:])):
        result = gradient_moments(gradients, damping=0.1, progress=lambda *done: calls.append(done))
        np.testing.assert_allclose(figures(result), moments(direct), rtol=1e-8)
        assert np.isnan(result.gradient_norm) and result.n == 50
    assert calls[-1] == ("moments of influence", 50, 50)
    given_hessian = gradient_moments(whole, 2 * fisher, damping=0.2)
    assert given_hessian.variance == pytest.approx(result.variance / 4)


@pytest.mark.parametrize("streamed", [True, False])
def test_sampled_higher_moments_lie_within_their_error(monkeypatch, streamed):
    fit = geometry(900, 4, 3, seed=5)
    pairs = geometry_influence(fit, np.arange(900), 0.01, 0.02)
    exact, (slope, curvature) = pair_moments(pairs), fit.derivatives()
    given = fit.features.gradients(slope), fit.features.curvature(curvature) / 900
    monkeypatch.setattr(module, "MOST_IN_PAIRS", 320)
    deviations = []
    for seed in range(12):
        result = (
            gradient_moments(*given, ridge=0.01, damping=0.02, seed=seed)
            if streamed
            else pair_moments(pairs, seed)
        )
        assert (result.mean, result.variance) == pytest.approx((exact.mean, exact.variance))
        deviations.append([
            (result.skewness - exact.skewness) / result.skewness_error,
            (result.kurtosis - exact.kurtosis) / result.kurtosis_error,
        ])
    # About a standard normal each: none far off, and the error not so large that it says nothing.
    assert np.abs(deviations).max() < 4
    assert 0.3 < np.sqrt(np.square(deviations).mean()) < 2


def test_partners_are_the_extremes_of_a_row():
    pairs = geometry_influence(geometry(40, 4, 3, seed=6), np.arange(40), 0.01, 0.01)
    x = pairs.block(slice(None), slice(None))
    np.testing.assert_allclose(
        pairs.block(np.array([3, 1]), slice(5, 9)), x[[3, 1], 5:9], atol=1e-12
    )
    np.testing.assert_allclose(x, x.T, atol=1e-12)
    partners, row = pairs.partners(7, 4), x[7].copy()
    row[7] = np.nan  # no partner of itself
    order = np.argsort(row)[:-1]
    for named, size, expected in (
        (partners.helped, partners.help, order[:4]),
        (partners.harmed, partners.harm, order[::-1][:4]),
    ):
        np.testing.assert_array_equal(named, expected)
        np.testing.assert_allclose(size, row[expected])
    everyone = pairs.partners(7, 1000)
    assert len(everyone.helped) + len(everyone.harmed) == 39
    assert (everyone.help < 0).all() and (everyone.harm > 0).all()
    for bad in ((40, 1), (-1, 1), (0, 0)):
        with pytest.raises(SettingError, match=r"position must lie in 0\.\.39 and top be at least"):
            pairs.partners(*bad)


def test_adding_weight_to_a_sample_moves_its_partner_s_loss_by_x():
    """X(z, z′) = d ℓ_z′ / d ε at the minimum of L + ε ℓ_z."""
    point = geometry(15, 3, 3, seed=7, ridge=0.1)
    x = geometry_influence(point, np.arange(15), 0.1, 0.0).block(slice(None), slice(None))
    losses, e = [], 1e-5
    for sign in (1, -1):
        w = torch.ones(15).double()
        w[4] += sign * 15 * e
        # The fit divides by the sum of the weights, so its ridge is divided by it too.
        given = (point.features, point.targets, point.loss, 0.1 / float(w.mean()))
        outputs = point.features.outputs(fit_convex(*given, sample_weight=w[None]).weights[0])
        losses.append(point.kind.value(outputs, point.targets))
    np.testing.assert_allclose((losses[0] - losses[1]) / (2 * e), x[4], rtol=1e-4, atol=1e-5)


G = np.random.default_rng(0).normal(size=(5, 2))
USED_UP = iter([G, G])


def of_model(damping=0.0):
    torch.manual_seed(0)
    return influence_moments(nn.Linear(40, 4), sd_mixture((60, 20)), damping=damping)


def of_equal(labels, model, **more):
    names = ("a", "b") if labels.dtype.kind == "i" else ()
    given = SampleSet(np.ones((5, 3)), labels, np.arange(5), class_names=names)
    return influence_moments(model, given, **more)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (of_model, SettingError, r"positive definite.*ridge \+ damping = 0\. Set damping"),
        (lambda: of_equal(np.zeros(5, int), nn.Linear(3, 2)), DataError,
         "must hold at least 2 classes; every label is 'a'"),
        (lambda: of_equal(np.ones(5), nn.Linear(3, 1), loss="mse"), DataError,
         r"influence must differ between pairs.*identical"),
        (lambda: gradient_moments(np.ones((40, 4))), DataError, "must differ between pairs"),
        (lambda: gradient_moments(np.zeros((3, 4))), DataError, r"it is -?0 for all 3"),
        (lambda: gradient_moments(G, damping=-1), SettingError,
         "damping must be a number of at least 0; got -1"),
        (lambda: pair_influence(nn.Linear(40, 4), sd_mixture((9,)), ridge=float("nan")),
         SettingError, "ridge must be a number of at least 0; got nan"),
        (lambda: gradient_moments(G[:2]), DataError,
         "gradients must be of at least 3 samples; got 2"),
        (lambda: gradient_moments(np.where(G == G[3, 1], np.nan, G)), DataError,
         "some among samples 0 to 4 are NaN or infinite"),
        (lambda: gradient_moments(lambda: (G, np.ones((5, 3)))), DataError,
         r"\[n, p\].*\[5, 3\] after \[n, 2\]"),
        (lambda: gradient_moments(lambda: (G,), torch.eye(3).double()), SettingError,
         r"hessian must be \[2, 2\]"),
        (lambda: gradient_moments(lambda: USED_UP), DataError,
         "the first gave 10 samples, the second 0"),
    ],
)  # fmt: skip
def test_what_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_a_little_damping_makes_a_hessian_definite():
    assert of_model(1e-3).variance > 0
