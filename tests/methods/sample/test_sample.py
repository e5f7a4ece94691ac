"""Taylor-based sampling: its index, what it draws, its bound, what it refuses."""

from itertools import product
from math import factorial

import numpy as np
import pytest
import torch

from datassay.collect.curvature.derivatives import derivatives, point_function
from datassay.data.synthetic.functions import runge
from datassay.errors import DataError, DatassayError, SettingError
from datassay.methods.sample.comparison import compare_designs
from datassay.methods.sample.density import Density, fit_density, truncated_draws
from datassay.methods.sample.interpolation_bound import interpolation_bound
from datassay.methods.sample.taylor import (
    index_from_draws,
    taylor_index,
    taylor_sample,
    taylor_terms,
)
from datassay.models.networks import mlp
from datassay.train.recipe import Recipe

UNIT = np.array([[0.0, 1.0]])


def step(x):
    """A step at 0.3 in the first of two inputs, of NumPy arrays only."""
    return np.tanh(20 * (np.asarray(x)[:, 0] - 0.3))


def test_points_their_values_and_the_union():
    sample = taylor_sample(step, [(0, 1), (-2, 2)], n_initial=300, n_new=200, n_components=2)
    assert sample.x.shape == (500, 2) and sample.is_new.sum() == 200
    assert sample.derivatives == "finite"
    np.testing.assert_array_equal(sample.y[:, 0], step(sample.x))
    assert ((sample.x >= sample.domain[:, 0]) & (sample.x <= sample.domain[:, 1])).all()
    new = sample.x[sample.is_new]
    assert np.mean(abs(new[:, 0] - 0.3) < 0.15) > 0.9  # 0.3 of the domain
    assert new[:, 1].std() > 0.8  # all along the step
    assert 0 < sample.acceptance <= 1 and sample.tries >= 200
    assert sample.density.weight.sum() == pytest.approx(1)
    again = taylor_sample(step, [(0, 1), (-2, 2)], n_initial=300, n_new=200, n_components=2)
    np.testing.assert_array_equal(again.x, sample.x)
    other = taylor_sample(step, [(0, 1), (-2, 2)], n_initial=300, n_new=200, seed=1)
    assert not np.isclose(other.x, sample.x).any()


def test_the_index_of_runge_by_hand():
    reported = []
    sample = taylor_sample(
        runge, (0, 1), n_initial=5, n_new=1, initial="grid", epsilon=0.01,
        progress=lambda *index: reported.append(index),
    )  # fmt: skip
    assert ("label points", 6, 6) in reported and ("derivatives", 5, 5) in reported
    table, samples = sample.to_table(), sample.to_samples("hill", ["x"])
    assert table.column_names == ["x0", "y0", "is_new", "taylor_index"]
    assert table["taylor_index"].null_count == 1
    np.testing.assert_array_equal(sample.x[:5, 0], np.linspace(0, 1, 5))
    assert samples.y.shape == (6,) and list(samples.source[4:]) == ["initial", "new"]
    z = sample.x[:5, 0] - 0.5
    first = -50 * z / (1 + 25 * z**2) ** 2
    second = (3750 * z**2 - 50) / (1 + 25 * z**2) ** 3
    np.testing.assert_allclose(sample.terms[:, 0], 0.01 * first**2, atol=1e-15)
    np.testing.assert_allclose(sample.index, 0.01 * first**2 + 1e-4 / 2 * second**2)


