"""Local variance against its definition, and what it tends to for a smooth function."""

import numpy as np
import pytest

from datassay.errors import DataError
from datassay.score.neighbors import local_variance as module
from datassay.score.neighbors.local_variance import local_variance

G = np.random.default_rng(0)
X = G.normal(size=(80, 3))


def by_definition(y, index):
    k = index.shape[1]
    return [np.square(y[row] - y[row].mean(0)).sum() / (k - 1) for row in index]


TARGETS = {
    "classes": G.integers(4, size=80),
    "names": np.array(["cat", "dog"])[G.integers(2, size=80)],
    "booleans": G.random(80) < 0.5,
    "numbers": G.normal(size=80),
    "columns": G.normal(size=(80, 3)),
    "whole columns": G.integers(9, size=(80, 2)),
}


@pytest.mark.parametrize("name", TARGETS)
def test_definition(name, monkeypatch):
    monkeypatch.setattr(module, "BLOCK_VALUES", 200)
    y = TARGETS[name]
    local = local_variance(X, y, 7)
    if y.ndim == 1 and y.dtype.kind != "f":
        numbers = (y[:, None] == np.unique(y)).astype(float)
    else:
        numbers = y.reshape(80, -1).astype(float)
    np.testing.assert_allclose(
        local.variance, by_definition(numbers, local.neighbors.index), rtol=1e-12, atol=1e-14
    )


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_short_floats(dtype):
    """No warning of an overflow, which pytest makes an error, and none of them infinite unseen."""
    y = TARGETS["numbers"].astype(dtype)
    wide = local_variance(X, y.astype(np.float64), 7)
    np.testing.assert_array_equal(local_variance(X, y, 7).variance, wide.variance)
    with pytest.raises(DataError, match="1 of 80 targets are not, the first at position 3"):
        local_variance(X, np.where(np.arange(80) == 3, np.inf, y).astype(dtype), 7)


@pytest.mark.parametrize("y", [np.full(80, 0.1), np.full((80, 2), 1e9 / 3), np.full(80, 7)])
def test_agreement_is_exactly_zero(y):
    assert not local_variance(X, y, 7).variance.any()


def test_neighbours_of_a_smooth_function_tend_to_its_slope():
    """Among k neighbours of a dense line the variance is slope² times that of their places."""
    x = np.sort(np.random.default_rng(3).random(4000))[:, None]
    local = local_variance(x, np.sin(2 * x[:, 0]), 20)
    positions = local_variance(x, x[:, 0], 20).variance
    slope = np.square(2 * np.cos(2 * x[:, 0]))
    steep = slope > 0.1
    np.testing.assert_allclose(local.variance[steep], (slope * positions)[steep], rtol=0.05)
    tenfold = local_variance(5 * x, 3 * np.sin(2 * x[:, 0]) + 1, 20)
    np.testing.assert_allclose(tenfold.variance, 9 * local.variance, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.r_[np.nan, np.ones(79)], "1 of 80 targets are not, the first at position 0"),
        (np.ones(79), "one target per sample, 80; got 79"),
        (np.ones((80, 2, 2)), r"y must be \[n\] classes"),
        (np.full((80, 2), "a"), "where it holds strings"),
        (np.full(80, None), "got object"),
    ],
)
def test_bad_targets(y, message):
    with pytest.raises(DataError, match=message):
        local_variance(X, y, 7)
