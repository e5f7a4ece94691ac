"""Weights by local variance against the formula and the published code's numbers."""

import numpy as np
import pytest
import torch
from sklearn.datasets import make_moons

from datassay.act.weigh.weights import SampleWeights, local_variance_weights, sample_weights
from datassay.errors import DataError, SettingError
from datassay.score.neighbors.local_variance import local_variance

MOONS = make_moons(300, noise=0.2, random_state=0)


def test_paper_double_moon():
    """S0's published code (REFERENCE, S0): k 20, m 100, population variance."""
    variance = local_variance(*MOONS, 20).variance * 19 / 20
    assert (variance == 0).sum() == 213
    assert variance.max() == pytest.approx(0.495, abs=1e-12)  # .2475 a column
    unnormalised = 1 + 99 * variance / variance.max()
    assert unnormalised.sum() == pytest.approx(3851, abs=0.5)
    weight = local_variance_weights(*MOONS, 20, 100)
    np.testing.assert_allclose(weight, unnormalised / unnormalised.sum(), rtol=1e-12)


def test_weights_do_not_depend_on_units_or_order():
    x, y = MOONS
    weight = local_variance_weights(x, 1.0 * y, 9)
    np.testing.assert_allclose(local_variance_weights(7 * x, 3.0 * y + 2, 9), weight, rtol=1e-9)
    order = np.random.default_rng(0).permutation(300)
    np.testing.assert_allclose(local_variance_weights(x[order], 1.0 * y[order], 9), weight[order])


def test_tensors_and_lists_are_taken():
    x, y = MOONS
    expected = local_variance_weights(x, y)
    np.testing.assert_array_equal(
        local_variance_weights(torch.tensor(x), torch.tensor(y)), expected
    )
    np.testing.assert_array_equal(local_variance_weights(x.tolist(), y.tolist()), expected)


@pytest.mark.parametrize("y", [np.zeros(30, int), np.full(30, 0.1), np.ones((30, 2))])
def test_constant_targets_weigh_the_same(y):
    x = np.random.default_rng(0).normal(size=(30, 2))
    assert local_variance_weights(x, y, 4).tolist() == [1 / 30] * 30


def test_ratio():
    assert np.ptp(local_variance_weights(*MOONS, max_ratio=1)) == 0
    weight = local_variance_weights(*MOONS, max_ratio=40)
    assert weight.max() / weight.min() == pytest.approx(40)


def test_density_divides_and_says_what_it_clipped():
    x, y = MOONS
    found = local_variance(x, y, 20)
    log = -2 * np.log(found.neighbors.distance[:, -1])
    log -= np.median(log)
    limit = np.log(1.5)
    value = found.variance / np.exp(np.clip(log, -limit, limit))
    expected = 1 + 39 * value / value.max()
    weighed = sample_weights(x, y, 20, 40, density=True, density_clip=1.5)
    np.testing.assert_allclose(weighed.weight, expected / expected.sum(), rtol=1e-10)
    assert weighed.details["density_clipped"] == (np.abs(log) > limit).sum() > 0


def test_density_of_repeats():
    """Places of 30 equal samples are infinitely dense, some or most of all samples."""
    for alone in (10, 90):
        x = np.r_[np.repeat([-1.0, -2.0], 30), np.linspace(0, 9, alone)][:, None]
        found = sample_weights(x, np.arange(len(x)) % 2, 8, density=True)
        assert np.isfinite(found.weight).all() and found.weight.sum() == pytest.approx(1)
        assert found.details["density_clipped"] >= min(60, alone)


def test_table_and_details():
    x, y = MOONS
    found = sample_weights(x, y, ids=np.arange(300) + 7)
    assert isinstance(found, SampleWeights) and found.method == "local_variance"
    table = found.to_table()
    assert table.column_names == ["id", "sample_weight"] and table["id"][0].as_py() == 7
    assert found.details["constant"] == 213 and found.details["recall"] == 1.0
    np.testing.assert_array_equal(found.weight, local_variance_weights(x, y))


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"max_ratio": 0.5}, SettingError, "max_ratio must be a number of at least 1; got 0.5"),
        ({"max_ratio": np.nan}, SettingError, "max_ratio.*got nan"),
        ({"density_clip": 0.9}, SettingError, "density_clip must be.*got 0.9"),
        ({"n_neighbors": 300}, SettingError, "n_neighbors must be at least 2.*300; got 300"),
        ({"ids": np.arange(5)}, DataError, r"ids must name every sample, 300; got shape \[5\]"),
    ],
)
def test_bad_settings(settings, error, message):
    with pytest.raises(error, match=message):
        sample_weights(*MOONS, **settings)
