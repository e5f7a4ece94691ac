"""Laws of growth against least squares, on laws that are known."""

import numpy as np
import pytest
from scipy.optimize import curve_fit

from datassay.errors import DatassayError
from datassay.methods.complexity.laws import FORMULAS, fit_joint_law, fit_laws

T = np.array([2.0, 5, 10, 20, 40, 80])
LAWS = {
    "linear": lambda t, a, b: a + b * t,
    "log": lambda t, a, b: a + b * np.log(t),
    "power": lambda t, b, c: b * t**c,
    "power_log": lambda t, b, c: b * t**c * np.log(t),
    "log_power": lambda t, b, c: b * np.log(t) ** c,
}


def noisy(values, seed=0, teachers=7):
    rng = np.random.default_rng(seed)
    return values[:, None] * rng.uniform(0.8, 1.25, (len(values), teachers))


def by_kind(laws):
    return {law.kind: law for law in laws}


@pytest.mark.parametrize("kind", list(FORMULAS))
def test_laws_are_the_least_squares_ones(kind):
    n_opt = noisy(3 * T**0.8)
    median = np.median(n_opt, axis=1)
    oracle, _ = curve_fit(LAWS[kind], T, median, p0=(1.0, 1.0), maxfev=20_000)
    law = by_kind(fit_laws(T, n_opt, n_resamples=20))[kind]
    fitted = LAWS[kind](T, *oracle)
    np.testing.assert_allclose(law.n_samples(T), fitted, rtol=1e-3, atol=1e-3 * median.max())
    r2 = 1 - np.square(median - fitted).sum() / np.square(median - median.mean()).sum()
    assert law.r_squared == pytest.approx(r2, abs=1e-5)


@pytest.mark.parametrize(
    ("kind", "coef"),
    [
        ("linear", (-4000.0, 2345.0)),
        ("log", (10.0, 12.0)),
        ("power", (7.0, 1.1)),
        ("power_log", (3.0, 0.7)),
        ("log_power", (9.0, 2.5)),  # the three exponents of S3 eq. (2.11)
    ],
)
def test_a_law_without_noise_is_found_and_comes_first(kind, coef):
    n_opt = np.repeat(LAWS[kind](T, *coef)[:, None], 3, axis=1)
    best = fit_laws(T, n_opt, name="d", n_resamples=5)[0]
    assert best.kind == kind
    assert best.r_squared == pytest.approx(1, abs=1e-8)
    np.testing.assert_allclose(list(best.coef.values()), coef, rtol=1e-3)
    assert all(f"{abs(value):g}" in best.formula for value in coef)
    assert "d" in best.formula


def test_units_of_n_move_the_factors_only():
    n_opt = noisy(3 * T)
    once, thrice = (by_kind(fit_laws(T, k * n_opt, n_resamples=20)) for k in (1, 3))
    for kind, law in once.items():
        assert thrice[kind].r_squared == pytest.approx(law.r_squared)
        assert thrice[kind].coef["b"] == pytest.approx(3 * law.coef["b"])
        if "c" in law.coef:
            assert thrice[kind].coef["c"] == pytest.approx(law.coef["c"])


def test_intervals_hold_the_estimate_and_shrink_with_the_level():
    n_opt = noisy(3 * T, teachers=15)
    wide, narrow = (by_kind(fit_laws(T, n_opt, level=v))["linear"] for v in (0.95, 0.5))
    assert wide.interval["b"][0] < wide.coef["b"] < wide.interval["b"][1]
    assert wide.interval["b"][0] < narrow.interval["b"][0] < narrow.interval["b"][1]
    assert wide.r_squared_interval[0] < narrow.r_squared_interval[1] <= 1


def test_sizes_that_were_not_recovered_are_left_out():
    n_opt = noisy(3 * T)
    lost = n_opt.copy()
    lost[-1] = np.inf
    lost[0, 0] = np.inf  # one teacher: the median stays finite
    got = by_kind(fit_laws(T, lost, n_resamples=20))["linear"]
    assert got.size_range == (2.0, 40.0)
    assert np.isfinite(got.coef["b"])


def test_joint_law_is_d_log_m():
    d, m = np.array([5, 5, 10, 20]), np.array([2, 50, 5, 5])
    n_opt = np.repeat((6 + 2.5 * d * np.log(m))[:, None], 4, axis=1)
    law = fit_joint_law(d, m, n_opt, n_resamples=10)
    assert law.coef["b"] == pytest.approx(2.5)
    assert law.formula == "N = 6 + 2.5·d·log m"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda good: fit_laws(T[:2], good[:2]), "at least three sizes"),
        (lambda good: fit_laws(T, good[:, 0]), r"n_opt must be \[sizes, teachers\] with the"),
        (lambda good: fit_laws(T - 1, good), "size must be 2 or more; got 1"),
        (lambda good: fit_joint_law(T, T, np.full_like(good, np.inf)), "at least three sizes"),
        (lambda good: fit_laws(T, good, level=1.0), "level must lie in"),
        (lambda good: fit_laws(T, good, n_resamples=0), "n_resamples must be at least 1"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(DatassayError, match=message):
        call(noisy(T))
