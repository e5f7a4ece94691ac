"""Fits of polynomials against numpy, against brute force, and what they refuse."""

import sys

import numpy as np
import pytest

from datassay.errors import DataError, SettingError
from datassay.methods.polynomial.estimators.polynomial import PolynomialRegressor
from datassay.methods.polynomial.fit import fit_polynomial
from datassay.methods.polynomial.monomials import all_monomials, local_monomials
from datassay.methods.polynomial.solvers import exact
from datassay.methods.polynomial.solvers.batched import batched_fit
from datassay.methods.polynomial.solvers.normal_equations import merge, normal_equations
from datassay.methods.polynomial.solvers.ridge import Spectrum, centre

sums = sys.modules[normal_equations.__module__]  # `datassay.polynomial` hands on the function


def data(n=60, d=3, q=2, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    return x, np.sin(x @ rng.normal(size=(d, q))) + 0.1 * rng.normal(size=(n, q)) + 2


def design(x, monomials):
    """Features with the mean taken off, so that no norm counts the constant."""
    features = monomials.features(x)[:, 1:]
    return features - features.mean(0)


def ridge_outputs(x, y, monomials, ridge, points):
    features, mean = monomials.features(x)[:, 1:], monomials.features(x)[:, 1:].mean(0)
    phi = features - mean
    coef = np.linalg.solve(phi.T @ phi + ridge * np.eye(phi.shape[1]), phi.T @ (y - y.mean(0)))
    return y.mean(0) + (monomials.features(points)[:, 1:] - mean) @ coef


@pytest.mark.parametrize("n", [12, 60])
def test_the_fit_without_a_ridge_is_that_of_lstsq(n):
    x, y = data(n)
    x[:, 2] = x[:, 0] - x[:, 1]  # dependent columns for every n
    monomials = all_monomials(3, 3)
    ours = fit_polynomial(x, y, monomials, ridge=0, precision="float64")
    theirs, _, rank, _ = np.linalg.lstsq(design(x, monomials), y - y.mean(0), rcond=1e-9)
    np.testing.assert_allclose(ours.polynomial.coef[1:], theirs, atol=1e-8)
    assert ours.rank == rank < monomials.n_features - 1
    assert f"have rank {rank} of 19" in " ".join(ours.notes)
    x, y = data()
    ours = fit_polynomial(x, y, monomials, ridge=0, precision="float64")
    theirs = np.linalg.lstsq(monomials.features(x), y, rcond=None)[0]
    np.testing.assert_allclose(ours.polynomial.coef, theirs, atol=1e-8)
    assert ours.rank == monomials.n_features - 1


def test_leave_one_out_errors_are_those_of_fits_without_the_sample():
    x, y = data(25)
    y = np.eye(y.shape[1])[y.argmax(1)]
    monomials = all_monomials(3, 2)
    path = exact.exact_fit(normal_equations(x, y, monomials, precision="float64")).path
    for j in range(len(path.ridge) // 2, len(path.ridge), 4):
        others = [(np.delete(x, i, 0), np.delete(y, i, 0)) for i in range(25)]
        fits = [ridge_outputs(*sets, monomials, path.ridge[j], x) for sets in others]
        held = np.array([fit[i] for i, fit in enumerate(fits)])
        assert path.squared_error[j] == pytest.approx(((y - held) ** 2).sum(1).mean(), rel=1e-9)
        assert path.class_error[j] == pytest.approx((held.argmax(1) != y.argmax(1)).mean())


def test_between_a_few_factors_the_path_is_that_of_all_eigenvalues(monkeypatch):
    x, y = data(400, 4, 3)
    normal = normal_equations(x, y, all_monomials(4, 4), precision="float64", n_rows=100)
    auto = exact.exact_fit(normal).path
    monkeypatch.setattr(exact, "SPECTRUM", 10)
    searched = exact.exact_fit(normal)
    assert auto.poles == () and len(searched.path.poles) >= 3
    system, label = centre(normal), normal.row_targets.argmax(1)
    every = [exact._list_errors(system, Spectrum(system), r, label)[0] for r in searched.path.ridge]
    np.testing.assert_allclose(searched.path.squared_error, every, rtol=5e-3)
    assert searched.path.ridge[searched.path.chosen] == searched.ridge
    assert searched.path.squared_error.min() == pytest.approx(auto.squared_error.min(), rel=1e-2)
    expected = ridge_outputs(x, y, normal.monomials, searched.ridge, x[:5])
    ours = normal.monomials.features(x[:5]) @ searched.coef
    np.testing.assert_allclose(ours, expected, atol=1e-9)


def test_units():
    x, y = data()
    monomials = all_monomials(3, 1)  # of degree 1, so that features scale as inputs
    before, after = (
        fit_polynomial(u * x, t * y, monomials, ridge=0.3 * u**2).polynomial.outputs(u * x)
        for u, t in ((1, 1), (7, 3))
    )
    np.testing.assert_allclose(after, 3 * before, rtol=1e-10)
    path, scaled = (
        exact.exact_fit(normal_equations(u * x, t * y, monomials)).path for u, t in ((1, 1), (7, 3))
    )
    np.testing.assert_allclose(scaled.ridge, 49 * path.ridge)
    np.testing.assert_allclose(scaled.squared_error, 9 * path.squared_error, rtol=1e-9)


def test_dead_features_are_dropped_and_chunks_and_parts_change_nothing():
    rng = np.random.default_rng(1)
    x, y = rng.random((90, 16)), rng.normal(size=(90, 2))
    x[:, [0, 5]] = 0
    x[:40, 9] = 0  # dead in the first part only
    monomials = local_monomials((4, 4))
    whole = normal_equations(x, y, monomials)
    assert len(whole.live) == (monomials.features(x) != 0).any(0).sum() < monomials.n_features
    features = monomials.features(x)[:, whole.live]
    np.testing.assert_allclose(np.triu(whole.gram), np.triu(features.T @ features), rtol=1e-12)
    first = normal_equations(x[:40], y[:40], monomials)
    second = normal_equations(x[40:], y[40:], monomials, seen=40)
    chunked = normal_equations(x, y, monomials, chunk=7)
    assert len(first.live) < len(whole.live)
    for other in (merge(first, second), chunked):
        for name in ("live", "gram", "cross", "feature_sum", "target_sum", "target_squares"):
            np.testing.assert_allclose(getattr(other, name), getattr(whole, name), atol=1e-12)
    assert len(merge(first, second).rows) == 90


def test_an_interrupted_sum_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(sums, "KEEP_EVERY", 20)
    x, y = data(60)
    monomials = all_monomials(3, 2)
    chunks = []

    def stop(step, done, total):
        chunks.append(done)
        if done == 50:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        normal_equations(x, y, monomials, chunk=10, store=tmp_path, progress=stop)
    resumed = normal_equations(
        x, y, monomials, chunk=10, store=tmp_path, progress=lambda s, done, n: chunks.append(done)
    )
    assert chunks == [10, 20, 30, 40, 50, 50, 60]  # what follows the last write is done again
    fresh = normal_equations(x, y, monomials, chunk=10)
    np.testing.assert_array_equal(resumed.gram, fresh.gram)
    assert resumed.gram_error == fresh.gram_error
    with pytest.raises(SettingError, match="differs in: targets"):
        normal_equations(x, y + 1, monomials, store=tmp_path)
    with pytest.raises(SettingError, match="differs in: monomials"):
        normal_equations(x, y, all_monomials(3, 3), store=tmp_path)


@pytest.mark.parametrize(
    ("precision", "least", "most"),
    [("float64", 0, 1e-14), ("float32", 1e-9, 1e-5), ("bfloat16", 1e-4, 1e-2)],
)
def test_the_error_of_a_precision_is_told(precision, least, most):
    x, y = data(200, 6)
    normal = normal_equations(x, y, all_monomials(6, 2), precision=precision)
    assert least <= normal.gram_error <= most
    reference = normal_equations(x, y, all_monomials(6, 2), precision="float64").gram
    norm = np.sqrt(np.diag(reference))
    error = np.abs(np.triu(normal.gram - reference) / np.outer(norm, norm)).max()
    assert error == pytest.approx(normal.gram_error, rel=1e-3, abs=1e-15)  # 28 features: all probed


def test_batches_are_minimum_norm_fits_and_average():
    x, y = data(50, 4)
    y = np.eye(y.shape[1])[(y + x[:, :1]).argmax(1)]
    monomials = all_monomials(4, 3)
    curve = {}
    for n_batches in (1, 3):
        fit = fit_polynomial(
            x, y, monomials, solver="batched", n_batches=n_batches, batch_size=20, val=(x, y)
        )
        batches = np.random.default_rng(0)
        theirs, outside = [], np.ones((n_batches, 50, 1), bool)
        for b in range(n_batches):
            chosen = batches.choice(50, 20, replace=False)
            outside[b, chosen] = False
            some, right = design(x[chosen], monomials), y[chosen] - y[chosen].mean(0)
            coef = np.linalg.lstsq(some, right, rcond=1e-9)[0]
            constant = y[chosen].mean(0) - monomials.features(x[chosen])[:, 1:].mean(0) @ coef
            theirs.append(np.vstack([constant, coef]))
        np.testing.assert_allclose(fit.polynomial.coef, np.mean(theirs, 0), atol=1e-9)
        curve[n_batches] = fit.curve
    assert curve[1].in_sample[0] == 1  # 20 samples, 34 features: interpolated
    outputs = monomials.features(x) @ np.mean(theirs, 0)
    assert curve[3].cumulative[-1] == (outputs.argmax(1) == y.argmax(1)).mean()
    unseen = (monomials.features(x) @ np.array(theirs) * outside).sum(0)  # by fits without them
    some = outside.any(0)[:, 0]
    right = (unseen.argmax(1) == y.argmax(1))[some].mean()
    assert curve[3].out_of_bag[-1] == pytest.approx(right) and right < curve[3].in_sample[-1]


def test_a_batch_with_the_same_sample_twice():
    x, y = data(30)
    x[15:], y[15:] = x[:15], y[:15]
    fit = batched_fit(x, y, all_monomials(3, 4), np.arange(35), n_batches=1, batch_size=30)
    theirs = np.linalg.lstsq(design(x, all_monomials(3, 4)), y - y.mean(0), rcond=1e-9)[0]
    np.testing.assert_allclose(fit.coef[1:], theirs, atol=1e-8)
    assert list(fit.ranks) == [14]


def test_r_squared_of_one_target():
    x, y = data(80, q=1)
    fit = fit_polynomial(
        x, y, all_monomials(3, 2), solver="batched", n_batches=4, batch_size=40, val=(x, y)
    )
    outputs = fit.polynomial.outputs(x)
    r2 = 1 - ((y - outputs) ** 2).sum() / ((y - y.mean()) ** 2).sum()
    assert fit.curve.cumulative[-1] == pytest.approx(r2)
    assert not fit.curve.is_accuracy and "Out-of-bag R²" in fit.notes[-2]


@pytest.mark.parametrize(
    ("error", "match", "changed"),
    [
        (DataError, r"x must be finite; row 3", {"x": np.where(np.arange(20) == 3, np.nan, 1.0)}),
        (DataError, r"targets must be finite; row 19", {"y": np.r_[np.arange(19.0), np.inf]}),
        (DataError, r"targets must differ .* all 20", {"y": np.ones(20)}),
        (DataError, r"the 2 inputs .* got 1", {"monomials": all_monomials(2, 2)}),
        (SettingError, r"ridge must be .* got -1", {"ridge": -1.0}),
        (SettingError, r"ridge must be .* got 'best'", {"ridge": "best"}),
        (SettingError, r"solver must be 'exact' or 'batched'", {"solver": "fast"}),
        (SettingError, r"precision must be one of", {"precision": "float16"}),
        (SettingError, r"between 2 and the 20 samples .* got 21", {"solver": "batched"}),
        (SettingError, r"n_batches must be at least 1", {"solver": "batched", "n_batches": 0}),
        (SettingError, r"are for solver='exact'", {"solver": "batched", "store": "anywhere"}),
    ],
)
def test_refusals(error, match, changed):
    given = {"x": np.arange(20.0), "y": np.arange(20.0) % 3, "monomials": all_monomials(1, 2)}
    given |= {"batch_size": 21} | changed
    x, y = given.pop("x")[:, None], given.pop("y")[:, None]
    with pytest.raises(error, match=match):
        fit_polynomial(x, y, given.pop("monomials"), **given)


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_targets_far_from_zero(precision):
    """Their spread is 1e-9 of their mean, as of times in seconds: nothing of that is rounding."""
    x, y = data(80, q=1)
    how = {"monomials": all_monomials(3, 2), "ridge": 0.1, "precision": precision}
    near = fit_polynomial(x, y, **how).polynomial.outputs(x)
    far = fit_polynomial(x, y + 2.0**31, **how).polynomial.outputs(x)
    np.testing.assert_allclose(far - 2.0**31, near, atol=1e-4)  # the constant is not penalised


@pytest.mark.parametrize(("precision", "scale"), [("float32", 1e10), ("float64", 1e77)])
def test_products_beyond_the_largest_number(precision, scale):
    x, y = data(80, q=1)
    refused = pytest.raises(DataError, match=f"must stay below .* the largest {precision}")
    with np.errstate(over="ignore", invalid="ignore"), refused:
        fit_polynomial(scale * x, y, all_monomials(3, 2), precision=precision)


def test_sums_beyond_the_memory_are_refused_before_they_are_taken(monkeypatch):
    monkeypatch.setattr(sums, "available_memory", lambda: 700.0)
    x, y = data()
    with pytest.raises(SettingError, match=r"those of 10 features take .* Lower the degree"):
        normal_equations(x, y, all_monomials(3, 2), precision="float64")
    monkeypatch.setattr(sums, "available_memory", lambda: 800.0)
    assert normal_equations(x, y, all_monomials(3, 2), precision="float64").n_samples == 60
    with pytest.raises(DataError, match="the same samples; got 60 and 7"):
        sums.check_samples(x, y[:7], all_monomials(3, 2))


def test_a_leverage_of_one_is_told():
    x = np.zeros((20, 1))
    x[0] = 1e6  # no other sample says anything about this one
    x[1:, 0] = np.linspace(0, 1e-6, 19)
    fit = fit_polynomial(x, np.sin(9 * np.arange(20.0))[:, None], all_monomials(1, 1))
    assert np.isnan(fit.path.squared_error).any()
    assert "leverage is 1 within rounding" in " ".join(fit.notes)


@pytest.mark.parametrize(
    ("scale", "has_note"), [(1.0, False), (30.0, False), (1e5, True), (1e-5, True)]
)
def test_products_that_drown_others_are_told(scale, has_note):
    x = scale * np.random.default_rng(0).normal(size=(60, 3))
    y = (x[:, 0] + x[:, 1] ** 2 / scale) / scale
    notes = [n for n in fit_polynomial(x, y[:, None], all_monomials(3, 2)).notes if "times" in n]
    assert len(notes) == has_note
    if has_note:
        large, small = (2, 1) if scale > 1 else (1, 2)
        assert f"of degree {large} are about" in notes[0]
        assert f"of degree {small}, which" in notes[0]
        with pytest.warns(UserWarning, match="Bring the inputs to one scale"):
            PolynomialRegressor(degree=2, standardize=False).fit(x, y)


def test_several_numbers_are_no_classes():
    """Scores are R², mean over targets, by its definition; a largest target means nothing."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(90, 3))
    y = x @ rng.normal(size=(3, 2)) + 0.3 * rng.normal(size=(90, 2))
    val = (x[60:], y[60:])
    settings = {"solver": "batched", "n_batches": 4, "batch_size": 30, "val": val}
    fit = fit_polynomial(x[:60], y[:60], all_monomials(3, 1), **settings)
    outputs = fit.polynomial.outputs(x[60:])
    r2 = 1 - ((y[60:] - outputs) ** 2).sum(0) / ((y[60:] - y[60:].mean(0)) ** 2).sum(0)
    assert not fit.curve.is_accuracy and fit.curve.cumulative[-1] == pytest.approx(r2.mean())
    path = fit_polynomial(x, y, all_monomials(3, 1)).path
    assert np.isnan(path.class_error).all()
