"""Explicit regularisation: weight decay, noise, dropout, normalised data."""

import numpy as np
import pytest

from datassay.errors import SettingError
from datassay.lab.weight_decay import weight_decay


def test_weight_decay_shrinks_by_the_eigenvalue():
    found = weight_decay(n_features=8, n_samples=40, seed=3)
    assert found.agreement.holds
    assert found.predicted.shape == (3, 8)
    assert np.all(np.diff(found.shrinking, axis=0) < 0)  # a larger α leaves less
    assert np.all(np.diff(found.shrinking, axis=1) < 1e-9)  # and flat directions least


def test_weight_decay_would_notice_too_few_steps():
    assert not weight_decay(n_features=8, n_samples=40, steps=20).agreement.holds


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"n_features": 1}, "n_features must be a whole number >= 2; got 1"),
        ({"n_samples": 5}, "n_samples must be a whole number >= 21"),
        ({"alphas": (1.0, 0.1)}, "alphas must be 1 or more increasing"),
        ({"steps": 0}, "steps must"),
    ],
)
def test_weight_decay_refuses(wrong, said):
    with pytest.raises(SettingError, match=said):
        weight_decay(**wrong)
