"""Average information against the mean over explicit subsets, and where it must converge."""

import numpy as np
import pytest

from datassay.errors import SettingError
from datassay.score.information.average import _draw_balanced, average_information
from datassay.score.sample_information import sample_information
from helpers.linearizations import linearization, random_jacobians, random_linearization

RUN = {"lr": 0.01, "steps": 40}


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_each_draw_is_the_information_in_its_subset(reduction):
    lin = random_linearization(10, 2, 1, 30, 4, seed=1)
    run = {**RUN, "sigma": 0.5, "reduction": reduction}
    ours = average_information(lin, fractions=(0.5, 0.8), draws=4, seed=3, **run)
    g = np.random.default_rng(3)
    means, errors = [], []
    for size in (5, 8):
        values = np.full((4, 10), np.nan)
        for row, subset in zip(values, _draw_balanced(g, 10, size, 4), strict=True):
            row[subset] = sample_information(lin.subset(subset), **run).information
        means.append(np.nanmean(values, 0))
        errors.append(np.nanstd(values, 0, ddof=1) / np.sqrt(np.isfinite(values).sum(0)))
    np.testing.assert_allclose(ours.by_fraction, means, rtol=1e-12)
    np.testing.assert_allclose(ours.information, np.mean(means, 0), rtol=1e-12)
    np.testing.assert_allclose(ours.standard_error, np.hypot(*errors) / 2, rtol=1e-9)


def test_draws_are_balanced_and_reproducible():
    subsets = list(_draw_balanced(np.random.default_rng(0), 10, 3, 7))
    count = np.bincount(np.concatenate(subsets), minlength=10)
    assert all(len(np.unique(s)) == 3 for s in subsets) and count.max() - count.min() <= 1
    lin = random_linearization(10, 1, 1, 30, 4, seed=1)
    a, b, c = (average_information(lin, draws=10, seed=s, **RUN) for s in (0, 0, 1))
    assert np.array_equal(a.information, b.information)
    assert not np.array_equal(a.information, c.information)
    assert a.to_table().column_names == ["id", "average_information", "standard_error"]


def test_a_twin_informs_beside_half_of_the_others():
    phi, r, val = random_jacobians(12, 1, 1, 40, 5, seed=2)
    phi[1], r[1] = phi[0], r[0]
    lin = linearization(phi, r, val, dual=True)
    run = {"dynamics": "converged"}
    assert sample_information(lin, **run).information[0] < 1e-12
    assert average_information(lin, fractions=0.5, draws=20, **run).information[0] > 1e-3


def test_the_automatic_step_is_that_of_all_samples():
    lin = random_linearization(12, 1, 1, 40, 5, seed=2)
    step = 0.5 / float(np.linalg.eigvalsh(lin.kernel)[-1])
    run = {"fractions": 0.5, "draws": 4, "steps": 30}
    for reduction, lr in (("sum", step), ("mean", 12 * step)):
        a = average_information(lin, reduction=reduction, **run)
        b = average_information(lin, reduction=reduction, lr=lr, **run)
        np.testing.assert_allclose(a.information, b.information, rtol=1e-9)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"fractions": ()}, "at least one fraction; got none"),
        ({"fractions": 1.0}, "from 2 to 9 of 10 samples; got 1.0"),
        ({"fractions": (0.5, 0.1)}, "from 2 to 9 of 10 samples; got 0.1"),
        ({"fractions": 0.3, "draws": 5}, "draws must be at least 7 at fraction 0.3.*got 5"),
        ({"smoothing": "none"}, "smoothing must be one of"),
    ],
)
def test_bad_settings(setting, message):
    with pytest.raises(SettingError, match=message):
        average_information(random_linearization(10, 1, 1, 12, 3, seed=7), **setting)