def test_the_index_from_draws_is_their_variance_and_that_of_a_quadratic():
    rng, seen = np.random.default_rng(1), []
    x, spread = rng.normal(size=(4, 2)), np.array([0.1, 0.4])
    h = np.array([[1.0, 0.5], [0.5, -2.0]])

    def f(z):
        seen.append(z)
        return np.stack([np.einsum("ni,ij,nj->n", z, h, z) / 2 + z[:, 0], 3 * z[:, 1]], 1)

    index = index_from_draws(f, x, spread, n_draws=20)
    values = [f(z) for z in seen[-20:]]
    for n in range(4):
        at = np.array([value[n] for value in values])
        assert index[n] == pytest.approx(((at - at.mean(0)) ** 2).sum() / 19)
    slopes = np.stack([x @ h + [1, 0], np.broadcast_to([0, 3], (4, 2))], 1)
    exact = taylor_index([slopes, np.broadcast_to([h, 0 * h], (4, 2, 2, 2))], spread)
    many = index_from_draws(f, x, spread, n_draws=10_000)
    np.testing.assert_allclose(many, exact, rtol=0.1)  # 4 standard errors of a normal law
    u = np.array([10.0, 0.1])
    scaled = index_from_draws(lambda z: 7 * f(z / u), x * u, spread * u**2, n_draws=20)
    np.testing.assert_allclose(scaled, 49 * index)
    with pytest.raises(SettingError, match="n_draws"):
        index_from_draws(f, x, spread, n_draws=1)
    with pytest.raises(SettingError, match="epsilon must be positive"):
        index_from_draws(f, x, -1.0)


def test_units_of_the_input_do_not_matter():
    plain = taylor_sample(step, [(0, 1), (0, 1)], n_initial=100, n_new=50)
    u = np.array([2.0**10, 2.0**-7])  # which round nothing: a tie of the mixture goes the same way
    scaled = taylor_sample(
        lambda x: step(x / u), [(0, u[0]), (0, u[1])], n_initial=100, n_new=50,
        epsilon=1e-3 * u**2,
    )  # fmt: skip
    np.testing.assert_allclose(scaled.index, plain.index, rtol=1e-6)
    np.testing.assert_allclose(scaled.x, plain.x * u, rtol=1e-6)


def test_the_mixture_is_that_of_points_repeated_by_their_index():
    """Two clusters whose index is 3 to 1, one point below a hundredth: its share is 0."""
    x = np.array([[0.1], [0.12], [0.9], [0.92], [0.5]])
    index = np.array([3.0, 3.0, 1.0, 1.0, 0.01])
    result = fit_density(x, index, UNIT, 2, floor=1e-6)
    order = np.argsort(-result.weight)
    np.testing.assert_allclose(result.weight[order], [0.75, 0.25], atol=0.01)
    np.testing.assert_allclose(result.mean[order, 0], [0.11, 0.91], atol=1e-6)
    np.testing.assert_allclose(result.covariance[:, 0, 0], 1e-4 + 1e-6, rtol=1e-3)
    assert result.n_fitted == 4
    assert result.notes == ()


def test_more_copies_than_fit_are_drawn_in_proportion(monkeypatch):
    monkeypatch.setattr("datassay.methods.sample.density.MOST_COPIES", 400)
    x = np.linspace(0, 1, 200)[:, None]
    result = fit_density(x, np.where(x[:, 0] < 0.5, 3.0, 1.0), UNIT, 1)
    assert result.mean[0, 0] == pytest.approx(0.25 * 0.75 + 0.75 * 0.25, abs=0.01)


def test_fewer_points_than_components_are_told_not_warned_about():
    x = np.array([[0.2], [0.2], [0.8], [0.5]])
    result = fit_density(x, np.array([1.0, 1.0, 1.0, 0.0]), UNIT, 3)
    assert len(result.weight) == 2
    assert "only 2 of 4 initial points" in result.notes[0]


def test_no_convergence_is_told_not_warned_about(monkeypatch):
    monkeypatch.setattr(
        "datassay.methods.sample.density.GaussianMixture",
        lambda *a, **k: mixture_type(*a, **k, max_iter=1, tol=1e-12),
    )
    from sklearn.mixture import GaussianMixture as mixture_type

    x = np.random.default_rng(0).uniform(size=(200, 1))
    result = fit_density(x, x[:, 0], UNIT, 3)
    assert not result.converged
    assert "did not come to rest" in result.notes[0]


def test_rejection_gives_the_truncated_density():
    density = Density(np.ones(1), np.zeros((1, 1)), np.ones((1, 1, 1)), 1, True)
    result, tries = truncated_draws(density, np.array([[0.0, 1.0]]), 4000)
    assert len(result) / tries == pytest.approx(0.3413, abs=0.01)
    assert result.mean() == pytest.approx(0.4599, abs=0.01)  # (φ(0) − φ(1)) / (Φ(1) − Φ(0))
    few = sum(truncated_draws(density, np.array([[0.0, 1.0]]), 20, seed=s)[1] for s in range(40))
    assert 800 / few == pytest.approx(0.3413, rel=0.1)  # draws beyond the last point do not count


