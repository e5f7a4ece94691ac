"""Neighbours against every distance one by one, ties and repeats included."""

import sys

import numpy as np
import pytest
from sklearn.neighbors import NearestNeighbors

from datassay.errors import DataError, SettingError
from datassay.score.neighbors import exact as nearest
from datassay.score.neighbors import search as neighbors
from datassay.score.neighbors.search import check_n_neighbors, nearest_neighbors

G = np.random.default_rng(0)


def one_by_one(x, k):
    squared = np.square(x[:, None] - x[None]).sum(2)
    key = squared.copy()
    np.fill_diagonal(key, -1)  # the point itself first
    index = key.argsort(1, kind="stable")[:, :k]
    return index, np.sqrt(np.take_along_axis(squared, index, 1))


def clusters(n, spread):
    return 1e3 * G.normal(size=(8, 9))[G.integers(8, size=n)] + spread * G.normal(size=(n, 9))


SETS = {
    "normal": G.normal(size=(300, 12)),
    "line": G.normal(size=(300, 1)),
    "grid, many ties": G.integers(0, 3, size=(300, 9)).astype(float),
    "repeats": np.repeat(G.normal(size=(40, 9)), [1] * 20 + [14] * 20, 0)[G.permutation(300)],
    "far from the origin": 1e6 + G.normal(size=(300, 9)),
    "tight clusters": clusters(300, 1e-3),
    "outlier": np.concatenate([G.normal(size=(299, 9)), np.full((1, 9), 1e9)]),
    "whole numbers": G.integers(0, 255, size=(300, 5, 5)).astype(np.uint8),
    "huge": 1e140 * G.normal(size=(300, 9)),
    "tiny": 1e-100 * G.normal(size=(300, 9)),
}


@pytest.mark.parametrize("products", ["", "by tiles", "few groups"])
@pytest.mark.parametrize("name", SETS)
def test_exact_equals_every_distance(name, products, monkeypatch):
    sizes = {"TREE_ROWS": 0, "TREE_COLUMNS": 0, "GROUP": 4, "BLOCK_VALUES": 2**14, "TILE": 64}
    if products == "few groups":  # and of 300 rows, 7 too many for whole ones
        sizes["MINIMA_VALUES"] = 300 * 300 // 35
    for setting, value in sizes.items() if products else ():
        monkeypatch.setattr(nearest, setting, value)
    x = SETS[name]
    for k in (2, 20):
        index, distance = one_by_one(x.reshape(len(x), -1).astype(float), k)
        result = nearest_neighbors(x, k)
        np.testing.assert_array_equal(result.index, index)
        np.testing.assert_allclose(result.distance, distance, rtol=1e-12)
        assert (result.search, result.recall) == ("exact", 1.0)
    if products:
        redone = {"normal": 0, "outlier": 1, "tight clusters": 300}
        assert result.redone == redone.get(name, result.redone)


def test_rows_that_share_a_key_are_told_apart(monkeypatch):
    monkeypatch.setattr(neighbors, "_mix", np.zeros_like)
    x = np.repeat(np.arange(10.0), 2)[:, None]
    np.testing.assert_array_equal(nearest_neighbors(x, 3).index, one_by_one(x, 3)[0])


def test_approximate_measures_its_recall(monkeypatch):
    monkeypatch.setattr(nearest, "RECALL_QUERIES", 3000)
    x = np.concatenate([np.random.default_rng(1).normal(size=(2900, 10)), np.zeros((100, 10))])
    result, exact = (nearest_neighbors(x, 20, search=s) for s in ("approximate", "exact"))
    assert result.search == "approximate" and result.redone == 0
    np.testing.assert_array_equal(result.index[:, 0], np.arange(3000))
    assert all(len(set(row)) == 20 for row in result.index.tolist())
    pairs = zip(result.index[:2900, 1:], exact.index[:2900, 1:], strict=True)
    recall = np.mean([len(set(a) & set(b)) / 19 for a, b in pairs])
    assert 0.95 < recall < 1 and result.recall == pytest.approx(recall, abs=0.005)
    again = nearest_neighbors(x, 20, search="approximate")
    np.testing.assert_array_equal(again.index, result.index)


def test_where_columns_are_independent_a_graph_finds_what_cells_miss():
    x = np.random.default_rng(2).normal(size=(6000, 40))
    exact = NearestNeighbors(n_neighbors=10, algorithm="brute").fit(x).kneighbors(x)[1]
    result, cells = (nearest_neighbors(x, 10, search="approximate", probes=p) for p in (None, 8))
    recall, by_cells = (
        np.mean([len(set(a[1:]) & set(b[1:])) / 9 for a, b in zip(r.index, exact, strict=True)])
        for r in (result, cells)
    )
    assert by_cells < 0.6 < 0.94 < recall and result.recall == pytest.approx(recall, abs=0.02)
    assert np.isnan(cells.recall)


def test_auto_goes_by_size(monkeypatch):
    monkeypatch.setattr(neighbors, "APPROXIMATE_FROM", 250)
    x = SETS["normal"]
    line = np.outer(np.arange(600.0), np.ones(40)) + 0.01 * G.normal(size=(600, 40))
    assert nearest_neighbors(line, 5).search == "approximate"
    independent = G.normal(size=(3000, 40))  # an inverted file finds few: exact, then a graph
    assert nearest_neighbors(independent, 5).search == "exact"
    monkeypatch.setattr(neighbors, "EXACT_UP_TO", 2000)
    graph = nearest_neighbors(independent, 5)
    assert graph.search == "approximate" and graph.recall >= 0.95
    assert nearest_neighbors(x[:200], 5).search == "exact"
    assert nearest_neighbors(SETS["line"], 5).search == "exact"  # few columns
    monkeypatch.setattr(neighbors, "find_spec", lambda name: None)
    exact, scaled = nearest_neighbors(x, 5), nearest_neighbors(3 * x + 5, 5)
    assert exact.search == "exact"
    np.testing.assert_array_equal(exact.index, scaled.index)
    np.testing.assert_allclose(scaled.distance, 3 * exact.distance, rtol=1e-9)
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(SettingError, match="run pip install faiss-cpu"):
        nearest_neighbors(x, 5, search="approximate")
    # scikit-learn refused 2.5 as "Got 8.5 instead": it is asked for more than k.
    with pytest.raises(SettingError, match=r"whole, and below the number of samples, 9; got 2\.5"):
        check_n_neighbors(2.5, 9)


@pytest.mark.parametrize(
    ("x", "k", "search", "error", "message"),
    [
        (np.ones((5, 2)), 5, "auto", SettingError, "below the number of samples, 5; got 5"),
        (np.ones((5, 2)), 1, "auto", SettingError, "n_neighbors must be at least 2.*got 1"),
        (np.ones((5, 2)), 2, "kd", SettingError, "search must be 'auto'.*got 'kd'"),
        (np.array([[1.0], [np.nan], [2.0]]), 2, "auto", DataError, "first at position 1"),
        (np.array([[1.0], [2.0], [np.inf]]), 2, "auto", DataError, "1 of 3 samples"),
        (np.ones((0, 2)), 2, "auto", DataError, r"at least one column; got .*\[0, 2\]"),
        (np.array([["a"], ["b"]]), 2, "auto", DataError, "features must be numbers"),
    ],
)
def test_bad_input(x, k, search, error, message):
    with pytest.raises(error, match=message):
        nearest_neighbors(x, k, search=search)
