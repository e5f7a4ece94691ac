"""Stopping rules on traces whose right answer is plain."""

import numpy as np
import pytest

from datassay.act.purify.stopping import (
    held_out_stop,
    held_out_threshold,
    inflection_stop,
    validation_stop,
)


def test_threshold_is_half_the_chance_of_a_blind_guess():
    assert np.exp(-held_out_threshold(4)) == pytest.approx(0.5 / 4)
    assert held_out_threshold(4) == pytest.approx(2.0, abs=0.1)  # METHODS §4
    assert np.exp(-held_out_threshold(10, is_convex=False)) == pytest.approx(0.25 / 10)
    z = np.sqrt(2 * held_out_threshold(0) - np.log(2 * np.pi))
    assert z == pytest.approx(3.5)


def test_held_out_rule_stops_where_three_batches_are_familiar():
    foreign, hard = [5.0, 4.8, 5.2, 4.9, 5.1], [1.0, 0.9, 1.1]
    assert held_out_stop(np.array(foreign), 2.0) is None
    # Means of three: ..., (5.1, 1.0, 0.9) = 2.33, (1.0, 0.9, 1.1) = 1.0 at step 8, undone.
    assert held_out_stop(np.array(foreign + hard), 2.0) == 7


def test_held_out_rule_removes_nothing_from_a_pure_set():
    assert held_out_stop(np.array([2.5, 1.2, 1.0, 0.9]), 2.0) == 0
    assert held_out_stop(np.array([2.5, 1.2]), 2.0) is None  # not yet judged


def test_one_noisy_batch_stops_nothing():
    assert held_out_stop(np.array([5.0, 5.0, 5.0, 0.1, 5.0, 5.0]), 2.0) is None


def test_inflection_is_where_the_fall_slows_down():
    variance = np.concatenate([np.exp(-0.5 * np.arange(10)), np.full(10, np.exp(-4.5))])
    assert inflection_stop(variance) == pytest.approx(9, abs=1)
    assert inflection_stop(np.ones(4)) == 0


def test_validation_takes_the_earliest_best_of_a_mean_over_three():
    score = np.array([0.5, 0.6, 0.95, 0.6, 0.8, 0.82, 0.8, 0.8])
    assert validation_stop(score) == 5
    assert validation_stop(np.full(6, 0.9)) == 0