def test_a_density_that_rejects_everything_names_its_acceptance():
    far = Density(np.ones(1), np.full((1, 1), 99.0), np.full((1, 1, 1), 1e-4), 1, True)
    with pytest.raises(DataError, match=r"0 of 2,000 draws did \(acceptance 0\).*max_tries"):
        truncated_draws(far, UNIT, 2)


GOOD = {"n_initial": 8, "n_new": 4, "n_components": 2}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"domain": (1, 1)}, "no volume"),
        ({"domain": (2, 1)}, "reversed"),
        ({"domain": (0, np.nan)}, "finite numbers"),
        ({"domain": (0, np.inf)}, "finite numbers"),
        ({"domain": (-1e308, 1e308)}, "finite numbers"),
        ({"domain": [(0, 1, 2)]}, "domain must be pairs"),
        ({"f": lambda x: np.full(len(x), np.nan)}, "NaN or infinity"),
        ({"f": lambda x: np.where(x[:, 0] > 0.5, np.inf, 1.0)}, "NaN or infinity"),
        ({"f": lambda x: np.ones(3)}, "got shape"),
        ({"f": lambda x: x.missing}, "AttributeError"),
        ({"f": lambda x: np.ones(len(x))}, "must change somewhere"),
        ({"n_components": 9}, "at most the number of initial points, 8; got 9"),
        ({"n_components": 0}, "n_components must be"),
        ({"order": 0}, "order must be"),
        ({"epsilon": 0.0}, "epsilon must be positive"),
        ({"epsilon": -1.0}, "epsilon must be positive"),
        ({"n_initial": 1}, "n_initial must be"),
        ({"n_new": 0}, "n_new must be"),
        ({"initial": "sobol"}, "initial must be 'grid' or 'uniform'; got 'sobol'"),
        ({"derivatives": "exact"}, "derivatives must be one of"),
        ({"floor": 0.0}, "floor must be finite and positive"),
        ({"max_tries": 0}, "max_tries must be"),
        ({"seed": -1}, "seed must be"),
        ({"domain": [(0, 1), (0, 1)], "initial": "grid"}, "Take 4 or 9"),
    ],
)
def test_bad_input_is_one_clear_error(change, message):
    given = {"f": runge, "domain": (0, 1)} | GOOD | change
    with pytest.raises(DatassayError, match=message):
        taylor_sample(given.pop("f"), given.pop("domain"), **given)


def test_a_network_can_be_sampled():
    torch.manual_seed(0)
    sample = taylor_sample(mlp((2,), 3, width=4), [(0, 1)] * 2, n_initial=20, n_new=5, order=1)
    assert sample.y.shape == (25, 3)
    assert sample.derivatives == "autograd"


def test_designs_are_compared_on_the_same_networks():
    test = np.linspace(0, 1, 50)[:, None]
    good = np.linspace(0, 1, 20)[:, None]
    narrow = good / 10
    label = lambda x: runge(x)[:, None]  # noqa: E731
    torch.manual_seed(0)
    networks = [mlp((1,), 1, width=8) for _ in range(3)]
    designs = {"wide": [(good, label(good))] * 3, "narrow": [(narrow, label(narrow))] * 3}
    recipe = Recipe(lr=0.02, steps=300, batch_size=None, loss="mse")
    result = compare_designs(designs, (test, label(test)), networks, recipe)
    assert result.largest.shape == (2, 3)
    assert (result.largest[0] < result.largest[1]).all()
    apart = np.abs(result.outputs(test) - label(test))
    np.testing.assert_allclose(result.largest, apart.max((2, 3)))
    np.testing.assert_allclose(result.root_mean_square, np.sqrt((apart**2).mean((2, 3))))
    with pytest.raises(SettingError, match="repetitions of"):
        compare_designs({"one": designs["wide"][:2]}, (test, label(test)), networks, recipe)


