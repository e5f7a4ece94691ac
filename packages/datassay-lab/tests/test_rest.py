"""Depth and compositionality; the manifold of the data, and confidence far from it."""

import functools
from itertools import combinations

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits

from datassay.errors import SettingError
from datassay_lab.architecture.depth_compositionality import (
    depth_compositionality,
    depth_compositionality_plots,
)
from datassay_lab.looking.intrinsic_dimension import intrinsic_dimension
from datassay_lab.looking.out_of_distribution import out_of_distribution, out_of_distribution_plots

FAST = {
    depth_compositionality: {"max_depth": 4, "starts": 1, "steps": 50},
    out_of_distribution: {"width": 32, "steps": 300, "n_rays": 100},
}
PLOTS = {
    depth_compositionality: depth_compositionality_plots,
    out_of_distribution: out_of_distribution_plots,
}


@functools.cache
def fast(run):
    return run(**FAST[run], seed=1)


@pytest.mark.parametrize("run", FAST, ids=lambda run: run.__name__)
def test_the_statement_holds_and_is_the_same_again(run):
    before = torch.get_rng_state()
    result, again = fast(run), run(**FAST[run], seed=1)
    assert result.agreement.holds, result.agreement
    for name in result.__slots__:
        np.testing.assert_array_equal(getattr(result, name), getattr(again, name))
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("run", PLOTS, ids=lambda run: run.__name__)
def test_every_figure_draws_theory_dashed(run):
    for plot in PLOTS[run](fast(run)):
        assert plot.title and plot.text
        assert len({trace.line.dash for trace in plot.figure.data}) == 2


@pytest.mark.parametrize(
    ("run", "wrong"),
    [
        (depth_compositionality, {"slope": 1.0}),
        (out_of_distribution, {"activation": "tanh"}),
    ],
)
def test_it_would_notice_where_the_statement_is_false(run, wrong):
    assert not run(**FAST[run] | wrong).agreement.holds


def test_the_deep_network_is_the_composition():
    result = fast(depth_compositionality)
    np.testing.assert_array_equal(result.pieces, [2, 4, 8, 16])
    np.testing.assert_array_equal(result.deep_units, [2, 4, 6, 8])
    assert result.deep_error < 1e-12
    assert result.n_parameters[0] == 20 + 3 * 110 + 11
    assert abs(result.n_parameters[0] - result.n_parameters[1]) < 3


def test_no_three_lines_come_close_to_four_pieces():
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
    assert fast(depth_compositionality).shallow_units[1] == 3  # kinks of four pieces


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


def test_dimension_of_digits():
    result = fast(out_of_distribution)
    digits = load_digits().data
    near = np.sort(cdist(digits, digits), axis=0)[1:3]
    ratio = np.log(near[1] / near[0])  # maximum likelihood: 1 / mean
    assert abs(result.dimensions[0] * ratio.mean() - 1) < 0.1
    assert result.dimensions[1] > 2 * result.dimensions[0]
    assert result.n_pixels == 64


def test_far_away_the_network_is_its_affine_piece():
    result = fast(out_of_distribution)
    assert result.accuracy > 0.9
    np.testing.assert_allclose(result.confidence[:, -1], result.predicted[:, -1], atol=1e-3)
    gaps = np.abs(result.confidence - result.predicted).mean(axis=0)
    assert gaps[result.distances >= 10].max() < 0.05
    assert np.abs(result.confidence - result.predicted)[:, 0].max() > 0.1  # and not near the data
    assert result.confidence.mean(axis=0).min() < result.on_data


@pytest.mark.parametrize(
    ("run", "wrong", "said"),
    [
        (depth_compositionality, {"max_depth": 2}, "max_depth must be a whole number >= 3; got 2"),
        (depth_compositionality, {"max_depth": 7}, "max_depth must be a whole number <= 6; got 7"),
        (depth_compositionality, {"slope": 2.5}, r"slope must be a number in \(0, 2\]; got 2.5"),
        (depth_compositionality, {"starts": 0}, "starts must be a whole number"),
        (out_of_distribution, {"activation": "sine"}, "activation must be one of relu, tanh"),
        (out_of_distribution, {"n_rays": 0}, "n_rays must be a whole number >= 1; got 0"),
        (out_of_distribution, {"depth": 0}, "depth must be a whole number"),
    ],
)
def test_bad_settings_are_refused(run, wrong, said):
    with pytest.raises(SettingError, match=said):
        run(**wrong)
