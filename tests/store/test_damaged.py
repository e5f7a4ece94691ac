"""Flipped, cut, lost and swapped bytes in every file of a store; the long run is in bench/."""

import pytest

from helpers.damaged_stores import MENDED, REFUSED, attack


@pytest.mark.parametrize("seed", [0, 1])
def test_no_damage_goes_unnoticed(tmp_path, seed):
    found = attack(tmp_path, 150, seed)
    assert not found.failures
    assert found.counts[MENDED] > 30 and found.counts[REFUSED] > 10
