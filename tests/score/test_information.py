"""Sample information against its definition, its units and its refusals."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datassay.errors import SettingError
from datassay.score.leave_one_out import leave_one_out
from datassay.score.sample_information import sample_information
from helpers.linearizations import brute_force, linearization, random_jacobians


def lin_of(seed=0, n=10, b=2, c=1, p=25, m=6):
    phi, r, val = random_jacobians(n, b, c, p, m, seed)
    return linearization(phi, r, val, dual=True), (phi, r, val)


def test_functional_is_half_the_mean_squared_change():
    """S1 eq. 16, with the square that its printed form lacks."""
    lin, (phi, r, val) = lin_of()
    information = sample_information(lin, lr=0.01, steps=40, sigma=0.5)
    _, change, _ = brute_force(phi, r, val, "flow", 0.01, 40, 0.0)
    np.testing.assert_allclose(information.information, change / (2 * 0.25 * 6), rtol=1e-8)


def test_isotropic_is_half_the_squared_weight_change():
    """S1 Prop. 3.2 with Σ = σ²I."""
    lin, (phi, r, val) = lin_of()
    information = sample_information(lin, lr=0.01, steps=40, smoothing="isotropic", sigma=2.0)
    _, _, change = brute_force(phi, r, val, "flow", 0.01, 40, 0.0)
    np.testing.assert_allclose(information.information, change / 8, rtol=1e-8)


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


def test_never_negative_and_a_sample_on_the_line_gives_nothing():
    """A sample whose residual is 0 in every direction, and stays so, moves nothing."""
    phi, r, val = random_jacobians(10, 1, 1, 30, 5, seed=1)
    phi[0], r[0] = 0, 0
    information = sample_information(linearization(phi, r, val, dual=True))
    assert (information.information >= 0).all()
    assert information.information[0] <= 1e-20 * information.information.max()


def test_a_duplicate_informs_less_than_the_same_sample_alone():
    phi, r, val = random_jacobians(10, 1, 1, 30, 5, seed=2)
    alone = sample_information(linearization(phi, r, val, dual=True), dynamics="converged")
    phi[1], r[1] = phi[0], r[0]
    twice = sample_information(linearization(phi, r, val, dual=True), dynamics="converged")
    assert twice.information[0] < 1e-12 * alone.information[0]
    assert twice.information[0] == pytest.approx(twice.information[1], abs=1e-18)


def test_reading_off_leave_one_out_gives_the_same():
    lin, _ = lin_of()
    loo = leave_one_out(lin, steps=70)
    a, b = sample_information(lin, loo=loo), sample_information(lin, steps=70)
    assert np.array_equal(a.information, b.information)
    assert a.to_table().column_names == ["id", "information"]


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"smoothing": "fisherman"}, "smoothing must be one of 'functional', 'isotropic'"),
        ({"smoothing": "sgd"}, "batch_size must be given for smoothing='sgd'"),
        ({"smoothing": "kl"}, "batch_size must be given for smoothing='kl'"),
        ({"smoothing": "sgd", "batch_size": 0}, "batch_size must be a whole number.*got 0"),
        ({"smoothing": "sgd", "batch_size": 4, "sigma": 2.0}, "sigma must be left at 1"),
        (
            {"batch_size": 4},
            "batch_size belongs to smoothing='sgd' and 'kl'; got 4 beside 'functional'",
        ),
        ({"sigma": 0.0}, "sigma must be finite and positive; got 0.0"),
        ({"sigma": float("nan")}, "sigma must be finite and positive"),
    ],
)
def test_bad_settings(setting, message):
    with pytest.raises(SettingError, match=message):
        sample_information(lin_of()[0], **setting)


def test_run_settings_beside_results_are_refused():
    lin, _ = lin_of()
    with pytest.raises(SettingError, match="run settings belong to loo; got steps"):
        sample_information(lin, loo=leave_one_out(lin), steps=3)
