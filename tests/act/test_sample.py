"""Taylor-based sampling: what it draws, what it reports, what it refuses."""

import numpy as np
import pytest
import torch

from datassay.act.sample.comparison import compare_designs
from datassay.act.sample.density import Density, fit_density, truncated_draws
from datassay.act.sample.taylor import taylor_sample
from datassay.data.synthetic.functions import function_problem, runge
from datassay.errors import DataError, DatassayError, SettingError
from datassay.models.networks import mlp
from datassay.train.recipe import Recipe

UNIT = np.array([[0.0, 1.0]])


def step(x):
    """A step at 0.3 in the first of two inputs, of NumPy arrays only."""
    return np.tanh(20 * (np.asarray(x)[:, 0] - 0.3))


def test_points_their_values_and_the_union():
    found = taylor_sample(step, [(0, 1), (-2, 2)], n_initial=300, n_new=200, n_components=2)
    assert found.x.shape == (500, 2)
    assert found.is_new.sum() == 200
    assert found.derivatives == "finite"
    np.testing.assert_array_equal(found.y[:, 0], step(found.x))
    assert (found.x >= found.domain[:, 0]).all()
    assert (found.x <= found.domain[:, 1]).all()
    new = found.x[found.is_new]
    assert np.mean(abs(new[:, 0] - 0.3) < 0.15) > 0.9  # 0.3 of the domain
    assert new[:, 1].std() > 0.8  # all along the step
    assert 0 < found.acceptance <= 1
    assert found.tries >= 200
    assert found.density.weight.sum() == pytest.approx(1)
    again = taylor_sample(step, [(0, 1), (-2, 2)], n_initial=300, n_new=200, n_components=2)
    np.testing.assert_array_equal(again.x, found.x)
    other = taylor_sample(step, [(0, 1), (-2, 2)], n_initial=300, n_new=200, seed=1)
    assert not np.isclose(other.x, found.x).any()


def test_tables_and_sample_sets():
    found = taylor_sample(runge, (0, 1), n_initial=8, n_new=4, initial="grid")
    table = found.to_table()
    assert table.column_names == ["x0", "y0", "is_new", "taylor_index"]
    assert table["taylor_index"].null_count == 4
    np.testing.assert_array_equal(found.x[:8, 0], np.linspace(0, 1, 8))
    samples = found.to_samples("hill", ["x"])
    assert samples.y.shape == (12,)
    assert list(samples.source[7:9]) == ["initial", "new"]


def test_the_index_of_runge_by_hand():
    found = taylor_sample(runge, (0, 1), n_initial=5, n_new=1, initial="grid", epsilon=0.01)
    z = found.x[:5, 0] - 0.5
    first = -50 * z / (1 + 25 * z**2) ** 2
    second = (3750 * z**2 - 50) / (1 + 25 * z**2) ** 3
    np.testing.assert_allclose(found.terms[:, 0], 0.01 * first**2, atol=1e-15)
    np.testing.assert_allclose(found.index, 0.01 * first**2 + 1e-4 / 2 * second**2)


def test_units_of_the_input_do_not_matter():
    plain = taylor_sample(step, [(0, 1), (0, 1)], n_initial=100, n_new=50)
    u = np.array([1000.0, 0.01])
    scaled = taylor_sample(
        lambda x: step(x / u), [(0, 1000), (0, 0.01)], n_initial=100, n_new=50,
        epsilon=1e-3 * u**2,
    )  # fmt: skip
    np.testing.assert_allclose(scaled.index, plain.index, rtol=1e-6)
    np.testing.assert_allclose(scaled.x, plain.x * u, rtol=1e-6)


def test_the_mixture_is_that_of_points_repeated_by_their_index():
    """Two clusters whose index is 3 to 1, one point below a hundredth: its share is 0."""
    x = np.array([[0.1], [0.12], [0.9], [0.92], [0.5]])
    index = np.array([3.0, 3.0, 1.0, 1.0, 0.01])
    found = fit_density(x, index, UNIT, 2, floor=1e-6)
    order = np.argsort(-found.weight)
    np.testing.assert_allclose(found.weight[order], [0.75, 0.25], atol=0.01)
    np.testing.assert_allclose(found.mean[order, 0], [0.11, 0.91], atol=1e-6)
    np.testing.assert_allclose(found.covariance[:, 0, 0], 1e-4 + 1e-6, rtol=1e-3)
    assert found.n_fitted == 4
    assert found.notes == ()


