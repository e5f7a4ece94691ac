"""Inputs that float32 would collapse are refused by name; those it keeps are not."""

from fractions import Fraction

import numpy as np
import pytest

import datassay as da
from datassay.data.tables.numeric import lost_features, rounding_loss
from datassay.errors import DataError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 2))
Y = np.arange(200) % 2
SECOND = 10**9


def beside(column):
    return np.stack([X[:, 0], column], axis=1)


@pytest.mark.parametrize(
    "x",
    [
        X * 1e-150,
        X * 1e300,
        beside(1.7e18 + RNG.integers(0, SECOND, 200)),
        beside(1.7e9 + np.arange(200)),
        np.stack([np.arange(200), 2**60 + np.arange(200)], axis=1),
        np.full((200, 2), 2**63, np.uint64) + RNG.integers(0, 9, (200, 2)).astype(np.uint64),
    ],
)
def test_what_float32_would_collapse(x):
    with pytest.raises(DataError, match=r"must keep its differences in float32.* 'x[01]'"):
        da.load((x, Y))


@pytest.mark.parametrize(
    "x",
    [
        X,
        X * 1e-30,
        X * 1e30,
        X + 1000,
        beside(1.7e9 + 86400 * np.arange(200)),
        beside(np.where(Y, 1e12, 0)),
        beside(np.full(200, 1.7e18)),
        2**30 + 128 * RNG.integers(0, 3, (200, 2)),
    ],
)
def test_what_it_keeps(x):
    assert len(da.load((x, Y))[0]) == 160


@pytest.mark.parametrize("top", [2**24, 2**24 + 1, 2**25 - 1, 2**40 + 1])
@pytest.mark.parametrize("sign", [1, -1])
def test_whole_numbers_arrive_as_they_are(top, sign):
    x = sign * (top - (top // 2**14) * np.arange(200)[:, None] + np.array([0, 1]))
    np.testing.assert_array_equal(da.load((x, Y), val_fraction=0)[0].x, x)


def test_the_loss_by_its_definition_in_exact_fractions():
    x = RNG.normal(size=(50, 4)) * [1, 1e-3, 1e4, 1] + [0, 300, 1e6, 1e14]
    for column, loss in zip(x.T, rounding_loss(x), strict=True):
        exact = [Fraction(v) for v in column.tolist()]
        change = [Fraction(float(np.float32(v))) - v for v in column.tolist()]
        middle, shift = sum(exact) / 50, sum(change) / 50
        largest = max(abs(c - shift) for c in change)
        spread = (sum((v - middle) ** 2 for v in exact) / 50) ** 0.5
        assert loss == pytest.approx(float(largest) / spread, rel=1e-9)


def test_the_quick_bound_overlooks_nothing():
    losses = []
    for power in range(-12, 44):
        x = RNG.normal(size=(100, 20)) + 2.0**power
        losses += rounding_loss(x).tolist()
        assert np.array_equal(lost_features(x), np.flatnonzero(rounding_loss(x) > 0.01))
    assert {True, False} == {0.01 < loss < 0.02 for loss in losses}  # next to the limit as well
    small = RNG.normal((1.0, 10.0, 1000.0), size=(100, 3))
    assert not len(lost_features(small.astype(np.float16))) and not len(lost_features(x > 0))


def test_columns_of_a_table_are_named_and_targets_are_looked_at(tmp_path):
    with pytest.raises(DataError, match="every target must keep"):
        da.load((X, X[:, 0] * 1e-150))
    rows = [f"{a},{2**60 + 7 * i},{i % 2}" for i, a in enumerate(X[:, 0])]
    (tmp_path / "t.csv").write_text("\n".join(["u,stamp,y", *rows]))
    with pytest.raises(DataError, match="column 'stamp' must keep its differences in float32"):
        da.load(tmp_path / "t.csv")
