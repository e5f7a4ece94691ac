"""Depth and compositionality; the manifold of the data, and confidence far from it."""

import functools
from itertools import combinations

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits

from datassay_lab.looking.out_of_distribution import intrinsic_dimension


def test_the_deep_network_is_the_composition(small):
    result = small("depth-compositionality")
    np.testing.assert_array_equal(result.pieces, [2, 4, 8, 16])
    np.testing.assert_array_equal(result.deep_units, [2, 4, 6, 8])
    assert result.deep_error < 1e-12
    assert result.n_parameters[0] == 20 + 3 * 110 + 11
    assert abs(result.n_parameters[0] - result.n_parameters[1]) < 3


def test_no_three_lines_come_close_to_four_pieces(small):
    x = (np.arange(64) + 0.5) / 64
    y = 1 - np.abs(2 * (1 - np.abs(2 * x - 1)) - 1)
    allowed = 0.01 * ((y - y.mean()) ** 2).sum()

    @functools.cache
    def cost(a, b):
        line = np.polyval(np.polyfit(x[a:b], y[a:b], 1), x[a:b]) if b - a > 2 else y[a:b]
        return ((line - y[a:b]) ** 2).sum()

    three = min(cost(0, i) + cost(i, j) + cost(j, 64) for i, j in combinations(range(1, 64), 2))
    assert three > allowed
    assert sum(cost(i, i + 16) for i in range(0, 64, 16)) < 1e-20
    assert small("depth-compositionality").shallow_units[1] == 3  # kinks of four pieces


@pytest.mark.parametrize("dimension", [2, 5])
def test_dimension_of_a_flat_and_of_a_curved_manifold(dimension):
    rng = np.random.default_rng(0)
    flat = rng.random((2000, dimension)) @ rng.normal(size=(dimension, 12))
    ball = rng.normal(size=(2000, dimension + 1))
    curved = ball / np.linalg.norm(ball, axis=1)[:, None]
    for x in (flat, 100 * flat, curved):
        assert abs(intrinsic_dimension(x).dimension / dimension - 1) < 0.1
    twice = np.concatenate([flat, flat[:3]])  # r₁ = 0 is left out
    assert np.all(np.isfinite(intrinsic_dimension(twice).log_ratio))


def test_dimension_of_digits(small):
    result = small("out-of-distribution")
    digits = load_digits().data
    near = np.sort(cdist(digits, digits), axis=0)[1:3]
    ratio = np.log(near[1] / near[0])  # maximum likelihood: 1 / mean
    assert abs(result.dimensions[0] * ratio.mean() - 1) < 0.1
    assert result.dimensions[1] > 2 * result.dimensions[0]
    assert result.n_pixels == 64
    assert result.layers[0, 0] == pytest.approx(result.dimensions[0])
    assert np.all(np.diff(result.layers[0]) < 0) and result.layers[0, -1] < result.layers[1, -1] - 1


def test_far_away_the_network_is_its_affine_piece(small):
    result = small("out-of-distribution")
    assert result.accuracy > 0.9
    np.testing.assert_allclose(result.confidence[:, -1], result.predicted[:, -1], atol=1e-3)
    gaps = np.abs(result.confidence - result.predicted).mean(axis=0)
    assert gaps[result.distances >= 10].max() < 0.05
    assert np.abs(result.confidence - result.predicted)[:, 0].max() > 0.1  # and not near the data
    assert result.confidence.mean(axis=0).min() < result.on_data