def test_on_runge_more_points_lie_where_s0_shows_them():
    """S0 Fig. 4: on both flanks of the hill, and none far away."""
    sample = taylor_sample(runge, (0, 1), n_initial=101, n_new=400, initial="grid")
    new = np.abs(sample.x[sample.is_new, 0] - 0.5)
    assert np.median(new) == pytest.approx(0.12, abs=0.05)  # f' is largest at 1/√75 = 0.115
    assert np.mean(new > 0.35) < 0.1


BOX = np.array([[-1.0, 1.0]] * 3)


def cubic(x):
    a, b, c = x[..., 0], x[..., 1], x[..., 2]
    return torch.stack([a * b * c + a**3, b**2 * c - a], -1)


def derivative(k, x):
    """∂^k of both outputs of `cubic` by hand: its polynomials term by term."""

    def term(coefficient, powers):
        value = np.full(len(x), float(coefficient))
        for j, (power, times) in enumerate(zip(powers, k, strict=True)):
            if times > power:
                return np.zeros(len(x))
            value *= factorial(power) / factorial(power - times) * x[:, j] ** (power - times)
        return value

    first = term(1, (1, 1, 1)) + term(1, (3, 0, 0))
    return np.stack([first, term(1, (0, 2, 1)) - term(1, (1, 0, 0))])


def brute_force(x, epsilon, order):
    """Σ_{1≤|k|≤n} ε^k ‖∂^k f‖² / k! over distinct multi-indices, each once."""
    total = np.zeros(len(x))
    for k in product(range(order + 1), repeat=3):
        if 1 <= sum(k) <= order:
            k_factorial = np.prod([factorial(j) for j in k])
            total += np.prod(epsilon ** np.array(k)) * (derivative(k, x) ** 2).sum(0) / k_factorial
    return total


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("epsilon", [0.3, (0.1, 0.5, 2.0)])
def test_the_index_is_the_printed_sum_over_multi_indices(order, epsilon):
    x = np.random.default_rng(0).uniform(-1, 1, (7, 3))
    _, tensors = derivatives(point_function(cubic, x), x, order, bounds=BOX)
    every = np.broadcast_to(np.asarray(epsilon, float), 3)
    np.testing.assert_allclose(taylor_index(tensors, epsilon), brute_force(x, every, order))
    terms = taylor_terms(tensors, epsilon)
    assert terms.shape == (7, order)
    np.testing.assert_allclose(terms[:, :1].sum(1), brute_force(x, every, 1))


def test_units_of_inputs_and_outputs():
    x, u, t = np.random.default_rng(1).uniform(-1, 1, (5, 3)), 3.0, 2.0
    _, plain = derivatives(point_function(cubic, x), x, 2, bounds=BOX)
    scaled = point_function(lambda z: t * cubic(z / u), x * u)
    _, result = derivatives(scaled, x * u, 2, bounds=u * BOX)
    np.testing.assert_allclose(taylor_index(result, 0.1 * u**2), t**2 * taylor_index(plain, 0.1))


def test_it_is_the_variance_of_a_quadratic_under_noise():
    """S0 App. B for n = 2: exact where nothing is neglected."""

    def quadratic(x):
        return x[..., 0] ** 2 + x[..., 0] * x[..., 1] - 3 * x[..., 1]

    x, epsilon = np.array([[0.4, -0.2]]), 0.2
    _, tensors = derivatives(point_function(quadratic, x), x, 2, bounds=BOX[:2])
    noise = np.random.default_rng(0).normal(scale=epsilon**0.5, size=(300_000, 2))
    variance = quadratic(x + noise).var()
    assert taylor_index(tensors, epsilon)[0] == pytest.approx(variance, rel=1e-2)


def test_epsilon_is_refused():
    for epsilon in (0.0, -1.0, np.nan, np.inf, (0.1, 0.2), (0.1, 0.2, 0.0)):
        message = "one for each of 3" if np.size(epsilon) == 2 else "positive and finite"
        with pytest.raises(SettingError, match=message):
            taylor_index((np.ones((2, 1, 3)),), epsilon)


X = np.array([0.7, 0.1, 0.4])
SLOPE = np.array([1.0, -2.0, 0.5])


