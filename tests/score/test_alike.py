"""The samples most like some: by hand, and those of each class apart."""

import numpy as np
import pytest

from datassay.score.neighbors import search as module
from datassay.score.neighbors.search import find_alike


def by_hand(x, i, inside, k):
    """Positions and distances, one by one."""
    apart = [(float(np.linalg.norm(x[i] - x[j])), int(j)) for j in np.flatnonzero(inside) if j != i]
    return sorted(apart)[:k]


@pytest.fixture
def points():
    draw = np.random.default_rng(0)
    return draw.normal(size=(60, 5)), draw.integers(0, 3, 60), draw.integers(0, 3, 60)


@pytest.mark.parametrize("block", [2**25, 120])
def test_each_side_has_the_nearest_of_its_class(points, block, monkeypatch):
    monkeypatch.setattr(module, "MOST_VALUES", block)
    x, y, suggested = points
    positions = np.array([5, 59, 0, 17])
    result = find_alike(x, positions, y, suggested, k=3)
    for row, i in enumerate(positions):
        other = y != y[i] if suggested[i] == y[i] else y == suggested[i]
        for side, inside in enumerate((y == y[i], other)):
            expected = by_hand(x, i, inside, 3)
            assert result.nearest[row, side].tolist() == [j for _, j in expected]
            apart = [d for d, _ in expected]
            assert result.distance[row, side] == pytest.approx(apart, rel=1e-3)


def test_one_side_equal_samples_and_too_few(points):
    x, *_ = points
    result = find_alike(x, np.array([8]), k=5)
    assert result.nearest.shape == (1, 1, 5)
    assert result.nearest[0, 0].tolist() == [j for _, j in by_hand(x, 8, np.ones(60, bool), 5)]
    twice = np.repeat(np.random.default_rng(1).normal(size=(3, 4)), 2, axis=0)
    result = find_alike(twice.astype(np.float16), np.array([0, 3]))
    assert result.nearest[:, 0, 0].tolist() == [1, 2]
    assert result.distance[:, 0, 0] == pytest.approx(0, abs=1e-3)
    line, y = np.arange(4.0)[:, None], np.array([0, 1, 0, 1])
    result = find_alike(line, np.array([0]), y, 1 - y, k=3)
    assert result.nearest[0].tolist() == [[2, -1, -1], [1, 3, -1]]
    assert result.distance[0, 0, 0] == 2 and np.isnan(result.distance[0, 0, 1:]).all()