def test_more_copies_than_fit_are_drawn_in_proportion(monkeypatch):
    monkeypatch.setattr("datassay.act.sample.density.MOST_COPIES", 400)
    x = np.linspace(0, 1, 200)[:, None]
    index = np.where(x[:, 0] < 0.5, 3.0, 1.0)
    found = fit_density(x, index, UNIT, 1)
    assert found.mean[0, 0] == pytest.approx(0.25 * 0.75 + 0.75 * 0.25, abs=0.01)


def test_fewer_points_than_components_are_told_not_warned_about():
    x = np.array([[0.2], [0.2], [0.8], [0.5]])
    found = fit_density(x, np.array([1.0, 1.0, 1.0, 0.0]), UNIT, 3)
    assert len(found.weight) == 2
    assert "only 2 of 4 initial points" in found.notes[0]


def test_no_convergence_is_told_not_warned_about(monkeypatch):
    monkeypatch.setattr(
        "datassay.act.sample.density.GaussianMixture",
        lambda *a, **k: mixture_type(*a, **k, max_iter=1, tol=1e-12),
    )
    from sklearn.mixture import GaussianMixture as mixture_type

    x = np.random.default_rng(0).uniform(size=(200, 1))
    found = fit_density(x, x[:, 0], UNIT, 3)
    assert not found.converged
    assert "did not come to rest" in found.notes[0]


def test_rejection_gives_the_truncated_density():
    density = Density(np.ones(1), np.zeros((1, 1)), np.ones((1, 1, 1)), 1, True)
    found, tries = truncated_draws(density, np.array([[0.0, 1.0]]), 4000)
    assert len(found) / tries == pytest.approx(0.3413, abs=0.01)
    assert found.mean() == pytest.approx(0.4599, abs=0.01)  # (φ(0) − φ(1)) / (Φ(1) − Φ(0))
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
        ({"initial": "sobol"}, "initial must be one of"),
        ({"derivatives": "exact"}, "derivatives must be one of"),
        ({"floor": 0.0}, "floor must be positive"),
        ({"max_tries": 0}, "max_tries must be"),
        ({"seed": -1}, "seed must be"),
        ({"domain": [(0, 1), (0, 1)], "initial": "grid"}, "Take 4 or 9"),
    ],
)
def test_bad_input_is_one_clear_error(change, message):
    given = {"f": runge, "domain": (0, 1)} | GOOD | change
    with pytest.raises(DatassayError, match=message):
        taylor_sample(given.pop("f"), given.pop("domain"), **given)


def test_progress_counts_up_to_all_points():
    told = []
    taylor_sample(runge, (0, 1), **GOOD, progress=lambda *a: told.append(a))
    assert ("label points", 12, 12) in told
    assert ("derivatives", 8, 8) in told


def test_a_network_can_be_sampled():
    torch.manual_seed(0)
    found = taylor_sample(mlp((2,), 3, width=4), [(0, 1)] * 2, n_initial=20, n_new=5, order=1)
    assert found.y.shape == (25, 3)
    assert found.derivatives == "autograd"


def test_designs_are_compared_on_the_same_networks():
    problem = function_problem("runge")
    test = np.linspace(0, 1, 50)[:, None]
    good = np.linspace(0, 1, 20)[:, None]
    narrow = good / 10
    label = lambda x: runge(x)[:, None]  # noqa: E731
    torch.manual_seed(0)
    networks = [mlp((1,), 1, width=8) for _ in range(3)]
    designs = {"wide": [(good, label(good))] * 3, "narrow": [(narrow, label(narrow))] * 3}
    recipe = Recipe(lr=0.02, steps=300, batch_size=None, loss="mse")
    found = compare_designs(designs, (test, label(test)), networks, recipe)
    assert found.largest.shape == (2, 3)
    assert (found.largest[0] < found.largest[1]).all()
    apart = np.abs(found.outputs(test) - label(test))
    np.testing.assert_allclose(found.largest, apart.max((2, 3)))
    np.testing.assert_allclose(found.root_mean_square, np.sqrt((apart**2).mean((2, 3))))
    assert problem.name == "runge"
    with pytest.raises(SettingError, match="repetitions of"):
        compare_designs({"one": designs["wide"][:2]}, (test, label(test)), networks, recipe)


def test_on_runge_more_points_lie_where_s0_shows_them():
    """S0 Fig. 4: on both flanks of the hill, and none far away."""
    found = taylor_sample(runge, (0, 1), n_initial=101, n_new=400, initial="grid")
    new = np.abs(found.x[found.is_new, 0] - 0.5)
    assert np.median(new) == pytest.approx(0.12, abs=0.05)  # f' is largest at 1/√75 = 0.115
    assert np.mean(new > 0.35) < 0.1