def integral(x, slope, low, high, k, position):
    """Σ ∫ over the cell of (|f'| + K)² |z − X|² dP, by the midpoint rule."""
    z = low + (np.arange(200_000) + 0.5) / 200_000 * (high - low)
    nearest = np.abs(z[:, None] - x).argmin(1)
    if position == "inside":
        return np.mean((np.abs(slope[nearest]) + k) ** 2 * (z - x[nearest]) ** 2)
    left = np.array([z[nearest == i].min() for i in range(len(x))])  # as if X_i were at its end
    return np.mean((np.abs(slope[nearest]) + k) ** 2 * (z - left[nearest]) ** 2)


@pytest.mark.parametrize("position", ["end", "inside"])
def test_the_bound_is_the_integral_over_the_cells(position):
    for low, high in ((0.0, 1.0), (-1.0, 2.0)):
        bound = interpolation_bound(X, SLOPE, (low, high), lipschitz=0.3, position=position)
        assert bound.total == pytest.approx(integral(X, SLOPE, low, high, 0.3, position), rel=1e-4)
    u, t = 10.0, 4.0  # units
    plain = interpolation_bound(X, SLOPE, (0, 1), lipschitz=0.3, position=position).total
    run = {"lipschitz": t / u * 0.3, "position": position}
    scaled = interpolation_bound(u * X, t / u * SLOPE, (0, u), **run).total
    assert scaled == pytest.approx(t**2 * plain)


def test_cells_end_half_way_and_at_the_domain():
    bound = interpolation_bound(X, SLOPE, (0, 1), lipschitz=0.0)
    np.testing.assert_allclose(bound.cell, [[0.55, 1], [0, 0.25], [0.25, 0.55]])
    np.testing.assert_allclose(bound.term, SLOPE**2 * np.array([0.45, 0.25, 0.3]) ** 3 / 3)


def test_a_third_at_the_end_a_twelfth_in_the_middle():
    for x, constant in ((0.0, 1 / 3), (0.5, 1 / 12), (0.25, (1 / 64 + 27 / 64) / 3)):
        index = (np.array([x]), np.array([2.0]), (0, 1))
        assert interpolation_bound(*index, lipschitz=1.0).total == pytest.approx(9 / 3)
        inside = interpolation_bound(*index, lipschitz=1.0, position="inside")
        assert inside.total == pytest.approx(9 * constant)


def test_it_bounds_the_error_of_an_interpolant():
    """S0 eq. 9 for sin 3x and straight lines between its values at 40 points."""
    x = np.sort(np.random.default_rng(0).uniform(size=40))
    slope = 3 * np.cos(3 * x)
    z = np.linspace(0, 1, 10_001)
    error = np.mean((np.interp(z, x, np.sin(3 * x)) - np.sin(3 * z)) ** 2)
    for position in ("end", "inside"):
        assert error < interpolation_bound(x, slope, (0, 1), lipschitz=3.0, position=position).total


@pytest.mark.parametrize(("x", "slope", "is_lower"), [(0.85, 1.0, True), (0.2, 50.0, False)])
def test_a_point_lowers_the_bound_unless_it_shows_how_steep_f_is(x, slope, is_lower):
    before = interpolation_bound(X, SLOPE, (0, 1), lipschitz=0.1).total
    more = np.append(X, x), np.append(SLOPE, slope)
    assert (interpolation_bound(*more, (0, 1), lipschitz=0.1).total < before) == is_lower


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"x": np.array([0.5, 1.5, 0.1])}, DataError, "must lie in the domain"),
        ({"x": np.array([0.5, np.nan, 0.1])}, DataError, "must lie in the domain"),
        ({"slope": np.array([1.0, np.inf, 0.0])}, DataError, "finite"),
        ({"x": np.empty(0), "slope": np.empty(0)}, DataError, "one number for each"),
        ({"domain": (1.0, 0.0)}, DataError, "lower end first"),
        ({"lipschitz": -1.0}, SettingError, "lipschitz must be at least 0"),
        ({"position": "middle"}, SettingError, "position must be 'end' or 'inside'; got 'middle'"),
    ],
)
def test_bad_input_of_the_bound(change, error, message):
    given = {"x": X, "slope": SLOPE, "domain": (0.0, 1.0), "lipschitz": 0.0, "position": "end"}
    given |= change
    with pytest.raises(error, match=message):
        interpolation_bound(given.pop("x"), given.pop("slope"), given.pop("domain"), **given)
