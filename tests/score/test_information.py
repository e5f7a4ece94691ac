"""Sample information against its definition, its units and its refusals."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datassay.collect import collect
from datassay.data import load
from datassay.errors import SettingError
from datassay.models import build_model
from datassay.score.leave_one_out import leave_one_out
from datassay.score.sample_information import sample_information
from helpers.linearizations import brute_force, linearization, random_jacobians


def lin_of():
    phi, r, val = random_jacobians(10, 2, 1, 25, 6, 0)
    return linearization(phi, r, val, dual=True), (phi, r, val)


def test_it_is_half_the_squared_change():
    """S1 eq. 16, with the square that its printed form lacks, and Prop. 3.2 with Σ = σ²I."""
    lin, given = lin_of()
    _, outputs, weights = brute_force(*given, "flow", 0.01, 40, 0.0)
    functional = sample_information(lin, lr=0.01, steps=40, sigma=0.5)
    np.testing.assert_allclose(functional.information, outputs / (2 * 0.25 * 6), rtol=1e-8)
    isotropic = sample_information(lin, lr=0.01, steps=40, smoothing="isotropic", sigma=2.0)
    np.testing.assert_allclose(isotropic.information, weights / 8, rtol=1e-8)


@settings(max_examples=20, deadline=None, derandomize=True)
@given(t=st.floats(0.1, 10), sigma=st.floats(0.1, 10), seed=st.integers(0, 10**6))
def test_units(t, sigma, seed):
    """Nats: targets × t and σ × t leave the information as it is; σ alone divides by σ²."""
    phi, r, val = random_jacobians(8, 1, 1, 12, 4, seed)
    run = {"lr": 0.01, "steps": 30}
    base = sample_information(linearization(phi, r, val, dual=True), **run).information
    scaled = sample_information(linearization(phi, t * r, val, dual=True), sigma=t, **run)
    np.testing.assert_allclose(scaled.information, base, rtol=1e-7)
    wide = sample_information(linearization(phi, r, val, dual=True), sigma=sigma, **run)
    np.testing.assert_allclose(wide.information, base / sigma**2, rtol=1e-9)


def test_a_sample_that_moves_nothing_or_stands_twice_gives_nothing():
    phi, r, val = random_jacobians(10, 1, 1, 30, 5, seed=1)
    alone = sample_information(linearization(phi, r, val, dual=True), dynamics="converged")
    phi[0], r[0] = 0, 0
    phi[2], r[2] = phi[1], r[1]
    information = sample_information(linearization(phi, r, val, dual=True), dynamics="converged")
    assert (information.information >= 0).all()
    assert information.information[0] <= 1e-20 * information.information.max()
    assert information.information[1] < 1e-12 * alone.information[1]
    assert information.information[1] == pytest.approx(information.information[2], abs=1e-18)


@pytest.mark.parametrize("smoothing", ["functional", "fisher"])
def test_progress_is_called_until_all_is_done(smoothing):
    lin, calls = lin_of()[0], []
    sample_information(lin, smoothing=smoothing, progress=lambda *call: calls.append(call))
    assert calls[-1][1] == calls[-1][2] == len(lin)


SGD = {"smoothing": "sgd", "batch_size": 4}


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"smoothing": "fisherman"}, "smoothing must be one of 'functional', 'isotropic'"),
        ({"smoothing": "sgd"}, "batch_size must be given for smoothing='sgd'"),
        ({"smoothing": "kl"}, "batch_size must be given for smoothing='kl'"),
        (SGD | {"batch_size": 0}, "batch_size must be a whole number.*got 0"),
        (SGD | {"sigma": 2.0}, "sigma must be left at 1"),
        ({"batch_size": 4}, "batch_size belongs to .* kl; got 4 with 'functional'"),
        ({"sigma": 0.0}, "sigma must be finite and positive; got 0.0"),
        ({"sigma": float("nan")}, "sigma must be finite and positive"),
        ({"loo": True, "steps": 3}, "run settings belong to loo; got steps"),
    ],
)
def test_bad_settings(setting, message):
    lin, _ = lin_of()
    given = setting | ({"loo": leave_one_out(lin)} if "loo" in setting else {})
    with pytest.raises(SettingError, match=message):
        sample_information(lin, **given)


def test_samples_of_rare_classes_inform_more():
    """S1 Fig. 1: of iCassava's classes, rare ones. Here two digits with a tenth of theirs."""
    train, _ = load("digits")
    random = np.random.default_rng(0).random(len(train))
    kept = np.flatnonzero(~np.isin(train.y, (3, 8)) | (random < 0.1))[:250]
    train = train.subset(kept)
    lin = collect(build_model("mlp:width=16", train, seed=0), train, seed=0)
    information, is_rare = sample_information(lin).information, np.isin(train.y, (3, 8))
    assert 5 <= is_rare.sum() <= 20
    assert information[is_rare].mean() > 2 * information[~is_rare].mean()
