"""The bound: by numerical integration, its constants, and what a point takes away."""

import numpy as np
import pytest

from datassay.act.sample.generalization_bound import bound_reductions, generalization_bound
from datassay.errors import DataError, SettingError

X = np.array([0.7, 0.1, 0.4])
SLOPE = np.array([1.0, -2.0, 0.5])


def integral(x, slope, low, high, k, place):
    """Σ ∫ over the cell of (|f'| + K)² |z − X|² dP, by the midpoint rule."""
    z = low + (np.arange(200_000) + 0.5) / 200_000 * (high - low)
    nearest = np.abs(z[:, None] - x).argmin(1)
    if place == "inside":
        return np.mean((np.abs(slope[nearest]) + k) ** 2 * (z - x[nearest]) ** 2)
    left = np.array([z[nearest == i].min() for i in range(len(x))])  # as if X_i were at its end
    return np.mean((np.abs(slope[nearest]) + k) ** 2 * (z - left[nearest]) ** 2)


@pytest.mark.parametrize("place", ["end", "inside"])
def test_the_bound_is_the_integral_over_the_cells(place):
    for low, high in ((0.0, 1.0), (-1.0, 2.0)):
        found = generalization_bound(X, SLOPE, (low, high), lipschitz=0.3, place=place)
        assert found.total == pytest.approx(integral(X, SLOPE, low, high, 0.3, place), rel=1e-4)


def test_cells_end_half_way_and_at_the_domain():
    found = generalization_bound(X, SLOPE, (0, 1), lipschitz=0.0)
    np.testing.assert_allclose(found.cell, [[0.55, 1], [0, 0.25], [0.25, 0.55]])
    np.testing.assert_allclose(found.term, SLOPE**2 * np.array([0.45, 0.25, 0.3]) ** 3 / 3)


def test_a_third_at_the_end_a_twelfth_in_the_middle():
    for x, constant in ((0.0, 1 / 3), (0.5, 1 / 12), (0.25, (1 / 64 + 27 / 64) / 3)):
        at = (np.array([x]), np.array([2.0]), (0, 1))
        assert generalization_bound(*at, lipschitz=1.0).total == pytest.approx(9 / 3)
        inside = generalization_bound(*at, lipschitz=1.0, place="inside")
        assert inside.total == pytest.approx(9 * constant)


def test_it_bounds_the_error_of_an_interpolant():
    """S0 eq. 9 for sin 3x and straight lines between its values at 40 points."""
    x = np.sort(np.random.default_rng(0).uniform(size=40))
    slope = 3 * np.cos(3 * x)
    z = np.linspace(0, 1, 10_001)
    error = np.mean((np.interp(z, x, np.sin(3 * x)) - np.sin(3 * z)) ** 2)
    for place in ("end", "inside"):
        assert error < generalization_bound(x, slope, (0, 1), lipschitz=3.0, place=place).total


def test_units():
    plain = generalization_bound(X, SLOPE, (0, 1), lipschitz=0.3).total
    u, t = 10.0, 4.0
    scaled = generalization_bound(u * X, t / u * SLOPE, (0, u), lipschitz=t / u * 0.3).total
    assert scaled == pytest.approx(t**2 * plain)


def test_what_a_point_takes_away_is_the_difference():
    added, steep = np.array([0.85, 0.1, 0.2]), np.array([1.0, -2.0, 50.0])
    found = bound_reductions(X, SLOPE, added, steep, (0, 1), lipschitz=0.1)
    before = generalization_bound(X, SLOPE, (0, 1), lipschitz=0.1).total
    for gain, x, slope in zip(found, added, steep, strict=True):
        after = generalization_bound(
            np.append(X, x), np.append(SLOPE, slope), (0, 1), lipschitz=0.1
        )
        assert gain == pytest.approx(before - after.total)
    assert found[0] > 0
    assert found[2] < 0  # it shows how steep f is there


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"x": np.array([0.5, 1.5, 0.1])}, DataError, "must lie in the domain"),
        ({"x": np.array([0.5, np.nan, 0.1])}, DataError, "must lie in the domain"),
        ({"slope": np.array([1.0, np.inf, 0.0])}, DataError, "finite"),
        ({"x": np.empty(0), "slope": np.empty(0)}, DataError, "one number for each"),
        ({"domain": (1.0, 0.0)}, DataError, "lower end first"),
        ({"lipschitz": -1.0}, SettingError, "lipschitz must be at least 0"),
        ({"place": "middle"}, SettingError, "place must be one of"),
    ],
)
def test_bad_input(change, error, message):
    given = {"x": X, "slope": SLOPE, "domain": (0.0, 1.0), "lipschitz": 0.0, "place": "end"}
    given |= change
    with pytest.raises(error, match=message):
        generalization_bound(given.pop("x"), given.pop("slope"), given.pop("domain"), **given)
