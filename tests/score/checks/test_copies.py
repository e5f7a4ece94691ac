"""Of equal samples one label stays, of unequal labels all do."""

import numpy as np
import pytest

from datassay.score.checks.copies import differ, is_copy

COPIES = np.array([0, 1, 0, 2, 1, 1])


def test_the_least_suspect_stays_and_conflicts_are_left_alone():
    y = np.array([0, 1, 0, 0, 1, 1])
    assert is_copy(COPIES, y).tolist() == [False, False, True, False, True, True]
    suspicion = np.array([0.9, 0.5, np.nan, 0, 0.1, 0.9])
    assert is_copy(COPIES, y, suspicion).tolist() == [True, True, False, False, False, True]
    y[4] = 0  # one of three says otherwise: any may be wrong
    assert is_copy(COPIES, y).tolist() == [False, False, True, False, False, False]
    assert differ(COPIES, y).tolist() == [False, True, False, False, True, True]


@pytest.mark.parametrize(("change", "differs"), [(1e-7, False), (0.5, True)])
def test_targets_that_rounding_parts_are_the_same(change, differs):
    y = np.array([1.0, 2.0, 1.0 + change, 7.0, 2.0, 2.0])
    assert differ(COPIES, y).tolist() == [differs, False, differs, False, False, False]
    both = np.stack([np.arange(6) // 6.0, y], 1)
    assert is_copy(COPIES, both)[2] != differs
