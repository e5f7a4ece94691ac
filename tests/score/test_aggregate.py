"""Sums by class and source, their intervals and tests; data set A for task B."""

import numpy as np
import pytest
from scipy import stats

from datassay.errors import SettingError
from datassay.score.compare.aggregate import aggregate
from datassay.score.information.groups import group_information
from datassay.score.sample_information import sample_information
from helpers.linearizations import linearization, random_jacobians


def test_by_hand():
    values = np.array([1.0, 2.0, 6.0, 3.0, 0.0])
    totals = aggregate(values, np.array(["b", "a", "a", "b", "c"]))
    assert totals.names.tolist() == ["a", "b", "c"] and totals.count.tolist() == [2, 2, 1]
    assert totals.total.tolist() == [8, 4, 0] and totals.mean.tolist() == [4, 2, 0]
    assert totals.median.tolist() == [4, 2, 0]
    np.testing.assert_allclose(totals.share, [2 / 3, 1 / 3, 0])
    # a beats the others in 2 > 1, 0 and 6 > 1, 3, 0: 5 of 6; b: 1 > 0, 3 > 2, 0: 3 of 6; c: none.
    np.testing.assert_allclose(totals.superiority, [5 / 6, 3 / 6, 0])
    assert totals.mean_interval[0].tolist() == [2, 6] and totals.mean_interval[2].tolist() == [0, 0]
    assert totals.to_table().num_rows == 3


def test_the_interval_covers_and_the_test_is_a_test():
    """400 draws of two equal sources: 95 % intervals and 5 % false alarms, within 4 errors."""
    g = np.random.default_rng(0)
    labels = np.repeat([0, 1], [60, 80])
    covered, alarms = 0, 0
    for i in range(400):
        totals = aggregate(g.exponential(size=140), labels, resamples=400, seed=i)
        covered += int(totals.mean_interval[1, 0] <= 1 <= totals.mean_interval[1, 1])
        alarms += int(totals.p_value < 0.05)
    assert 0.88 < covered / 400 <= 0.98
    assert 0.01 < alarms / 400 < 0.095


def test_a_difference_is_found_whatever_the_unit():
    labels = np.repeat(["x", "y", "z"], 50)
    values = np.random.default_rng(1).exponential(size=150) * np.repeat([1, 1, 4], 50)
    totals, tenfold = aggregate(values, labels), aggregate(10 * values, labels)
    assert totals.p_value < 1e-6 and totals.superiority[2] > 0.7
    np.testing.assert_allclose(tenfold.total, 10 * totals.total)
    np.testing.assert_allclose(tenfold.mean_interval, 10 * totals.mean_interval)
    assert tenfold.p_value == totals.p_value
    np.testing.assert_allclose(tenfold.share, totals.share)
    two = aggregate(values[50:], labels[50:])
    oracle = stats.mannwhitneyu(values[50:100], values[100:])
    assert two.p_value == pytest.approx(oracle.pvalue)
    assert two.superiority[0] == pytest.approx(oracle.statistic / 2500)


def test_nothing_to_compare():
    alone = aggregate(np.arange(6.0), np.zeros(6, int))
    assert alone.p_value == 1 and alone.superiority.tolist() == [0.5]
    nothing = aggregate(np.zeros(6), np.array([0, 1] * 3))
    assert nothing.p_value == 1 and nothing.share.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("values", "labels", "message"),
    [
        (np.array([]), np.array([]), "at least one sample; got none"),
        (np.ones(3), np.ones(2), "one label per sample; got 2 for 3"),
        (np.array([1.0, np.nan]), np.ones(2), "finite to be summed; got 1 that are not"),
    ],
)
def test_bad_input(values, labels, message):
    with pytest.raises(SettingError, match=message):
        aggregate(values, labels)


def test_sources_for_a_task():
    """The source that shares the task's features informs it, the other does not."""
    phi, r, val = random_jacobians(40, 1, 1, 20, 10, seed=3)
    phi[:20, :, 10:], phi[20:, :, :10], val[:, :, 10:] = 0, 0, 0
    lin = linearization(phi, r, val, dual=True)
    source = np.repeat(["near", "far"], 20)
    direct = sample_information(lin, steps=50).information
    by_source, whole = aggregate(direct, source), group_information(lin, source, steps=50)
    assert by_source.names.tolist() == whole.names.tolist() == ["far", "near"]
    far, near = whole.information
    assert far < 1e-12 * near and by_source.share[0] < 1e-12
    assert by_source.p_value < 1e-6
    alone = group_information(lin, [np.arange(20)], steps=50).information
    np.testing.assert_allclose(near, alone[0], rtol=1e-9)
