"""Held-out class probabilities: held out, whatever the order of rows, for any classifier."""

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

from datassay.data import SampleSet
from datassay.errors import DataError
from datassay.score import held_out_probabilities


def samples(n=120, seed=0):
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(n, 3)).astype(np.float32)
    y = ((x[:, 0] > 0) ^ (x[:, 1] > 0)).astype(np.int64)
    return SampleSet(x, y, np.arange(n), ("no", "yes"))


def test_no_sample_judges_itself():
    """The nearest neighbour of a sample that is held out is another one."""
    p = held_out_probabilities(samples(), KNeighborsClassifier(1))
    assert (p.argmax(1) != samples().y).any() and np.allclose(p.sum(1), 1)


def test_row_order_does_not_matter():
    given = samples()
    order = np.random.default_rng(1).permutation(len(given))
    np.testing.assert_array_equal(
        held_out_probabilities(given)[order], held_out_probabilities(given.subset(order))
    )


def test_what_cannot_be_folded_is_told():
    few = samples().subset(np.arange(6))
    with pytest.raises(DataError, match=r"one of them with 5 samples"):
        held_out_probabilities(few)
