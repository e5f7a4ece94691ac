"""The rivals of the selection truth, by hand."""

import sys
from dataclasses import dataclass

import numpy as np
import pytest

from datassay.data import SampleSet
from helpers.snippets import ROOT

sys.path.insert(0, str(ROOT))
from bench.truths import selection
from bench.truths import selection_rivals as rivals


def dynamics(right, y=None, embedding=None):
    """Two classes; right [networks, epochs, n] says with what probability the label is given."""
    right = np.asarray(right, float)
    n = right.shape[2]
    y = np.zeros(n, int) if y is None else np.asarray(y)
    probability = np.where(y[:, None] == np.arange(2), right[..., None], 1 - right[..., None])
    return rivals.Dynamics(probability, np.zeros((n, 1)) if embedding is None else embedding, y)


@dataclass(frozen=True, eq=False)
class Given:
    train: SampleSet
    dynamics: rivals.Dynamics | None
    seed: int = 0


def task(seen, y):
    ids = np.arange(len(y))
    return Given(SampleSet(np.zeros((len(y), 1), np.float32), np.asarray(y), ids, ("a", "b")), seen)


def test_forgetting_counts_falls_and_what_is_never_learned():
    seen = dynamics([[[0.9, 0.9, 0.1], [0.1, 0.9, 0.1], [0.9, 0.9, 0.1], [0.2, 0.9, 0.1]]])
    assert list(seen.forgetting) == [2, 0, 4]


def test_margins_areas_and_error_lengths():
    right = np.full((2, 4, 2), 0.5)
    right[0, :, 1] = 0.8
    seen = dynamics(right, y=[1, 0])
    np.testing.assert_allclose(seen.aum, [0, np.log(4) / 2], atol=1e-12)
    np.testing.assert_allclose(seen.final_margin, seen.aum)
    lengths = [np.sqrt(0.5), (np.sqrt(0.5) + np.sqrt(0.08)) / 2]
    np.testing.assert_allclose(seen.el2n, lengths)


@pytest.mark.parametrize("kept", [4, 5, 11])
def test_classes_stay_in_proportion(kept):
    y = np.array([0] * 20 + [1] * 10)
    counts = np.bincount(y[rivals.at_random(task(None, y), kept)])
    assert counts.sum() == kept and abs(counts[0] - 2 * kept / 3) < 1


def test_k_centre_takes_the_corners():
    corners = np.array([[0, 0], [0, 10], [10, 0], [10, 10]], float)
    near = corners.repeat(5, 0) + np.random.default_rng(0).normal(0, 0.1, (20, 2))
    y = np.arange(20) % 2
    chosen = rivals.k_centre(task(dynamics(np.ones((1, 3, 20)), y, near), y), 4)
    assert sorted(chosen // 5) == [0, 1, 2, 3]


def test_strata_are_filled_from_the_rarest_and_the_hardest_go():
    aum = np.concatenate([np.linspace(0, 0.01, 80), np.linspace(0.9, 1.0, 20)])
    some = np.arange(100)
    chosen = rivals.stratified(aum, some, 0.0, 30, np.random.default_rng(0))
    assert len(set(chosen)) == 30 and (chosen >= 80).sum() == 20
    pruned = rivals.stratified(aum, some, 0.5, 30, np.random.default_rng(0))
    assert pruned.min() >= 50


def test_moderate_takes_the_median_distance():
    z = np.array([0.0, 1, 2, 3, 4, 5, 6, 7, 20])[:, None]
    y = np.zeros(9, int)
    distance = np.abs(z[:, 0] - z.mean())
    kept = rivals.moderate(task(dynamics(np.ones((1, 3, 9)), y, z), y), 1)
    assert distance[kept[0]] == np.median(distance)


def test_settings_were_chosen_on_other_data_or_seeds():
    assert set(selection.TASK.cases) == set(selection.REPORTED_ON)
    for case, seeds in selection.CHOSEN_ON.items():
        assert not set(seeds) & set(selection.REPORTED_ON.get(case, ()))
        assert max(map(max, selection.REPORTED_ON.values())) < min(seeds)
