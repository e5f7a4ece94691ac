"""Of data drawn by seeds that chose nothing no statement is false; `make fresh` draws others."""

import pytest

from helpers.fresh import draw, false


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(600, 620))
def test_nothing_that_is_said_is_false(tmp_path, seed):
    assert false(draw(seed, tmp_path), tmp_path) == []
